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
