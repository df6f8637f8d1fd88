//! ScatterElements, ScatterND and the older Scatter.

use tenon_graph_dialect::operators::{Combine, Scatter, ScatterKind};

use crate::error::ImportError;
use crate::import::node::{OpImport, Outputs};

/// How updates combine: `reduction` since version 16, of which `max` and `min` since 18.
fn combine(op: &OpImport<'_, '_, '_>) -> Result<Combine, ImportError> {
    if op.since < 16 {
        return Ok(Combine::Set);
    }
    Ok(match (op.node.string_or("reduction", "none")?, op.since) {
        ("none", _) => Combine::Set,
        ("add", _) => Combine::Add,
        ("mul", _) => Combine::Multiply,
        ("max", 18..) => Combine::Max,
        ("min", 18..) => Combine::Min,
        (other, _) => {
            return Err(op.node.attribute_error("reduction", "none, add, mul, max or min", format!("is {other:?}")));
        }
    })
}

/// ScatterElements and Scatter: one update a place, along an axis.
pub(super) fn elements(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let operands = op.inputs()?;
    let axis = op.axis(op.node.int_or("axis", 0)?, op.rank(operands[0]))? as i64;
    let combine = combine(op)?;
    op.check_indices(operands[1], operands[0], axis as usize..axis as usize + 1, true)?;
    Ok(vec![op.emit(Scatter { kind: ScatterKind::Elements, combine, axis }, &operands)?])
}

/// ScatterND: updates at index tuples.
pub(super) fn nd(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let operands = op.inputs()?;
    let combine = combine(op)?;
    let addressed = op.tuple_length(operands[1]);
    op.check_indices(operands[1], operands[0], 0..addressed, true)?;
    Ok(vec![op.emit(Scatter { kind: ScatterKind::Nd, combine, axis: 0 }, &operands)?])
}
