//! Control flow, sequences and recurrent layers that are known while a model is imported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::suite::{Outcome, run_case};
use crate::common::*;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportOptions, import_loaded};
use tenon_ir::Session;

/// All options of the recurrent layers, against what ONNX Runtime gives; `generate.py` beside the cases says where they are from.
#[test]
fn recurrent_layers_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recurrent");
    let entries = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = entries.filter(|path| path.join("model.onnx").is_file()).collect();
    assert!(folders.len() > 40, "{}", folders.len());
    let wrong: Vec<_> = folders.iter().map(|folder| (folder, run_case(folder, 1e-5, 1e-3))).collect();
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, outcome)| *outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The code and message with which a model is refused when its input `x` has a shape.
fn import_refusal(graph: GraphProto, shape: &[u64]) -> (&'static str, String) {
    let session = Session::new();
    let options =
        ImportOptions { shapes: Some(BTreeMap::from([("x".to_owned(), shape.to_vec())])), ..ImportOptions::default() };
    let error = import_loaded(&session, &read(&model(graph)).unwrap(), "m.onnx", &options).err().unwrap();
    (error.code(), error.to_string())
}

#[test]
fn a_sequence_is_no_tensor() {
    let graph = GraphProto {
        node: vec![node("SequenceConstruct", &["x", "x"], &["both"]), node("Relu", &["both"], &["y"])],
        input: vec![value("x", &[3])],
        output: vec![value("y", &[3])],
        ..GraphProto::default()
    };
    let (code, message) = import_refusal(graph, &[3]);
    assert_eq!(code, "E0140");
    assert!(message.contains("`relu`") && message.contains("`both` is a sequence"), "{message}");
}

fn scalar(name: &str, data_type: DataType, value: i64) -> NodeProto {
    let tensor = match data_type {
        DataType::Bool => TensorProto { int32_data: vec![value as i32], ..TensorProto::default() },
        _ => TensorProto { int64_data: vec![value], ..TensorProto::default() },
    };
    let tensor = TensorProto { data_type: Some(data_type as i32), ..tensor };
    let mut constant = node("Constant", &[], &[name]);
    constant.attribute =
        vec![AttributeProto { t: Some(Box::new(tensor)), ..attribute("value", AttributeType::Tensor) }];
    constant
}

/// `x` doubled `count` times; without a count as long as the condition holds, which is always.
fn doubling(count: Option<i64>) -> GraphProto {
    let untyped = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    let body = GraphProto {
        node: vec![node("Identity", &["c"], &["go"]), node("Add", &["v", "v"], &["next"])],
        input: vec![untyped("i"), untyped("c"), untyped("v")],
        output: vec![untyped("go"), untyped("next")],
        ..GraphProto::default()
    };
    let mut repeat = node("Loop", &[if count.is_some() { "m" } else { "" }, "yes", "x"], &["y"]);
    repeat.attribute = vec![subgraph("body", body)];
    GraphProto {
        node: vec![scalar("m", DataType::Int64, count.unwrap_or(0)), scalar("yes", DataType::Bool, 1), repeat],
        input: vec![value("x", &[3])],
        output: vec![value("y", &[3])],
        ..GraphProto::default()
    }
}

#[test]
fn loops_are_written_out_up_to_a_limit() {
    let session = Session::new();
    for (count, iterations) in [(3, 3), (0, 0), (-5, 0)] {
        let model = read(&model(doubling(Some(count)))).unwrap();
        let imported = import_loaded(&session, &model, "m.onnx", &ImportOptions::default()).unwrap();
        let text = imported.module.op().print(Default::default());
        assert_eq!(text.matches("graph.elementwise add(").count(), iterations, "{text}");
    }
    for count in [Some(1 << 40), None] {
        let (code, message) = import_refusal(doubling(count), &[3]);
        assert_eq!(code, "E0141");
        assert!(message.contains("`loop`"), "{message}");
    }
}

/// Branches and loops that values decide, in the reference interpreter, against what ONNX Runtime gives.
#[test]
fn control_flow_that_values_decide_is_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/control_flow");
    let entries = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = entries.filter(|path| path.join("model.onnx").is_file()).collect();
    assert!(folders.len() >= 15, "{}", folders.len());
    let wrong: Vec<_> = folders.iter().map(|folder| (folder, run_case(folder, 1e-6, 1e-5))).collect();
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, outcome)| *outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A model whose input `x` decides by its sum what runs: the nodes `decided`, for which `positive` is a truth value and `count` a number.
fn deciding(decided: Vec<NodeProto>) -> GraphProto {
    let mut sum = node("ReduceSum", &["x"], &["total"]);
    sum.attribute = vec![int("keepdims", 0)];
    let cast = |to: DataType, name: &str| {
        let mut cast = node("Cast", &["total"], &[name]);
        cast.attribute = vec![int("to", i64::from(to as i32))];
        cast
    };
    let before = vec![sum, cast(DataType::Bool, "positive"), cast(DataType::Int64, "count")];
    GraphProto {
        node: before.into_iter().chain(decided).collect(),
        input: vec![value("x", &[3])],
        output: vec![ValueInfoProto { name: Some("y".to_owned()), ..ValueInfoProto::default() }],
        ..GraphProto::default()
    }
}

fn inner(nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> GraphProto {
    let untyped = |name: &&str| ValueInfoProto { name: Some((*name).to_owned()), ..ValueInfoProto::default() };
    GraphProto {
        node: nodes,
        input: inputs.iter().map(untyped).collect(),
        output: outputs.iter().map(untyped).collect(),
        ..GraphProto::default()
    }
}

#[test]
fn control_flow_without_a_fixed_form_is_refused() {
    let choice = |then: GraphProto, other: GraphProto| {
        let mut choice = node("If", &["positive"], &["y"]);
        choice.attribute = vec![subgraph("then_branch", then), subgraph("else_branch", other)];
        deciding(vec![choice])
    };
    let repeat = |nodes: Vec<NodeProto>, next: &str| {
        let mut repeat = node("Loop", &["count", "", "x"], &["y"]);
        repeat.attribute = vec![subgraph("body", inner(nodes, &["i", "c", "v"], &["c", next]))];
        deciding(vec![repeat])
    };
    let mut axis = node("Unsqueeze", &["x", "zero"], &["u"]);
    axis.name = Some("unsqueeze".to_owned());
    let list = NodeProto { attribute: vec![int("axis", 0)], ..node("Concat", &["v", "v"], &["long"]) };
    let zero = {
        let tensor = TensorProto {
            dims: vec![1],
            data_type: Some(DataType::Int64 as i32),
            int64_data: vec![0],
            ..TensorProto::default()
        };
        let mut constant = node("Constant", &[], &["zero"]);
        constant.attribute =
            vec![AttributeProto { t: Some(Box::new(tensor)), ..attribute("value", AttributeType::Tensor) }];
        constant
    };
    let same = || inner(vec![node("Neg", &["x"], &["n"])], &[], &["n"]);
    for (graph, reason) in [
        (choice(same(), inner(vec![zero, axis], &[], &["u"])), "one branch gives f32[3], the other f32[1, 3]"),
        (
            choice(same(), inner(vec![node("SequenceConstruct", &["x"], &["s"])], &[], &["s"])),
            "a branch gives a sequence",
        ),
        (repeat(vec![list], "long"), "the carried value `v` is f32[3] at first and f32[6] after an iteration"),
        (repeat(vec![node("SequenceConstruct", &["v"], &["s"])], "s"), "an iteration gives a sequence"),
    ] {
        let (code, message) = import_refusal(graph, &[3]);
        assert_eq!(code, "E0145", "{message}");
        assert!(message.contains(reason), "{message}");
    }
}

/// Exporters carry weights through loops; such a value stays a weight, and what is known of it stays known.
#[test]
fn carried_values_that_never_change_stay_outside() {
    let body = inner(
        vec![node("Identity", &["w"], &["w_next"]), node("Mul", &["v", "w"], &["next"])],
        &["i", "c", "v", "w"],
        &["c", "next", "w_next"],
    );
    let mut repeat = node("Loop", &["count", "", "x", "x"], &["y", "same"]);
    repeat.attribute = vec![subgraph("body", body)];
    let session = Session::new();
    let model = read(&model(deciding(vec![repeat]))).unwrap();
    let imported = import_loaded(&session, &model, "m.onnx", &ImportOptions::default()).unwrap();
    let text = imported.module.op().print(Default::default());
    assert!(text.contains("carry(%arg0 : tensor<3xf32>)"), "{text}");
}

/// Exporters give a single element another rank in a branch or after an iteration; the rank that the model declares is meant.
#[test]
fn the_rank_of_a_single_element_is_the_declared_one() {
    let scalar_value = |name: &str| value(name, &[]);
    let list = |input: &str, output: &str| node("Reshape", &[input, "list"], &[output]);
    let constant = |name: &str| {
        let tensor = TensorProto {
            dims: vec![1],
            data_type: Some(DataType::Int64 as i32),
            int64_data: vec![1],
            ..TensorProto::default()
        };
        let mut constant = node("Constant", &[], &[name]);
        constant.attribute =
            vec![AttributeProto { t: Some(Box::new(tensor)), ..attribute("value", AttributeType::Tensor) }];
        constant
    };
    let then = GraphProto { output: vec![scalar_value("n")], ..inner(vec![node("Neg", &["total"], &["n"])], &[], &[]) };
    let other = GraphProto { output: vec![scalar_value("l")], ..inner(vec![list("total", "l")], &[], &[]) };
    let mut choice = node("If", &["positive"], &["chosen"]);
    choice.attribute = vec![subgraph("then_branch", then), subgraph("else_branch", other)];
    let mut body = inner(vec![node("Add", &["v", "v"], &["s"]), list("s", "next")], &["i", "c"], &["c"]);
    body.input.push(scalar_value("v"));
    body.output.push(scalar_value("next"));
    let mut repeat = node("Loop", &["count", "", "chosen"], &["y"]);
    repeat.attribute = vec![subgraph("body", body)];
    let graph = deciding(vec![constant("list"), choice, repeat]);
    let session = Session::new();
    let imported = import_loaded(&session, &read(&model(graph)).unwrap(), "m.onnx", &ImportOptions::default()).unwrap();
    let run = |x: [f32; 3]| {
        let x = tenon_tensor::Tensor::from_f32(vec![3], &x).unwrap();
        tenon_reference::run_function(&imported.module, "main", &[x], &|_| None, tenon_reference::Mode::Typed).unwrap()
    };
    // Sum 2: negated, doubled twice. Sum -1 counts no iteration.
    assert_eq!(run([1.0, 1.0, 0.0]), [tenon_tensor::Tensor::from_f32(Vec::new(), &[-8.0]).unwrap()]);
    assert_eq!(run([-1.0, -1.0, 1.0]), [tenon_tensor::Tensor::from_f32(Vec::new(), &[1.0]).unwrap()]);
}
