//! Which passes run in which stage.

use tenon_cleanup_passes::{ComposeShapeOps, FoldBroadcast, FoldDims, MergeIdentical, RemoveDead, RemoveIdentity};
use tenon_decompose_passes::Decompose;
use tenon_flow_passes::PlaceControlFlow;
use tenon_fusion_passes::{FuseAttention, GroupKernels, MatchFusion};
use tenon_pass_manager::Pass;
use tenon_recipe::Recipe;
use tenon_rewrite_passes::{CostModel, RULES, Rewrite, Rule, Scope};
use tenon_shape_passes::{Bucket, Contract, Point};
use tenon_target::Target;

use crate::stage::Stage;

/// What passes are made from.
pub struct Settings<'s> {
    /// The recipe that is applied.
    pub recipe: &'s Recipe,
    /// The point of the shape space.
    pub point: &'s Point,
    /// The target whose costs decide between rewrites: the first of the request, since a graph is rewritten once for all.
    pub target: &'static Target,
    /// Rules that do not run, by name.
    pub disabled_rules: &'s [String],
    /// Rules of the caller's own, beside those of the pass.
    pub other_rules: &'s [&'static Rule],
}

impl Settings<'_> {
    fn rewrite(&self, scope: Scope) -> Box<dyn Pass> {
        Box::new(Rewrite {
            scope,
            class: self.recipe.numerics.rewrites,
            disable: self.disabled_rules.to_vec(),
            cost: CostModel::of(self.target),
            others: self.other_rules.to_vec(),
        })
    }
}

/// Whether a name is that of a rule of `rewrite-graph`.
pub fn is_rule(name: &str) -> bool {
    RULES.iter().any(|rule| rule.name == name)
}

/// Makes a pass.
type Make = fn(&Settings<'_>) -> Box<dyn Pass>;

/// Passes in order: a pass is registered by its line. A pass may stand in several lines.
const PASSES: &[(Stage, Make)] = &[
    (Stage::Contract, |settings| Box::new(Contract { recipe: settings.recipe.clone() })),
    (Stage::Contract, |settings| Box::new(MatchFusion { recipe: settings.recipe.clone() })),
    (Stage::Bucket, |settings| Box::new(Bucket { point: settings.point.clone() })),
    (Stage::Flow, |settings| Box::new(PlaceControlFlow { recipe: settings.recipe.clone() })),
    (Stage::Fuse, |settings| settings.rewrite(Scope::BeforeAttention)),
    (Stage::Fuse, |settings| Box::new(FuseAttention { recipe: settings.recipe.clone() })),
    (Stage::Fuse, |_| Box::new(Decompose)),
    (Stage::Fuse, |_| Box::new(FoldDims)),
    (Stage::Fuse, |_| Box::new(RemoveIdentity)),
    (Stage::Fuse, |_| Box::new(ComposeShapeOps)),
    (Stage::Fuse, |_| Box::new(RemoveIdentity)),
    (Stage::Fuse, |_| Box::new(FoldBroadcast)),
    (Stage::Fuse, |_| Box::new(MergeIdentical)),
    (Stage::Fuse, |_| Box::new(RemoveDead)),
    (Stage::Fuse, |settings| settings.rewrite(Scope::All)),
    (Stage::Fuse, |_| Box::new(FoldBroadcast)),
    (Stage::Fuse, |_| Box::new(RemoveDead)),
    (Stage::Fuse, |settings| Box::new(GroupKernels { class: settings.recipe.numerics.rewrites })),
];

/// The passes of a stage, in order.
pub fn passes(stage: Stage, settings: &Settings<'_>) -> Vec<Box<dyn Pass>> {
    PASSES.iter().filter(|(of, _)| *of == stage).map(|(_, make)| make(settings)).collect()
}

/// Names of all passes, each once, with whether later stages depend on it.
pub fn names() -> Vec<(&'static str, bool)> {
    let (recipe, point) = (Recipe::default(), Point::new());
    let target = Target::default_target();
    let settings = Settings { recipe: &recipe, point: &point, target, disabled_rules: &[], other_rules: &[] };
    let mut names = Vec::new();
    for (_, make) in PASSES {
        let pass = make(&settings);
        if !names.iter().any(|(name, _)| *name == pass.name()) {
            names.push((pass.name(), pass.is_required()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_stand_in_the_order_of_stages_and_have_plain_names() {
        assert!(PASSES.is_sorted_by_key(|(stage, _)| *stage));
        for (name, _) in names() {
            assert!(
                name.split('-').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())),
                "{name}"
            );
        }
    }
}
