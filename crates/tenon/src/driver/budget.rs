//! The activation budget, held against the memory plan of a bucket.

use tenon_lowering::program::offload;
use tenon_recipe::{OverBudget, Recipe};
use tenon_runtime::LaunchPlan;

use crate::{Diagnostic, Failure};

/// How many values a refusal names.
const SHOWN: usize = 3;

/// The plan, with values waiting in host memory where the recipe wants that and the budget asks for it.
///
/// `unsplit` says why the bucket was not computed in parts.
///
/// # Errors
/// The arena is larger than the budget, and nothing may or can be done about it.
pub(super) fn keep(
    plan: LaunchPlan,
    recipe: &Recipe,
    bucket: Option<&str>,
    unsplit: Option<&str>,
) -> Result<LaunchPlan, Failure> {
    let Some(budget) = recipe.hardware.activation_budget.filter(|budget| plan.arena_bytes > *budget) else {
        return Ok(plan);
    };
    let refused = |why: Option<String>| {
        let mut failure = check(&plan, recipe, bucket).err().unwrap_or(Failure(Vec::new()));
        for (diagnostic, why) in failure.0.iter_mut().zip(why) {
            diagnostic.message.push_str(&format!("; {why}"));
        }
        failure
    };
    match recipe.hardware.over_budget {
        OverBudget::Error => Err(refused(None)),
        OverBudget::Stream => {
            Err(refused(unsplit.map(|reason| format!("computing the bucket in parts does not help: {reason}"))))
        }
        OverBudget::Offload => offload(&plan, budget)
            .map_err(|reason| refused(Some(format!("moving values to host memory does not help: {reason}")))),
    }
}

/// Refuses a plan whose arena is larger than the budget, with the largest values of its most crowded step and where they live.
fn check(plan: &LaunchPlan, recipe: &Recipe, bucket: Option<&str>) -> Result<(), Failure> {
    let Some(budget) = recipe.hardware.activation_budget.filter(|budget| plan.arena_bytes > *budget) else {
        return Ok(());
    };
    let place = bucket.map(|bucket| format!(" of bucket {bucket}")).unwrap_or_default();
    let mut message = format!(
        "the intermediate values{place} take {} bytes, and `hardware.activation_budget` is {budget}",
        plan.arena_bytes
    );
    let mut nodes = Vec::new();
    if let Some(peak) = plan.peak() {
        let values: Vec<String> = peak
            .buffers
            .iter()
            .take(SHOWN)
            .map(|index| {
                let buffer = &plan.buffers[*index];
                let sizes: Vec<_> = buffer.shape.iter().map(ToString::to_string).collect();
                let shape = format!("{}x{}", sizes.join("x"), buffer.dtype);
                format!(
                    "`{}` {shape} of {} bytes, alive from step {} to {}",
                    buffer.name, buffer.bytes, buffer.first, buffer.last
                )
            })
            .collect();
        message.push_str(&format!("; the largest at step {}, the most crowded: {}", peak.step, values.join("; ")));
        nodes.extend(plan.steps.get(peak.step as usize).map(|step| step.source_nodes.clone()).unwrap_or_default());
    }
    let help = "allow smaller sizes in `semantic.dims`, or raise the budget";
    let diagnostic = Diagnostic::new("E0230", message).with_help(help);
    Err(Diagnostic { nodes, ..diagnostic }.into())
}
