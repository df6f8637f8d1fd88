//! RotaryEmbedding: positions first, caches by position always.

use tenon_graph_dialect::operators::{Function, Gather, GatherKind};
use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};
use crate::ops::heads::{apart, places};
use crate::ops::rotary_embedding::rotate;

/// RotaryEmbedding: positions are `[batch, sequence]`, or the one of the first place.
pub(in crate::ops) fn rotary_embedding(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(4..=4)?;
    let (x, mut positions) = (op.input(0)?, op.input(1)?);
    let interleaved = op.node.flag_or("interleaved", false)?;
    let turned = op.node.int_or("rotary_embedding_dim", 0)?;
    let heads = op.node.int_or("num_heads", 0)?;
    if op.node.flag_or("is_packed_batching", false)? {
        return Err(op.unsupported("`is_packed_batching` = 1"));
    }
    if op.node.float_or("scale", 1.0)? != 1.0 {
        return Err(op.unsupported("`scale` other than 1"));
    }
    let shape = op.extents(x);
    let mut angles = [op.input(2)?, op.input(3)?];
    if op.dtype(positions) != DType::I64 || angles.iter().any(|angle| op.rank(*angle) != 2) {
        return Err(op.invalid("positions must be of i64, caches matrices"));
    }
    let (x, heads_axis, sequence) = match shape.len() {
        3 => {
            // The size of a head is twice that of the caches, unless a part of it is turned.
            let hidden = op.fixed_dim(x, 2, "heads")?;
            let half = op.fixed_dim(angles[0], 1, "heads")?;
            let count = if turned > 0 || half == 0 { heads } else { hidden / (2 * half) };
            (apart(op, x, count)?, 2, shape[1].clone())
        }
        4 => (x, 1, shape[2].clone()),
        _ => return Err(op.invalid(format!("the input must have three or four dimensions, not be {}", op.ty(x)))),
    };
    match op.rank(positions) {
        1 => {
            let place = places(op, sequence, 0)?;
            let first = op.as_scalar(positions)?;
            let list = op.apply(Function::Add, &[place, first])?;
            let mut row = op.extents(list);
            row.insert(0, 1.into());
            positions = op.reshape(list, row)?;
        }
        2 => {}
        _ => return Err(op.invalid(format!("positions must be [1] or [batch, sequence], not {}", op.ty(positions)))),
    }
    for angle in &mut angles {
        *angle = op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[*angle, positions])?;
    }
    let result = rotate(op, x, angles, heads_axis, turned, interleaved)?;
    Ok(vec![op.reshape(result, shape)?])
}
