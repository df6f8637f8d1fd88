//! Custom operators have shape functions.

use super::{Contracted, Validator};
use crate::{Diagnostic, Failure};

/// Refuses a custom operator without a shape function: nothing after it could be planned.
pub struct CustomOpsHaveShapes;

impl Validator for CustomOpsHaveShapes {
    fn name(&self) -> &'static str {
        "custom-op-shapes"
    }

    fn about(&self) -> &'static str {
        "every custom operator of the recipe has a shape function"
    }

    fn validate(&self, contracted: &Contracted<'_>) -> Result<Vec<Diagnostic>, Failure> {
        let without = contracted.recipe.custom_ops.iter().filter(|(_, op)| op.shape.is_none());
        Ok(without
            .map(|(name, _)| {
                let message = format!("the custom operator `{name}` has no shape function");
                let help = format!("add to `[custom_ops.{name}]`: shape = \"B,C,H,W -> B,C,H,W\"");
                Diagnostic::new("E0228", message).with_help(help)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use tenon_ir::Session;
    use tenon_recipe::{CustomOp, Recipe};

    use super::*;

    #[test]
    fn an_operator_without_shapes_is_named() {
        let session = Session::new();
        let module = session.new_module(session.context().unknown_location()).expect("an empty module");
        let mut recipe = Recipe::default();
        recipe.custom_ops.insert("good".into(), CustomOp { shape: Some("N -> N".into()), ..CustomOp::default() });
        let validate = |recipe: &Recipe| {
            CustomOpsHaveShapes.validate(&Contracted { recipe, module: &module, targets: &[] }).expect("it is read")
        };
        assert_eq!(validate(&recipe), []);
        recipe.custom_ops.insert("deform".into(), CustomOp::default());
        let refused = validate(&recipe);
        assert_eq!((refused.len(), refused[0].code.as_ref()), (1, "E0228"));
        assert!(refused[0].message.contains("`deform`"));
    }
}
