//! The implementation of attention is there on every target.

use tenon_recipe::AttentionImplementation;
use tenon_target::Target;

use super::{Contracted, Validator};
use crate::{Diagnostic, Failure};

/// Refuses an implementation of attention that a target does not have: there is no fallback.
pub struct AttentionAvailable;

/// Whether a target has an implementation.
fn is_available(implementation: AttentionImplementation, _target: &Target) -> bool {
    match implementation {
        AttentionImplementation::Auto | AttentionImplementation::Unfused => true,
        // No target has a kernel that keeps the scores out of memory.
        AttentionImplementation::Flash => false,
    }
}

impl Validator for AttentionAvailable {
    fn name(&self) -> &'static str {
        "attention-available"
    }

    fn about(&self) -> &'static str {
        "the implementation of attention that the recipe names is there on every target"
    }

    fn validate(&self, contracted: &Contracted<'_>) -> Result<Vec<Diagnostic>, Failure> {
        let implementation = contracted.recipe.compile.attention;
        let without: Vec<_> =
            contracted.targets.iter().filter(|target| !is_available(implementation, target)).collect();
        if without.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<_> = without.iter().map(|target| target.name()).collect();
        let word = implementation.name();
        let message = format!("attention by `{word}` is not available on {}", names.join(", "));
        let help = "write `compile.attention.implementation = \"unfused\"` or \"auto\", or leave these targets out";
        Ok(vec![Diagnostic::new("E0229", message).with_help(help)])
    }
}

#[cfg(test)]
mod tests {
    use tenon_ir::Session;
    use tenon_recipe::Recipe;

    use super::*;

    #[test]
    fn targets_without_the_implementation_are_named() {
        let session = Session::new();
        let module = session.new_module(session.context().unknown_location()).expect("an empty module");
        let targets = [Target::find("t4").expect("a target"), Target::default_target()];
        let refused = |implementation| {
            let mut recipe = Recipe::default();
            recipe.compile.attention = implementation;
            let contracted = Contracted { recipe: &recipe, module: &module, targets: &targets };
            AttentionAvailable.validate(&contracted).expect("it is read")
        };
        assert_eq!(refused(AttentionImplementation::Unfused), []);
        let flash = refused(AttentionImplementation::Flash);
        assert_eq!(flash[0].code, "E0229");
        assert!(flash[0].message.contains("t4") && flash[0].message.contains("a100"), "{}", flash[0].message);
    }
}
