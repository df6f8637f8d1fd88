//! Max, Min, Sum, Mean of any number of tensors, broadcast against each other.

use tenon_graph_dialect::operators::Function;

use crate::import::node::{OpImport, Outputs};

/// One operand after another, from the left; Mean then divides by their number.
pub(super) fn variadic(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let operands = op.inputs()?;
    let function = match op.node.op_type() {
        "Max" => Function::Max,
        "Min" => Function::Min,
        _ => Function::Add,
    };
    let Some((first, rest)) = operands.split_first() else {
        return Err(op.invalid("the operator takes at least one input"));
    };
    let mut result = *first;
    for operand in rest {
        result = op.apply(function, &[result, *operand])?;
    }
    if op.node.op_type() == "Mean" && operands.len() > 1 {
        let count = op.scalar(operands.len() as f64, op.dtype(result))?;
        result = op.apply(Function::Divide, &[result, count])?;
    }
    Ok(vec![result])
}
