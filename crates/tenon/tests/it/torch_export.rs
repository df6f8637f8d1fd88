//! Archives of torch.export through PTX on the simulator, against what eager PyTorch gave.
//!
//! Those of `testdata/pt2` run always; real architectures are looked for among the outside material and skipped, with a note, where it is not.

use std::collections::BTreeMap;

use crate::models::{excess, filled, shared};
use crate::*;

/// Names of a program's inputs or outputs, from the text of its `import` stage, by attribute.
fn names(model: &str, list: &str) -> Vec<String> {
    let text = tenon(&["lower", model, "--stage", "import"]).done().to_owned();
    let line = text.lines().find(|line| line.contains("func.func @main")).unwrap().to_owned();
    let (inputs, outputs) = line.split_once(") -> ").unwrap_or((&line, ""));
    let part = if list == "input" { inputs } else { outputs };
    part.split("graph.name = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// Runs a recorded set; gives how far the worst output is beyond the relative tolerance.
fn run(model: &str, set: &Path, extra: &[&str], relative: f64) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "out");
    let inputs: Vec<String> = names(model, "input")
        .into_iter()
        .enumerate()
        .map(|(index, name)| (name, set.join(format!("input_{index}.npy"))))
        .filter(|(_, path)| path.exists())
        .map(|(name, path)| format!("{name}={}", path.display()))
        .collect();
    let mut arguments = vec!["run", model, "-o", &out, "--seed", "3"];
    arguments.extend_from_slice(extra);
    for input in &inputs {
        arguments.extend(["--input", input]);
    }
    tenon(&arguments).done();
    let mut most: f64 = 0.0;
    for (index, name) in names(model, "output").into_iter().enumerate() {
        let expected = set.join(format!("output_{index}.npy"));
        if expected.exists() {
            let actual = tenon_tensor::read_npy(Path::new(&out).join(format!("{name}.npy"))).unwrap();
            most = most.max(excess(&actual, &tenon_tensor::read_npy(expected).unwrap(), relative));
        }
    }
    most
}

/// A family of `testdata/pt2`.
fn family(name: &str) {
    let folder = PathBuf::from(testdata(&format!("pt2/{name}")));
    let model = folder.join("model.pt2").to_str().unwrap().to_owned();
    let off = run(&model, &folder, &["--shapes-from-inputs"], 1e-5);
    assert!(off <= 4e-6, "{name} is off by {off}");
}

#[test]
fn activations_and_views_and_writing_in_place() {
    ["activations", "in_place", "shared"].into_iter().for_each(family);
}

#[test]
fn a_buffer_that_is_written_comes_back() {
    family("counter");
}

/// All recorded sets of a real architecture: compiled for each one's shapes, and where there is a recipe by its buckets.
fn architecture(name: &str, recipe: &str) {
    let Some(folder) = shared().map(|shared| shared.join("models-pt2").join(name)).filter(|folder| folder.is_dir())
    else {
        println!("skipped: {name} is not there");
        return;
    };
    let model = folder.join("model.pt2").to_str().unwrap().to_owned();
    let meta = std::fs::read_to_string(folder.join("meta.json")).unwrap();
    let tolerance = |key: &str| -> f64 {
        let rest = meta.split(&format!("\"{key}\": ")).nth(1).unwrap();
        rest.split(|c: char| c == ',' || c.is_whitespace()).next().unwrap().parse().unwrap()
    };
    let scratch = tempfile::tempdir().unwrap();
    let recipe = (!recipe.is_empty()).then(|| write(&scratch, "recipe.toml", recipe));
    let sets: Vec<_> = names_in(&folder).into_iter().filter(|name| name.starts_with("test_data_set_")).collect();
    assert!(!sets.is_empty());
    for set in sets {
        let set = folder.join(set);
        let off = run(&model, &set, &["--shapes-from-inputs"], tolerance("rel"));
        assert!(off <= tolerance("abs"), "{}: off by {off}", set.display());
        if let Some(recipe) = &recipe {
            let off = run(&model, &set, &["--recipe", recipe], tolerance("rel"));
            assert!(off <= tolerance("abs"), "{} by extents: off by {off}", set.display());
        }
    }
}

/// Both dimensions as extents of one program.
const SEQUENCES: &str = "recipe = 1\nname = \"sequences\"\n[semantic.dims]\ns23 = { allowed = [16], between = \"pad\" }\n\
                         s27 = { allowed = [128], between = \"pad\" }\n";

#[test]
fn bert_tiny_dyn() {
    architecture("bert_tiny_dyn", SEQUENCES);
}

#[test]
fn llama_tiny_dyn() {
    architecture("llama_tiny_dyn", SEQUENCES);
}

#[test]
fn tied_buffers_dyn() {
    architecture("tied_buffers_dyn", SEQUENCES);
}

#[test]
fn mobilenet_v2_025() {
    let recipe = "recipe = 1\nname = \"images\"\n[semantic.dims]\ns77 = { allowed = [4, 16], between = \"pad\" }\n";
    architecture("mobilenet_v2_025", recipe);
}

#[test]
fn architectures_of_fixed_shapes() {
    for name in ["resnet_block_f16", "qat_fake_quant", "lstm_bidir", "buffer_mutation"] {
        architecture(name, "");
    }
}

/// What decides is an input, which for archives stays one.
#[test]
fn architectures_with_control_flow() {
    family("branches");
    architecture("cond", "");
    architecture("while_loop", "");
}

#[test]
fn what_a_recipe_or_a_shape_breaks_is_refused() {
    let model = testdata("pt2/shared/model.pt2");
    let folder = tempfile::tempdir().unwrap();
    let ids = write_npy(&folder, "ids.npy", &Tensor::from_i64(vec![20], &[0; 20]).unwrap());
    let x = write_npy(&folder, "x.npy", &Tensor::zeros(tenon_tensor::DType::F32, vec![20, 6]).unwrap());
    let inputs = [format!("ids={ids}"), format!("x={x}")];
    tenon(&["run", &model, "--shapes-from-inputs", "--input", &inputs[0], "--input", &inputs[1]]).refused("E0181");
    tenon(&["lower", &model, "--weights", "w.safetensors"]).refused("E0032");
}

/// Launches of a model, all of them and those of each family of kernels.
fn launches(model: &str, more: &[&str]) -> (u64, BTreeMap<String, u64>) {
    let outcome = tenon(&[&["--json", "explain", model, "--summary"], more].concat());
    let summary: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    let mut families = BTreeMap::new();
    for kernel in summary["kernels"].as_array().unwrap() {
        *families.entry(kernel["family"].as_str().unwrap().to_owned()).or_insert(0) +=
            kernel["count"].as_u64().unwrap();
    }
    (summary["launches"].as_u64().unwrap(), families)
}

/// Architectures that there are in both formats end in the same kernels, whatever the exporters write: two layers of an encoder, and a
/// convolutional network.
#[test]
fn both_formats_end_in_the_same_number_of_kernels() {
    let dims = "s23 = { allowed = [1] }\ns27 = { allowed = [128] }\n";
    for (onnx, pt2, dims, expected) in [
        ("bert_mini", "bert_tiny_dyn", dims, 18),
        ("mobilenet_v2", "mobilenet_v2_025", "s77 = { allowed = [1] }\n", 54),
    ] {
        let Some(folder) = shared().map(|shared| shared.join("models-pt2").join(pt2)).filter(|folder| folder.is_dir())
        else {
            println!("skipped: {pt2} is not there");
            continue;
        };
        let scratch = tempfile::tempdir().unwrap();
        let recipe = write(&scratch, "recipe.toml", format!("recipe = 1\nname = \"both\"\n[semantic.dims]\n{dims}"));
        let of_pt2 = launches(folder.join("model.pt2").to_str().unwrap(), &["--recipe", &recipe]);
        // Seven launches a layer, of which one is attention; or one for each convolution.
        assert_eq!(of_pt2.0, expected, "{pt2}: {:?}", of_pt2.1);
        match filled(onnx) {
            Some(folder) => assert_eq!(launches(folder.join("model.onnx").to_str().unwrap(), &[]), of_pt2, "{onnx}"),
            None => println!("skipped: {onnx} cannot be filled here"),
        }
    }
}
