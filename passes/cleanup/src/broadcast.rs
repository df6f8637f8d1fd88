//! `fold-broadcast`: a broadcast that an elementwise operator would do by itself.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError};

use crate::support::{operand_types, operators, producer};

/// Lets elementwise operators read the input of a broadcast where their own broadcasting gives the same result.
pub struct FoldBroadcast;

impl Pass for FoldBroadcast {
    fn name(&self) -> &'static str {
        "fold-broadcast"
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        for (op, operator) in operators(module)? {
            if !matches!(operator, Operator::Elementwise(_)) {
                continue;
            }
            let mut types = operand_types(op)?;
            let results =
                op.results().into_iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
            for (index, value) in op.operands().into_iter().enumerate() {
                let Some((broadcast, Operator::Broadcast(_))) = producer(value) else { continue };
                let Some(input) = broadcast.operand(0) else { continue };
                let old = std::mem::replace(&mut types[index], TensorType::read(input.ty())?);
                if operator.infer(&types).is_ok_and(|inferred| inferred == results)
                    && context.rewrite("broadcasts folded")
                {
                    op.set_location(op.context().fused_location(&[broadcast.location(), op.location()]));
                    op.set_operand(index, input);
                } else {
                    types[index] = old;
                }
            }
        }
        Ok(())
    }
}
