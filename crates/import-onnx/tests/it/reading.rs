//! What a model looks like once it is read.

use crate::common::*;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::{AttributeProto, FunctionProto, GraphProto, ValueInfoProto};
use tenon_import_onnx::{AttributeValue, Dim, Graph, Node};
use tenon_tensor::DType;

fn operators(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(Node::op_type).collect()
}

#[test]
fn nodes_come_in_topological_order() {
    let model = read(&model(small_graph())).unwrap();
    assert_eq!(operators(&model.graph), ["Add", "Relu"]);
    assert_eq!(model.graph.nodes[0].site.index, 1, "the site keeps the position in the file");
    assert_eq!(model.graph.nodes[0].version, 17);
    assert_eq!(model.graph.initializers["w"].to_f32_vec().unwrap(), [1.0; 3]);
    let input = model.graph.inputs[0].tensor().unwrap();
    assert_eq!(input.dtype, DType::F32);
    assert_eq!(input.dims, Some(vec![Dim::Symbol("n".to_owned()), Dim::Fixed(3)]));
    assert!(model.graph.value_info.contains_key("sum"));
}

#[test]
fn the_order_is_stable() {
    let mut graph = small_graph();
    graph.node = (0..50).map(|i| node("Relu", &["x"], &[&format!("r{i}")])).collect();
    graph.node.insert(0, node("Sum", &["r49", "r0"], &["y"]));
    let model = read(&model(graph)).unwrap();
    let order: Vec<usize> = model.graph.nodes.iter().map(|node| node.site.index).collect();
    assert_eq!(order, (1..=50).chain([0]).collect::<Vec<_>>());
}

#[test]
fn inputs_with_initializers_are_constants() {
    let mut graph = small_graph();
    graph.input.push(value("w", &[3]));
    let model = read(&model(graph)).unwrap();
    assert_eq!(model.graph.inputs.len(), 1);
    assert_eq!(model.graph.defaulted_inputs[0].name, "w");
}

#[test]
fn empty_names_are_absent_values() {
    let mut graph = small_graph();
    graph.node = vec![node("Clip", &["x", "", "w"], &["y", ""])];
    let model = read(&model(graph)).unwrap();
    let clip = &model.graph.nodes[0];
    assert_eq!((clip.input(0), clip.input(1), clip.input(2), clip.input(3)), (Some("x"), None, Some("w"), None));
    assert_eq!((clip.output(0), clip.output(1)), (Some("y"), None));
}

#[test]
fn subgraphs_capture_and_shadow() {
    let model = read(&rich_model()).unwrap();
    let choice = model.graph.nodes.iter().find(|node| node.op_type() == "If").unwrap();
    assert_eq!(choice.captures, ["sum"]);
    let branch = choice.graph("then_branch").unwrap().unwrap();
    assert_eq!(branch.captures, ["sum"]);
    assert!(branch.nodes[0].site.to_string().contains("`then_branch` of node `if` (If, number 2)"));

    // The same name inside is another value, so the node does not wait for the outer one.
    let mut proto = rich_model();
    let graph = proto.graph.as_mut().unwrap();
    let inner = graph.node[2].attribute[0].g.as_mut().unwrap();
    inner.node = vec![node("Relu", &["x"], &["sum"]), node("Neg", &["sum"], &["inner"])];
    let model = read(&proto).unwrap();
    let choice = model.graph.nodes.iter().find(|node| node.op_type() == "If").unwrap();
    assert_eq!(choice.graph("then_branch").unwrap().unwrap().captures, ["x"]);
    assert_eq!(choice.captures, ["x", "sum"], "the other branch still uses the outer one");
}

#[test]
fn a_node_waits_for_what_its_subgraph_captures() {
    let mut proto = rich_model();
    proto.graph.as_mut().unwrap().node.reverse();
    let model = read(&proto).unwrap();
    assert_eq!(operators(&model.graph), ["Constant", "Add", "If", "Softmax", "Add"]);
}

#[test]
fn functions_are_inlined() {
    let mut proto = rich_model();
    let graph = proto.graph.as_mut().unwrap();
    graph.node[3].output = vec!["half".to_owned()];
    let mut again = graph.node[3].clone();
    (again.input, again.output) = (vec!["half".to_owned()], vec!["y".to_owned()]);
    again.attribute.clear();
    graph.node.push(again);
    proto.functions[0].opset_import = vec![opset("", 13)];
    let model = read(&proto).unwrap();
    assert_eq!(operators(&model.graph), ["Add", "Constant", "If", "Softmax", "Add", "Softmax", "Add"]);
    let [first, first_sum, second, second_sum] = &model.graph.nodes[3..] else { panic!("two calls of two nodes") };
    assert_eq!(first.input(0), Some("chosen"));
    assert_eq!(first_sum.inputs, [first.outputs[0].clone(), first.outputs[0].clone()]);
    assert_eq!(first_sum.output(0), Some("half"));
    assert_eq!((second.input(0), second_sum.output(0)), (Some("half"), Some("y")));
    assert_ne!(first.outputs, second.outputs, "each call has names of its own");
    assert_eq!((first.version, model.graph.nodes[0].version), (13, 17));
    assert_eq!(first.int("axis").unwrap(), Some(1));
    assert_eq!(second.int("axis").unwrap(), None, "an attribute that is not given is absent");
    assert!(first.site.to_string().contains("in function `Twice` called by node `twice` (local::Twice, number 3)"));
}

#[test]
fn function_defaults_and_inputs_handed_through() {
    let mut proto = rich_model();
    let function: &mut FunctionProto = &mut proto.functions[0];
    function.attribute.clear();
    function.attribute_proto = vec![int("axis", 2)];
    function.output.push("a".to_owned());
    let graph = proto.graph.as_mut().unwrap();
    graph.node[3].attribute.clear();
    graph.node[3].output.push("same".to_owned());
    graph.output.push(value("same", &[-1, 3]));
    let model = read(&proto).unwrap();
    let softmax = model.graph.nodes.iter().find(|node| node.op_type() == "Softmax").unwrap();
    assert_eq!(softmax.int("axis").unwrap(), Some(2));
    let identity = model.graph.nodes.iter().find(|node| node.op_type() == "Identity").unwrap();
    assert_eq!((identity.input(0), identity.output(0)), (Some("chosen"), Some("same")));
}

#[test]
fn subgraphs_inside_functions_see_the_functions_names() {
    let mut proto = rich_model();
    let branch =
        GraphProto { node: vec![node("Relu", &["t"], &["r"])], output: vec![value("r", &[])], ..GraphProto::default() };
    let mut choice = node("If", &["a"], &["b"]);
    choice.attribute = vec![subgraph("then_branch", branch)];
    proto.functions[0].node[1] = choice;
    let model = read(&proto).unwrap();
    let choice = model.graph.nodes.last().unwrap();
    assert_eq!(choice.input(0), Some("chosen"));
    assert_eq!(choice.captures.len(), 1);
    let softmax = model.graph.nodes.iter().find(|node| node.op_type() == "Softmax").unwrap();
    assert_eq!(Some(choice.captures[0].as_str()), softmax.output(0));
}

#[test]
fn attributes_are_typed_and_counted() {
    let mut graph = small_graph();
    let mut many = node("Many", &["x"], &["y"]);
    many.attribute = vec![
        int("i", 5),
        int("flag", 1),
        AttributeProto { f: Some(0.5), ..attribute("f", AttributeType::Float) },
        AttributeProto { s: Some("text".into()), ..attribute("s", AttributeType::String) },
        AttributeProto { ints: vec![1, 2], ..attribute("ints", AttributeType::Ints) },
        AttributeProto { floats: vec![1.0, 2.0], ..attribute("floats", AttributeType::Floats) },
        AttributeProto { strings: vec!["a".into()], ..attribute("strings", AttributeType::Strings) },
        AttributeProto { t: Some(Box::new(ones("", &[2]))), ..attribute("t", AttributeType::Tensor) },
        // Protobuf 3 leaves out what is zero.
        attribute("zero", AttributeType::Int),
        AttributeProto { s: Some(vec![0xff].into()), ..attribute("bytes", AttributeType::String) },
    ];
    graph.node = vec![many];
    let model = read(&model(graph)).unwrap();
    let node = &model.graph.nodes[0];
    assert_eq!(node.int("i").unwrap(), Some(5));
    assert!(node.flag_or("flag", false).unwrap());
    assert_eq!(node.float_or("f", 1.0).unwrap(), 0.5);
    assert_eq!(node.string("s").unwrap(), Some("text"));
    assert_eq!(node.ints("ints").unwrap(), Some(&[1, 2][..]));
    assert_eq!(node.floats("floats").unwrap(), Some(&[1.0, 2.0][..]));
    assert_eq!(node.strings("strings").unwrap(), Some(vec!["a"]));
    assert_eq!(node.tensor("t").unwrap().unwrap().shape(), [2]);
    assert_eq!(node.int_or("absent", 7).unwrap(), 7);
    assert_eq!(node.required("i", node.int("i").unwrap()).unwrap(), 5);

    let error = node.finish_attributes().unwrap_err();
    assert_eq!(error.code(), "E0117");
    assert_eq!(error.to_string(), "node `many` (Many, number 0): the operator has no attribute `zero`");
    assert_eq!(node.int("zero").unwrap(), Some(0));
    let not_text = node.string("bytes").unwrap_err();
    assert_eq!(not_text.code(), "E0116");
    assert!(node.finish_attributes().is_ok(), "everything was read");

    let wrong = node.float("i").unwrap_err();
    assert_eq!(wrong.code(), "E0116");
    assert!(wrong.to_string().contains("`i` must be a float, but is an integer"), "{wrong}");
    assert_eq!(node.required::<i64>("k", None).unwrap_err().code(), "E0116");
    assert_eq!(node.flag_or("i", false).unwrap_err().code(), "E0116");
    assert!(node.attributes.iter().any(|(name, value)| name == "f" && matches!(value, AttributeValue::Float(_))));
}

#[test]
fn values_need_no_declared_type_until_one_is_asked_for() {
    let mut graph = small_graph();
    graph.input[0] = ValueInfoProto { name: Some("x".to_owned()), ..ValueInfoProto::default() };
    let model = read(&model(graph)).unwrap();
    let error = model.graph.inputs[0].tensor().unwrap_err();
    assert_eq!(error.code(), "E0118");
    assert!(error.help().is_some());
}

#[test]
fn the_other_spelling_of_the_domain_is_the_same_domain() {
    let mut proto = model(small_graph());
    proto.opset_import = vec![opset("ai.onnx", 12)];
    proto.graph.as_mut().unwrap().node[0].domain = Some("ai.onnx".to_owned());
    let model = read(&proto).unwrap();
    assert!(model.graph.nodes.iter().all(|node| node.domain().is_empty() && node.version == 12));
    assert_eq!(model.opsets.iter().collect::<Vec<_>>(), [("", 12)]);
}

#[test]
fn properties_are_kept() {
    let model = read(&rich_model()).unwrap();
    assert_eq!(model.producer, "by hand");
    assert_eq!(model.metadata, [("author".to_owned(), "nobody".to_owned())]);
}
