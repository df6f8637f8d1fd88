//! Small models through the importer: what the module looks like, how shapes are followed, what is refused.

use std::collections::BTreeMap;

use crate::common::*;
use bytes::Bytes;
use tenon_import_onnx::proto::attribute_proto::AttributeType;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportError, ImportOptions, import_loaded};
use tenon_ir::{PrintOptions, Session};
use tenon_tensor::Tensor;

/// The module as text, with the inputs that became constants.
fn import_with(proto: &ModelProto, options: &ImportOptions) -> Result<(String, Vec<String>), ImportError> {
    let session = Session::new();
    let imported = import_loaded(&session, &read(proto)?, "model.onnx", options)?;
    let errors = tenon_graph_dialect::check(&imported.module);
    assert!(errors.is_empty(), "{errors:?}");
    Ok((imported.module.print(PrintOptions { locations: true, generic: false }), imported.constant_inputs))
}

fn import(proto: &ModelProto) -> Result<String, ImportError> {
    Ok(import_with(proto, &ImportOptions::default())?.0)
}

fn integers(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![values.len() as i64],
        data_type: Some(DataType::Int64 as i32),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// An i64 list as an input.
fn list(name: &str, count: i64) -> ValueInfoProto {
    let mut info = value(name, &[count]);
    if let Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), .. }) = &mut info.r#type {
        tensor.elem_type = Some(DataType::Int64 as i32);
    }
    info
}

/// A graph of one node from `x` (n × 3) to `y`.
fn one(node: NodeProto) -> GraphProto {
    GraphProto {
        node: vec![node],
        input: vec![value("x", &[-1, 3])],
        output: vec![ValueInfoProto { name: Some("y".to_owned()), ..ValueInfoProto::default() }],
        ..GraphProto::default()
    }
}

fn refused(graph: GraphProto) -> (&'static str, String) {
    let error = import(&model(graph)).unwrap_err();
    assert!(error.help().is_some(), "{error}");
    (error.code(), error.to_string())
}

#[test]
fn names_locations_and_weights() {
    let mut graph = small_graph();
    graph.initializer = vec![ones("a weight", &[17, 3]), ones("unused", &[99])];
    graph.node[1].input[1] = "a weight".to_owned();
    graph.node[1].name = None;
    graph.input = vec![value("x", &[17, 3])];
    let text = import(&model(graph)).unwrap();
    for part in [
        "graph.model = \"model.onnx\"",
        "graph.parameter @a_weight : tensor<17x3xf32> {source = \"a weight\"}",
        "func.func @main(%arg0: tensor<17x3xf32> {graph.name = \"x\"}",
        "-> (tensor<17x3xf32> {graph.name = \"y\"})",
        "loc(\"Add_2\"(",
        "loc(\"model.onnx\":2:0)",
        "loc(\"relu\"(",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(!text.contains("unused"), "{text}");
}

#[test]
fn free_dimensions_are_symbols_and_shape_arithmetic_leaves_nothing_behind() {
    // y = Reshape(x, Concat(Gather(Shape(x), 0) * 3, [1]))
    let mut gather = node("Gather", &["s", "zero"], &["n"]);
    gather.attribute = vec![int("axis", 0)];
    let mut concat = node("Concat", &["m", "one"], &["target"]);
    concat.attribute = vec![int("axis", 0)];
    let graph = GraphProto {
        node: vec![
            node("Shape", &["x"], &["s"]),
            gather,
            node("Mul", &["n", "three"], &["m"]),
            concat,
            node("Reshape", &["x", "target"], &["y"]),
        ],
        input: vec![value("x", &[-1, 3])],
        output: vec![value("y", &[-1, 1])],
        initializer: vec![integers("zero", &[0]), integers("three", &[3]), integers("one", &[1])],
        ..GraphProto::default()
    };
    let text = import(&model(graph.clone())).unwrap();
    assert!(text.contains("dims = [\"n\", 3]"), "{text}");
    assert!(text.contains("dims = [\"3*n\", 1]"), "{text}");
    assert_eq!(text.matches("= graph.").count(), 1, "{text}");

    let shapes = BTreeMap::from([("x".to_owned(), vec![4, 3])]);
    let options = ImportOptions { shapes: Some(shapes), ..ImportOptions::default() };
    let (text, _) = import_with(&model(graph), &options).unwrap();
    assert!(text.contains("-> (tensor<12x1xf32>"), "{text}");
}

#[test]
fn a_dimension_without_name_gets_one() {
    let mut graph = one(node("Relu", &["x"], &["y"]));
    if let Some(type_proto::Value::TensorType(tensor)) = &mut graph.input[0].r#type.as_mut().unwrap().value {
        tensor.shape.as_mut().unwrap().dim[0].value = None;
    }
    let text = import(&model(graph)).unwrap();
    assert!(text.contains("dims = [\"x_dim0\", 3]"), "{text}");
}

#[test]
fn extents_become_values_where_they_are_computed_with() {
    // y = Shape(x) + w, where w is an input: the extents must be there at run time.
    let mut graph = one(node("Shape", &["x"], &["s"]));
    graph.node.push(node("Add", &["s", "w"], &["y"]));
    graph.input.push(list("w", 2));
    let text = import(&model(graph)).unwrap();
    assert!(text.contains("graph.dim %arg0"), "{text}");
    assert!(text.contains("graph.concat"), "{text}");
}

#[test]
fn an_input_that_decides_a_shape_is_a_constant_when_it_is_given() {
    let mut graph = one(node("Reshape", &["x", "target"], &["y"]));
    graph.input.push(list("target", 2));
    let (code, message) = refused(graph.clone());
    assert_eq!(code, "E0133");
    assert!(message.contains("`target`") && message.contains("`reshape`"), "{message}");

    let shapes = BTreeMap::from([("x".to_owned(), vec![4, 3]), ("target".to_owned(), vec![2])]);
    let constants = BTreeMap::from([
        ("target".to_owned(), Tensor::from_i64(vec![2], &[6, -1]).unwrap()),
        ("x".to_owned(), Tensor::from_f32(vec![4, 3], &[0.0; 12]).unwrap()),
    ]);
    let options = ImportOptions { shapes: Some(shapes), constants };
    let (text, constant) = import_with(&model(graph), &options).unwrap();
    assert_eq!(constant, ["target"]);
    assert!(text.contains("tensor<6x2xf32>") && text.contains("@main(%arg0: tensor<4x3xf32>"), "{text}");
    assert!(!text.contains("%arg1"), "{text}");
}

#[test]
fn a_branch_that_is_known_takes_the_place_of_the_node() {
    let branch = |op: &str| GraphProto {
        node: vec![node(op, &["x"], &["inner"])],
        output: vec![value("inner", &[-1, 3])],
        ..GraphProto::default()
    };
    let mut choice = node("If", &["c"], &["y"]);
    choice.attribute = vec![subgraph("then_branch", branch("Relu")), subgraph("else_branch", branch("Neg"))];
    let mut graph = one(choice);
    let flag = TensorProto {
        name: Some("c".to_owned()),
        data_type: Some(DataType::Bool as i32),
        int32_data: vec![0],
        ..TensorProto::default()
    };
    graph.initializer = vec![flag];
    let text = import(&model(graph)).unwrap();
    assert!(text.contains("negate") && !text.contains("max"), "{text}");
}

#[test]
fn operators_versions_and_options_that_are_not_supported() {
    let (code, message) = refused(one(node("FancyPool", &["x"], &["y"])));
    assert_eq!(code, "E0130");
    assert!(message.contains("`fancypool` (FancyPool, number 0)"), "{message}");
    // What is no function of numeric tensors says so.
    let (code, message) = refused(one(node("ImageDecoder", &["x"], &["y"])));
    assert_eq!(code, "E0147");
    assert!(message.contains("decoded before the model runs"), "{message}");
    // Gelu begins at version 20, Upsample ends at 10; the model imports version 17.
    for op_type in ["Gelu", "Upsample"] {
        assert_eq!(refused(one(node(op_type, &["x"], &["y"]))).0, "E0131");
    }
    let mut relu = node("Relu", &["x"], &["y"]);
    relu.attribute = vec![int("axis", 1)];
    assert_eq!(refused(one(relu)).0, "E0117");
    let mut dropout = node("Dropout", &["x", "", "training"], &["y"]);
    dropout.name = Some("drop".to_owned());
    let mut graph = one(dropout);
    let flag = TensorProto {
        data_type: Some(DataType::Bool as i32),
        int32_data: vec![1],
        name: Some("training".to_owned()),
        ..TensorProto::default()
    };
    graph.initializer = vec![flag];
    let (code, message) = refused(graph);
    assert_eq!(code, "E0135");
    assert!(message.contains("`drop`"), "{message}");
    let mut regions = one(node("RoiAlign", &["x", "regions", "images"], &["y"]));
    regions.input = vec![value("x", &[1, 2, 4, 4]), value("regions", &[3, 4]), value("images", &[3])];
    let (code, message) = refused(regions);
    assert_eq!(code, "E0135");
    assert!(message.contains("sampling_ratio"), "{message}");
    // Numbers that no seed decides.
    assert_eq!(refused(one(node("Bernoulli", &["x"], &["y"]))).0, "E0135");
    // An output that is not supported.
    let names = ["x", "scale", "bias", "mean", "variance"];
    let mut graph = one(node("BatchNormalization", &names, &["y", "running"]));
    graph.input = names.iter().map(|name| value(name, if *name == "x" { &[1, 5][..] } else { &[5][..] })).collect();
    assert_eq!(refused(graph).0, "E0135");
}

#[test]
fn decompositions_follow_free_dimensions() {
    let kernel = AttributeProto { ints: vec![2, 2], ..attribute("kernel_shape", AttributeType::Ints) };
    let cases = [
        ("GridSample", vec![("x", vec![-1, 3, 4, 5]), ("grid", vec![-1, 2, 6, 2])], vec![], r#"["n", 3, 2, 6]"#),
        ("MaxPool", vec![("x", vec![-1, 3, 4, 5])], vec![kernel], r#"["n", 3, 3, 4]"#),
        ("Det", vec![("x", vec![2, -1, 3, 3])], vec![], r#"[2, "n"]"#),
    ];
    for (op_type, inputs, attributes, dims) in cases {
        let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
        let outputs: &[&str] = if op_type == "MaxPool" { &["values", "y"] } else { &["y"] };
        let mut operator = node(op_type, &names, outputs);
        operator.attribute = attributes;
        let mut graph = one(operator);
        graph.input = inputs.iter().map(|(name, dims)| value(name, dims)).collect();
        let text = import(&model(graph)).unwrap();
        let result = text.lines().find(|line| line.contains("return")).unwrap_or_default();
        assert!(result.contains(dims), "{op_type}: {result}");
    }
}

/// Philox4x32-10 of counter and key 0 begins with 0x6627e8d5, by the known answers of its authors; uniform numbers have 24 bits.
#[test]
fn random_numbers_are_those_of_philox() {
    let mut draw = node("RandomUniform", &[], &["y"]);
    draw.attribute = vec![
        AttributeProto { f: Some(0.0), ..attribute("seed", AttributeType::Float) },
        AttributeProto { ints: vec![1], ..attribute("shape", AttributeType::Ints) },
    ];
    let text = import(&model(one(draw))).unwrap();
    let expected = f64::from(0x6627e8) / f64::from(1 << 24);
    assert!(text.contains(&format!("{expected:.6}")), "{text}");
}

#[test]
fn nodes_that_are_wrong() {
    assert_eq!(refused(one(node("Relu", &["x", "x"], &["y"]))).0, "E0132");
    assert_eq!(refused(one(node("Relu", &[], &["y"]))).0, "E0132");
    let mut concat = node("Concat", &["x", "w"], &["y"]);
    concat.attribute = vec![int("axis", 1)];
    let mut graph = one(concat);
    graph.initializer = vec![ones("w", &[4, 5, 6])];
    let (code, message) = refused(graph);
    assert_eq!(code, "E0134");
    assert!(message.contains("`concat` (Concat, number 0)") && message.contains("rank"), "{message}");
    // The declared output type is f32, the node gives i1.
    let mut graph = one(node("IsNaN", &["x"], &["y"]));
    graph.output = vec![value("y", &[-1, 3])];
    assert_eq!(refused(graph).0, "E0138");
    let mut graph = one(node("Relu", &["x"], &["y"]));
    if let Some(type_proto::Value::TensorType(tensor)) = &mut graph.input[0].r#type.as_mut().unwrap().value {
        tensor.shape = None;
    }
    assert_eq!(refused(graph).0, "E0137");
}

/// What needs a dimension that the model leaves open says how to give it a size.
#[test]
fn operators_that_need_a_fixed_dimension() {
    let mut split = node("Split", &["x"], &["y", "z", "w"]);
    split.attribute = vec![int("axis", 0)];
    let slice = node("Slice", &["x", "last", "first", "axes", "steps"], &["y"]);
    let body = GraphProto {
        node: vec![node("Identity", &["row"], &["same"])],
        input: vec![value("row", &[3])],
        output: vec![value("same", &[3])],
        ..GraphProto::default()
    };
    let mut scan = node("Scan", &["x"], &["y"]);
    scan.attribute = vec![subgraph("body", body), int("num_scan_inputs", 1)];
    let lists = [("last", 4), ("first", 0), ("axes", 0), ("steps", -2)];
    for (node, words) in [(split, "3 equal parts of dimension 0"), (slice, "by -2 of the dimension n"), (scan, "")] {
        let mut graph = one(node);
        graph.initializer = lists.iter().map(|(name, value)| integers(name, &[*value])).collect();
        let error = import(&model(graph.clone())).unwrap_err();
        assert_eq!(error.code(), "E0135", "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("which is not fixed"), "{text}");
        assert!(error.help().unwrap().contains("--shapes-from-inputs"), "{:?}", error.help());
        // With the shape it is imported.
        let shapes = BTreeMap::from([("x".to_owned(), vec![6, 3])]);
        import_with(&model(graph), &ImportOptions { shapes: Some(shapes), ..ImportOptions::default() }).unwrap();
    }
}

#[test]
fn given_shapes_must_fit() {
    let graph = || one(node("Relu", &["x"], &["y"]));
    let given = |name: &str, shape: &[u64]| {
        let shapes = BTreeMap::from([(name.to_owned(), shape.to_vec())]);
        let options = ImportOptions { shapes: Some(shapes), ..ImportOptions::default() };
        import_with(&model(graph()), &options).map_err(|error| error.code())
    };
    assert!(given("x", &[2, 3]).is_ok());
    assert!(given("x", &[0, 3]).is_ok());
    for (name, shape) in [("z", &[2, 3][..]), ("x", &[2, 4]), ("x", &[2, 3, 1])] {
        assert_eq!(given(name, shape), Err("E0136"), "{name} {shape:?}");
    }
    assert_eq!(given("x", &[u64::MAX, 3]), Err("E0106"));
    let foreign = ImportError::from(tenon_ir::IrError::ForeignObject("a type"));
    assert_eq!(foreign.code(), "E0139");
}

#[test]
fn absurd_sizes_are_refused_or_kept_as_numbers() {
    // 2⁴⁰ zeros are a broadcast, never memory; their square is no tensor.
    let target = |sizes: &[i64]| {
        let mut graph = one(node("ConstantOfShape", &["target"], &["big"]));
        graph.node.push(node("Relu", &["big"], &["y"]));
        graph.initializer = vec![integers("target", sizes)];
        import(&model(graph))
    };
    assert!(target(&[1 << 40]).is_ok());
    assert!(target(&[1 << 40, 1 << 40]).is_err());
    assert!(target(&[-5]).is_err());
}

#[test]
fn a_constant_of_equal_elements_is_a_broadcast_and_no_weight() {
    let mut graph = one(node("ConstantOfShape", &["target"], &["ones"]));
    graph.node.push(node("Add", &["x", "ones"], &["y"]));
    graph.initializer = vec![integers("target", &[100, 3])];
    graph.input = vec![value("x", &[100, 3])];
    let text = import(&model(graph)).unwrap();
    assert!(text.contains("graph.broadcast") && !text.contains("graph.parameter"), "{text}");
}

#[test]
fn every_flipped_bit_of_a_model_is_imported_or_refused() {
    let mut proto = rich_model();
    // All the kinds of operators that fold shapes.
    let graph = proto.graph.as_mut().unwrap();
    let mut slice = node("Slice", &["y2", "from", "to"], &["z"]);
    slice.output = vec!["y".to_owned()];
    graph.node.last_mut().unwrap().output = vec!["y2".to_owned()];
    graph.node.push(slice);
    graph.initializer.extend([integers("from", &[0]), integers("to", &[2])]);
    let bytes = prost::Message::encode_to_vec(&proto);
    let session = Session::new();
    let mut imported = 0;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok(model) = tenon_import_onnx::Model::decode(Bytes::from(damaged), None) else { continue };
        match import_loaded(&session, &model, "model.onnx", &ImportOptions::default()) {
            Ok(_) => imported += 1,
            Err(error) => assert!(error.code().starts_with("E0"), "{error}"),
        }
    }
    assert!(imported > 0);
}

/// What an operator asks of a free dimension is written with the module, by its node.
#[test]
fn free_sizes_that_an_operator_asks_for_are_recorded() {
    let mut split = one(NodeProto { name: Some("parts".to_owned()), ..node("Split", &["x", "sizes"], &["y", "z"]) });
    split.initializer = vec![integers("sizes", &[2, 3])];
    let text = import(&model(split)).unwrap();
    assert!(text.contains("condition = \"5 == ") && text.contains("source = [\"parts\""), "{text}");
    let mut squeeze = one(node("Squeeze", &["x", "axes"], &["y"]));
    squeeze.initializer = vec![integers("axes", &[0])];
    let text = import(&model(squeeze)).unwrap();
    assert!(text.contains(" == 1\""), "{text}");
}

/// A slice is cut at the dimension, whatever its size will be.
#[test]
fn slices_of_free_dimensions_are_cut() {
    for (start, end, starts, sizes) in [
        (-3, i64::MAX, "N-min(3,N)", "min(3,N)"),
        (2, i64::MAX, "min(2,N)", "N-min(2,N)"),
        (1, i64::MAX, "1", "N-1"),
        (1, -1, "1", "max(0,N-2)"),
    ] {
        let mut slice = one(node("Slice", &["x", "starts", "ends", "axes"], &["y"]));
        slice.initializer = vec![integers("starts", &[start]), integers("ends", &[end]), integers("axes", &[0])];
        let text = import(&model(slice)).unwrap();
        let line = text.lines().find(|line| line.contains("graph.slice")).unwrap();
        let name = line.split("{dims = [\"").nth(1).unwrap().split('"').next().unwrap();
        let quoted = |expression: &str| match expression {
            "1" => "1".to_owned(),
            _ => format!("\"{}\"", expression.replace('N', name)),
        };
        let expected = format!("sizes = [{}, 3], starts = [{}, 0]", quoted(sizes), quoted(starts));
        assert!(line.contains(&expected), "{expected} is not in {line}");
    }
}
