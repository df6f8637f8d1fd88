//! Running models.

use crate::*;

/// softmax(relu(x·w + b)) in f64.
pub(crate) fn expected(x: &[f32]) -> Vec<f64> {
    let row = |x: &[f32]| -> Vec<f64> {
        let logits = (0..4).map(|j| {
            let sum: f64 = (0..3).map(|i| f64::from(x[i]) * (i as f64 - f64::from(j) / 2.0)).sum();
            (sum + f64::from(j) / 4.0).max(0.0)
        });
        let exponentials: Vec<f64> = logits.map(f64::exp).collect();
        let total: f64 = exponentials.iter().sum();
        exponentials.iter().map(|value| value / total).collect()
    };
    x.chunks(3).flat_map(row).collect()
}

fn run(folder: &tempfile::TempDir, arguments: &[&str]) -> Outcome {
    let (model, recipe, weights) = (testdata("command/mlp.mlir"), testdata("command/mlp.toml"), mlp_weights(folder));
    tenon(&[&["run", model.as_str(), "--recipe", recipe.as_str(), "--weights", weights.as_str()], arguments].concat())
}

#[test]
fn the_bucket_of_the_inputs_runs_and_gives_the_right_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let x = [0.5f32, -1.0, 2.0, 3.0, 0.25, -0.75];
    let out = file(&folder, "out");
    for (rows, seed) in [(1, "0"), (2, "0"), (2, "7")] {
        let input = write_npy(&folder, "x.npy", &Tensor::from_f32(vec![rows, 3], &x[..3 * rows]).unwrap());
        let given = format!("x={input}");
        let outcome = run(&folder, &["--input", &given, "-o", &out, "--seed", seed, "--counters"]);
        assert!(outcome.done().contains(&format!("bucket batch={rows}")), "{}", outcome.stdout);
        let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
        assert_eq!(result.shape(), [rows, 4]);
        for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(expected(&x[..3 * rows])) {
            assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
        }
    }
    let input = write_npy(&folder, "x.npy", &Tensor::from_f32(vec![2, 3], &x).unwrap());
    let given = format!("x={input}");
    let value: serde_json::Value =
        serde_json::from_str(run(&folder, &["--json", "--input", &given, "--counters"]).done()).unwrap();
    assert_eq!((value["launches"].as_u64(), value["outputs"][0]["name"].as_str()), (Some(2), Some("probabilities")));
    assert!(value["counters"]["lane_instructions"].as_u64().unwrap() > 0);
}

/// y = w · x · w for a weight of one element, as a product and as a convolution.
#[test]
fn a_weight_of_one_element_is_an_operand_of_products() {
    let folder = tempfile::tempdir().unwrap();
    let product = r#"graph.contract "nk,km->nm"(%x, %w) accumulate f32"#;
    let convolution = "graph.convolution(%x, %w) accumulate f32 {dilations = array<i64: 1, 1>, groups = 1 : i64, pad_begin = array<i64: 0, 0>, \
                       pad_end = array<i64: 0, 0>, strides = array<i64: 1, 1>}";
    let x: Vec<f32> = (0..8).map(|value| value as f32 - 3.5).collect();
    for (operation, shape, weight) in [(product, vec![8, 1], "1x1"), (convolution, vec![1, 1, 2, 4], "1x1x1x1")] {
        let sizes: Vec<_> = shape.iter().map(usize::to_string).collect();
        let (ty, weight) = (format!("tensor<{}xf32>", sizes.join("x")), format!("tensor<{weight}xf32>"));
        let text = format!(
            "module {{\n  func.func @main(%x: {ty} {{graph.name = \"x\"}}) -> ({ty} {{graph.name = \"y\"}}) {{\n    \
             %w = graph.constant dense<-2.5> : {weight} -> {weight}\n    %0 = {operation} : ({ty}, {weight}) -> {ty}\n    \
             %1 = graph.elementwise multiply(%0, %w) : ({ty}, {weight}) -> {ty}\n    return %1 : {ty}\n  }}\n}}\n"
        );
        let model = write(&folder, "m.mlir", text);
        let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(shape, &x).unwrap()));
        let out = file(&folder, "out");
        tenon(&["run", &model, "--input", &given, "-o", &out]).done();
        let y = tenon_tensor::read_npy(file(&folder, "out/y.npy")).unwrap();
        assert_eq!(y.to_f32_vec().unwrap(), x.iter().map(|x| x * 6.25).collect::<Vec<_>>(), "{operation}");
    }
}

/// A recipe of `command/mlp.mlir` that pads.
pub(crate) const PADDED: &str = "recipe = 1\nname = 'padded'\n[semantic.dims]\nbatch = { allowed = [4, 16], between = 'pad' }\n[semantic.inputs.x]\ndims = ['batch', 3]\n";

#[test]
fn a_padded_bucket_holds_every_smaller_request() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(&folder, "padded.toml", PADDED);
    let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(&folder), file(&folder, "out"));
    let run =
        |given: &str| tenon(&["run", &model, "--recipe", &recipe, "--weights", &weights, "--input", given, "-o", &out]);
    for (rows, bucket) in [(1, 4), (3, 4), (4, 4), (5, 16), (16, 16)] {
        let x: Vec<f32> = (0..3 * rows).map(|value| (value as f32 - 7.0) / 4.0).collect();
        let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![rows, 3], &x).unwrap()));
        let outcome = run(&given);
        assert!(outcome.done().contains(&format!("bucket batch={bucket}")), "{}", outcome.stdout);
        let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
        assert_eq!(result.shape(), [rows, 4]);
        for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(expected(&x)) {
            assert!((actual - expected).abs() < 1e-6, "{rows}: {actual} instead of {expected}");
        }
    }
    let given =
        format!("x={}", write_npy(&folder, "x.npy", &Tensor::zeros(tenon_tensor::DType::F32, vec![3, 3]).unwrap()));
    let json = tenon(&["run", &model, "--recipe", &recipe, "--weights", &weights, "--input", &given, "--json"]);
    let value: serde_json::Value = serde_json::from_str(json.done()).unwrap();
    assert_eq!(value["extents"], serde_json::json!({"batch": 3}));
    let large = Tensor::zeros(tenon_tensor::DType::F32, vec![17, 3]).unwrap();
    run(&format!("x={}", write_npy(&folder, "x.npy", &large))).refused("E0034");
}

#[test]
fn the_shapes_of_the_inputs_are_a_bucket_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let x: Vec<f32> = (0..15).map(|value| (value as f32 - 7.0) / 4.0).collect();
    let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![5, 3], &x).unwrap()));
    let (model, weights, out) = (testdata("command/mlp.mlir"), mlp_weights(&folder), file(&folder, "out"));
    tenon(&["run", &model, "--weights", &weights, "--shapes-from-inputs", "--input", &given, "-o", &out, "-v"]).done();
    let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
    assert_eq!(result.shape(), [5, 4]);
    for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(expected(&x)) {
        assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
    }
    // A recipe says which sizes there are, or the inputs do; its other clauses hold beside them.
    let run = |recipe: &str| {
        let recipe = write(&folder, "beside.toml", recipe);
        tenon(&["run", &model, "--weights", &weights, "--shapes-from-inputs", "--input", &given, "--recipe", &recipe])
    };
    let sized = run("recipe = 1\n[semantic.dims]\nbatch = { allowed = [5] }\n");
    let said = sized.refused("E0055");
    assert!(said.contains("`semantic.dims.batch`") && said.contains("beside.toml"), "{said}");
    let named = run("recipe = 1\n[semantic.inputs.x]\ndims = [5, 3]\n");
    assert!(named.refused("E0055").contains("`semantic.inputs.x.dims`"), "{}", named.stderr);
    run("recipe = 1\n[semantic.inputs.x]\ndtype = 'f32'\n[semantic.numerics]\nrewrites = 'exact'\n").done();
    run("recipe = 1\n[semantic.inputs.x]\ndtype = 'f16'\n").refused("E0221");
    // Of several targets of a recipe the default one is run.
    let several = run("recipe = 1\n[hardware]\ntargets = ['t4', 'a100-sxm4-80gb']\n");
    assert!(several.done().contains("for a100-sxm4-80gb"), "{}", several.stdout);
    run("recipe = 1\n[hardware]\ntargets = ['t4', 'l40s']\n").refused("E0036");
}

#[test]
fn wrong_inputs_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |shape: Vec<usize>| Tensor::zeros(tenon_tensor::DType::F32, shape).unwrap();
    let given = |name: &str, tensor: &Tensor| format!("{name}={}", write_npy(&folder, "i.npy", tensor));
    run(&folder, &["--input", &given("x", &tensor(vec![3, 3]))]).refused("E0034");
    run(&folder, &["--input", &given("x", &tensor(vec![2, 4]))]).refused("E07");
    run(&folder, &["--input", &given("x", &tensor(vec![2, 3, 1]))]).refused("E07");
    run(&folder, &["--bucket", "batch=2"]).refused("E07");
    run(&folder, &[]).refused("E0034");
    let double = Tensor::zeros(tenon_tensor::DType::F64, vec![2, 3]).unwrap();
    run(&folder, &["--input", &given("x", &double)]).refused("E07");
    let one = given("x", &tensor(vec![2, 3]));
    run(&folder, &["--input", &one, "--input", &one]).refused("E0033");
    let other = format!("y={}", write_npy(&folder, "y.npy", &tensor(vec![2, 3])));
    run(&folder, &["--input", &one, "--input", &other]).refused("E07");
    run(&folder, &["--input", "x=no-such.npy"]).refused("E0020");
    assert_eq!(run(&folder, &["--input", "x"]).status, 2);
    run(&folder, &["--input", &one, "--target", "sm_80", "--target", "sm_90a"]).refused("E0036");
    let damaged = write(&folder, "w.safetensors", b"\x08\0\0\0\0\0\0\0{}");
    let model = testdata("command/mlp.mlir");
    tenon(&["run", &model, "--weights", &damaged, "--input", &one]).refused("E0031");
    let recipe = testdata("command/mlp.toml");
    let missing = tenon(&["run", &model, "--recipe", &recipe, "--input", &one]);
    assert!(missing.refused("E07").contains("`w`") || missing.stderr.contains("`b`"), "{}", missing.stderr);
}
