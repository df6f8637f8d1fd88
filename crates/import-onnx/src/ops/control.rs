//! If, where the condition is known: the branch taken is imported in the node's place.

use crate::import::node::{OpImport, Outputs};

/// The outputs of the branch that a constant condition chooses.
pub(super) fn branch(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let then = op.node.required("then_branch", op.node.graph("then_branch")?)?;
    let other = op.node.required("else_branch", op.node.graph("else_branch")?)?;
    let condition = op.known_tensor(0, "which branch is taken")?;
    let Some(taken) = condition.get_i64(0).filter(|_| condition.element_count() == 1) else {
        return Err(op.invalid("the condition must be one truth value"));
    };
    op.importer.inner_graph(if taken != 0 { then } else { other }, &op.node.site)
}
