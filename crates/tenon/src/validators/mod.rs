//! Validators: rules in code beside the clauses of the recipe, checked before anything is compiled.
//!
//! A validator sees the recipe, the graph after stage `contract` (dimensions named, the shape space attached) and the targets. Those of
//! [`VALIDATORS`] run always: one line registers one. A program that uses this crate adds its own with
//! [`Driver::with_validator`](crate::driver::Driver::with_validator).

mod activation_budget;
mod attention;
mod custom_ops;

use tenon_ir::Module;
use tenon_recipe::Recipe;
use tenon_target::Target;

use crate::{Diagnostic, Failure};

pub use activation_budget::ActivationBudget;
pub use attention::AttentionAvailable;
pub use custom_ops::CustomOpsHaveShapes;

/// What a validator looks at.
pub struct Contracted<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The graph after stage `contract`.
    pub module: &'a Module<'a>,
    /// The targets that are compiled for.
    pub targets: &'a [&'static Target],
}

/// A rule about recipe, graph and targets.
pub trait Validator {
    /// Its name, words joined by `-`.
    fn name(&self) -> &'static str;

    /// What it refuses, in a sentence.
    fn about(&self) -> &'static str;

    /// Everything that it refuses; empty where the rule holds.
    ///
    /// # Errors
    /// The graph cannot be read.
    fn validate(&self, contracted: &Contracted<'_>) -> Result<Vec<Diagnostic>, Failure>;
}

/// The validators that always run: a validator is registered by its line.
pub const VALIDATORS: &[&dyn Validator] = &[&CustomOpsHaveShapes, &AttentionAvailable, &ActivationBudget];

/// Runs validators in order.
///
/// # Errors
/// All that they refuse, together.
pub fn validate<'v>(
    validators: impl IntoIterator<Item = &'v dyn Validator>,
    contracted: &Contracted<'_>,
) -> Result<(), Failure> {
    let mut refused = Vec::new();
    for validator in validators {
        refused.extend(validator.validate(contracted)?);
    }
    if refused.is_empty() { Ok(()) } else { Err(Failure(refused)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_different() {
        for (index, validator) in VALIDATORS.iter().enumerate() {
            let name = validator.name();
            assert!(name.split('-').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())));
            assert!(VALIDATORS[..index].iter().all(|other| other.name() != name) && !validator.about().is_empty());
        }
    }
}
