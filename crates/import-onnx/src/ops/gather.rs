//! Gather, GatherElements, GatherND.

use tenon_graph_dialect::operators::{Gather, GatherKind};

use crate::import::node::{OpImport, Outputs};

fn gather(op: &mut OpImport<'_, '_, '_>, kind: GatherKind, axis: i64, batch_dims: i64) -> Outputs {
    op.takes(2..=2)?;
    let operands = op.inputs()?;
    let first = if kind == GatherKind::Nd { batch_dims } else { axis } as usize;
    let addressed = if kind == GatherKind::Nd { op.tuple_length(operands[1]) } else { 1 };
    op.check_indices(operands[1], operands[0], first..first.saturating_add(addressed), true)?;
    Ok(vec![op.emit(Gather { kind, axis, batch_dims }, &operands)?])
}

/// Gather: slices along an axis.
pub(super) fn take(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let axis = op.axis(op.node.int_or("axis", 0)?, op.rank(op.input(0)?))? as i64;
    gather(op, GatherKind::Take, axis, 0)
}

/// GatherElements: one element a place.
pub(super) fn elements(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let axis = op.axis(op.node.int_or("axis", 0)?, op.rank(op.input(0)?))? as i64;
    gather(op, GatherKind::Elements, axis, 0)
}

/// GatherND: index tuples, with batch dimensions since version 12.
pub(super) fn nd(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let batch_dims = if op.since >= 12 { op.node.int_or("batch_dims", 0)? } else { 0 };
    gather(op, GatherKind::Nd, 0, batch_dims)
}
