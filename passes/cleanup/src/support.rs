//! What the passes of this crate share.

use tenon_graph_dialect::{Operator, SemanticError, TensorType};
use tenon_ir::{IrError, Module, Op, Value};

/// Operators of all functions, in order, those of branches and loops behind those around them; outside kernels.
pub(crate) fn operators<'m>(module: &'m Module<'_>) -> Result<Vec<(Op<'m>, Operator)>, SemanticError> {
    let mut found = Vec::new();
    for block in tenon_flow_dialect::blocks(module) {
        for op in block.ops() {
            if let Some(operator) = Operator::read(op) {
                found.push((op, operator?));
            }
        }
    }
    Ok(found)
}

/// The operator that a value is the only result of.
pub(crate) fn producer<'m>(value: Value<'m>) -> Option<(Op<'m>, Operator)> {
    let (op, _) = value.defining_op()?;
    Some((op, Operator::read(op)?.ok()?))
}

/// Types of an operation's operands.
pub(crate) fn operand_types(op: Op<'_>) -> Result<Vec<TensorType>, SemanticError> {
    op.operands().into_iter().map(|value| TensorType::read(value.ty())).collect()
}

/// Replaces the only result of an operation by another value. The operation's source nodes stay on the value's operator, where it has one.
pub(crate) fn replace<'m>(op: Op<'m>, value: Value<'m>) -> Result<(), IrError> {
    if let Some((producer, operator)) = producer(value)
        && !matches!(operator, Operator::Constant(_))
    {
        producer.set_location(op.context().fused_location(&[producer.location(), op.location()]));
    }
    op.replace_all_uses(&[value]);
    op.erase()
}
