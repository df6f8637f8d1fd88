//! Bisection over rewrites: by the command, and with a wrong rule of the test's own.

use std::collections::BTreeMap;

use tenon::bisect::Subject;
use tenon::driver::{Request, Source};
use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_import_onnx::ImportOptions;
use tenon_recipe::{NumericClass, Recipe};
use tenon_rewrite_passes::{Instance, ProofError, Rule, prove};
use tenon_tensor::DType;

use crate::*;

/// erf(x) is x: nowhere but at 0.
static WRONG: Rule = Rule {
    name: "erf-away",
    class: NumericClass::Exact,
    about: "erf(x) is x.",
    root: "graph.elementwise",
    apply: |found| match found.operator()? {
        Operator::Elementwise(Elementwise { function: Function::Erf }) => found.operands().first().copied(),
        _ => None,
    },
    instance: |dice| {
        let mut instance = Instance::new();
        let x = instance.input(DType::F32, &dice.shape(2));
        instance.op(Elementwise { function: Function::Erf }, &[Some(x)]);
        instance
    },
};

fn bisect(model: &str, rules: &[&'static Rule]) -> tenon::bisect::Bisection {
    let session = tenon_ir::Session::new();
    let request = Request::of(Recipe::default());
    let source = Source::model(&session, Path::new(model), &ImportOptions::default(), None).unwrap();
    let (session, source, request) = (&session, &source, &request);
    let subject = Subject { session, source, request, rules, inputs: &BTreeMap::new(), seeds: &[0] };
    subject.bisect(&|_| {}).unwrap()
}

#[test]
fn a_wrong_rule_is_found() {
    // The proof of the rule sees it too; a model sees it where it is applied.
    assert!(matches!(prove(&WRONG, 20), Err(ProofError::Differs { .. })));
    let model = testdata("encoder/opset17.onnx");
    let found = bisect(&model, &[&WRONG]);
    let first = found.first.unwrap();
    assert_eq!((first.rule, first.pass.as_deref()), (Some("erf-away"), Some("rewrite-graph")));
    // Of two layers, the first that is looked at.
    assert!(["Erf_0", "Erf_1"].contains(&first.nodes[0].as_str()), "{:?}", first.nodes);
    assert_eq!(first.suspects, ["erf-away"]);
    assert!(first.output.of_tolerance > 1.0 && first.rewrite > 1 && first.rewrite < found.rewrites);
    // A bisection, not a walk: the logarithm of the number of rewrites, the ends, and each rule that was applied once.
    let most = u64::from(found.rewrites.ilog2()) + 4 + tenon_rewrite_passes::RULES.len() as u64;
    assert!(found.checks <= most, "{} checks of {} rewrites", found.checks, found.rewrites);
}

#[test]
fn a_model_that_keeps_its_promise_passes() {
    let model = testdata("encoder/opset17.onnx");
    let found: serde_json::Value = serde_json::from_str(tenon(&["--json", "bisect", &model]).done()).unwrap();
    assert!(found["first"].is_null() && found["rewrites"].as_u64().unwrap() > 20, "{found}");
    let mask = format!("mask={}", testdata("encoder/mask.npy"));
    let x = format!("x={}", testdata("encoder/x.npy"));
    let outcome = tenon(&["bisect", &model, "--input", &mask, "--input", &x]);
    assert!(outcome.done().starts_with("the numeric check passes after all "), "{}", outcome.stdout);
}

#[test]
fn a_promise_that_no_rewrite_can_keep_names_one() {
    // Folding of scales rounds elsewhere: under a tolerance of nothing, it is what breaks the promise.
    let folder = tempfile::tempdir().unwrap();
    let recipe = "recipe = 1\n[semantic.numerics]\ntolerance = { abs = 0.0, rel = 0.0 }\n[compile.attention]\nimplementation = \"unfused\"\n";
    let recipe = write(&folder, "strict.toml", recipe);
    let model = testdata("encoder/dynamo.onnx");
    let outcome = tenon(&["--json", "bisect", &model, "--recipe", &recipe]);
    let found: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let rule = found["first"]["rule"].as_str().unwrap();
    let rule = tenon_rewrite_passes::RULES.iter().find(|own| own.name == rule).unwrap();
    assert!(rule.class > NumericClass::Exact, "{}", rule.name);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let model = testdata("encoder/opset17.onnx");
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str, tensor: &Tensor| format!("{name}={}", write_npy(&folder, "x.npy", tensor));
    let all = |name: &str, tensor: &Tensor| {
        let mask = format!("mask={}", testdata("encoder/mask.npy"));
        tenon(&["bisect", &model, "--input", &mask, "--input", &given(name, tensor)])
    };
    all("z", &Tensor::zeros(DType::F32, vec![1]).unwrap()).refused("E0711");
    all("x", &Tensor::zeros(DType::F64, vec![2, 8, 32]).unwrap()).refused("E0713");
    assert_eq!(tenon(&["bisect", "no-such-file.onnx"]).status, 1);
}
