//! Rotary embedding as exporters write it (`testdata/rotary/generate.py`): one kernel behind the product that gives the heads.

use crate::models::{excess, shared};
use crate::*;

/// Spellings, the form of their angles, and how elements pair.
const SPELLINGS: [(&str, &str, &str); 6] = [
    ("operator", "", "halves"),
    ("rotate_half", "_halves", "halves"),
    ("split", "", "halves"),
    ("operator_interleaved", "", "neighbours"),
    ("rotate_neighbours", "_neighbours", "neighbours"),
    ("stacked", "", "neighbours"),
];

/// Families of the kernels, in order.
fn families(arguments: &[&str]) -> Vec<String> {
    let text = tenon(&[&["lower"], arguments, &["--stage", "fuse"]].concat()).done().to_owned();
    let kernels = text.lines().filter_map(|line| line.split_once("graph.kernel "));
    kernels.map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_spelling_is_a_product_and_a_map() {
    for (spelling, _, _) in SPELLINGS {
        assert_eq!(families(&[&testdata(&format!("rotary/{spelling}.onnx"))]), ["contract", "map"], "{spelling}");
    }
}

/// Through PTX on the simulator, against the formula in f64.
#[test]
fn every_spelling_gives_what_the_formula_gives() {
    for (spelling, angles, pairs) in SPELLINGS {
        let folder = tempfile::tempdir().unwrap();
        let input = |name: &str, suffix: &str| format!("{name}={}", testdata(&format!("rotary/{name}{suffix}.npy")));
        let (x, cos, sin) = (input("x", ""), input("cos", angles), input("sin", angles));
        let (model, out) = (testdata(&format!("rotary/{spelling}.onnx")), file(&folder, "out"));
        tenon(&["run", &model, "--input", &x, "--input", &cos, "--input", &sin, "-o", &out, "--seed", "2"]).done();
        let actual = tenon_tensor::read_npy(Path::new(&out).join("y.npy")).unwrap();
        let expected = tenon_tensor::read_npy(testdata(&format!("rotary/{pairs}.npy"))).unwrap();
        let expected = expected.to_f64_vec().unwrap().into_iter().map(|value| value as f32).collect::<Vec<_>>();
        let expected = Tensor::from_f32(actual.shape().to_vec(), &expected).unwrap();
        // Sums of 32 products of f32.
        assert!(excess(&actual, &expected, 1e-5) <= 1e-5, "{spelling}");
    }
}

/// An archive of torch.export: queries and keys are turned by a kernel each in both layers.
#[test]
fn a_decoder_turns_queries_and_keys_by_a_kernel_each() {
    let Some(shared) = shared() else { return eprintln!("skipped: the folder `shared` is not there") };
    let folder = tempfile::tempdir().unwrap();
    let recipe = "recipe = 1\n[semantic.dims]\ns23 = { allowed = [2] }\ns27 = { allowed = [16] }\n";
    let recipe = write(&folder, "r.toml", recipe);
    let model = shared.join("models-pt2/llama_tiny_dyn/model.pt2");
    let text = tenon(&["lower", model.to_str().unwrap(), "--recipe", &recipe, "--stage", "fuse"]).done().to_owned();
    let kernels: Vec<&str> = text.split("graph.kernel ").skip(1).collect();
    let turning = |kernel: &&&str| kernel.contains("graph.elementwise negate") && kernel.contains("graph.concat");
    assert_eq!(kernels.iter().filter(turning).count(), 4);
    assert_eq!(text.matches("graph.elementwise negate").count(), 4, "no kernel negates alone");
}
