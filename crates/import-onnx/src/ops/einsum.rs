//! Einsum.

use tenon_graph_builder::EinsumError;

use crate::import::node::{OpImport, Outputs};

/// Any number of operands, as contractions from the left.
pub(super) fn einsum(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let text = op.node.required("equation", op.node.string("equation")?)?.to_owned();
    let values = op.inputs()?;
    match tenon_graph_builder::einsum(&mut op.importer.builder, &text, &values) {
        Ok(value) => Ok(vec![value]),
        Err(EinsumError::Equation(reason)) => {
            Err(op.node.attribute_error("equation", "an equation over the inputs", format!("{reason}: {text:?}")))
        }
        Err(EinsumError::NotFixed(what)) => Err(op.unsupported(what)),
        Err(EinsumError::Semantic(error)) => Err(op.semantic(error)),
    }
}
