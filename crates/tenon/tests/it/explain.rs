//! What `tenon explain` says of kernels and of pairs of nodes.

use crate::*;

fn encoder() -> String {
    testdata("encoder/opset17.onnx")
}

#[test]
fn kernels_with_what_they_cost_and_what_was_rejected() {
    let folder = Path::new(&encoder()).parent().unwrap().display().to_string();
    let text = tenon(&["explain", &encoder(), "--summary"]).done().replace(&format!("{folder}/"), "");
    insta::with_settings!({snapshot_path => testdata("explain"), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("encoder", text);
    });
    let summary = tenon(&["--json", "explain", &encoder(), "--summary"]);
    let summary: serde_json::Value = serde_json::from_str(summary.done()).unwrap();
    let text = serde_json::to_string_pretty(&summary).unwrap().replace(&format!("{folder}/"), "");
    insta::with_settings!({snapshot_path => testdata("explain"), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("encoder.json", text);
    });
    for kernel in summary["kernels"].as_array().unwrap() {
        let us = kernel["estimated_us"].as_f64().unwrap();
        // A launch at least; and no fusion that costs more than it saves.
        assert!(us >= 2.5, "{kernel}");
        if let Some(other) = kernel["alternative"]["estimated_us"].as_f64() {
            assert!(us < other, "{kernel}");
        }
    }
}

/// What was decided, remark by remark: rewrites with their rules, kernels with their nodes.
#[test]
fn remarks_of_a_small_model() {
    let model = testdata("quantized/qdq_matmul/model.onnx");
    let folder = Path::new(&model).parent().unwrap().display().to_string();
    let text = tenon(&["explain", &model]).done().replace(&format!("{folder}/"), "");
    let json: serde_json::Value = serde_json::from_str(tenon(&["--json", "explain", &model]).done()).unwrap();
    let json = serde_json::to_string_pretty(&json).unwrap().replace(&format!("{folder}/"), "");
    insta::with_settings!({snapshot_path => testdata("explain"), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("remarks", text);
        insta::assert_snapshot!("remarks.json", json);
    });
}

#[test]
fn every_rewritten_operator_has_the_best_alternative_beside_it() {
    let remarks = tenon(&["--json", "explain", &testdata("encoder/torch_script.onnx")]);
    let remarks: Vec<serde_json::Value> = serde_json::from_str(remarks.done()).unwrap();
    let rewritten: Vec<&str> = remarks
        .iter()
        .filter(|remark| remark["kind"] == "rewritten")
        .map(|remark| remark["message"].as_str().unwrap())
        .collect();
    let normalisations: Vec<_> = rewritten.iter().filter(|message| message.starts_with("`graph.normalize`")).collect();
    assert_eq!(normalisations.len(), 4, "{rewritten:?}");
    for message in normalisations {
        let numbers: Vec<f64> = message.split(" us").filter_map(|part| part.rsplit(' ').next()?.parse().ok()).collect();
        let [all, other] = numbers[..] else { panic!("{message}") };
        assert!(all < other && message.contains("best alternative"), "{message}");
    }
}

#[test]
fn two_nodes_share_a_kernel_or_something_stood_in_the_way() {
    // Products of one value are merged; a bias and attention's own parts share its kernel.
    for (first, second) in
        [("MatMul_0", "Add_0"), ("MatMul_0", "MatMul_1"), ("MatMul_3", "Softmax_0"), ("Erf_0", "MatMul_6")]
    {
        let outcome = tenon(&["explain", &encoder(), "--pair", first, second]);
        assert!(outcome.done().starts_with(&format!("{first} and {second} share kernel ")), "{}", outcome.stdout);
    }
    for (first, second, reason) in [
        ("Add_5", "LayerNormalization_0", "needs whole rows"),
        ("LayerNormalization_0", "MatMul_6", "is read by"),
        ("Mul_2", "MatMul_7", "a kernel of family `contract` reads its operands whole from memory"),
        ("MatMul_7", "Mul_2", "a kernel of family `contract` reads its operands whole from memory"),
        ("Mul_0", "Softmax_0", "so that it must be in memory"),
        ("MatMul_0", "MatMul_7", "what one gives reaches the other through"),
        ("MatMul_0", "Cast_0", "neither reads what the other gives"),
    ] {
        let outcome = tenon(&["--json", "explain", &encoder(), "--pair", first, second]);
        let pair: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        assert!(pair["kernel"].is_null() && pair["kernels"][0][0].is_string(), "{pair}");
        assert!(pair["reason"].as_str().unwrap().contains(reason), "{first}, {second}: {pair}");
    }
    let unknown = tenon(&["explain", &encoder(), "--pair", "MatMul_0", "MatMull_1"]);
    assert!(unknown.refused("E0057").contains("did you mean `MatMul_1`?"));
}

#[test]
fn a_clause_stands_in_the_way_and_so_do_long_rows() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = "recipe = 1\n[compile.fusion]\nforbid = [[\"matmul\", \"add\"]]\n";
    let recipe = write(&folder, "forbid.toml", recipe);
    let outcome = tenon(&["explain", &encoder(), "--recipe", &recipe, "--pair", "MatMul_6", "Add_6"]);
    assert!(outcome.done().contains("`compile.fusion.forbid` keeps `MatMul_6`, `Add_6` apart"), "{}", outcome.stdout);
    let text = root_and_softmax(4096);
    let model = write(&folder, "rows.mlir", text);
    let outcome = tenon(&["explain", &model, "--pair", "root", "soft"]);
    assert!(outcome.done().contains("has 4096 elements, more than the 2048"), "{}", outcome.stdout);
    let short = write(&folder, "short.mlir", root_and_softmax(2048));
    let outcome = tenon(&["explain", &short, "--pair", "root", "soft"]);
    assert!(outcome.done().contains("share kernel"), "{}", outcome.stdout);
}

/// A scalar function before a softmax over rows of a length.
fn root_and_softmax(length: u64) -> String {
    let ty = format!("tensor<4x{length}xf32>");
    format!(
        "module {{\n  func.func @main(%x: {ty} {{graph.name = \"x\"}}) -> ({ty} {{graph.name = \"y\"}}) {{\n    \
         %0 = graph.elementwise sqrt(%x) : ({ty}) -> {ty} loc(\"root\")\n    \
         %1 = graph.softmax %0 {{axis = 1}} : {ty} -> {ty} loc(\"soft\")\n    return %1 : {ty}\n  }}\n}}\n"
    )
}
