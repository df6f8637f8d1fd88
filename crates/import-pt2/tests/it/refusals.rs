//! What is refused, by code: archives written by hand, one fault each.

use tenon_import_pt2::{ImportOptions, Program, Pt2Error, import_program};
use tenon_ir::Session;

/// A stored ZIP archive.
pub(crate) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, data) in entries {
        let offset = bytes.len() as u32;
        let sizes = [data.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat();
        let name_length = (name.len() as u16).to_le_bytes();
        let checksum = crc32fast::hash(data).to_le_bytes();
        bytes.extend_from_slice(b"PK\x03\x04\x0a\0\0\0\0\0\0\0\0\0");
        bytes.extend_from_slice(&checksum);
        bytes.extend_from_slice(&sizes);
        bytes.extend_from_slice(&name_length);
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(data);
        directory.extend_from_slice(b"PK\x01\x02\x0a\0\x0a\0\0\0\0\0\0\0\0\0");
        directory.extend_from_slice(&checksum);
        directory.extend_from_slice(&sizes);
        directory.extend_from_slice(&name_length);
        directory.extend_from_slice(&[0; 12]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (start, count) = (bytes.len() as u32, entries.len() as u16);
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

pub(crate) const TENSOR: &str = r#"{"dtype":7,"sizes":[{"as_int":2},{"as_int":3}],"strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7}"#;

/// A program of one input `x` [2, 3], one weight `w` [2, 3] and these nodes, whose output is `y`.
pub(crate) fn program(nodes: &str, values: &str) -> String {
    program_of(nodes, values, TENSOR)
}

/// The same of tensors with this description.
pub(crate) fn program_of(nodes: &str, values: &str, meta: &str) -> String {
    format!(
        r#"{{"schema_version":{{"major":8,"minor":20}},"graph_module":{{"graph":{{
        "inputs":[{{"as_tensor":{{"name":"w"}}}},{{"as_tensor":{{"name":"x"}}}}],"outputs":[{{"as_tensor":{{"name":"y"}}}}],
        "nodes":[{nodes}],"tensor_values":{{"x":{meta},"w":{meta}{values}}},"sym_int_values":{{}}}},
        "signature":{{"input_specs":[{{"parameter":{{"arg":{{"name":"w"}},"parameter_name":"weight"}}}},{{"user_input":{{"arg":{{"as_tensor":{{"name":"x"}}}}}}}}],
        "output_specs":[{{"user_output":{{"arg":{{"as_tensor":{{"name":"y"}}}}}}}}]}},"module_call_graph":[]}}}}"#
    )
}

/// A node with tensor arguments by name, and further arguments as JSON.
pub(crate) fn node(target: &str, tensors: &[(&str, &str)], further: &str, output: &str) -> String {
    let tensors = tensors
        .iter()
        .map(|(name, value)| format!(r#"{{"name":"{name}","arg":{{"as_tensor":{{"name":"{value}"}}}},"kind":1}}"#));
    let arguments: Vec<String> = tensors.chain((!further.is_empty()).then(|| further.to_owned())).collect();
    format!(
        r#"{{"target":"{target}","inputs":[{}],"outputs":[{{"as_tensor":{{"name":"{output}"}}}}],"metadata":{{}},"name":"{output}"}}"#,
        arguments.join(",")
    )
}

pub(crate) fn archive(model: &str, config: &str) -> Vec<u8> {
    zip(&[
        ("m/archive_format", b"pt2"),
        ("m/archive_version", b"0"),
        ("m/byteorder", b"little"),
        ("m/models/model.json", model.as_bytes()),
        ("m/data/weights/weight_0", &[0; 24]),
        ("m/data/weights/model_weights_config.json", config.as_bytes()),
    ])
}

pub(crate) fn config(extra: &str, meta: &str) -> String {
    format!(
        r#"{{"config":{{"weight":{{"path_name":"weight_0","is_param":true,"use_pickle":false{extra},"tensor_meta":{meta}}}}}}}"#
    )
}

pub(crate) fn import(bytes: Vec<u8>) -> Result<(), Pt2Error> {
    let program = Program::decode(bytes.into())?;
    let session = Session::new();
    import_program(&session, &program, "m.pt2", &ImportOptions::default()).map(|_| ())
}

#[track_caller]
pub(crate) fn refused(bytes: Vec<u8>, code: &str) -> String {
    let error = import(bytes).unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    format!("{error} {}", error.help().unwrap_or_default())
}

/// x + w
pub(crate) fn add_node() -> String {
    node("torch.ops.aten.add.Tensor", &[("self", "x"), ("other", "w")], "", "y")
}

#[test]
fn a_sound_archive_is_imported() {
    import(archive(&program(&add_node(), ""), &config("", TENSOR))).unwrap();
}

#[test]
fn faults_of_the_archive() {
    let sound = archive(&program(&add_node(), ""), &config("", TENSOR));
    let mut compressed = sound.clone();
    let directory = compressed.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    compressed[directory + 10] = 8;
    assert!(refused(compressed, "E0162").contains("archive_format"));
    let mut encrypted = sound.clone();
    encrypted[directory + 8] = 1;
    refused(encrypted, "E0162");
    assert_eq!(Program::load("no/such/archive.pt2").err().unwrap().code(), "E0160");
    refused(zip(&[("m/version", b"3")]), "E0163");
    refused(zip(&[("m/archive_format", b"pt2")]), "E0163");
    refused(zip(&[("m/archive_format", b"pt2"), ("n/byteorder", b"little")]), "E0163");
    refused(zip(&[("m/archive_format", b"pt2"), ("m/archive_format", b"pt2")]), "E0161");
    refused(zip(&[("m/archive_format", b"pt2"), ("m/byteorder", b"big"), ("m/models/model.json", b"{}")]), "E0163");
    refused(archive("{", &config("", TENSOR)), "E0164");
    let other = program(&add_node(), "").replace("\"major\":8", "\"major\":7");
    assert!(refused(archive(&other, &config("", TENSOR)), "E0165").contains("7.20"));
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    refused(archive(&nested, &config("", TENSOR)), "E0164");
}

#[test]
fn faults_of_weights() {
    let model = program(&add_node(), "");
    let pickled = config("", TENSOR).replace("\"use_pickle\":false", "\"use_pickle\":true");
    assert!(refused(archive(&model, &pickled), "E0166").contains("use_pickle"));
    let beyond = TENSOR.replace("\"storage_offset\":{\"as_int\":0}", "\"storage_offset\":{\"as_int\":1}");
    refused(archive(&model, &config("", &beyond)), "E0167");
    let hostile = TENSOR.replace("{\"as_int\":3}", "{\"as_int\":4611686018427387904}");
    refused(archive(&model, &config("", &hostile)), "E0167");
    refused(archive(&model, &config("", &TENSOR.replace("\"layout\":7", "\"layout\":1"))), "E0168");
    refused(archive(&model, r#"{"config":{}}"#), "E0169");
    // The bytes fit, and are another type than the one that the graph computes with.
    let row = r#""sizes":[{"as_int":3}],"strides":[{"as_int":1}]"#;
    let sizes = r#""sizes":[{"as_int":2},{"as_int":3}],"strides":[{"as_int":3},{"as_int":1}]"#;
    for (other, found) in [
        (TENSOR.replace("\"dtype\":7", "\"dtype\":4"), "i32[2, 3]"),
        (TENSOR.replace(sizes, row), "f32[3]"),
        (TENSOR.replace(sizes, r#""sizes":[],"strides":[]"#), "f32[]"),
    ] {
        let text = refused(archive(&model, &config("", &other)), "E0167");
        assert!(text.contains(&format!("holds {found}, and the program declares f32[2, 3]")), "{text}");
    }
}

#[test]
fn faults_of_the_graph() {
    let sound = config("", TENSOR);
    // Nodes stand in order, so that a cycle is a use before the definition.
    let a = node("torch.ops.aten.add.Tensor", &[("self", "b"), ("other", "w")], "", "y");
    let b = node("torch.ops.aten.add.Tensor", &[("self", "y"), ("other", "w")], "", "b");
    assert!(refused(archive(&program(&format!("{a},{b}"), ""), &sound), "E0169").contains("`b`"));
    refused(archive(&program(&format!("{0},{0}", add_node()), ""), &sound), "E0169");
    let mut inner = r#"{"inputs":[],"outputs":[],"nodes":[]}"#.to_owned();
    for _ in 0..20 {
        let argument = format!(r#"{{"name":"","arg":{{"as_graph":{{"name":"g","graph":{inner}}}}},"kind":1}}"#);
        inner = format!(
            r#"{{"inputs":[],"outputs":[],"nodes":[{}]}}"#,
            node("torch.ops.higher_order.cond", &[], &argument, "z")
        );
    }
    let argument = format!(r#"{{"name":"","arg":{{"as_graph":{{"name":"g","graph":{inner}}}}},"kind":1}}"#);
    let deep = node("torch.ops.higher_order.cond", &[], &argument, "y");
    // The reader of JSON has a limit of its own, which comes first for deeper ones.
    let code = import(archive(&program(&deep, ""), &sound)).unwrap_err();
    assert!(matches!(code.code(), "E0170" | "E0164"), "{code}");
}

#[test]
fn operators_and_arguments() {
    let sound = config("", TENSOR);
    let one = |target: &str, tensors: &[(&str, &str)], further: &str| {
        archive(&program(&node(target, tensors, further, "y"), ""), &sound)
    };
    refused(one("torch.ops.aten.fft_rfft.default", &[("self", "x")], ""), "E0171");
    let custom = refused(one("torch.ops.mine.deform.default", &[("a", "x"), ("b", "w")], ""), "E0172");
    assert!(
        custom.contains("[custom_ops.\"mine::deform\"]") && custom.contains("shape   = \"… ; … -> …\""),
        "{custom}"
    );
    refused(one("torch.ops.aten.add.Tensor", &[("self", "x")], ""), "E0173");
    let text = r#"{"name":"dim","arg":{"as_string":"a"},"kind":1}"#;
    refused(one("torch.ops.aten.unsqueeze.default", &[("self", "x")], text), "E0173");
    let train = r#"{"name":"p","arg":{"as_float":0.5},"kind":1},{"name":"train","arg":{"as_bool":true},"kind":1}"#;
    assert!(refused(one("torch.ops.aten.dropout.default", &[("input", "x")], train), "E0174").contains("model.eval()"));
    refused(one("torch.ops.aten.nonzero.default", &[("self", "x")], ""), "E0175");
    refused(one("torch.ops.aten.randn_like.default", &[("self", "x")], ""), "E0174");
    let size = r#"{"name":"size","arg":{"as_ints":[7]},"kind":1}"#;
    refused(one("torch.ops.aten.view.default", &[("self", "x")], size), "E0176");
}

#[test]
fn sizes_and_assertions() {
    let sound = config("", TENSOR);
    let model = program(&add_node(), "");
    let symbol = r#"{"as_expr":{"expr_str":"Symbol('s0', positive=True, integer=True)"}}"#;
    let unbacked = model.replacen("{\"as_int\":2}", &symbol.replace("s0", "u0"), 1);
    refused(archive(&unbacked, &sound), "E0178");
    let declared = format!(",\"y\":{}", TENSOR.replace("\"dtype\":7", "\"dtype\":8"));
    refused(archive(&program(&add_node(), &declared), &sound), "E0182");
    let guarded = model.replacen("\"graph_module\"", "\"guards_code\":[\"L['x'].size()[0] == 3\"],\"graph_module\"", 1);
    refused(archive(&guarded, &sound), "E0182");

    let free = model.replacen("{\"as_int\":2}", symbol, 1);
    let free = free.replacen(
        "\"graph_module\"",
        "\"range_constraints\":{\"s0\":{\"min_val\":2,\"max_val\":8}},\"graph_module\"",
        1,
    );
    let free =
        free.replace("\"other\",\"arg\":{\"as_tensor\":{\"name\":\"w\"}}", "\"other\",\"arg\":{\"as_float\":1.0}");
    let program = Program::decode(archive(&free, &sound).into()).unwrap();
    let session = Session::new();
    let import = |shape: &[u64]| {
        let shapes = [("x".to_owned(), shape.to_vec())].into_iter().collect();
        import_program(&session, &program, "m.pt2", &ImportOptions { shapes: Some(shapes) })
            .map(|_| ())
            .map_err(|error| error.code())
    };
    assert_eq!(import(&[8, 3]), Ok(()));
    assert_eq!(import(&[9, 3]), Err("E0181"));
    assert_eq!(import(&[1, 3]), Err("E0181"));
    assert_eq!(import(&[4, 2]), Err("E0180"));
    assert_eq!(import(&[4]), Err("E0180"));
}

#[test]
fn writing_where_memory_may_be_shared() {
    let sound = config("", TENSOR);
    let turned = node("torch.ops.aten.t.default", &[("self", "x")], "", "t");
    // The strides of `t` say that its elements are out of order, but not what a reshape of it is.
    let symbol = r#"{"as_expr":{"expr_str":"Symbol('s0', positive=True, integer=True)"}}"#;
    let values =
        format!(r#","t":{{"dtype":7,"sizes":[{{"as_int":3}},{{"as_int":2}}],"strides":[{{"as_int":1}},{symbol}]}}"#);
    let flat = node(
        "torch.ops.aten.reshape.default",
        &[("self", "t")],
        r#"{"name":"shape","arg":{"as_ints":[6]},"kind":1}"#,
        "f",
    );
    let write = node("torch.ops.aten.relu_.default", &[("self", "f")], "", "y");
    refused(archive(&program(&format!("{turned},{flat},{write}"), &values), &sound), "E0179");
    let wide = node(
        "torch.ops.aten.expand.default",
        &[("self", "x")],
        r#"{"name":"size","arg":{"as_ints":[4,2,3]},"kind":1}"#,
        "e",
    );
    let write = node("torch.ops.aten.relu_.default", &[("self", "e")], "", "y");
    refused(archive(&program(&format!("{wide},{write}"), ""), &sound), "E0179");
}

/// The symbol of a size as SymPy writes it.
fn symbol(name: &str) -> String {
    format!(r#"{{"as_expr":{{"expr_str":"Symbol('{name}', positive=True, integer=True)"}}}}"#)
}

#[test]
fn versions_of_the_archive() {
    let of = |version: &[u8]| {
        let model = program(&add_node(), "");
        zip(&[
            ("m/archive_format", b"pt2"),
            ("m/archive_version", version),
            ("m/models/model.json", model.as_bytes()),
            ("m/data/weights/weight_0", &[0; 24]),
            ("m/data/weights/model_weights_config.json", config("", TENSOR).as_bytes()),
        ])
    };
    import(of(b"0\n")).unwrap();
    assert!(refused(of(b"1"), "E0163").contains("version `1`"));
    refused(of(b""), "E0163");
}

#[test]
fn sizes_that_no_input_has() {
    // `y` is [s9, 3] by its declaration, and no input has a size s9.
    let free = TENSOR.replacen("{\"as_int\":2}", &symbol("s9"), 1);
    let model = program(&add_node(), &format!(",\"y\":{free}"));
    let text = refused(archive(&model, &config("", TENSOR)), "E0178");
    assert!(text.contains("has the symbol `s9`, which no input's size has"), "{text}");
    // The same as the size of a view, and in an assertion.
    let call = node(
        "torch.ops.aten.expand.default",
        &[("self", "x")],
        r#"{"name":"size","arg":{"as_sym_ints":[{"as_name":"n"},{"as_int":2},{"as_int":3}]},"kind":1}"#,
        "y",
    );
    let named =
        program(&call, "").replace("\"sym_int_values\":{}", &format!("\"sym_int_values\":{{\"n\":{}}}", symbol("s9")));
    refused(archive(&named, &config("", TENSOR)), "E0178");
}

#[test]
fn arguments_that_the_schema_does_not_have() {
    let sound = config("", TENSOR);
    let one = |target: &str, further: &str| {
        archive(&program(&node(target, &[("self", "x"), ("other", "w")], further, "y"), ""), &sound)
    };
    let argument = |name: &str| format!(r#"{{"name":"{name}","arg":{{"as_float":2.0}},"kind":2}}"#);
    import(one("torch.ops.aten.add.Tensor", &argument("alpha"))).unwrap();
    let unknown = refused(one("torch.ops.aten.add.Tensor", &argument("beta")), "E0173");
    assert!(unknown.contains("the operator has no argument `beta`"), "{unknown}");
    let twice = format!("{0},{0}", argument("alpha"));
    assert!(refused(one("torch.ops.aten.add.Tensor", &twice), "E0173").contains("`alpha` is given twice"));
    let again = r#"{"name":"self","arg":{"as_tensor":{"name":"w"}},"kind":1}"#;
    assert!(refused(one("torch.ops.aten.add.Tensor", again), "E0173").contains("`self` is given twice"));
    for target in ["torch.ops.aten.add.Tensorx", "torch.ops.aten.add.default", "torch.ops.aten.relu.out"] {
        let text = refused(one(target, ""), "E0171");
        let overload = target.rsplit('.').next().unwrap();
        assert!(text.contains(&format!("the overload `{overload}` of the operator is not known")), "{text}");
    }
    let graph = r#"{"name":"","arg":{"as_graph":{"name":"g","graph":{"inputs":[],"outputs":[],"nodes":[]}}},"kind":1}"#;
    let five = [r#"{"name":"","arg":{"as_bool":true},"kind":1}"#, graph, graph, graph, graph].join(",");
    let cond = |target: &str| archive(&program(&node(target, &[], &five, "y"), ""), &sound);
    assert!(refused(cond("torch.ops.higher_order.cond"), "E0173").contains("takes 4"));
    refused(cond("torch.ops.higher_order.cond.other"), "E0171");
}

#[test]
fn declarations_that_contradict_each_other() {
    let sound = config("", TENSOR);
    let model = program(&add_node(), "");
    // Two declarations of one name.
    let twice = format!(",\"x\":{TENSOR}");
    assert!(refused(archive(&program(&add_node(), &twice), &sound), "E0164").contains("`x` is declared twice"));
    let ranges = "\"range_constraints\":{\"s0\":{\"min_val\":9,\"max_val\":3}},\"graph_module\"";
    let text = refused(archive(&model.replacen("\"graph_module\"", ranges, 1), &sound), "E0169");
    assert!(text.contains("the range of the symbol `s0`, 9 to 3, holds no size"), "{text}");
    // The signature names inputs and outputs in another order than the graph, or others.
    let inputs = r#""inputs":[{"as_tensor":{"name":"w"}},{"as_tensor":{"name":"x"}}]"#;
    let outputs = r#""outputs":[{"as_tensor":{"name":"y"}}],
        "nodes""#;
    for (from, to, expected) in [
        (
            inputs,
            r#""inputs":[{"as_tensor":{"name":"x"}},{"as_tensor":{"name":"w"}}]"#,
            "input 0 is `x` in the graph, and `w`",
        ),
        (
            inputs,
            r#""inputs":[{"as_tensor":{"name":"x"}}]"#,
            "the graph has 1 inputs, and the signature of the program 2",
        ),
        (outputs, r#""outputs":[{"as_tensor":{"name":"x"}}],"nodes""#, "output 0 is `x` in the graph, and `y`"),
        (outputs, r#""outputs":[],"nodes""#, "the graph has 0 outputs"),
    ] {
        assert!(model.contains(from), "{from}");
        let text = refused(archive(&model.replacen(from, to, 1), &sound), "E0169");
        assert!(text.contains(expected), "{text}");
    }
}

/// A branch that declares its input as another type than what it is given.
#[test]
fn nested_graphs_declare_what_they_are_given() {
    let branch = |meta: &str| {
        let body = node("torch.ops.aten.relu.default", &[("self", "a")], "", "b");
        format!(
            r#"{{"name":"","arg":{{"as_graph":{{"name":"g","graph":{{"inputs":[{{"as_tensor":{{"name":"a"}}}}],
            "outputs":[{{"as_tensor":{{"name":"b"}}}}],"nodes":[{body}],"tensor_values":{{"a":{meta}}}}}}}}},"kind":1}}"#
        )
    };
    let model = |meta: &str| {
        let predicate = r#"{"name":"","arg":{"as_bool":true},"kind":1}"#.to_owned();
        let operands = r#"{"name":"","arg":{"as_tensors":[{"name":"x"}]},"kind":1}"#.to_owned();
        let arguments = [predicate, branch(meta), branch(TENSOR), operands].join(",");
        archive(&program(&node("torch.ops.higher_order.cond", &[], &arguments, "y"), ""), &config("", TENSOR))
    };
    import(model(TENSOR)).unwrap();
    let text = refused(model(&TENSOR.replace("\"dtype\":7", "\"dtype\":8")), "E0182");
    assert!(text.contains("declares its input `a` as f64[2, 3], and is given f32[2, 3]"), "{text}");
}

/// Rows of `x` [2, 3] at constant indices; torch raises an IndexError for the same.
#[test]
fn constant_indices_lie_inside() {
    let sound = config("", TENSOR);
    let index = |value: i64| {
        let arguments = format!(
            r#"{{"name":"size","arg":{{"as_ints":[1]}},"kind":1}},{{"name":"fill_value","arg":{{"as_int":{value}}},"kind":1}},
            {{"name":"dtype","arg":{{"as_scalar_type":5}},"kind":2}}"#
        );
        node("torch.ops.aten.full.default", &[], &arguments, "i")
    };
    let dim = r#"{"name":"dim","arg":{"as_int":0},"kind":1}"#;
    let one = |value: i64, call: &str| archive(&program(&format!("{},{call}", index(value)), ""), &sound);
    let select = node("torch.ops.aten.index_select.default", &[("self", "x"), ("index", "i")], dim, "y");
    let embedding = node("torch.ops.aten.embedding.default", &[("weight", "w"), ("indices", "i")], "", "y");
    let list = r#"{"name":"indices","arg":{"as_optional_tensors":[{"as_tensor":{"name":"i"}}]},"kind":1}"#;
    let picked = node("torch.ops.aten.index.Tensor", &[("self", "x")], list, "y");
    let fill = format!(r#"{dim},{{"name":"value","arg":{{"as_float":1.0}},"kind":1}}"#);
    let filled = |name: &str| node(name, &[("self", "x"), ("index", "i")], &fill, "y");
    let filled = filled("torch.ops.aten.index_fill.int_Scalar");
    // Whether the operator counts from the end.
    for (call, from_end) in [(&select, false), (&embedding, false), (&picked, true), (&filled, true)] {
        for inside in [0, 1] {
            import(one(inside, call)).unwrap();
        }
        let least = if from_end { -2 } else { 0 };
        for outside in [2, least - 1] {
            let text = refused(one(outside, call), "E0176");
            let expected = format!("{outside} points outside of a dimension of size 2, which takes {least} to 1");
            assert!(text.contains("node `y`") && text.contains(&expected), "{text}");
        }
        assert_eq!(import(one(-1, call)).is_ok(), from_end, "{call}");
    }
}
