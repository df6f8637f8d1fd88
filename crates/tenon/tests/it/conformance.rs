//! The conformance command: on a small tree made here, and on the ONNX backend tests.

use std::process::Stdio;

use prost::Message;
use tenon_import_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use tenon_import_onnx::proto::*;

use crate::models::{root, shared};
use crate::*;

fn tensor(name: &str, values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![values.len() as i64],
        data_type: Some(tensor_proto::DataType::Float as i32),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// A case with one node from `x` to `y`, whose shape is not declared.
fn add_case(tree: &Path, name: &str, operator: &str, x: &[f32], y: &[f32]) {
    let value = |name: &str| {
        let dim = Dimension { value: Some(dimension::Value::DimParam("n".to_owned())), ..Dimension::default() };
        let shape = TensorShapeProto { dim: vec![dim] };
        let ty = type_proto::Tensor { elem_type: Some(tensor_proto::DataType::Float as i32), shape: Some(shape) };
        let ty = TypeProto { value: Some(type_proto::Value::TensorType(ty)), ..TypeProto::default() };
        ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
    };
    let node = NodeProto {
        op_type: Some(operator.to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![node],
        input: vec![value("x")],
        output: vec![value("y")],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: None, version: Some(17) };
    let model =
        ModelProto { ir_version: Some(10), opset_import: vec![opset], graph: Some(graph), ..ModelProto::default() };
    let set = tree.join(name).join("test_data_set_0");
    std::fs::create_dir_all(&set).unwrap();
    std::fs::write(tree.join(name).join("model.onnx"), model.encode_to_vec()).unwrap();
    std::fs::write(set.join("input_0.pb"), tensor("x", x).encode_to_vec()).unwrap();
    std::fs::write(set.join("output_0.pb"), tensor("y", y).encode_to_vec()).unwrap();
}

/// Two cases that pass, one that is refused.
fn small_tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("node");
    add_case(&tree, "test_abs", "Abs", &[-1.0, 2.0], &[1.0, 2.0]);
    add_case(&tree, "test_abs_expanded", "Relu", &[-1.0, 2.0], &[0.0, 2.0]);
    add_case(&tree, "test_nothing", "Nothing", &[1.0], &[1.0]);
    folder
}

fn conformance(folder: &tempfile::TempDir, arguments: &[&str]) -> Outcome {
    tenon(&[&["conformance", "onnx", folder.path().to_str().unwrap(), "--jobs", "1"], arguments].concat())
}

#[test]
fn results_are_counted_by_operator_and_as_json() {
    let tree = small_tree();
    let outcome = conformance(&tree, &[]);
    let text = outcome.done();
    // The expanded case is about the operator that was expanded.
    assert!(text.contains("Abs       2       0       0"), "{text}");
    assert!(text.contains("refused by code: E0130 1\n"), "{text}");
    assert!(text.ends_with("2 passed, 0 failed, 1 refused on a100-sxm4-80gb\n"), "{text}");
    let value: serde_json::Value =
        serde_json::from_str(conformance(&tree, &["--json", "--target", "sm_70"]).done()).unwrap();
    assert_eq!(
        (value["passed"].as_u64(), value["failed"].as_u64(), value["refused"].as_u64()),
        (Some(2), Some(0), Some(1))
    );
    let expected = serde_json::json!({
        "name": "test_abs", "operator": "Abs", "outcome": "passed", "code": null, "detail": null
    });
    assert_eq!(value["cases"][0], expected);
    assert_eq!((&value["cases"][2]["outcome"], &value["cases"][2]["code"]), (&"refused".into(), &"E0130".into()));
    assert!(value["cases"][2]["detail"].as_str().unwrap().contains("Nothing"));

    let one = conformance(&tree, &["--filter", "expanded$"]);
    assert!(one.done().ends_with("1 passed, 0 failed, 0 refused on a100-sxm4-80gb\n"), "{}", one.stdout);
    let some: serde_json::Value =
        serde_json::from_str(conformance(&tree, &["--json", "--sample", "2", "--seed", "5"]).done()).unwrap();
    assert_eq!(some["cases"].as_array().unwrap().len(), 2);
    conformance(&tree, &["--filter", "no such"]).refused("E0040");
    conformance(&tree, &["--target", "sm_1"]).refused("E0600");
    assert_eq!(conformance(&tree, &["--filter", "("]).status, 2);
    assert_eq!(conformance(&tree, &["--bless"]).status, 2);
    tenon(&["conformance", "onnx", "no-such-folder"]).refused("E0001");
}

/// Results are printed whatever was expected; the exit status and the error say that they are not.
#[track_caller]
fn deviates(outcome: &Outcome, reason: &str) {
    assert_eq!(outcome.status, 1, "{}", outcome.stdout);
    assert!(outcome.stderr.contains("E0041") && outcome.stderr.contains(reason), "{}", outcome.stderr);
    assert!(outcome.stdout.contains(" passed, "), "{}", outcome.stdout);
}

#[test]
fn results_that_are_not_expected_fail() {
    let tree = small_tree();
    let list = file(&tree, "list.txt");
    let run = |arguments: &[&str]| conformance(&tree, &[&["--expect", list.as_str()], arguments].concat());
    run(&[]).refused("E0001");
    run(&["--bless"]).done();
    let text = std::fs::read_to_string(&list).unwrap();
    assert!(text.ends_with("test_abs passed\ntest_abs_expanded passed\ntest_nothing refused E0130\n"), "{text}");
    run(&[]).done();

    std::fs::write(&list, text.replace("test_abs passed", "test_abs refused E0501")).unwrap();
    deviates(&run(&[]), "test_abs: passed, expected refused E0501");
    deviates(&run(&["--filter", "abs"]), "1 case is not as expected");
    run(&["--filter", "nothing"]).done();
    std::fs::write(&list, format!("{text}test_gone passed\n")).unwrap();
    deviates(&run(&[]), "test_gone: not there, expected passed");
    std::fs::write(&list, "test_abs failed\n").unwrap();
    run(&[]).refused("E0042");

    // A wrong value is not expected, whatever is blessed.
    add_case(&tree.path().join("node"), "test_abs_wrong", "Abs", &[-1.0, 2.0], &[1.0, 2.1]);
    std::fs::write(&list, &text).unwrap();
    deviates(
        &run(&[]),
        "test_abs_wrong: failed, not listed: test_data_set_0: output y: 1 of 2 elements differ; element 1 is 2",
    );
    deviates(&run(&["--bless"]), "test_abs_wrong: failed");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), text);
    deviates(&conformance(&tree, &[]), "test_abs_wrong: failed");
}

/// The suite as files: the folder that `TENON_ONNX_SUITE` names, else what the Python of `.venv` generates, else the archive among the
/// outside material.
fn suite() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("TENON_ONNX_SUITE") {
        return Some(PathBuf::from(folder));
    }
    let folder = root().join("target/onnx-suite");
    if folder.is_dir() {
        return Some(folder);
    }
    // Made elsewhere and moved, since other tests look for it too.
    std::fs::create_dir_all(root().join("target")).unwrap();
    let scratch = tempfile::tempdir_in(root().join("target")).unwrap();
    let made = scratch.path().join("suite");
    std::fs::create_dir(&made).unwrap();
    let quietly = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/generate_suite.py");
    let is_generated = quietly(Command::new(root().join(".venv/bin/python")).arg(script).arg(&made));
    let unpack = || {
        let archive = std::fs::read_dir(shared()?.join("conformance")).ok()?.find_map(|entry| {
            let path = entry.ok()?.path();
            path.to_str()?.ends_with(".tar.zst").then_some(path)
        })?;
        quietly(Command::new("tar").arg("--zstd").arg("-xf").arg(archive).arg("-C").arg(&made)).then_some(())
    };
    if !is_generated && unpack().is_none() {
        return None;
    }
    // Fails if another test was first, whose folder is as good.
    let _ = std::fs::rename(&made, &folder);
    Some(folder)
}

/// Runs the suite, or a sample of it, against the list of expected results, which `cargo xtask bless` rewrites.
fn run_suite(target: &str, arguments: &[&str]) {
    let Some(suite) = suite() else {
        println!("skipped: neither TENON_ONNX_SUITE nor .venv has the ONNX backend tests");
        return;
    };
    let list = testdata("conformance/onnx.txt");
    let mut all = vec!["conformance", "onnx", suite.to_str().unwrap(), "--target", target, "--expect", &list];
    all.extend(arguments);
    let outcome = tenon(&all);
    println!("{}", outcome.stdout);
    outcome.done();
}

#[test]
fn the_onnx_suite_gives_what_is_expected() {
    let is_blessed = std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always");
    run_suite("sm_80", if is_blessed { &["--bless"] } else { &[] });
}

#[test]
fn other_targets_agree_on_a_sample() {
    for (target, seed) in
        [("sm_70", "1"), ("sm_75", "2"), ("sm_89", "3"), ("sm_90a", "4"), ("sm_100a", "5"), ("sm_120a", "6")]
    {
        run_suite(target, &["--sample", "150", "--seed", seed]);
    }
}

/// Recurrent layers with all their options through PTX, as ONNX Runtime computes them.
#[test]
fn recurrent_layers_give_what_onnx_runtime_gives() {
    let outcome = tenon(&["conformance", "onnx", &testdata("recurrent"), "--target", "sm_80"]);
    assert!(outcome.done().contains(" 0 failed, 0 refused"), "{}", outcome.stdout);
}
