//! Operators without a kernel of their own, or with too much for one, as operators that have one.
//!
//! One file an operator, one line in the table [`apply`]. A decomposition rounds where the operator's definition rounds and nowhere else: the
//! reference interpreter gives the same bits before and after.

mod attention;
mod concat;
mod emit;

use tenon_graph_dialect::{Operator, SemanticError, TensorType};
use tenon_ir::{Builder, Module, Op, Value};
use tenon_pass_manager::{Pass, PassContext, PassError};

use emit::Emit;

/// `decompose`: replaces every operator that no kernel computes by operators that kernels compute.
pub struct Decompose;

/// The table: an operator's decomposition; `None` for operators that kernels compute.
fn apply<'m>(
    operator: &Operator,
    emit: Emit<'m>,
    operands: &[Value<'m>],
) -> Option<Result<Vec<Value<'m>>, SemanticError>> {
    match operator {
        Operator::Attention(attention) => Some(attention::decompose(attention, emit, operands)),
        Operator::Concat(concat) => concat::decompose(concat, emit, operands),
        _ => None,
    }
}

impl Pass for Decompose {
    fn name(&self) -> &'static str {
        "decompose"
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for block in tenon_flow_dialect::blocks(module) {
            for op in block.ops() {
                decompose(op, context)?;
            }
        }
        Ok(())
    }
}

fn decompose(op: Op<'_>, context: &PassContext) -> Result<(), PassError> {
    let (Some(operator), Some(at)) = (Operator::read(op).transpose()?, Builder::before(op)) else { return Ok(()) };
    let Some(results) = apply(&operator, Emit::new(at), &op.operands()) else { return Ok(()) };
    let results = results.map_err(|mut error| {
        error.nodes = op.location().names();
        error
    })?;
    // What follows reads types, not only values: they must be the operator's own.
    let types = |values: Vec<Value<'_>>| values.into_iter().map(|value| TensorType::read(value.ty())).collect();
    let (new, old): (Result<Vec<_>, _>, Result<Vec<_>, _>) = (types(results.clone()), types(op.results()));
    debug_assert_eq!(new?, old?, "a decomposition gives the results of the operator");
    context.count("operators decomposed", 1);
    context.remark("decomposed", op.location().names(), format!("`{}` has no kernel of its own", operator.name()));
    op.replace_all_uses(&results);
    op.erase()?;
    Ok(())
}
