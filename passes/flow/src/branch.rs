//! Branches as selection: both sides run, and each result is chosen element by element.

use tenon_flow_dialect::{If, is_control_flow};
use tenon_graph_dialect::operators::{Function, SetDimensionSize};
use tenon_graph_dialect::{Operator, OperatorKind, TensorType};
use tenon_ir::{Builder, Op};
use tenon_pass_manager::PassError;

use crate::emit::Emit;

/// Most operators of both sides together where nobody asked for selection.
const FEW: usize = 32;
/// Most elements that both sides read and compute together where nobody asked for selection.
const SMALL: u64 = 1 << 16;

/// What stands in the way of running both sides, in words; `None` if nothing does.
///
/// Operators are total but for scatter, which is undefined for places outside: it may rely on the condition.
pub(crate) fn obstacle(branch: &If<'_>) -> Result<Option<String>, PassError> {
    for op in branch.then_body.ops().into_iter().chain(branch.else_body.ops()) {
        let told = |what: &str| Ok(Some(format!("`{}`{} {what}", op.name(), of_node(op))));
        if is_control_flow(op) {
            return told("inside it is placed in the launch plan");
        }
        if op.is(SetDimensionSize::NAME) {
            return told("computes a size");
        }
        if op.is("graph.scatter") {
            return told("may write outside its operand where the condition does not hold");
        }
    }
    let bodies = [branch.then_body, branch.else_body];
    for (index, result) in branch.op.results().into_iter().enumerate() {
        let ty = TensorType::read(result.ty())?;
        for body in bodies {
            let yielded = body.terminator().and_then(|end| end.operand(index));
            let own = yielded.map(|value| TensorType::read(value.ty())).transpose()?;
            if own.as_ref().is_none_or(|own| own.dims != ty.dims) {
                return Ok(Some(format!("its sides give result {index} different sizes")));
            }
        }
    }
    Ok(None)
}

fn of_node(op: Op<'_>) -> String {
    let names = op.location().names();
    if names.is_empty() { String::new() } else { format!(" of node `{}`", names.join("`, `")) }
}

/// Whether running both sides costs less than deciding: few operators that compute little.
pub(crate) fn is_cheap(branch: &If<'_>) -> Result<bool, PassError> {
    let (mut count, mut elements) = (0, 0u64);
    for op in branch.then_body.ops().into_iter().chain(branch.else_body.ops()) {
        let Some(operator) = Operator::read(op).transpose()? else { continue };
        let light = matches!(
            operator,
            Operator::Constant(_)
                | Operator::Iota(_)
                | Operator::Elementwise(_)
                | Operator::Cast(_)
                | Operator::Bitcast(_)
                | Operator::Reshape(_)
                | Operator::Transpose(_)
                | Operator::Broadcast(_)
                | Operator::Slice(_)
                | Operator::Pad(_)
                | Operator::Concat(_)
                | Operator::Reduce(_)
                | Operator::Gather(_)
        );
        if !light {
            return Ok(false);
        }
        if matches!(operator, Operator::Constant(_) | Operator::Reshape(_)) {
            continue;
        }
        count += 1;
        for value in op.operands().into_iter().chain(op.results()) {
            let own = TensorType::read(value.ty())?.element_capacity().unwrap_or(u64::MAX);
            elements = elements.saturating_add(own);
        }
    }
    Ok(count <= FEW && elements <= SMALL)
}

/// Puts both sides in the place of the branch, and a selection for each result.
pub(crate) fn select(branch: &If<'_>) -> Result<(), PassError> {
    let op = branch.op;
    let Some(at) = Builder::before(op) else { return Ok(()) };
    let emit = Emit { at: at.with_location(op.location()) };
    let mut sides = Vec::new();
    for body in [branch.then_body, branch.else_body] {
        let mut yielded = Vec::new();
        for inner in body.ops() {
            if inner.is("flow.yield") {
                yielded = inner.operands();
            } else {
                inner.move_before(op);
            }
        }
        sides.push(yielded);
    }
    let (otherwise, then) = (sides.pop().unwrap_or_default(), sides.pop().unwrap_or_default());
    let mut results = Vec::new();
    for (then, otherwise) in then.into_iter().zip(otherwise) {
        results.push(match then == otherwise {
            true => then,
            false => emit.apply(Function::Select, &[branch.condition, then, otherwise])?,
        });
    }
    op.replace_all_uses(&results);
    op.erase()?;
    Ok(())
}
