//! Concat.

use tenon_graph_dialect::operators::Concat;

use crate::import::node::{OpImport, Outputs};

/// The inputs one after another along an axis.
pub(super) fn concat(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let axis = op.node.required("axis", op.node.int("axis")?)?;
    let operands = op.inputs()?;
    match operands.as_slice() {
        [] => Err(op.invalid("the operator takes at least one input")),
        [only] => {
            op.axis(axis, op.rank(*only))?;
            Ok(vec![*only])
        }
        _ => Ok(vec![op.emit(Concat { axis }, &operands)?]),
    }
}
