//! `group-kernels`: every operator that computes goes into a kernel.

use tenon_ir::Module;
use tenon_pass_manager::{Pass, PassContext, PassError, Property, Refusal};
use tenon_recipe::NumericClass;

use crate::apart::{Kernels, Relation};
use crate::build::build;
use crate::patterns::{FORBID, REQUIRE, places};
use crate::plan::{Group, Plan};

/// Forms kernels.
pub struct GroupKernels {
    /// What the recipe lets schedules do to numbers.
    pub class: NumericClass,
}

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
        let forbidden = places(module, FORBID);
        let required = places(module, REQUIRE);
        // No group reaches over the border of a branch or loop.
        let (mut nodes, mut groups) = (Vec::new(), Vec::new());
        for block in tenon_flow_dialect::blocks(module) {
            let (own, found) = Plan::of(block, &forbidden)?;
            let before = nodes.len();
            nodes.extend(own);
            groups.extend(found.into_iter().map(|group| Group {
                members: group.members.into_iter().map(|member| before + member).collect(),
                outputs: group.outputs.into_iter().map(|output| before + output).collect(),
                wholes: group.wholes.into_iter().map(|whole| before + whole).collect(),
                at: before + group.at,
                ..group
            }));
        }
        for group in &groups {
            build(index, group, &nodes, self.class, context)?;
            index += 1;
        }
        for place in &required {
            require(place, module)?;
        }
        Ok(())
    }
}

/// Refuses a grouping in which nodes that a recipe wants in one kernel are in several, and says what stood in the way.
fn require(place: &[String], module: &Module<'_>) -> Result<(), PassError> {
    let kernels = Kernels::of(module);
    if kernels.any_holds(place) {
        return Ok(());
    }
    let reasons = place.windows(2).find_map(|pair| match kernels.relation(&pair[0], &pair[1]) {
        Relation::Together { .. } => None,
        Relation::Apart { reason, .. } => Some(reason),
    });
    let reason = reasons.unwrap_or_else(|| "no kernel holds all of them".to_owned());
    let message = format!("`compile.fusion.require` wants {} in one kernel: {reason}", place.join(", "));
    let mut help = "remove the sequence from `compile.fusion.require`, or change what stands in the way".to_owned();
    let rules = kernels.rules_of(place);
    if !rules.is_empty() {
        let list: Vec<_> = rules.iter().map(|rule| format!("\"{rule}\"")).collect();
        help +=
            &format!("; rules formed these kernels: `compile.fusion.disable = [{}]` leaves them out", list.join(", "));
    }
    Err(Refusal { nodes: place.to_vec(), ..Refusal::new("E0233", message, help) }.into())
}
