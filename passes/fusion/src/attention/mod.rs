//! `fuse-attention`: scaled dot-product attention becomes one kernel that keeps no scores in memory.
//!
//! Two steps, each of use alone:
//! - [`matching`] reads a product, a softmax and a product as `graph.attention`: by what the products sum over, not by an exporter's spelling.
//! - [`obstacle`] says of a softmax between two products that is not read so what stands in the way.
//! - [`kernel`] puts an attention that a schedule takes into a `graph.kernel`, with the transpositions before and behind it, which become
//!   strides.
//!
//! Both reassociate: sums over keys go tile by tile, and scores and weights are no longer rounded to their own types. Under a recipe that allows `exact`
//! alone, or that names the implementation `unfused`, nothing is done; `decompose` takes what is left.

mod kernel;
mod matching;
mod obstacle;

use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Module, Op};
use tenon_pass_manager::{Pass, PassContext, PassError, Refusal};
use tenon_recipe::{AttentionImplementation, NumericClass, Recipe};

use crate::patterns::{FORBID, places};

/// Forms the kernels of attention.
pub struct FuseAttention {
    /// The recipe.
    pub recipe: Recipe,
}

impl Pass for FuseAttention {
    fn name(&self) -> &'static str {
        "fuse-attention"
    }

    fn is_required(&self) -> bool {
        self.recipe.compile.attention == AttentionImplementation::Flash
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let allowed = self.recipe.numerics.rewrites >= NumericClass::Reassociates
            && self.recipe.compile.attention != AttentionImplementation::Unfused;
        if !allowed {
            return Ok(());
        }
        let forbidden = places(module, FORBID);
        let may_join = |ops: &[Op<'_>]| {
            let names: Vec<String> = ops.iter().flat_map(|op| op.location().names()).collect();
            !forbidden.iter().any(|list| list.iter().all(|node| names.contains(node)))
        };
        let mut index = 0;
        for function in module.body().ops().into_iter().filter(|op| op.is("func.func")) {
            let Some(block) = function.region_block(0) else { continue };
            for op in block.ops() {
                let attention = match Operator::read(op).transpose()? {
                    Some(Operator::Attention(_)) => Some(op),
                    Some(Operator::Contract(product)) => match matching::find(op, &product) {
                        Some(found) if !may_join(&found.ops) => {
                            self.leave(op, "`compile.fusion.forbid` keeps its nodes apart", context)?;
                            None
                        }
                        Some(found) if !kernel::takes(&found.types) => {
                            self.leave(op, &limits(&found.types), context)?;
                            None
                        }
                        Some(found) if context.rewrite("attentions found") => Some(found.replace(op)?),
                        Some(_) => None,
                        None => {
                            if let Some(obstacle) = obstacle::find(op, &product) {
                                self.leave(obstacle.op, &obstacle.reason, context)?;
                            }
                            None
                        }
                    },
                    _ => None,
                };
                let Some(attention) = attention else { continue };
                if kernel::takes(&kernel::types(attention)?) && may_join(&[attention]) {
                    kernel::build(attention, index, context)?;
                    index += 1;
                } else if may_join(&[attention]) {
                    self.leave(attention, &limits(&kernel::types(attention)?), context)?;
                } else {
                    self.leave(attention, "`compile.fusion.forbid` keeps its nodes apart", context)?;
                }
            }
        }
        Ok(())
    }
}

impl FuseAttention {
    /// Leaves attention as it is, with a remark; refuses where the recipe names an implementation, which has no fallback.
    fn leave(&self, op: Op<'_>, reason: &str, context: &PassContext) -> Result<(), PassError> {
        if self.recipe.compile.attention != AttentionImplementation::Flash {
            context.remark("no kernel of attention", op.location().names(), reason);
            return Ok(());
        }
        let message = format!("attention that the kernel of `flash` does not take: {reason}");
        let help =
            "write `compile.attention.implementation = \"unfused\"` or \"auto\", or change what stands in the way";
        Err(Refusal::new("E0229", message, help).at(op).into())
    }
}

/// Says that operands of such types are none of the kernel's.
fn limits(types: &[TensorType]) -> String {
    let types = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "it is over {types}, and the kernel takes f16, bf16 and f32, heads of at most {} ({} for f32), masks with the sizes of the scores or 1, and \
         tensors below 2^31 elements",
        kernel::MOST_DEPTH,
        kernel::MOST_DEPTH_OF_F32
    )
}
