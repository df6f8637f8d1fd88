//! The rules: one file a family, one line a rule.

mod algebra;
mod contraction;
mod horizontal;
mod integer;
mod powers;
mod recognition;
mod scaling;
mod shape;
mod shapes;

use crate::rule::Rule;

/// All rules, in the order that they are tried in. A rule is registered by its line.
pub const RULES: &[Rule] = &[
    shape::TRANSPOSE_OF_TRANSPOSE,
    shape::RESHAPE_OF_RESHAPE,
    shape::NO_RESHAPE,
    shape::NO_TRANSPOSE,
    shape::TRANSPOSE_AS_RESHAPE,
    shape::RESHAPE_OF_ELEMENTWISE,
    shape::TRANSPOSE_OF_ELEMENTWISE,
    contraction::TRANSPOSED_LEFT,
    contraction::TRANSPOSED_RIGHT,
    contraction::TRANSPOSED_RESULT,
    contraction::RESHAPED_RESULT,
    integer::INTEGER_PRODUCT,
    horizontal::MERGE_CONTRACTIONS,
    horizontal::MERGE_ELEMENTWISE,
    algebra::SUBTRACT_KNOWN,
    algebra::DIVIDE_KNOWN,
    algebra::SUM_OF_SUMS,
    algebra::PRODUCT_OF_PRODUCTS,
    algebra::DISTRIBUTE,
    powers::POWER_BY_NUMBER,
    scaling::INTO_CONVOLUTION,
    scaling::INTO_CONTRACTION,
    recognition::NORMALIZATION,
    recognition::SCALE_OF_NORMALIZATION,
    recognition::BIAS_OF_NORMALIZATION,
    recognition::SOFTMAX,
];

/// Rules that show attention in the form in which it is looked for.
pub(crate) const BEFORE_ATTENTION: &[&str] = &[recognition::SOFTMAX.name];

#[cfg(test)]
mod tests {
    use tenon_graph_dialect::operators::Function;
    use tenon_recipe::NumericClass;

    use super::*;
    use crate::{Instance, ProofError, prove};

    #[test]
    fn names_are_plain_and_different() {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(
                rule.name.split('-').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
            );
            assert!(rule.about.ends_with('.'), "{}", rule.name);
            assert!(RULES[..index].iter().all(|other| other.name != rule.name), "{}", rule.name);
        }
    }

    #[test]
    fn a_rule_that_matches_none_of_its_instances_is_not_proved() {
        let empty = Rule { instance: |_| Instance::new(), ..algebra::SUBTRACT_KNOWN };
        assert_eq!(prove(&empty, 20), Err(ProofError::NeverApplied));
    }

    #[test]
    fn wrong_rules_are_caught() {
        let swapped = Rule {
            apply: |found| {
                let [a, b] = found.operands_of()?;
                found.function(Function::Subtract, &[b, a])
            },
            ..algebra::SUBTRACT_KNOWN
        };
        // Another order of rounding is no exact rule, though it is the same function of real numbers.
        let inexact = Rule { class: NumericClass::Exact, ..algebra::SUM_OF_SUMS };
        let undone = Rule {
            apply: |found| {
                // Without its condition.
                let (result, [operand]) = (found.result()?, found.operands_of()?);
                found.reshape(operand, &result.dims)
            },
            ..shape::TRANSPOSE_AS_RESHAPE
        };
        for rule in [&swapped, &inexact, &undone] {
            let found = prove(rule, 60);
            assert!(matches!(found, Err(ProofError::Differs { .. })), "{}: {found:?}", rule.name);
        }
    }

    #[test]
    fn every_rule_is_proved() {
        let failures: Vec<String> = RULES
            .iter()
            .filter_map(|rule| prove(rule, 60).err().map(|error| format!("{}: {error}", rule.name)))
            .collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
