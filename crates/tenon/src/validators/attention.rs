//! The implementation of attention is one that the recipe's numerics allow.

use tenon_recipe::{AttentionImplementation, NumericClass};

use super::{Contracted, Validator};
use crate::{Diagnostic, Failure};

/// The pass that finds attention and gives it its kernel.
const PASS: &str = "fuse-attention";

/// Refuses an implementation of attention that the recipe's own promise excludes: there is no fallback.
///
/// Which attentions of the graph the implementation takes is known once sizes are, and refused by the pass `fuse-attention`.
pub struct AttentionAvailable;

impl Validator for AttentionAvailable {
    fn name(&self) -> &'static str {
        "attention-available"
    }

    fn about(&self) -> &'static str {
        "the implementation of attention that the recipe names keeps the recipe's numeric promise"
    }

    fn validate(&self, contracted: &Contracted<'_>) -> Result<Vec<Diagnostic>, Failure> {
        let recipe = contracted.recipe;
        let implementation = recipe.compile.attention;
        let allowed = recipe.numerics.rewrites;
        if implementation != AttentionImplementation::Flash {
            return Ok(Vec::new());
        }
        if recipe.compile.disable.iter().any(|name| name == PASS) {
            let message = format!(
                "attention by `{}` is made by `{PASS}`, which `compile.fusion.disable` leaves out",
                implementation.name()
            );
            let help = format!("take `{PASS}` out of `compile.fusion.disable`, or write `\"unfused\"` or `\"auto\"`");
            return Ok(vec![Diagnostic::new("E0229", message).with_help(help)]);
        }
        if allowed >= NumericClass::Reassociates {
            return Ok(Vec::new());
        }
        let message = format!(
            "attention by `{}` sums in another order, and `numerics.rewrites` is `{}`",
            implementation.name(),
            allowed.name()
        );
        let help = "write `compile.attention.implementation = \"unfused\"` or \"auto\", or allow \"reassociates\"";
        Ok(vec![Diagnostic::new("E0229", message).with_help(help)])
    }
}

#[cfg(test)]
mod tests {
    use tenon_ir::Session;
    use tenon_recipe::Recipe;
    use tenon_target::Target;

    use super::*;

    #[test]
    fn what_the_promise_excludes_is_refused() {
        let session = Session::new();
        let module = session.new_module(session.context().unknown_location()).expect("an empty module");
        let targets = [Target::default_target()];
        let refused = |implementation, rewrites| {
            let mut recipe = Recipe::default();
            recipe.compile.attention = implementation;
            recipe.numerics.rewrites = rewrites;
            let contracted = Contracted { recipe: &recipe, module: &module, targets: &targets };
            AttentionAvailable.validate(&contracted).expect("it is read")
        };
        assert_eq!(refused(AttentionImplementation::Unfused, NumericClass::Exact), []);
        assert_eq!(refused(AttentionImplementation::Flash, NumericClass::Reassociates), []);
        let flash = refused(AttentionImplementation::Flash, NumericClass::Exact);
        assert_eq!(flash[0].code, "E0229");
        assert!(flash[0].message.contains("flash") && flash[0].message.contains("exact"), "{}", flash[0].message);

        let mut recipe = Recipe::default();
        recipe.compile.attention = AttentionImplementation::Flash;
        recipe.compile.disable = vec![PASS.to_owned()];
        let contracted = Contracted { recipe: &recipe, module: &module, targets: &targets };
        let left_out = AttentionAvailable.validate(&contracted).expect("it is read");
        assert_eq!((left_out.len(), left_out[0].code.as_str()), (1, "E0229"));
        assert!(left_out[0].message.contains(PASS), "{}", left_out[0].message);
    }
}
