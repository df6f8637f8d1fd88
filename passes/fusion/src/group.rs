//! `group-kernels`: every operator that computes goes into a kernel.

use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property};

use crate::build::build;
use crate::plan::Plan;

/// Forms kernels.
pub struct GroupKernels;

impl Pass for GroupKernels {
    fn name(&self) -> &'static str {
        "group-kernels"
    }

    fn needs(&self) -> &'static [Property] {
        &[Property::StaticShapes, Property::NoControlFlow]
    }

    fn is_required(&self) -> bool {
        true
    }

    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError> {
        let mut index = 0;
        for function in module.body().ops().into_iter().filter(|op| op.is("func.func")) {
            let Some(block) = function.region_block(0) else { continue };
            let (nodes, groups) = Plan::of(block)?;
            for group in &groups {
                build(index, group, &nodes, context)?;
                index += 1;
            }
        }
        Ok(())
    }
}
