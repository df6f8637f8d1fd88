//! RotaryEmbedding: pairs of elements of a head turned by an angle that follows from the position.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Attention, Concat, Function, Gather, GatherKind, Slice};

use super::heads::apart;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// RotaryEmbedding: `[batch, heads, sequence, size]` or `[batch, sequence, heads · size]`; cosines and sines by position, or by place.
pub(super) fn rotary_embedding(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=4)?;
    let (x, cosines, sines) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let interleaved = op.node.flag_or("interleaved", false)?;
    let turned = op.node.int_or("rotary_embedding_dim", 0)?;
    let heads = op.node.int_or("num_heads", 0)?;
    let mut angles = [cosines, sines];
    for angle in &mut angles {
        if let Some(positions) = op.optional(3)? {
            *angle = op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[*angle, positions])?;
        }
        if op.rank(*angle) != 3 {
            return Err(op.invalid("caches by position must be matrices, caches by place of rank 3"));
        }
    }
    let shape = op.extents(x);
    let (x, heads_axis) = match op.rank(x) {
        3 => (apart(op, x, heads)?, 2),
        4 => (x, 1),
        _ => return Err(op.invalid(format!("the input must have three or four dimensions, not be {}", op.ty(x)))),
    };
    let result = rotate(op, x, angles, heads_axis, turned, interleaved)?;
    Ok(vec![op.reshape(result, shape)?])
}

/// Turns the first `turned` elements (0: all) of the last dimension of `x`, of rank 4, by angles `[batch, sequence, turned / 2]`; `heads_axis` of
/// `x` is that of heads. Computed in f32 at least, and rounded once.
pub(super) fn rotate(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    angles: [Handle; 2],
    heads_axis: usize,
    turned: i64,
    interleaved: bool,
) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    let compute = Attention::compute_type(dtype);
    let size = op.fixed_dim(x, 3, "an embedding")?;
    let turned = if turned == 0 { size } else { turned };
    if !(0..=size).contains(&turned) || turned % 2 != 0 {
        return Err(op.node.attribute_error(
            "rotary_embedding_dim",
            "an even number, at most the size of a head",
            format!("is {turned} of {size}"),
        ));
    }
    let half = turned / 2;
    let mut wide = [x; 2];
    for (angle, slot) in angles.into_iter().zip(&mut wide) {
        if op.dim(angle, 2).known() != Some(half as u64) {
            return Err(op.invalid(format!("{half} angles a position are needed, not {}", op.ty(angle))));
        }
        let mut dims = op.extents(angle);
        dims.insert(heads_axis, 1.into());
        let angle = op.reshape(angle, dims)?;
        *slot = op.cast(angle, compute)?;
    }
    let [cosine, sine] = wide;
    let (step, second) = if interleaved { (2, 1) } else { (1, half) };
    let mut part = |start: i64, count: i64, step: i64| -> Result<Handle, ImportError> {
        let mut sizes = op.extents(x);
        let mut starts = vec![DimExpr::constant(0); 4];
        (starts[3], sizes[3]) = (start.into(), count.into());
        let slice = op.emit(Slice { starts, sizes, steps: vec![1, 1, 1, step] }, &[x])?;
        op.cast(slice, compute)
    };
    let (real, imaginary) = (part(0, half, step)?, part(second, half, step)?);
    let product = |op: &mut OpImport<'_, '_, '_>, a, b| op.apply(Function::Multiply, &[a, b]);
    let (a, b) = (product(op, cosine, real)?, product(op, sine, imaginary)?);
    let (c, d) = (product(op, sine, real)?, product(op, cosine, imaginary)?);
    let mut parts = vec![op.apply(Function::Subtract, &[a, b])?, op.apply(Function::Add, &[c, d])?];
    for part in &mut parts {
        *part = op.cast(*part, dtype)?;
    }
    if interleaved {
        let mut dims = op.extents(parts[0]);
        dims.push(1.into());
        for part in &mut parts {
            *part = op.reshape(*part, dims.clone())?;
        }
        let pairs = op.emit(Concat { axis: 4 }, &parts)?;
        dims.truncate(3);
        dims.push(turned.into());
        parts = vec![op.reshape(pairs, dims)?];
    }
    if turned < size {
        parts.push(op.slice(x, 3, turned.into(), (size - turned).into())?);
    }
    match parts.as_slice() {
        [only] => Ok(*only),
        _ => op.emit(Concat { axis: 3 }, &parts),
    }
}
