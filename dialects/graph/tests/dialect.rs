//! The dialect seen from outside: its text, its rules, its documentation, and MLIR's own tool reading it.
//!
//! Files under `testdata/graph` are in the form that printing gives, comments at the head apart; `TENON_BLESS=1` (or `INSTA_UPDATE=always`)
//! rewrites them and `docs/dialects/graph.md`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_graph_dialect::{DOCUMENTATION, Operator, PLUGIN, check};
use tenon_ir::{PrintOptions, Session};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_blessing() -> bool {
    std::env::var("TENON_BLESS").is_ok_and(|value| value == "1")
        || std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always")
}

fn examples() -> Vec<(PathBuf, String)> {
    let folder = root().join("testdata/graph");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "mlir"));
    files.sort();
    assert!(files.len() >= 9);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn golden(path: &Path, expected: &str, found: &str) {
    if is_blessing() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, found).unwrap();
    } else {
        assert!(expected == found, "{} differs; TENON_BLESS=1 rewrites it. Found:\n{found}", path.display());
    }
}

fn head(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn examples_print_as_they_are_written() {
    for (path, text) in examples() {
        let session = Session::new();
        let module = session.parse_module(&text, &path.display().to_string()).unwrap();
        assert_eq!(check(&module), [], "{}", path.display());
        let printed = module.print(PrintOptions::default());
        golden(&path, &text, &format!("{}{}\n", head(&text), printed.trim_end()));
        for options in
            [PrintOptions { locations: true, generic: false }, PrintOptions { locations: true, generic: true }]
        {
            let written = module.print(options);
            let again = session.parse_module(&written, "again").unwrap();
            assert_eq!(again.print(options), written);
            assert_eq!(again.print(PrintOptions::default()), printed);
        }
    }
}

#[test]
fn every_operation_has_an_example() {
    let mut seen = BTreeSet::new();
    for (path, text) in examples() {
        let session = Session::new();
        let module = session.parse_module(&text, &path.display().to_string()).unwrap();
        seen.extend(module.op().walk().into_iter().map(|op| op.name()));
    }
    let other = [
        "graph.parameter",
        "graph.derived_parameter",
        "graph.get_parameter",
        "graph.custom",
        "graph.kernel",
        "graph.yield",
    ];
    for name in Operator::NAMES.iter().chain(&other) {
        assert!(seen.contains(*name), "{name} has no example");
        assert!(DOCUMENTATION.contains(&format!("`{name}`")), "{name} is not documented");
    }
}

#[test]
fn operators_survive_being_read_and_built() {
    for (path, text) in examples() {
        let session = Session::new();
        let module = session.parse_module(&text, &path.display().to_string()).unwrap();
        for op in module.op().walk() {
            if let Some(operator) = Operator::read(op) {
                let operator = operator.unwrap();
                let builder = tenon_ir::Builder::before(op).unwrap();
                let types: Vec<_> = op
                    .results()
                    .iter()
                    .map(|value| tenon_graph_dialect::TensorType::read(value.ty()).unwrap())
                    .collect();
                let built = operator.build_as(builder, &op.operands(), &types).unwrap();
                let copy = built[0].defining_op().unwrap().0;
                assert_eq!(Operator::read(copy).unwrap().unwrap(), operator, "{}", path.display());
                let attributes = |op: tenon_ir::Op<'_>| {
                    op.attributes().into_iter().map(|(name, value)| (name, value.to_string())).collect::<BTreeSet<_>>()
                };
                assert_eq!(attributes(copy), attributes(op), "{}", op.name());
            }
        }
        module.verify().unwrap();
    }
}

#[test]
fn locations_name_nodes_through_fusion() {
    let source = r#"module {
  func.func @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
    %0 = graph.elementwise exp(%arg0) : (tensor<2xf32>) -> tensor<2xf32> loc(fused["first"("model.onnx":3:1), "second"])
    return %0 : tensor<2xf32> loc("out")
  } loc("main")
} loc("file")"#;
    let session = Session::new();
    let module = session.parse_module(source, "locations").unwrap();
    let exp = module.op().walk().into_iter().find(|op| op.is("graph.elementwise")).unwrap();
    assert_eq!(exp.location().names(), ["first", "second"]);
    let written = module.print(PrintOptions { locations: true, generic: false });
    let again = session.parse_module(&written, "again").unwrap();
    assert_eq!(again.print(PrintOptions { locations: true, generic: false }), written);
    let exp = again.op().walk().into_iter().find(|op| op.is("graph.elementwise")).unwrap();
    assert_eq!(exp.location().names(), ["first", "second"]);
}

/// The only error of a function body on `%x: tensor<2x3xf32>` and `%i: tensor<4xi32>`.
fn error(before: &str, body: &str) -> tenon_graph_dialect::SemanticError {
    let session = Session::new();
    let source = format!("{before}\nfunc.func @main(%x: tensor<2x3xf32>, %i: tensor<4xi32>) {{\n{body}\nreturn\n}}");
    let module = session.parse_module(&source, "error").unwrap();
    let errors = check(&module);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].help().is_some());
    errors.into_iter().next().unwrap()
}

#[test]
fn every_rule_has_its_code_and_names_the_node() {
    let arity = error("", r#"%y = graph.elementwise add(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("node_7")"#);
    assert_eq!((arity.code(), arity.nodes.as_slice()), ("E0301", &["node_7".to_owned()][..]));
    assert!(arity.to_string().contains("node_7") && arity.to_string().contains("graph.elementwise"));
    for (code, body) in [
        ("E0302", "%y = graph.softmax %i {axis = 0 : i64} : tensor<4xi32> -> tensor<4xi32>"),
        ("E0302", "%y = graph.elementwise exp(%i) : (tensor<4xi32>) -> tensor<4xi32>"),
        (
            "E0303",
            "%c = graph.cast %i : tensor<4xi32> -> tensor<4xf32>
                   %y = graph.elementwise add(%x, %c) : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>",
        ),
        ("E0303", "%y = graph.reshape %x {shape = [7]} : tensor<2x3xf32> -> tensor<7xf32>"),
        ("E0304", "%y = graph.softmax %x {axis = 4 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>"),
        ("E0304", "%y = graph.elementwise squash(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
        (
            "E0304",
            r#"%y = graph.contract "mk,kn"(%x, %x) accumulate f32 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>"#,
        ),
        ("E0305", "%y = graph.transpose %x {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<2x3xf32>"),
        ("E0306", "%y = graph.get_parameter @missing : tensor<2xf32>"),
        (
            "E0306",
            r#"%y = graph.kernel map "k"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> {
                     ^bb0(%a: tensor<3x2xf32>):
                       graph.yield %a : tensor<3x2xf32>
                     }"#,
        ),
    ] {
        assert_eq!(error("", body).code(), code, "{body}");
    }
    assert_eq!(
        error("graph.parameter @p : tensor<3xf32>", "%y = graph.get_parameter @p : tensor<2xf32>").code(),
        "E0306"
    );
    assert_eq!(error(r#"graph.parameter @p : tensor<?xf32, {dims = ["n"]}>"#, "").code(), "E0306");
}

#[test]
fn what_the_text_cannot_mean_is_refused_while_parsing() {
    let session = Session::new();
    for source in [
        // Attributes that ODS demands; a region that ends otherwise; an operand that is no tensor.
        "func.func @f(%x: tensor<2xf32>) { %y = graph.softmax %x : tensor<2xf32> -> tensor<2xf32> return }",
        "graph.derived_parameter @p : tensor<1xf32> { }",
        "func.func @f(%x: f32) { %y = graph.elementwise exp(%x) : (f32) -> f32 return }",
        "func.func @f() { %y = graph.nonesuch : tensor<1xf32> return }",
    ] {
        let error = session.parse_module(source, "wrong").err().unwrap();
        assert!(["E0401", "E0403"].contains(&error.code()), "{error}");
    }
}

#[test]
fn the_documentation_is_the_generated_one() {
    let path = root().join("docs/dialects/graph.md");
    let written = fs::read_to_string(&path).unwrap_or_default();
    golden(&path, &written, DOCUMENTATION);
}

#[test]
fn mlir_opt_reads_the_dialect() {
    let prefix = std::env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    let tool = Path::new(&prefix).join("bin/mlir-opt");
    for (path, text) in examples() {
        let session = Session::new();
        let module = session.parse_module(&text, &path.display().to_string()).unwrap();
        let output = Command::new(&tool).arg(format!("--load-dialect-plugin={PLUGIN}")).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        let printed = module.print(PrintOptions::default());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), printed.trim_end(), "{}", path.display());
    }
}

#[test]
fn literals_of_every_type_survive_text() {
    let session = Session::new();
    for dtype in tenon_tensor::DType::all().filter(|dtype| dtype.kind() != tenon_tensor::NumberKind::Complex) {
        // Integers: all bits set, all but the first, one. Floats: values that most types have, encoded as their nearest.
        let bits = u64::MAX >> (64 - dtype.bits());
        let elements = if dtype.is_float() {
            [-1.0, 0.5, 1.0].map(|value| tenon_tensor::Tensor::encode(dtype, value)).to_vec()
        } else {
            vec![bits, bits >> 1, 1]
        };
        let value = tenon_tensor::Tensor::from_bits(dtype, vec![3], elements).unwrap();
        let module = session.parse_module("", "literals").unwrap();
        let builder = tenon_ir::Builder::at_end(module.body()).unwrap();
        let constant = tenon_graph_dialect::operators::Constant { value };
        Operator::from(constant.clone()).build(builder, &[]).unwrap();
        let text = module.print(PrintOptions::default());
        let again = session.parse_module(&text, "again").unwrap();
        let read = Operator::read(again.body().ops()[0]).unwrap().unwrap();
        assert_eq!(read, Operator::from(constant), "{dtype}: {text}");
    }
}
