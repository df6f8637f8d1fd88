//! ReverseSequence.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, Iota};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Of each sequence of a batch, its first `sequence_lens` steps in reverse order; the others stay.
pub(super) fn reverse_sequence(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, lengths) = (op.input(0)?, op.input(1)?);
    let rank = op.rank_at_least(x, 2)?;
    let batch = op.axis(op.node.int_or("batch_axis", 1)?, rank)?;
    let time = op.axis(op.node.int_or("time_axis", 0)?, rank)?;
    if batch == time {
        return Err(op.node.attribute_error("time_axis", "another axis than `batch_axis`", format!("is {time}")));
    }
    if op.rank(lengths) != 1 || op.dim(lengths, 0).differs(op.dim(x, batch)) {
        return Err(op.invalid(format!("the lengths, {}, do not fit {}", op.ty(lengths), op.ty(x))));
    }
    let (count, steps) = (op.dim(x, batch).extent.clone(), op.dim(x, time).extent.clone());
    let lengths = op.cast(lengths, DType::I64)?;
    let one = DimExpr::constant(1);
    let lengths = op.reshape(lengths, vec![count, one.clone()])?;
    let step = op.emit(Iota { dtype: DType::I64, shape: vec![one, steps], axis: 1 }, &[])?;
    let inside = op.apply(Function::Less, &[step, lengths])?;
    let one_step = op.scalar(1.0, DType::I64)?;
    let last = op.apply(Function::Subtract, &[lengths, one_step])?;
    let mirrored = op.apply(Function::Subtract, &[last, step])?;
    let from = op.apply(Function::Select, &[inside, mirrored, step])?;
    Ok(vec![take_steps(op, x, batch, time, from)?])
}

/// For each sequence along `batch`, the steps along `time` whose numbers `from` `[batch, steps]` holds.
pub(super) fn take_steps(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    batch: usize,
    time: usize,
    from: Handle,
) -> Result<Handle, ImportError> {
    let rank = op.rank(x) as i64;
    let mut order = vec![batch as i64, time as i64];
    order.extend((0..rank).filter(|axis| *axis != batch as i64 && *axis != time as i64));
    let mut back = vec![0; order.len()];
    for (place, axis) in order.iter().enumerate() {
        back[*axis as usize] = place as i64;
    }
    let x = op.transpose(x, order)?;
    let mut tuples = op.extents(from);
    tuples.push(DimExpr::constant(1));
    let from = op.reshape(from, tuples)?;
    let result = op.emit(Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 1 }, &[x, from])?;
    op.transpose(result, back)
}
