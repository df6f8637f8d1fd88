//! One encoder of two layers in six spellings (`testdata/encoder/generate.py`): exporters, opsets, f16 between casts, an archive of torch.export.

use crate::*;

const SPELLINGS: [&str; 6] =
    ["opset17.onnx", "torch_script.onnx", "dynamo.onnx", "half.onnx", "gemm.onnx", "torch_export.pt2"];

fn model(spelling: &str) -> String {
    testdata(&format!("encoder/{spelling}"))
}

/// Families of the kernels, in order.
fn families(spelling: &str) -> Vec<String> {
    let text = tenon(&["lower", &model(spelling), "--stage", "fuse"]).done().to_owned();
    let kernels = text.lines().filter_map(|line| line.split_once("graph.kernel "));
    kernels.map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The mask; then a layer each: projections, attention, projection with residual, normalisation, two products, normalisation.
#[test]
fn all_spellings_become_the_same_kernels() {
    let layer = ["contract", "attention", "contract", "reduce", "contract", "contract", "reduce"];
    for spelling in SPELLINGS {
        let families = families(spelling);
        assert_eq!(families.len(), 1 + 2 * layer.len(), "{spelling}: {families:?}");
        let computing: Vec<_> = families.iter().filter(|family| *family != "map").collect();
        assert_eq!(computing, [layer, layer].concat(), "{spelling}");
    }
}

/// Through PTX on the simulator, against the formula in f64.
#[test]
fn all_spellings_give_what_the_formula_gives() {
    let expected = tenon_tensor::read_npy(testdata("encoder/y.npy")).unwrap().to_f64_vec().unwrap();
    let mask = format!("mask={}", testdata("encoder/mask.npy"));
    for spelling in SPELLINGS {
        let folder = tempfile::tempdir().unwrap();
        let is_half = spelling.starts_with("half");
        let x = if is_half { "encoder/x.half.npy" } else { "encoder/x.npy" };
        let (x, out) = (format!("x={}", testdata(x)), file(&folder, "out"));
        tenon(&["run", &model(spelling), "--input", &x, "--input", &mask, "-o", &out, "--seed", "2"]).done();
        let names = names_in(Path::new(&out));
        let actual = tenon_tensor::read_npy(Path::new(&out).join(&names[0])).unwrap().to_f64_vec().unwrap();
        assert_eq!(actual.len(), expected.len());
        // The recipe's promise for f32; of f16, some units of its 11 bits for values up to 4.
        let (absolute, relative) = if is_half { (1e-2, 4e-3) } else { (1e-5, 1e-4) };
        for (actual, expected) in actual.iter().zip(&expected) {
            let error = (actual - expected).abs() - relative * expected.abs();
            assert!(error <= absolute, "{spelling}: {actual} instead of {expected}");
        }
    }
}

/// GELU and normalisation are source patterns in every spelling: each clause finds two layers of them, and holds or says what stood in the way.
#[test]
fn clauses_name_what_exporters_write_as_several_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let lower = |spelling: &str, clause: &str| {
        let recipe = write(&folder, "r.toml", format!("recipe = 1\n[compile.fusion]\n{clause}\n"));
        tenon(&["lower", &model(spelling), "--recipe", &recipe, "--stage", "fuse"])
    };
    for spelling in ["opset17.onnx", "torch_script.onnx", "dynamo.onnx", "half.onnx"] {
        lower(spelling, "require = [[\"add\", \"gelu\"]]").done();
        let fused = lower(spelling, "forbid = [[\"add\", \"gelu\"]]").done().matches("graph.kernel ").count();
        assert_eq!(fused, 15 + 2, "{spelling}: GELU is a kernel of its own in both layers");
        // Its result is the residual too.
        if spelling != "half.onnx" {
            let refused = lower(spelling, "require = [[\"layer_norm\", \"matmul\"]]");
            assert!(refused.refused("E0233").contains("is read by"), "{}", refused.stderr);
        }
    }
    // Not of every product with an error function.
    let ty = "tensor<4x8xf32>";
    let text = format!(
        "module {{\n  func.func @main(%x: {ty} {{graph.name = \"x\"}}) -> ({ty} {{graph.name = \"y\"}}) {{\n    \
         %0 = graph.elementwise erf(%x) : ({ty}) -> {ty} loc(\"Erf_0\")\n    \
         %1 = graph.elementwise multiply(%x, %0) : ({ty}, {ty}) -> {ty} loc(\"Mul_1\")\n    return %1 : {ty}\n  }}\n}}\n"
    );
    let other = write(&folder, "other.mlir", text);
    let recipe = write(&folder, "r.toml", "recipe = 1\n[compile.fusion]\nforbid = [[\"gelu\"]]\n");
    tenon(&["lower", &other, "--recipe", &recipe, "--stage", "fuse"]).refused("E0232");
}

/// Patterns of one form each: a root of constant statistics that is gone, GELU with x taken out of the sum, normalisation by the mean square.
#[test]
fn patterns_match_what_is_left_after_folding() {
    let folder = tempfile::tempdir().unwrap();
    let lower = |model: &str, clause: &str| {
        let recipe = write(&folder, "r.toml", format!("recipe = 1\n[compile.fusion]\n{clause}\n"));
        tenon(&["lower", model, "--recipe", &recipe, "--stage", "fuse"])
    };
    let text = std::fs::read_to_string(testdata("passes/rewrite-batch-norm.mlir")).unwrap();
    let is_root = |line: &&str| line.trim_start().starts_with("%1 =") || line.trim_start().starts_with("%2 =");
    let folded: Vec<&str> = text.lines().filter(|line| !is_root(line)).collect();
    let folded = folded.join("\n").replace("divide(%3, %2)", "divide(%3, %variance)");
    let model = write(&folder, "batch_norm.mlir", folded);
    lower(&model, "require = [[\"conv\", \"batch_norm\", \"relu\"]]").done();

    let ty = "tensor<4x8xf32>";
    let model = |name: &str, scalars: &[(&str, f32)], lines: &[(&str, &str)]| {
        let mut body = String::new();
        for (name, value) in scalars {
            body += &format!("    %{name} = graph.constant dense<{value:?}> : tensor<f32> -> tensor<f32>\n");
        }
        for (name, expression) in lines {
            body += &format!("    %{name} = {expression} loc(\"{name}\")\n");
        }
        let last = lines[lines.len() - 1].0;
        let text = format!(
            "module {{\n  func.func @main(%x: {ty} {{graph.name = \"x\"}}) -> ({ty} {{graph.name = \"y\"}}) {{\n{body}    return %{last} : {ty}\n  }}\n}}\n"
        );
        write(&folder, name, text)
    };
    let by =
        |function: &str, a: &str, b: &str| format!("graph.elementwise {function}(%{a}, %{b}) : ({ty}, {ty}) -> {ty}");
    let number = |function: &str, a: &str, b: &str| {
        format!("graph.elementwise {function}(%{a}, %{b}) : ({ty}, tensor<f32>) -> {ty}")
    };
    let gelu = |cubic: f32| {
        let scalars = [("half", 0.5), ("root", 0.797_884_56), ("cubic", cubic), ("one", 1.0)];
        let tanh = format!("graph.elementwise tanh(%scaled) : ({ty}) -> {ty}");
        let lines = [
            ("halves", number("multiply", "x", "half")),
            ("slope", number("multiply", "x", "root")),
            ("part", number("multiply", "x", "cubic")),
            ("square", by("multiply", "part", "x")),
            ("sum", number("add", "square", "one")),
            ("scaled", by("multiply", "slope", "sum")),
            ("tanh", tanh),
            ("gate", number("add", "tanh", "one")),
            ("gelu", by("multiply", "halves", "gate")),
        ];
        let lines: Vec<_> = lines.iter().map(|(name, line)| (*name, line.as_str())).collect();
        model("gelu.mlir", &scalars, &lines)
    };
    lower(&gelu(0.044_715), "require = [[\"gelu\"]]").done();
    lower(&gelu(0.05), "require = [[\"gelu\"]]").refused("E0232");

    let column = "tensor<4x1xf32>";
    let rms = |axis: i64, of: &str| {
        let mean = format!("graph.reduce mean(%square) {{axes = array<i64: {axis}>, keep_dims}} : ({ty}) -> {column}");
        let sum = format!("graph.elementwise add(%mean, %epsilon) : ({column}, tensor<f32>) -> {column}");
        let root = format!("graph.elementwise sqrt(%sum) : ({column}) -> {column}");
        let inverse = format!("graph.elementwise reciprocal(%root) : ({column}) -> {column}");
        let result = format!("graph.elementwise multiply(%x, %inverse) : ({ty}, {column}) -> {ty}");
        let lines = [
            ("other", by("add", "x", "x")),
            ("square", by("multiply", of, of)),
            ("mean", mean),
            ("sum", sum),
            ("root", root),
            ("inverse", inverse),
            ("normal", result),
        ];
        let lines: Vec<_> = lines.iter().map(|(name, line)| (*name, line.as_str())).collect();
        model("rms.mlir", &[("epsilon", 0.001)], &lines)
    };
    lower(&rms(1, "x"), "require = [[\"rms_norm\"]]").done();
    // Of the root mean square of another value it is none; and centred it would be another.
    lower(&rms(1, "other"), "require = [[\"rms_norm\"]]").refused("E0232");
    lower(&rms(1, "x"), "require = [[\"layer_norm\"]]").refused("E0232");
}
