//! Real models, through PTX on the simulator, against what ONNX Runtime recorded; their dumps before stock tools.
//!
//! The model that ships with the project runs always. Others are looked for in `TENON_SHARED`, else in the folder `shared` beside the
//! checkout; networks without weights are filled, and their outputs recorded, by the Python of `.venv`. What is not there is skipped, with a note.

use crate::*;

/// Where outside material may lie.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder = match std::env::var_os("TENON_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => root().join("../shared"),
    };
    folder.is_dir().then_some(folder)
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Largest |actual - expected| - relative · |expected|.
pub(crate) fn excess(actual: &Tensor, expected: &Tensor, relative: f64) -> f64 {
    assert_eq!((actual.dtype(), actual.shape()), (expected.dtype(), expected.shape()));
    let pairs = actual.iter_f64().unwrap().zip(expected.iter_f64().unwrap());
    pairs
        .map(|(a, e)| if a == e { 0.0 } else { (a - e).abs() - relative * e.abs() })
        .fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most })
}

/// Runs a model on inputs and compares every expected output.
fn check(model: &Path, inputs: &[(String, PathBuf)], expected: &[(String, Tensor)], absolute: f64, relative: f64) {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "out");
    let inputs: Vec<_> = inputs.iter().map(|(name, path)| format!("{name}={}", path.display())).collect();
    let mut arguments = vec!["run", model.to_str().unwrap(), "--shapes-from-inputs", "-o", &out, "--seed", "3"];
    for input in &inputs {
        arguments.extend(["--input", input]);
    }
    tenon(&arguments).done();
    for (name, expected) in expected {
        let actual = tenon_tensor::read_npy(Path::new(&out).join(format!("{}.npy", name.replace(':', "_")))).unwrap();
        let excess = excess(&actual, expected, relative);
        assert!(
            excess <= absolute,
            "{}: output {name} is off by {excess} beyond {relative} of the value",
            model.display()
        );
    }
}

#[test]
fn the_model_that_ships_gives_the_recorded_outputs() {
    let folder = PathBuf::from(testdata("models/ppocrv6_det_tiny"));
    for set in [0, 1] {
        let input = vec![("x".to_owned(), folder.join(format!("x.{set}.npy")))];
        let expected = tenon_tensor::read_npy(folder.join(format!("fetch_name_0.{set}.npy"))).unwrap();
        check(&folder.join("model.onnx"), &input, &[("fetch_name_0".to_owned(), expected)], 1e-4, 1e-3);
    }
}

/// Checks every recorded set of a model in the layout of the ONNX backend tests.
fn recorded(name: &str, inputs: &[&str], outputs: &[&str], absolute: f64, relative: f64) {
    let Some(folder) = shared().map(|shared| shared.join("models").join(name)).filter(|folder| folder.is_dir()) else {
        println!("skipped: {name} is not there");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let sets: Vec<_> = names_in(&folder).into_iter().filter(|name| name.starts_with("test_data_set_")).collect();
    assert!(!sets.is_empty());
    for set in sets {
        let read = |kind: &str, index: usize| {
            tenon_import_onnx::read_tensor_pb(&folder.join(&set).join(format!("{kind}_{index}.pb"))).unwrap().1
        };
        let inputs: Vec<_> = inputs
            .iter()
            .enumerate()
            .map(|(index, name)| {
                ((*name).to_owned(), PathBuf::from(write_npy(&scratch, &format!("{index}.npy"), &read("input", index))))
            })
            .collect();
        let outputs: Vec<_> =
            outputs.iter().enumerate().map(|(index, name)| ((*name).to_owned(), read("output", index))).collect();
        check(&folder.join("model.onnx"), &inputs, &outputs, absolute, relative);
    }
}

#[test]
fn mtcnn_pnet() {
    recorded("mtcnn_pnet", &["input_1"], &["conv2d_4", "softmax"], 1e-5, 1e-4);
}

#[test]
fn swift_f0() {
    // Pitch in hertz, of frames that are some hundred samples long.
    recorded("swift_f0", &["audio", "fmin", "fmax"], &["pitch", "confidence"], 1e-5, 1e-6);
}

#[test]
fn basic_pitch() {
    let outputs = ["StatefulPartitionedCall:2", "StatefulPartitionedCall:1", "StatefulPartitionedCall:0"];
    recorded("basic_pitch_nmp", &["serving_default_input_2:0"], &outputs, 5e-5, 1e-4);
}

/// Names of the inputs and outputs of the decoders: text, and a cache for each layer.
fn decoder_names() -> (Vec<String>, Vec<String>) {
    let caches = |name: &str| (0..5).map(|layer| format!("{name}_{layer}")).collect::<Vec<_>>();
    let words = ["input_ids", "position_ids", "attention_mask"].map(str::to_owned);
    ([words.to_vec(), caches("past")].concat(), [vec!["logits".to_owned()], caches("present")].concat())
}

/// Every recorded step from the recorded cache, of which the first is empty.
fn decoder(name: &str, absolute: f64, relative: f64) {
    let (inputs, outputs) = decoder_names();
    let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
    let outputs: Vec<_> = outputs.iter().map(String::as_str).collect();
    recorded(name, &inputs, &outputs, absolute, relative);
}

#[test]
fn tiny_random_gpt2() {
    decoder("tiny_random_gpt2_fp32", 1e-5, 1e-4);
}

#[test]
fn tiny_random_gpt2_f16() {
    decoder("tiny_random_gpt2_fp16", 1e-3, 4e-3);
}

/// Steps that go on from the caches that the steps before gave.
#[test]
fn tiny_random_gpt2_step_by_step() {
    let Some(folder) = shared().map(|shared| shared.join("models/tiny_random_gpt2_fp32")).filter(|f| f.is_dir()) else {
        println!("skipped: tiny_random_gpt2_fp32 is not there");
        return;
    };
    let (inputs, outputs) = decoder_names();
    let scratch = tempfile::tempdir().unwrap();
    let mut caches: Vec<Option<PathBuf>> = vec![None; 5];
    let mut steps = 0;
    while folder.join(format!("test_data_set_{steps}")).is_dir() {
        let set = folder.join(format!("test_data_set_{steps}"));
        let read = |kind: &str, index: usize| {
            tenon_import_onnx::read_tensor_pb(&set.join(format!("{kind}_{index}.pb"))).unwrap().1
        };
        let out = file(&scratch, &format!("step{steps}"));
        let model = folder.join("model.onnx");
        let mut arguments =
            ["run", model.to_str().unwrap(), "--shapes-from-inputs", "-o", &out].map(str::to_owned).to_vec();
        for (index, name) in inputs.iter().enumerate() {
            let cache = index.checked_sub(3).and_then(|layer| caches[layer].clone());
            let path = match cache {
                Some(path) => path.to_str().unwrap().to_owned(),
                None => write_npy(&scratch, &format!("{steps}.{index}.npy"), &read("input", index)),
            };
            arguments.extend(["--input".to_owned(), format!("{name}={path}")]);
        }
        tenon(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).done();
        for (index, name) in outputs.iter().enumerate() {
            let path = Path::new(&out).join(format!("{name}.npy"));
            let excess = excess(&tenon_tensor::read_npy(&path).unwrap(), &read("output", index), 1e-4);
            assert!(excess <= 1e-5, "step {steps}, output {name} is off by {excess}");
            if let Some(layer) = index.checked_sub(1) {
                caches[layer] = Some(path);
            }
        }
        steps += 1;
    }
    assert_eq!(steps, 4);
}

/// Operators of ONNX Runtime's own, and options of ONNX's, against what it gives: every seventh of the cases, which the importer's tests all run.
#[test]
fn operators_of_onnx_runtime() {
    recorded_by_onnx_runtime("microsoft", 80);
    recorded_by_onnx_runtime("operators", 60);
}

fn recorded_by_onnx_runtime(folder: &str, least: usize) {
    let root = PathBuf::from(testdata(folder));
    let cases: Vec<_> =
        names_in(&root).into_iter().filter(|name| root.join(name).join("model.onnx").is_file()).collect();
    assert!(cases.len() >= least);
    for case in cases.iter().step_by(7) {
        let folder = root.join(case);
        let model = tenon_import_onnx::Model::load(folder.join("model.onnx")).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let read = |kind: &str, index: usize| {
            let path = folder.join(format!("test_data_set_0/{kind}_{index}.pb"));
            tenon_import_onnx::read_tensor_pb(path).unwrap().1
        };
        let given = |(index, input): (usize, &tenon_import_onnx::ValueInfo)| {
            let path = write_npy(&scratch, &format!("{index}.npy"), &read("input", index));
            (input.name.clone(), PathBuf::from(path))
        };
        let inputs: Vec<_> = model.graph.inputs.iter().enumerate().map(given).collect();
        let outputs: Vec<_> = model
            .graph
            .outputs
            .iter()
            .enumerate()
            .map(|(index, output)| (output.name.clone(), read("output", index)))
            .collect();
        let half = outputs[0].1.dtype() == tenon_tensor::DType::F16;
        let (absolute, relative) = if half { (1e-3, 4e-3) } else { (1e-5, 1e-4) };
        check(&folder.join("model.onnx"), &inputs, &outputs, absolute, relative);
    }
}

/// A network filled with seeded weights, with inputs and what ONNX Runtime gives for them.
pub(crate) fn filled(name: &str) -> Option<PathBuf> {
    let skeleton = shared()?.join("skeletons").join(format!("{name}.onnx"));
    let fill = shared()?.join("tools/fill_weights.py");
    let python = root().join(".venv/bin/python");
    if !skeleton.is_file() || !fill.is_file() || !python.is_file() {
        return None;
    }
    let folder = root().join("target/filled").join(name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/record.py");
    let output = Command::new(python).arg(script).args([&fill, &skeleton, &folder]).output().ok()?;
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(folder)
}

fn network(name: &str, absolute: f64, relative: f64) {
    let Some(folder) = filled(name) else {
        println!("skipped: {name} cannot be filled here");
        return;
    };
    let named = |prefix: &str| -> Vec<(String, PathBuf)> {
        let names = names_in(&folder).into_iter();
        names
            .filter_map(|file| {
                let name = file.strip_prefix(prefix)?.strip_suffix(".npy")?.to_owned();
                Some((name, folder.join(&file)))
            })
            .collect()
    };
    let expected: Vec<_> =
        named("out.").into_iter().map(|(name, path)| (name, tenon_tensor::read_npy(path).unwrap())).collect();
    assert!(!expected.is_empty());
    check(&folder.join("model.onnx"), &named("in."), &expected, absolute, relative);
    dumps(&folder.join("model.onnx"), &[]);
}

#[test]
fn bert_mini() {
    network("bert_mini", 1e-4, 1e-3);
}

#[test]
fn bert_mini_f16() {
    network("bert_mini_f16", 1e-2, 4e-3);
}

#[test]
fn resnet18() {
    network("resnet18", 1e-4, 1e-3);
}

#[test]
fn resnet18_f16() {
    network("resnet18_f16", 1e-2, 4e-3);
}

#[test]
fn dumps_of_the_model_that_ships() {
    let input = format!("x={}", testdata("models/ppocrv6_det_tiny/x.0.npy"));
    dumps(Path::new(&testdata("models/ppocrv6_det_tiny/model.onnx")), &["--shapes-from-inputs", "--input", &input]);
}

/// Every MLIR dump is accepted by stock `mlir-opt` with Tenon's dialects as plugins; every kernel assembles without spills where ptxas is there.
fn dumps(model: &Path, arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "stages");
    tenon(&[&["lower", model.to_str().unwrap(), "--all", "-o", &out], arguments].concat()).done();
    let mlir_opt = Path::new("/usr/lib/llvm-22/bin/mlir-opt");
    let plugins = [tenon_graph_dialect::PLUGIN, tenon_flow_dialect::PLUGIN, tenon_hw_dialect::PLUGIN];
    let plugins: Vec<_> = plugins.iter().map(|plugin| format!("--load-dialect-plugin={plugin}")).collect();
    let names = names_in(Path::new(&out));
    for name in names.iter().filter(|name| name.ends_with(".mlir") && mlir_opt.is_file()) {
        let output = Command::new(mlir_opt)
            .args(&plugins)
            .arg(Path::new(&out).join(name))
            .args(["-o", "/dev/null"])
            .output()
            .unwrap();
        assert!(output.status.success(), "mlir-opt refuses {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    match names.iter().find(|name| name.starts_with("10-sass")) {
        None => println!("skipped: ptxas and nvdisasm are not there"),
        Some(name) => {
            let text = std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
            let kernels: Vec<_> = text.lines().filter(|line| line.contains(" bytes spilled")).collect();
            assert!(!kernels.is_empty());
            for line in kernels {
                assert!(line.contains(" 0 + 0 bytes spilled"), "{line}");
            }
        }
    }
}
