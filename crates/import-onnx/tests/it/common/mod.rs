//! Small models, written message by message.
#![allow(dead_code, clippy::unwrap_used)]

pub mod suite;

use std::path::PathBuf;

use bytes::Bytes;
use prost::Message;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportError, Model};

/// A value of type f32; a negative dimension stands for the symbol `n`.
pub fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |&dim: &i64| Dimension {
        value: Some(if dim < 0 { dimension::Value::DimParam("n".to_owned()) } else { dimension::Value::DimValue(dim) }),
        ..Dimension::default()
    };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(DataType::Float as i32), shape: Some(shape) };
    let value_type = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(value_type), ..ValueInfoProto::default() }
}

/// A node called `op_type` in lower case.
pub fn node(op_type: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        name: Some(op_type.to_lowercase()),
        op_type: Some(op_type.to_owned()),
        input: owned(inputs),
        output: owned(outputs),
        ..NodeProto::default()
    }
}

/// An f32 tensor of ones with raw data.
pub fn ones(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::Float as i32),
        raw_data: Some(Bytes::from(1f32.to_le_bytes().repeat(count as usize))),
        ..TensorProto::default()
    }
}

pub fn attribute(name: &str, attribute_type: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(attribute_type as i32), ..AttributeProto::default() }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { i: Some(i), ..attribute(name, AttributeType::Int) }
}

pub fn subgraph(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(Box::new(graph)), ..attribute(name, AttributeType::Graph) }
}

/// A reference to an attribute of the function around it.
pub fn reference(name: &str, attribute_type: AttributeType, to: &str) -> AttributeProto {
    AttributeProto { ref_attr_name: Some(to.to_owned()), ..attribute(name, attribute_type) }
}

pub fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

/// A model of a graph, at operator set 17.
pub fn model(graph: GraphProto) -> ModelProto {
    ModelProto { ir_version: Some(10), opset_import: vec![opset("", 17)], graph: Some(graph), ..ModelProto::default() }
}

/// x → Add w → Relu → y, with the nodes in the wrong order and a weight.
pub fn small_graph() -> GraphProto {
    GraphProto {
        name: Some("g".to_owned()),
        node: vec![node("Relu", &["sum"], &["y"]), node("Add", &["x", "w"], &["sum"])],
        input: vec![value("x", &[-1, 3])],
        output: vec![value("y", &[-1, 3])],
        initializer: vec![ones("w", &[3])],
        value_info: vec![value("sum", &[-1, 3])],
        ..GraphProto::default()
    }
}

/// A model with every kind of part: attributes, a subgraph, a function, metadata.
pub fn rich_model() -> ModelProto {
    let branch = |op: &str| GraphProto {
        node: vec![node(op, &["sum"], &["inner"])],
        output: vec![value("inner", &[-1, 3])],
        ..GraphProto::default()
    };
    let mut choice = node("If", &["c"], &["chosen"]);
    choice.attribute = vec![subgraph("then_branch", branch("Relu")), subgraph("else_branch", branch("Neg"))];
    let mut constant = node("Constant", &[], &["c"]);
    let flag = TensorProto { data_type: Some(DataType::Bool as i32), int32_data: vec![1], ..TensorProto::default() };
    constant.attribute = vec![AttributeProto { t: Some(Box::new(flag)), ..attribute("value", AttributeType::Tensor) }];
    let mut call = node("Twice", &["chosen"], &["y"]);
    call.domain = Some("local".to_owned());
    call.attribute = vec![int("axis", 1)];
    let mut graph = small_graph();
    graph.node = vec![node("Add", &["x", "w"], &["sum"]), constant, choice, call];
    let mut softmax = node("Softmax", &["a"], &["t"]);
    softmax.attribute = vec![reference("axis", AttributeType::Int, "axis")];
    let function = FunctionProto {
        name: Some("Twice".to_owned()),
        domain: Some("local".to_owned()),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        attribute: vec!["axis".to_owned()],
        node: vec![softmax, node("Add", &["t", "t"], &["b"])],
        opset_import: vec![opset("", 17)],
        ..FunctionProto::default()
    };
    let mut proto = model(graph);
    proto.opset_import.push(opset("local", 1));
    proto.functions.push(function);
    proto.producer_name = Some("by hand".to_owned());
    proto.metadata_props =
        vec![StringStringEntryProto { key: Some("author".to_owned()), value: Some("nobody".to_owned()) }];
    proto
}

/// Encodes and reads back, so that what is tested is what a file would give.
pub fn read(proto: &ModelProto) -> Result<Model, ImportError> {
    Model::decode(Bytes::from(proto.encode_to_vec()), None)
}

/// The code with which a model is refused, and the message.
pub fn refusal(proto: &ModelProto) -> (&'static str, String) {
    let error = read(proto).expect_err("the model is refused");
    (error.code(), error.to_string())
}

/// The folder with real models, or `None` with a note when it is absent.
pub fn real_models() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("TENON_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} does not exist", folder.display());
    None
}
