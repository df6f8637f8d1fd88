//! Each code, triggered by a model; the message names the part at fault.

use crate::common::*;
use bytes::Bytes;
use tenon_import_onnx::Model;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::*;

/// A refusal of the small model after a change.
fn changed(change: impl FnOnce(&mut GraphProto)) -> (&'static str, String) {
    let mut graph = small_graph();
    change(&mut graph);
    refusal(&model(graph))
}

#[track_caller]
fn assert_refused(refusal: (&'static str, String), code: &str, words: &str) {
    assert_eq!(refusal.0, code, "{}", refusal.1);
    assert!(refusal.1.contains(words), "{}", refusal.1);
}

#[test]
fn files() {
    let error = Model::load("no/such/model.onnx").unwrap_err();
    assert_eq!(error.code(), "E0100");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Model::load(folder.path()).unwrap_err().code(), "E0100", "a folder is no file");
    for bytes in [&b"not a model"[..], &[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0x3a, 0x02, 0x0a]] {
        assert_eq!(Model::decode(Bytes::from_static(bytes), None).unwrap_err().code(), "E0101");
    }
    assert_eq!(Model::decode(Bytes::new(), None).unwrap_err().code(), "E0102");
}

#[test]
fn names_that_are_not_utf8_name_the_node() {
    let mut bytes = prost::Message::encode_to_vec(&model(small_graph()));
    let position = bytes.windows(3).position(|window| window == b"Add").unwrap();
    bytes[position] = 0xff;
    let error = Model::decode(Bytes::from(bytes), None).unwrap_err();
    assert_eq!(error.code(), "E0101");
    assert!(error.to_string().contains("node number 1 (\"add\""), "{error}");
}

#[test]
fn versions() {
    let with_opsets = |opsets: Vec<OperatorSetIdProto>| {
        let mut proto = model(small_graph());
        proto.opset_import = opsets;
        refusal(&proto)
    };
    for version in [i64::MIN, 0, 29, i64::MAX] {
        assert_refused(with_opsets(vec![opset("", version)]), "E0104", "versions 1 to 28");
    }
    assert_refused(with_opsets(vec![]), "E0104", "imports no operator set");
    assert_refused(with_opsets(vec![opset("", 17), opset("ai.onnx", 16)]), "E0104", "two versions");
    assert_refused(with_opsets(vec![opset("custom", 0)]), "E0104", "`custom`");
    assert_refused(with_opsets(vec![opset("custom", 1)]), "E0122", "node `relu` (Relu, number 0)");
    for version in [None, Some(2), Some(15)] {
        let mut proto = model(small_graph());
        proto.ir_version = version;
        assert_refused(refusal(&proto), "E0103", "IR version");
    }
}

#[test]
fn tensors() {
    assert_refused(changed(|graph| graph.initializer[0].data_type = Some(8)), "E0105", "initializer `w`");
    assert_refused(changed(|graph| graph.initializer[0].dims = vec![1 << 62]), "E0106", "initializer `w`");
    assert_refused(changed(|graph| graph.initializer[0].dims = vec![1 << 58]), "E0107", "initializer `w`");
    assert_refused(changed(|graph| graph.initializer[0].dims = vec![-3]), "E0106", "[-3]");
    assert_refused(changed(|graph| graph.initializer[0].raw_data = None), "E0107", "has no data");
    assert_refused(changed(|graph| graph.input[0] = value("x", &[1 << 62])), "E0106", "value `x`");
    let in_attribute = changed(|graph| {
        let tensor = TensorProto { dims: vec![5], ..ones("", &[4]) };
        graph.node[0].attribute =
            vec![AttributeProto { t: Some(Box::new(tensor)), ..attribute("value", AttributeType::Tensor) }];
    });
    assert_refused(in_attribute, "E0107", "attribute `value` of node `relu` (Relu, number 0)");
}

#[test]
fn names() {
    assert_refused(changed(|graph| graph.input[0].name = None), "E0110", "an input of the graph");
    assert_refused(changed(|graph| graph.output[0].name = Some(String::new())), "E0110", "an output of the graph");
    assert_refused(changed(|graph| graph.initializer[0].name = None), "E0110", "an initializer");
    assert_refused(changed(|graph| graph.node[1].op_type = None), "E0123", "node number 1 (`add`)");
    let twice = |change: fn(&mut GraphProto)| assert_refused(changed(change), "E0111", "defined already");
    twice(|graph| graph.node[0].output[0] = "x".to_owned());
    twice(|graph| graph.node[0].output[0] = "w".to_owned());
    twice(|graph| graph.node[0].output = vec!["y".to_owned(), "y".to_owned()]);
    twice(|graph| graph.node.push(node("Neg", &["x"], &["y"])));
    twice(|graph| graph.input.push(value("x", &[])));
    twice(|graph| graph.initializer.push(ones("w", &[1])));
    twice(|graph| graph.output.push(value("y", &[])));
    assert_refused(
        changed(|graph| graph.node[1].input[1] = "v".to_owned()),
        "E0112",
        "node `add` (Add, number 1) uses `v`",
    );
    assert_refused(changed(|graph| graph.output[0] = value("z", &[])), "E0112", "an output of the graph uses `z`");
    let mut proto = rich_model();
    proto.graph.as_mut().unwrap().node[2].attribute[1].g.as_mut().unwrap().node[0].input[0] = "v".to_owned();
    assert_refused(refusal(&proto), "E0112", "in `else_branch` of node `if` (If, number 2)");
}

#[test]
fn long_and_strange_names_fit_a_message() {
    let refusal = changed(|graph| graph.node[1].input[1] = "\u{1b}[31m".repeat(100_000));
    assert_eq!(refusal.0, "E0112");
    assert!(refusal.1.len() < 2000 && !refusal.1.contains('\u{1b}'), "{}", refusal.1);
}

#[test]
fn cycles() {
    let cyclic = changed(|graph| graph.node[1].input[1] = "y".to_owned());
    assert_refused(cyclic, "E0113", "node `relu` (Relu, number 0) needs node `add` (Add, number 1) needs node `relu`");
    assert_refused(changed(|graph| graph.node[1].input[1] = "sum".to_owned()), "E0113", "add");
    let mut proto = rich_model();
    proto.graph.as_mut().unwrap().node[2].attribute[0].g.as_mut().unwrap().node[0].input[0] = "chosen".to_owned();
    assert_refused(refusal(&proto), "E0113", "`if`");
    let long = changed(|graph| {
        graph.node.extend((0..10_000).map(|i| node("Neg", &[&format!("c{i}")], &[&format!("c{}", (i + 1) % 10_000)])));
    });
    assert_refused(long, "E0113", "further nodes");
}

#[test]
fn depth() {
    let nest = |depth: usize| {
        let mut graph = small_graph();
        for _ in 0..depth {
            let mut outer = node("If", &["x"], &["y"]);
            outer.attribute = vec![subgraph("then_branch", graph)];
            graph = GraphProto { node: vec![outer], output: vec![value("y", &[])], ..GraphProto::default() };
        }
        graph.input = vec![value("x", &[])];
        model(graph)
    };
    // Past the builder's limit, which files cannot reach: messages are bounded before.
    assert_eq!(Model::from_proto(nest(33), None).unwrap_err().code(), "E0114");
    assert_refused(refusal(&nest(33)), "E0114", "deep");
    assert!(read(&nest(20)).is_ok());
}

#[test]
fn attributes() {
    let with = |attributes: Vec<AttributeProto>| changed(|graph| graph.node[0].attribute = attributes);
    let node = "node `relu` (Relu, number 0)";
    assert_refused(with(vec![AttributeProto::default()]), "E0115", node);
    assert_refused(with(vec![int("a", 1), int("a", 2)]), "E0115", "given twice");
    for empty in [AttributeType::Tensor, AttributeType::Graph, AttributeType::TypeProto] {
        assert_refused(with(vec![attribute("a", empty)]), "E0115", "holds none");
    }
    assert_refused(with(vec![attribute("a", AttributeType::Undefined)]), "E0115", "no type");
    assert_refused(with(vec![AttributeProto { r#type: Some(99), ..int("a", 1) }]), "E0115", "unknown");
    assert_refused(with(vec![reference("a", AttributeType::Int, "b")]), "E0115", "outside functions");
}

#[test]
fn parts_that_are_not_read() {
    let sparse = changed(|graph| graph.sparse_initializer.push(SparseTensorProto::default()));
    assert_refused(sparse, "E0119", "sparse");
    let model = read(&model({
        let mut graph = small_graph();
        graph.node[0].attribute = vec![attribute("sparse_value", AttributeType::SparseTensor)];
        graph
    }))
    .unwrap();
    let relu = model.graph.nodes.last().unwrap();
    assert_eq!(relu.tensor("sparse_value").unwrap_err().code(), "E0116");
}

#[test]
fn functions() {
    let with = |change: fn(&mut ModelProto)| {
        let mut proto = rich_model();
        change(&mut proto);
        refusal(&proto)
    };
    let recursive = with(|proto| {
        let mut call = node("Twice", &["a"], &["b"]);
        call.domain = Some("local".to_owned());
        proto.functions[0].node = vec![call];
    });
    assert_refused(recursive, "E0120", "function `Twice`: it calls itself");
    let crowded = with(|proto| proto.graph.as_mut().unwrap().node[3].input = vec!["x".to_owned(), "x".to_owned()]);
    assert_refused(crowded, "E0120", "it has 1 inputs and 1 outputs");
    assert_refused(with(|proto| proto.functions[0].input = vec!["a".to_owned(); 2]), "E0120", "repeated");
    assert_refused(with(|proto| proto.functions[0].output = vec!["b".to_owned(); 2]), "E0120", "repeated");
    let graph_given = with(|proto| {
        let call = &mut proto.graph.as_mut().unwrap().node[3];
        call.attribute = vec![subgraph("axis", GraphProto::default())];
    });
    assert_refused(graph_given, "E0120", "gives it a graph");
    let unknown = with(|proto| proto.graph.as_mut().unwrap().node[3].attribute = vec![int("other", 1)]);
    assert_refused(unknown, "E0117", "node `twice` (local::Twice, number 3)");
    assert_refused(with(|proto| proto.functions[0].opset_import.clear()), "E0104", "function `Twice`");
    assert_refused(with(|proto| proto.functions[0].name = None), "E0110", "a function");
    assert_refused(with(|proto| proto.functions.push(proto.functions[0].clone())), "E0111", "a function");
    assert_refused(with(|proto| proto.functions[0].node[1].input[0] = "q".to_owned()), "E0112", "q");
}

/// Each function calls the next ten times: 10¹⁰ nodes from a file of a few kilobytes.
#[test]
fn expansion_is_bounded() {
    let mut proto = model(small_graph());
    proto.opset_import.push(opset("local", 1));
    let call = |level: usize, output: &str| NodeProto {
        domain: Some("local".to_owned()),
        ..node(&format!("F{level}"), &["x"], &[output])
    };
    proto.functions = (0..10)
        .map(|level| FunctionProto {
            name: Some(format!("F{level}")),
            domain: Some("local".to_owned()),
            input: vec!["x".to_owned()],
            output: vec!["y0".to_owned()],
            node: (0..10)
                .map(|i| {
                    let output = format!("y{i}");
                    if level == 9 { node("Neg", &["x"], &[&output]) } else { call(level + 1, &output) }
                })
                .collect(),
            opset_import: vec![opset("", 17)],
            ..FunctionProto::default()
        })
        .collect();
    proto.graph.as_mut().unwrap().node[1] = call(0, "sum");
    assert_eq!(refusal(&proto).0, "E0121");
}

#[test]
fn every_code_has_a_page_and_help() {
    let pages = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in 100..=123 {
        let page = std::fs::read_to_string(pages.join(format!("E0{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# E0{code}: ")), "E0{code}");
    }
    assert!(Model::decode(Bytes::new(), None).unwrap_err().help().is_some());
}
