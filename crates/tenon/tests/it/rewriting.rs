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

/// Each class has its products: none of tensor cores, three for one, one; `tenon verify` holds them to the tolerance.
#[test]
fn a_recipe_decides_how_products_of_f32_are_computed() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
module {
  func.func @main(%a: tensor<48x128xf32> {graph.name = "a"}, %b: tensor<128x40xf32> {graph.name = "b"}) -> (tensor<48x40xf32> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<48x128xf32>, tensor<128x40xf32>) -> tensor<48x40xf32> loc("product")
    return %0 : tensor<48x40xf32>
  }
}
"#;
    let model = write(&folder, "product.mlir", text);
    let recipe = |class: &str, tolerance: &str| {
        let text = format!("recipe = 1\n[semantic.numerics]\nrewrites = \"{class}\"\ntolerance = {{ {tolerance} }}\n");
        write(&folder, &format!("{class}.toml"), text)
    };
    // The sum of |a b| of 128 terms below 4 is below 512: the bounds of docs/recipes.md.
    let classes = [
        ("exact", "abs = 4e-3, rel = 0"),
        ("reassociates", "abs = 4e-3, rel = 0"),
        ("approximates", "abs = 1.01, rel = 0"),
    ];
    let products = classes.map(|(class, tolerance)| {
        let recipe = recipe(class, tolerance);
        tenon(&["verify", &model, "--recipe", &recipe, "--numerics"]).done();
        let outcome = tenon(&["lower", &model, "--recipe", &recipe, "--target", "sm_80", "--stage", "ptx"]);
        let count = |instruction: &str| outcome.done().matches(instruction).count();
        (count("mma.sync.aligned.m16n8k8.row.col.f32.tf32"), count("sub.rn.f32"), count("fma.rn.f32"))
    });
    let [(none, _, multiplied), (three, parts, 0), (one, 0, 0)] = products else { panic!("{products:?}") };
    assert!(none == 0 && multiplied > 0 && three > 0 && three % 3 == 0 && parts > 0 && one > 0, "{products:?}");
}

/// A bias may be the first operand of one sum and the second of another: the sums become one all the same.
#[test]
fn the_order_of_a_sum_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(testdata("passes/rewrite-attention.mlir")).unwrap();
    let mixed = text.replace(
        "add(%2, %bk) : (tensor<1x4x8xf32>, tensor<8xf32>)",
        "add(%bk, %2) : (tensor<8xf32>, tensor<1x4x8xf32>)",
    );
    assert_ne!(text, mixed);
    let launches = |name: &str, text: &str| {
        let model = write(&folder, name, text);
        let outcome = tenon(&["explain", &model, "--summary", "--json"]);
        serde_json::from_str::<serde_json::Value>(outcome.done()).unwrap()["launches"].as_u64().unwrap()
    };
    assert_eq!(launches("mixed.mlir", &mixed), launches("equal.mlir", &text));
}

/// A kernel that rules formed stands in the way of a clause: the rules are named as what may be disabled.
#[test]
fn a_fusion_that_rules_prevent_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("passes/rewrite-attention.mlir");
    let lower = |disable: &str| {
        let text = format!("recipe = 1\n[compile.fusion]\nrequire = [[\"matmul\", \"add\"]]\ndisable = [{disable}]\n");
        tenon(&["lower", &model, "--recipe", &write(&folder, "r.toml", text), "--stage", "fuse"])
    };
    let refused = lower("\"merge-elementwise\"");
    assert!(refused.refused("E0233").contains("disable = [\"merge-contractions\""), "{}", refused.stderr);
    lower("\"merge-elementwise\", \"merge-contractions\"").done();
}
