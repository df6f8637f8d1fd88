//! `tenon verify` and `tenon diff`.

use tenon_bundle::{Bundle, Part, Writer};

use crate::run::PADDED;
use crate::*;

fn verify(folder: &tempfile::TempDir, recipe: &str, more: &[&str]) -> Outcome {
    let recipe = write(folder, "recipe.toml", recipe);
    let (model, weights) = (testdata("command/mlp.mlir"), mlp_weights(folder));
    tenon(&[&["verify", &model, "--recipe", &recipe, "--weights", &weights], more].concat())
}

fn build(folder: &tempfile::TempDir, recipe: &str, out: &str) -> String {
    let recipe = write(folder, &format!("{out}.toml"), recipe);
    let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(folder), file(folder, out));
    let outcome = tenon(&["build", &model, "--recipe", &recipe, "--weights", &weights, "-o", &out, "--json"]);
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    value["file"].as_str().unwrap().to_owned()
}

#[test]
fn numbers_hold_in_every_bucket_and_within_padded_ones() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = verify(&folder, PADDED, &["--numerics", "--padding", "--seeds", "3", "--json"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let checks = report["numerics"].as_array().unwrap();
    assert_eq!(checks.len(), 12);
    for check in checks {
        assert!(check["outputs"][0]["of_tolerance"].as_f64().unwrap() < 0.1, "{check}");
    }
    let sizes: Vec<_> = checks.iter().map(|check| check["sizes"]["batch"].as_u64().unwrap()).collect();
    assert!(sizes[..6].iter().all(|size| [4, 16].contains(size)), "{sizes:?}");
    assert!(sizes[6..].iter().any(|size| ![4, 16].contains(size)), "{sizes:?}");
    assert_eq!(report["graph"]["operators"], 5);
}

#[test]
fn a_promise_that_is_too_tight_is_refused_by_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let tight = format!("{PADDED}[semantic.numerics]\ntolerance = {{ abs = 0, rel = 0 }}\n");
    let outcome = verify(&folder, &tight, &["--numerics", "--seeds", "4"]);
    // A sum of fused products rounds elsewhere than the reference, so that some element differs in its last bit.
    assert_eq!(outcome.status, 1, "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("E0244") && outcome.stderr.contains("the first kernel that leaves"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("node: MatMul_0, Add_1, Relu_2"), "{}", outcome.stderr);
}

#[test]
fn kernels_are_held_against_expectations() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = |clause: &str| format!("{PADDED}[hardware.expect.sm_80]\n{clause}\n");
    let good = "instructions = { softmax = [\"shfl.sync\"], matmul = [\"fma.rn.f32\"] }\nforbidden_instructions = { matmul = [\"wgmma\"] }";
    verify(&folder, &recipe(good), &[]).done();
    for (clause, code, text) in [
        ("instructions = { matmul = [\"mma.sync\"] }", "E0243", "has no `mma.sync`"),
        ("forbidden_instructions = { softmax = [\"shfl.sync\"] }", "E0243", "has a forbidden `shfl.sync`"),
        ("instructions = { attention = [\"mma.sync\"] }", "E0240", "names kernels `attention`"),
    ] {
        let outcome = verify(&folder, &recipe(clause), &[]);
        assert!(
            outcome.status == 1 && outcome.stderr.contains(code) && outcome.stderr.contains(text),
            "{clause}: {}",
            outcome.stderr
        );
    }
    // For another target nothing is expected.
    verify(&folder, &recipe("instructions = { matmul = [\"mma.sync\"] }"), &["--target", "t4"]).done();
}

#[test]
fn spills_and_occupancy_are_what_ptxas_says() {
    if tenon_target::Ptxas::locate().is_err() {
        println!("skipped: there is no ptxas");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recipe = |clause: &str| format!("{PADDED}[hardware.expect.sm_80]\n{clause}\n");
    let outcome = verify(&folder, &recipe("spills = 0\nmin_occupancy = 0.01"), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let kernels = report["kernels"].as_array().unwrap();
    assert!(
        !kernels.is_empty()
            && kernels.iter().all(|kernel| kernel["spills"] == 0 && kernel["registers"].as_u64() > Some(0))
    );
    let full = verify(&folder, &recipe("min_occupancy = 1.0"), &[]);
    let least = kernels.iter().map(|kernel| kernel["occupancy"].as_f64().unwrap()).fold(1.0, f64::min);
    assert_eq!(full.status == 1 && full.stderr.contains("E0243"), least < 1.0, "{}", full.stderr);
}

#[test]
fn budgets_bite_by_shapes_and_by_the_memory_plan() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = |bytes: &str| format!("{PADDED}[hardware]\nactivation_budget = {bytes}\n");
    verify(&folder, &recipe("\"1MiB\""), &[]).done();
    // The product is 16 rows of 4 numbers of 4 bytes.
    let outcome = verify(&folder, &recipe("255"), &[]);
    assert!(
        outcome.refused("E0226").contains("256 bytes") && outcome.stderr.contains("batch=16"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("recipe.toml:8:1"), "{}", outcome.stderr);
    // Scores of attention are never in memory where one kernel computes it, and are where the recipe takes that back.
    let attention = r#"
module attributes {graph.model = "attention"} {
  func.func @main(%q: tensor<4x64x16xf32> {graph.name = "q"}, %k: tensor<4x16x64xf32> {graph.name = "k"}, %v: tensor<4x64x16xf32> {graph.name = "v"}) -> (tensor<4x64x16xf32> {graph.name = "y"}) {
    %root = graph.constant dense<0.25> : tensor<f32> -> tensor<f32>
    %0 = graph.contract "bmk,bkn->bmn"(%q, %k) accumulate f32 : (tensor<4x64x16xf32>, tensor<4x16x64xf32>) -> tensor<4x64x64xf32> loc("Scores")
    %1 = graph.elementwise multiply(%0, %root) : (tensor<4x64x64xf32>, tensor<f32>) -> tensor<4x64x64xf32> loc("Scale")
    %2 = graph.softmax %1 {axis = 2} : tensor<4x64x64xf32> -> tensor<4x64x64xf32> loc("Softmax")
    %3 = graph.contract "bmk,bkn->bmn"(%2, %v) accumulate f32 : (tensor<4x64x64xf32>, tensor<4x64x16xf32>) -> tensor<4x64x16xf32> loc("Sum")
    return %3 : tensor<4x64x16xf32>
  }
}
"#;
    let model = write(&folder, "attention.mlir", attention);
    for (clauses, code) in [
        ("", None),
        ("[compile.attention]\nimplementation = 'flash'\n", None),
        // Four heads of 64 by 64 scores of 4 bytes.
        ("[compile.attention]\nimplementation = 'unfused'\n", Some("65536 bytes")),
        ("[semantic.numerics]\nrewrites = 'exact'\n", Some("65536 bytes")),
    ] {
        let text = format!("recipe = 1\n{clauses}[hardware]\nactivation_budget = 65535\n");
        let outcome = tenon(&["verify", &model, "--recipe", &write(&folder, "attention.toml", text)]);
        match code {
            None => drop(outcome.done()),
            Some(bytes) => assert!(outcome.refused("E0226").contains(bytes), "{}", outcome.stderr),
        }
    }
    // What is cut out of a product is all that is written of it, and an output has memory of its own.
    let parts = r#"
module attributes {graph.model = "parts"} {
  graph.parameter @a : tensor<64x64xf32>
  func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> (tensor<64x64xf32> {graph.name = "y"}, tensor<64x64xf32> {graph.name = "z"}) {
    %a = graph.get_parameter @a : tensor<64x64xf32>
    %1 = graph.contract "mk,kn->mn"(%x, %a) accumulate f32 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("Cut")
    %2 = graph.slice %1 {sizes = [16, 64], starts = [0, 0], steps = array<i64: 1, 1>} : tensor<64x64xf32> -> tensor<16x64xf32> loc("Rows")
    %3 = graph.contract "km,kn->mn"(%2, %2) accumulate f32 : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32> loc("Out")
    %4 = graph.contract "mk,kn->mn"(%3, %a) accumulate f32 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("Last")
    return %3, %4 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
"#;
    let model = write(&folder, "parts.mlir", parts);
    let weights = Tensor::from_f32(vec![64, 64], &[0.125; 4096]).unwrap();
    let header = r#"{"a":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(weights.bytes());
    let weights = write(&folder, "parts.safetensors", bytes);
    // Sixteen rows of 64 numbers of 4 bytes.
    for (budget, code) in [(4096, None), (4095, Some("E0226"))] {
        let recipe = write(&folder, "parts.toml", format!("recipe = 1\n[hardware]\nactivation_budget = {budget}\n"));
        let outcome = tenon(&["verify", &model, "--recipe", &recipe, "--weights", &weights]);
        match code {
            None => drop(outcome.done()),
            Some(code) => assert!(outcome.refused(code).contains("4096 bytes"), "{}", outcome.stderr),
        }
    }
    let two = r#"
module attributes {graph.model = "two"} {
  func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> (tensor<64x64xf32> {graph.name = "y"}) {
    %0 = graph.softmax %x {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("rows")
    %1 = graph.softmax %0 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("columns")
    %2 = graph.softmax %1 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("again")
    return %2 : tensor<64x64xf32>
  }
}
"#;
    let model = write(&folder, "two.mlir", two);
    let budget =
        |bytes: u32| write(&folder, "budget.toml", format!("recipe = 1\n[hardware]\nactivation_budget = {bytes}\n"));
    let run = |bytes: u32| tenon(&["verify", &model, "--recipe", &budget(bytes)]);
    run(32768).done();
    let outcome = run(32767);
    let text = outcome.refused("E0230");
    for part in
        ["32768 bytes", "`rows`", "`columns`", "64x64xf32 of 16384 bytes, alive from step 0 to 1", "budget.toml:3:1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// What the budget refuses by shapes alone, the memory plan would refuse too: a budget of exactly the arena is never refused.
#[test]
fn the_bound_by_shapes_is_below_the_memory_plan() {
    let folder = tempfile::tempdir().unwrap();
    let detector = "[semantic.dims]\nn = { allowed = [1] }\nh = { allowed = [64] }\nw = { allowed = [96] }\n[semantic.inputs.x]\ndims = ['n', 3, 'h', 'w']\n";
    let mut refused = 0;
    for (model, dims) in [
        ("models/ppocrv6_det_tiny/model.onnx", detector),
        ("pt2/attention/model.pt2", ""),
        ("pt2/matmuls/model.pt2", ""),
        ("pt2/recurrent/model.pt2", ""),
        ("quantized/qlinear_conv/model.onnx", ""),
        ("control_flow/if_products/model.onnx", ""),
    ] {
        let model = testdata(model);
        let recipe = |budget: u64| {
            let text = format!("recipe = 1\n{dims}[hardware]\nactivation_budget = {budget}\n");
            write(&folder, "budget.toml", text)
        };
        let plan = tenon(&["lower", &model, "--recipe", &recipe(1 << 40), "--stage", "hw"]);
        let text = plan.done();
        let arena = text.split("hw.program @main arena ").nth(1).unwrap().split(' ').next().unwrap();
        tenon(&["recipe", "check", &recipe(arena.parse().unwrap()), &model]).done();
        refused += usize::from(tenon(&["recipe", "check", &recipe(1), &model]).stderr.contains("E0226"));
    }
    assert!(refused >= 3, "the bound is nothing for all but {refused} of the models");
}

#[test]
fn a_bundle_of_another_compiler_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(&folder, PADDED, "a");
    let bundle = Bundle::open(Path::new(&path)).unwrap();
    let rewritten = |change: &dyn Fn(&mut tenon_bundle::Manifest)| {
        let mut manifest = bundle.manifest().clone();
        change(&mut manifest);
        let parts = bundle.manifest().parts.iter();
        let parts = parts.map(|part| Part::new(part.name.clone(), bundle.part(&part.name).unwrap().clone())).collect();
        let file = Writer::new(manifest, parts).write(folder.path(), "other.tenon").unwrap();
        file.to_str().unwrap().to_owned()
    };
    // Unchanged, the same bytes come out.
    assert!(std::fs::read(rewritten(&|_| {})).unwrap() == std::fs::read(&path).unwrap());
    let x = write_npy(&folder, "x.npy", &Tensor::zeros(tenon_tensor::DType::F32, vec![1, 3]).unwrap());
    let run = |path: &str| tenon(&["run", path, "--input", &format!("x={x}")]);
    run(&path).done();
    let other = run(&rewritten(&|manifest| manifest.compiler.tenon = "0.0.9".to_owned()));
    assert!(other.refused("E0049").contains("the compiler differs"), "{}", other.stderr);
    let other = run(&rewritten(&|manifest| manifest.compiler.llvm = "21.0.0".to_owned()));
    assert!(other.refused("E0049").contains("LLVM 21.0.0"), "{}", other.stderr);
    run(&rewritten(&|manifest| manifest.recipe.sha256 = "0".repeat(64))).refused("E0048");
    run(&rewritten(&|manifest| manifest.programs[0].plan = "plan/none.json".to_owned())).refused("E0048");
    let target = rewritten(&|manifest| manifest.targets[0].architecture = "sm_90a".to_owned());
    run(&target).refused("E0050");
    assert_eq!(run(&write(&folder, "text.tenon", "no bundle")).refused("E0045").lines().count(), 2);
}

#[test]
fn the_difference_of_two_bundles_says_which_kernels_changed_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let a = build(&folder, PADDED, "a");
    let same = build(&folder, &format!("{PADDED}# the same\n"), "same");
    assert_eq!(tenon(&["diff", &a, &same]).done(), "the bundles hold the same\n");
    // One clause: the sizes are exact instead of padded, and so is the code of both kernels.
    let b = build(&folder, &PADDED.replace("'pad'", "'reject'"), "b");
    let page = file(&folder, "diff.html");
    let outcome = tenon(&["diff", &a, &b, "--html", &page]);
    let text = outcome.done();
    for part in [
        "semantic.dims.batch.between",
        "\"pad\"",
        "\"reject\"",
        "0 kernels are the same, 2 are not",
        "MatMul_0",
        "because `semantic.dims.batch.between` is \"reject\" and was \"pad\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("Softmax_3") && !html.contains("src="), "{html}");
    let json: serde_json::Value = serde_json::from_str(tenon(&["--json", "diff", &a, &b]).done()).unwrap();
    assert_eq!(json["recipe"].as_array().unwrap().len(), 1);
    assert_eq!(json["programs"][0]["kernels"][0]["kind"], "changed");
    // A clause that decides nothing about kernels changes none.
    let c = build(&folder, &format!("{PADDED}[semantic.numerics]\ntolerance = {{ abs = 1e-2 }}\n"), "c");
    let text = tenon(&["diff", &a, &c]);
    assert!(text.done().contains("2 kernels are the same, 0 are not"), "{}", text.stdout);
}

#[test]
fn the_difference_of_two_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("command/mlp.mlir");
    assert!(tenon(&["diff", &model, &model]).done().contains("the graphs are the same: 5 operators"));
    let text = std::fs::read_to_string(&model).unwrap();
    let other = write(&folder, "other.mlir", text.replace("elementwise max", "elementwise min"));
    let page = file(&folder, "graphs.html");
    let outcome = tenon(&["diff", &model, &other, "--html", &page]);
    assert!(outcome.done().contains("~ elementwise Relu_2"), "{}", outcome.stdout);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Relu_2"));
    let bundle = build(&folder, PADDED, "a");
    tenon(&["diff", &bundle, &model]).refused("E0052");
}

/// Of two values that are read again at the end, that which is not needed for longest waits in host memory, and the numbers stay what they are.
#[test]
fn values_wait_in_host_memory() {
    let folder = tempfile::tempdir().unwrap();
    let chain = r#"
module attributes {graph.model = "chain"} {
  func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> (tensor<64x64xf32> {graph.name = "y"}) {
    %0 = graph.softmax %x {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("kept")
    %1 = graph.softmax %0 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("kept_too")
    %2 = graph.softmax %1 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("a")
    %3 = graph.softmax %2 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("b")
    %4 = graph.softmax %3 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("c")
    %5 = graph.softmax %4 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("d")
    %6 = graph.elementwise add(%5, %0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("sum")
    %7 = graph.softmax %6 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("e")
    %8 = graph.elementwise add(%7, %1) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("last")
    return %8 : tensor<64x64xf32>
  }
}
"#;
    let model = write(&folder, "chain.mlir", chain);
    let recipe = |name: &str, more: &str| {
        write(&folder, name, format!("recipe = 1\n[hardware]\nactivation_budget = 49152\n{more}\n"))
    };
    let values: Vec<f32> = (0..4096).map(|value| (value * 37 % 101) as f32 / 16.0).collect();
    let x = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![64, 64], &values).unwrap()));
    let run = |more: &[&str]| {
        let out = file(&folder, "out");
        let outcome = tenon(&[&["--json", "run", &model, "--input", &x, "-o", &out], more].concat());
        let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        (value["launches"].as_u64().unwrap(), std::fs::read(file(&folder, "out/y.npy")).unwrap())
    };
    let (launches, plain) = run(&[]);
    tenon(&["run", &model, "--input", &x, "--recipe", &recipe("error.toml", "")]).refused("E0230");
    let moved = recipe("offload.toml", "over_budget = 'offload'");
    let (with_copies, same) = run(&["--recipe", &moved]);
    assert_eq!((with_copies, same == plain), (launches + 2, true));
    // Copies may be as late as the plan's events allow.
    assert_eq!(run(&["--recipe", &moved, "--seed", "7"]), (with_copies, plain.clone()));
    let out = file(&folder, "bundles");
    std::fs::create_dir(&out).unwrap();
    tenon(&["build", &model, "--recipe", &moved, "-o", &out]).done();
    let bundle =
        format!("{out}/{}", std::fs::read_dir(&out).unwrap().next().unwrap().unwrap().file_name().to_str().unwrap());
    let outcome = tenon(&["run", &bundle, "--input", &x, "--seed", "7", "-o", &file(&folder, "of_bundle")]);
    outcome.done();
    assert!(std::fs::read(file(&folder, "of_bundle/y.npy")).unwrap() == plain);
    tenon(&["verify", &bundle, "--numerics"]).done();
    let tight =
        write(&folder, "tight.toml", "recipe = 1\n[hardware]\nactivation_budget = 32768\nover_budget = 'offload'\n");
    let outcome = tenon(&["run", &model, "--input", &x, "--recipe", &tight]);
    assert!(outcome.refused("E0230").contains("moving values to host memory does not help"), "{}", outcome.stderr);
}

/// Where one step needs much memory, the copies around it run beside the kernels before and behind it.
#[test]
fn copies_are_hidden_where_the_budget_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let wide = r#"
module attributes {graph.model = "wide"} {
  func.func @main(%x: tensor<64x64xf32> {graph.name = "x"}) -> (tensor<64x64xf32> {graph.name = "y"}) {
    %0 = graph.softmax %x {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("kept")
    %1 = graph.softmax %0 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("a")
    %2 = graph.softmax %1 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("b")
    %3 = graph.softmax %2 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("c")
    %4 = graph.concat(%3, %3, %3, %3) {axis = 1} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x256xf32> loc("four")
    %5 = graph.softmax %4 {axis = 1} : tensor<64x256xf32> -> tensor<64x256xf32> loc("wide")
    %6 = graph.slice %5 {sizes = [64, 64], starts = [0, 3], steps = array<i64: 1, 2>} : tensor<64x256xf32> -> tensor<64x64xf32> loc("cut")
    %7 = graph.softmax %6 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("d")
    %8 = graph.softmax %7 {axis = 1} : tensor<64x64xf32> -> tensor<64x64xf32> loc("e")
    %9 = graph.softmax %8 {axis = 0} : tensor<64x64xf32> -> tensor<64x64xf32> loc("f")
    %10 = graph.elementwise add(%9, %0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("last")
    return %10 : tensor<64x64xf32>
  }
}
"#;
    let model = write(&folder, "wide.mlir", wide);
    let explained = |budget: u64| {
        let recipe = format!("recipe = 1\n[hardware]\nactivation_budget = {budget}\nover_budget = 'offload'\n");
        let recipe = write(&folder, "budget.toml", recipe);
        let outcome = tenon(&["--json", "explain", &model, "--summary", "--recipe", &recipe]);
        serde_json::from_str::<serde_json::Value>(outcome.done()).unwrap()
    };
    // At its most crowded step it holds 64 + 16 + 16 KiB, of which 16 may wait.
    let value = explained(90_000);
    let us = |name: &str| value["streams"][name].as_f64().unwrap();
    assert_eq!(value["copies"], 2);
    assert!(us("copies_us") > 0.5, "{}", value["streams"]);
    assert!((us("one_by_one_us") - us("copies_us") - us("estimated_us")).abs() < 1e-9, "{}", value["streams"]);
    assert!(explained(98_304)["streams"].is_null());
}

/// A value of a padded bucket waits in host memory by its largest size, whatever a request has.
#[test]
fn values_of_padded_buckets_wait_in_host_memory() {
    let folder = tempfile::tempdir().unwrap();
    let ty = r#"tensor<?x64xf32, {dims = ["n", 64]}>"#;
    let step = |index: usize, axis: usize| {
        format!("    %{index} = graph.softmax %{} {{axis = {axis}}} : {ty} -> {ty} loc(\"s{index}\")\n", index - 1)
    };
    let steps: String = (1..=6).map(|index| step(index, (index + 1) % 2)).collect();
    let chain = format!(
        r#"
module attributes {{graph.model = "padded"}} {{
  func.func @main(%x: {ty} {{graph.name = "x"}}) -> ({ty} {{graph.name = "y"}}) {{
    %0 = graph.softmax %x {{axis = 0}} : {ty} -> {ty} loc("kept")
{steps}    %7 = graph.elementwise add(%6, %0) : ({ty}, {ty}) -> {ty} loc("sum")
    %8 = graph.softmax %7 {{axis = 1}} : {ty} -> {ty} loc("s8")
    %9 = graph.elementwise add(%8, %1) : ({ty}, {ty}) -> {ty} loc("last")
    return %9 : {ty}
  }}
}}
"#
    );
    let model = write(&folder, "padded.mlir", chain);
    let recipe = |name: &str, more: &str| {
        let dims = "[semantic.dims]\nn = { allowed = [64], between = 'pad' }\n";
        write(&folder, name, format!("recipe = 1\n{dims}[hardware]\n{more}\n"))
    };
    let plain = recipe("plain.toml", "");
    let moved = recipe("moved.toml", "activation_budget = 49152\nover_budget = 'offload'");
    for rows in [64, 7] {
        let values: Vec<f32> = (0..rows * 64).map(|value| (value * 37 % 101) as f32 / 16.0).collect();
        let x = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![rows, 64], &values).unwrap()));
        let run = |recipe: &str, seed: &str| {
            let out = file(&folder, "out");
            let outcome =
                tenon(&["--json", "run", &model, "--input", &x, "-o", &out, "--recipe", recipe, "--seed", seed]);
            let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
            (value["launches"].as_u64().unwrap(), std::fs::read(file(&folder, "out/y.npy")).unwrap())
        };
        let (launches, expected) = run(&plain, "0");
        for seed in ["0", "9"] {
            assert_eq!(run(&moved, seed), (launches + 2, expected.clone()), "{rows} rows, seed {seed}");
        }
    }
}

/// A bucket over the budget is computed in the fewest parts that fit, with the same numbers; where rows mix, the refusal says where.
#[test]
fn buckets_are_computed_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let x = r#"tensor<?x8x32xf32, {dims = ["batch", 8, 32]}>"#;
    let flat = r#"tensor<?x256xf32, {dims = ["batch", 256]}>"#;
    let last = r#"tensor<?x32xf32, {dims = ["batch", 32]}>"#;
    let source = |mixes: &str| {
        format!(
            r#"
module attributes {{graph.model = "rows"}} {{
  func.func @main(%x: {x} {{graph.name = "x"}}) -> ({last} {{graph.name = "y"}}, tensor<8xf32> {{graph.name = "z"}}) {{
    %0 = graph.softmax %x {{axis = 2}} : {x} -> {x} loc("first")
    %1 = graph.softmax %0 {{axis = 1}} : {x} -> {x} loc("second")
    %2 = graph.elementwise add(%1, %x) : ({x}, {x}) -> {x} loc("sum")
    %3 = graph.softmax %2 {{axis = 1}} : {x} -> {x} loc("third")
    %4 = graph.reshape %3 {{shape = ["batch", 256]}} : {x} -> {flat} loc("flat")
    %5 = graph.softmax %4 {{axis = {mixes}}} : {flat} -> {flat} loc("fourth")
    %6 = graph.slice %5 {{sizes = ["batch", 32], starts = [0, 3], steps = array<i64: 1, 2>}} : {flat} -> {last} loc("cut")
    %7 = graph.constant dense<2.0> : tensor<8xf32> -> tensor<8xf32>
    return %6, %7 : {last}, tensor<8xf32>
  }}
}}
"#
        )
    };
    let model = write(&folder, "rows.mlir", source("1"));
    let values: Vec<f32> = (0..8 * 256).map(|value| (value * 37 % 101) as f32 / 16.0).collect();
    let x = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![8, 8, 32], &values).unwrap()));
    let recipe = |name: &str, more: &str| {
        write(&folder, name, format!("recipe = 1\n[semantic.dims]\nbatch = {{ allowed = [8] }}\n[hardware]\n{more}\n"))
    };
    let run = |recipe: &str| {
        let out = file(&folder, "out");
        let outcome = tenon(&["--json", "run", &model, "--input", &x, "--recipe", recipe, "-o", &out]);
        let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
        (value["launches"].as_u64().unwrap(), std::fs::read(file(&folder, "out/y.npy")).unwrap())
    };
    let (launches, plain) = run(&recipe("whole.toml", ""));
    // Two values of 8 KiB are alive at once; in two parts half of that.
    let error = recipe("error.toml", "activation_budget = 8192");
    tenon(&["run", &model, "--input", &x, "--recipe", &error]).refused("E0230");
    let stream = recipe("stream.toml", "activation_budget = 8192\nover_budget = 'stream'");
    let (more, same) = run(&stream);
    assert!(more > launches && same == plain, "{more} launches instead of {launches}");
    let out = file(&folder, "bundles");
    let built = tenon(&["--json", "build", &model, "--recipe", &stream, "-o", &out]);
    let value: serde_json::Value = serde_json::from_str(built.done()).unwrap();
    tenon(&["verify", value["file"].as_str().unwrap(), "--numerics"]).done();

    let tiny = recipe("tiny.toml", "activation_budget = 64\nover_budget = 'stream'");
    let refused = tenon(&["run", &model, "--input", &x, "--recipe", &tiny]);
    assert!(refused.refused("E0230").contains("in 8 parts along `batch` they take"), "{}", refused.stderr);
    let mixing = write(&folder, "mixing.mlir", source("0"));
    let refused = tenon(&["run", &mixing, "--input", &x, "--recipe", &stream]);
    let said = "`graph.softmax` (fourth) is not known to keep rows along `batch` apart";
    assert!(refused.refused("E0230").contains(said), "{}", refused.stderr);
    let padded = write(
        &folder,
        "padded.toml",
        "recipe = 1\n[semantic.dims]\nbatch = { allowed = [8], between = 'pad' }\n[hardware]\nactivation_budget = 8192\nover_budget = 'stream'\n",
    );
    let refused = tenon(&["run", &model, "--input", &x, "--recipe", &padded]);
    assert!(refused.refused("E0230").contains("`batch` is padded"), "{}", refused.stderr);
}
