//! `remove-identity`: operators that give their input unchanged.

use tenon_graph_dialect::{DimExpr, Operator};
use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError};

use crate::support::{operators, replace};

/// Removes reshapes, transposes, broadcasts, casts, slices, pads and concatenations that change nothing.
pub struct RemoveIdentity;

fn is_identity(operator: &Operator) -> bool {
    let zero = |dims: &[DimExpr]| dims.iter().all(|dim| dim.as_constant() == Some(0));
    match operator {
        Operator::Reshape(_) | Operator::Broadcast(_) | Operator::Cast(_) | Operator::Concat(_) => true,
        Operator::Transpose(transpose) => {
            transpose.permutation.iter().copied().eq(0..transpose.permutation.len() as i64)
        }
        Operator::Slice(slice) => zero(&slice.starts) && slice.steps.iter().all(|step| *step == 1),
        Operator::Pad(pad) => zero(&pad.low) && zero(&pad.high),
        _ => false,
    }
}

impl Pass for RemoveIdentity {
    fn name(&self) -> &'static str {
        "remove-identity"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for (op, operator) in operators(module)? {
            let (Some(input), Some(result)) = (op.operand(0), op.result(0)) else { continue };
            // Of these operators, the equal type leaves only the identity.
            let sole = op.operand_count() == 1 || matches!(operator, Operator::Pad(_));
            if sole && input.ty() == result.ty() && is_identity(&operator) && context.rewrite("identities removed") {
                context.remark("removed", op.location().names(), format!("`{}` changes nothing", op.name()));
                replace(op, input)?;
            }
        }
        Ok(())
    }
}
