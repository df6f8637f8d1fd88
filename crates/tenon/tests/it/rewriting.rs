//! Rewriting as a recipe and the command see it.

use crate::*;

/// Launches of the default target, and the rules that made the operators of each kernel.
fn summary(model: &str, arguments: &[&str]) -> (u64, Vec<String>) {
    let model = testdata(model);
    let outcome = tenon(&[&["explain", model.as_str(), "--summary", "--json"], arguments].concat());
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let kernels = value["kernels"].as_array().unwrap().iter();
    let rules = kernels.flat_map(|kernel| kernel["rules"].as_array().unwrap().clone());
    (value["launches"].as_u64().unwrap(), rules.map(|rule| rule.as_str().unwrap().to_owned()).collect())
}

#[test]
fn projections_that_share_an_operand_are_one_launch() {
    let folder = tempfile::tempdir().unwrap();
    // Attention as products and a softmax, whose operands rules move.
    let unfused = "recipe = 1\n[compile.attention]\nimplementation = \"unfused\"\n";
    let unfused = write(&folder, "unfused.toml", unfused);
    let summary = |model: &str, more: &[&str]| summary(model, &[&["--recipe", unfused.as_str()], more].concat());
    let model = "passes/rewrite-attention.mlir";
    let (launches, rules) = summary(model, &[]);
    let (without, others) = summary(model, &["--disable", "merge-contractions"]);
    let (unmoved, none) = summary(model, &["--disable", "rewrite-graph"]);
    assert!(rules.iter().any(|rule| rule == "merge-contractions"), "{rules:?}");
    assert!(!others.iter().any(|rule| rule == "merge-contractions") && none.is_empty(), "{others:?} {none:?}");
    // Projections, scores, softmax, context, projection; and three projections instead of one. Transposes are written by the products before them.
    assert_eq!((launches, without, unmoved), (5, 7, 7));
}

#[test]
fn a_recipe_decides_which_rules_run() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = |name: &str, text: &str| write(&folder, name, format!("recipe = 1\nname = \"{name}\"\n{text}"));
    let model = "passes/rewrite-batch-norm.mlir";
    let scaled =
        |recipe: &str| summary(model, &["--recipe", recipe]).1.iter().any(|rule| rule == "scale-into-convolution");
    assert!(scaled(&recipe("free.toml", "")));
    assert!(!scaled(&recipe("exact.toml", "[semantic.numerics]\nrewrites = \"exact\"\n")));
    assert!(!scaled(&recipe("without.toml", "[compile.fusion]\ndisable = [\"scale-into-convolution\"]\n")));
    let unknown = recipe("unknown.toml", "[compile.fusion]\ndisable = [\"scale-into-nothing\"]\n");
    tenon(&["explain", &testdata(model), "--recipe", &unknown, "--summary"]).refused("E0407");
}
