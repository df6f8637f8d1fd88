//! Running on a GPU: without one, on a driver over the simulator (`crates/cuda-device/fake-driver`), which computes what the PTX says.

use tenon_fake_cuda_driver::settings::{LOG, SETTINGS};

use crate::*;

/// Runs the command where the fake driver is found, with some settings; gives what came of it, and what the driver wrote down.
fn on_driver(settings: &str, arguments: &[&str]) -> (Outcome, String) {
    let folder = tempfile::tempdir().unwrap();
    tenon_fake_cuda_driver::install(folder.path()).unwrap();
    let (path, log) = (folder.path().to_str().unwrap().to_owned(), file(&folder, "calls"));
    // LLVM may lie where the loader does not look by itself.
    let path = std::env::var("LD_LIBRARY_PATH").map(|more| format!("{path}:{more}")).unwrap_or(path);
    let outcome = tenon_in(&[("LD_LIBRARY_PATH", &path), (SETTINGS, settings), (LOG, &log)], arguments);
    (outcome, std::fs::read_to_string(&log).unwrap_or_default())
}

/// Arguments that run `command/mlp.mlir` on `x`, of three columns.
fn mlp(folder: &tempfile::TempDir, x: &[f32], more: &[&str]) -> Vec<String> {
    let input = write_npy(folder, "x.npy", &Tensor::from_f32(vec![x.len() / 3, 3], x).unwrap());
    let (model, recipe, weights) = (testdata("command/mlp.mlir"), testdata("command/mlp.toml"), mlp_weights(folder));
    let given = format!("x={input}");
    let arguments = ["run", &model, "--recipe", &recipe, "--weights", &weights, "--input", &given];
    arguments.iter().chain(more).map(ToString::to_string).collect()
}

fn slices(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

const X: [f32; 6] = [0.5, -1.0, 2.0, 3.0, 0.25, -0.75];

#[test]
fn a_model_runs_through_the_driver_and_gives_the_right_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "out");
    let arguments = mlp(&folder, &X, &["--device", "cuda", "-o", &out]);
    let (outcome, calls) = on_driver("capability=9.0", &slices(&arguments));
    assert!(outcome.done().contains("launches on cuda:0 (Simulated GPU) in"), "{}", outcome.stdout);
    assert!(calls.contains("cuLaunchKernel") && !calls.contains("WRONG"), "{calls}");
    let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
    for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(run::expected(&X)) {
        assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
    }
    let json = mlp(&folder, &X, &["--device", "cuda:1", "--json"]);
    let (outcome, _) = on_driver("devices=2", &slices(&json));
    let value: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    assert_eq!((value["device"].as_str(), value.get("seed")), (Some("cuda:1 (Simulated GPU)"), None));
}

#[test]
fn sizes_known_at_launch_reach_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let (recipe, out) = (write(&folder, "padded.toml", run::PADDED), file(&folder, "out"));
    let (model, weights) = (testdata("command/mlp.mlir"), mlp_weights(&folder));
    let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![2, 3], &X).unwrap()));
    let arguments =
        ["run", &model, "--recipe", &recipe, "--weights", &weights, "--input", &given, "--device", "cuda", "-o", &out];
    let (outcome, calls) = on_driver("", &arguments);
    assert!(outcome.done().contains("bucket batch=4"), "{}", outcome.stdout);
    // The input has room for four rows, and two are given: only these are uploaded.
    assert!(calls.contains("cuMemAlloc_v2 bytes=48 -> 0") && calls.contains("bytes=24 stream="), "{calls}");
    assert!(!calls.contains("WRONG"), "{calls}");
    let result = tenon_tensor::read_npy(file(&folder, "out/probabilities.npy")).unwrap();
    assert_eq!(result.shape(), [2, 4]);
    for (actual, expected) in result.to_f64_vec().unwrap().iter().zip(run::expected(&X)) {
        assert!((actual - expected).abs() < 1e-6, "{actual} instead of {expected}");
    }
}

#[test]
fn the_model_that_ships_gives_the_same_bits_as_on_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("models/ppocrv6_det_tiny/model.onnx");
    let values: Vec<f32> = (0..3 * 32 * 64).map(|index| (index % 255) as f32 / 127.0 - 1.0).collect();
    let input = Tensor::from_f32(vec![1, 3, 32, 64], &values).unwrap();
    let input = format!("x={}", write_npy(&folder, "x.npy", &input));
    let (left, right) = (file(&folder, "sim"), file(&folder, "cuda"));
    let arguments =
        |device, out| ["run", &model, "--shapes-from-inputs", "--input", &input, "--device", device, "-o", out];
    tenon(&arguments("sim", &left)).done();
    let (outcome, calls) = on_driver("", &arguments("cuda", &right));
    outcome.done();
    assert!(!calls.contains("WRONG"), "{calls}");
    let names = names_in(Path::new(&left));
    assert!(!names.is_empty() && names == names_in(Path::new(&right)));
    for name in names {
        let read = |folder: &str| std::fs::read(Path::new(folder).join(&name)).unwrap();
        assert!(read(&left) == read(&right), "{name} differs");
    }
}

#[test]
fn what_the_device_cannot_do_is_refused_by_code() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |settings: &str, more: &[&str], code: &str| {
        let arguments = mlp(&folder, &X, &[&["--device", "cuda"], more].concat());
        let (outcome, calls) = on_driver(settings, &slices(&arguments));
        assert!(!calls.contains("WRONG"), "{calls}");
        outcome.refused(code).to_owned()
    };
    let text = refused("capability=8.0", &["--target", "sm_90a"], "E0732");
    assert!(text.contains("sm_90a") && text.contains("cuda:0 (Simulated GPU) has compute capability 8.0"), "{text}");
    refused("devices=0", &[], "E0731");
    refused("memory=100", &[], "E0720");
    refused("fail=cuModuleLoadDataEx:1:218", &[], "E0733");
    refused("threads=1", &[], "E0734");
    refused("fail=cuCtxSynchronize:1:700", &[], "E0735");
    refused("fail=cuStreamCreate:1:999", &[], "E0736");
    refused("", &["--counters"], "E0039");
    refused("", &["--seed", "0"], "E0039");
}

#[test]
fn without_a_driver_or_device_the_command_says_so() {
    // With a driver, there is no device of that number.
    let outcome = tenon(&["run", "no-such-file.onnx", "--device", "cuda:4000000"]);
    assert!(outcome.refused("E073").contains("cuda:4000000: "), "{}", outcome.stderr);
    assert_eq!(tenon(&["run", "m.onnx", "--device", "cuda:x"]).status, 2);
}
