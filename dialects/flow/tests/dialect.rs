//! The dialect seen from outside: its text, its rules, its documentation, and MLIR's own tool reading it.
//!
//! Files under `testdata/flow` are in the form that printing gives, comments at the head apart; `TENON_BLESS=1` (or `INSTA_UPDATE=always`)
//! rewrites them and `docs/dialects/flow.md`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_flow_dialect::{
    DOCUMENTATION, Flow, FlowError, If, Loop, NAMES, PLUGIN, Placement, Scan, Schedule, check, yield_values,
};
use tenon_ir::{Builder, Op, PrintOptions, Session};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn golden(path: &Path, expected: &str, found: &str) {
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is_set("TENON_BLESS", "1") || is_set("INSTA_UPDATE", "always") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, found).unwrap();
    } else {
        assert!(expected == found, "{} differs; TENON_BLESS=1 rewrites it. Found:\n{found}", path.display());
    }
}

fn example() -> (PathBuf, String) {
    let path = root().join("testdata/flow/control.mlir");
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn the_example_prints_as_it_is_written() {
    let (path, text) = example();
    let session = Session::new();
    let module = session.parse_module(&text, "control").unwrap();
    assert_eq!(check(&module), []);
    assert_eq!(tenon_graph_dialect::check(&module), []);
    let printed = module.print(PrintOptions::default());
    let head: String = text.lines().take_while(|line| line.starts_with("//")).map(|line| format!("{line}\n")).collect();
    golden(&path, &text, &format!("{head}{}\n", printed.trim_end()));
    let options = PrintOptions { locations: true, generic: false };
    let again = session.parse_module(&module.print(options), "again").unwrap();
    assert_eq!(again.print(options), module.print(options));
    for name in NAMES {
        assert!(module.op().walk().iter().any(|op| op.is(name)), "{name} has no example");
        assert!(DOCUMENTATION.contains(&format!("`{name}`")), "{name} is not documented");
    }
}

fn flows<'m>(root: Op<'m>) -> Vec<Flow<'m>> {
    root.walk().into_iter().filter_map(Flow::read).map(Result::unwrap).collect()
}

#[test]
fn views_read_what_is_written() {
    let session = Session::new();
    let module = session.parse_module(&example().1, "control").unwrap();
    let flows = flows(module.op());
    let [Flow::If(branch), Flow::If(_), Flow::Loop(bounded), Flow::Loop(counted), Flow::Scan(scan)] = flows.as_slice()
    else {
        panic!("{flows:?}")
    };
    assert_eq!(branch.schedule, Schedule { placement: Some(Placement::Kernel), unroll: None, depth: Some(0) });
    assert_eq!(Flow::If(branch.clone()).captured(), [branch.op.block().unwrap().argument(1).unwrap()]);
    assert_eq!(bounded.schedule, Schedule { placement: Some(Placement::Graph), unroll: Some(2), depth: None });
    assert_eq!((bounded.capacity, bounded.carried.len(), bounded.scan_outputs().len()), (Some(8), 1, 1));
    assert_eq!(bounded.elements(), [bounded.body.argument(1).unwrap()]);
    assert_eq!(bounded.next_carried().len(), 1);
    assert!(bounded.next_condition().unwrap().defining_op().unwrap().0.is("graph.elementwise"));
    let around = bounded.op.block().unwrap();
    assert_eq!(Flow::Loop(bounded.clone()).captured(), [around.argument(3).unwrap(), around.argument(2).unwrap()]);
    assert!(counted.condition.is_none() && counted.next_condition().is_none() && counted.count.is_some());
    assert_eq!((scan.input_axes.as_slice(), scan.input_reversed.as_slice()), (&[0][..], &[true][..]));
    assert_eq!((scan.output_axes.as_slice(), scan.output_reversed.as_slice()), (&[1][..], &[false][..]));
    assert_eq!((scan.next_state().len(), scan.slices().len()), (1, 1));
}

#[test]
fn what_is_built_is_what_would_be_read() {
    let session = Session::new();
    let source = "func.func @main(%c: tensor<i1>, %n: tensor<i64>, %s: tensor<2xf32>, %x: tensor<3x2xf32>) { return }";
    let module = session.parse_module(source, "build").unwrap();
    let function = module.body().ops()[0];
    let block = function.region_block(0).unwrap();
    let [c, n, s, x] = [0, 1, 2, 3].map(|index| block.argument(index).unwrap());
    let builder = Builder::before(block.terminator().unwrap()).unwrap();
    let schedule = Schedule { placement: Some(Placement::Host), unroll: Some(4), depth: Some(1) };

    let branch = If::build(builder, c, &[s.ty()], schedule).unwrap();
    yield_values(builder.in_block(branch.then_body), &[s]).unwrap();
    yield_values(builder.in_block(branch.else_body), &[s]).unwrap();

    let repeated = Loop::build(builder, Some(n), Some(c), &[s], &[s.ty(), x.ty()], Some(3), schedule).unwrap();
    let carried = repeated.body.argument(1).unwrap();
    yield_values(builder.in_block(repeated.body), &[c, carried, carried]).unwrap();

    let scan =
        Scan::build(builder, &[s], &[x], &[s.ty(), x.ty()], (&[0], &[true]), (&[0], &[false]), Schedule::default())
            .unwrap();
    let arguments = scan.body.arguments();
    yield_values(builder.in_block(scan.body), &arguments).unwrap();

    module.verify().unwrap();
    assert_eq!(check(&module), []);
    let text = module.print(PrintOptions::default());
    assert_eq!(session.parse_module(&text, "again").unwrap().print(PrintOptions::default()), text);
    let read = flows(module.op());
    assert_eq!(read[0].schedule(), Schedule { unroll: None, ..schedule });
    assert_eq!(read[1].schedule(), schedule);
    schedule.write(scan.op).unwrap();
    assert_eq!(flows(module.op())[2].schedule(), schedule);
    assert!(Scan::build(builder, &[], &[x], &[], (&[5], &[true]), (&[], &[]), Schedule::default()).is_err());
    assert!(Loop::build(builder, Some(n), None, &[s], &[], None, Schedule::default()).is_err());
}

fn error(body: &str) -> FlowError {
    let session = Session::new();
    let source = format!(
        "func.func @main(%c: tensor<i1>, %n: tensor<i64>, %s: tensor<2xf32>, %x: tensor<3x2xf32>, %d: tensor<?xf32, {{dims = [\"d\"]}}>) {{\n{body}\nreturn\n}}"
    );
    let module = session.parse_module(&source, "error").unwrap();
    let errors = check(&module);
    assert_eq!(errors.len(), 1, "{errors:?} in {body}");
    assert!(errors[0].help().is_some());
    errors.into_iter().next().unwrap()
}

#[test]
fn every_rule_has_its_code_and_names_the_node() {
    let condition = error(
        "%y = flow.if %s : tensor<2xf32> -> (tensor<2xf32>) { flow.yield %s : tensor<2xf32> } else { flow.yield %s : tensor<2xf32> } loc(\"branch\")",
    );
    assert_eq!((condition.code(), condition.nodes.as_slice()), ("E0310", &["branch".to_owned()][..]));
    assert!(condition.to_string().contains("branch"));
    let scan = |attributes: &str, types: &str, body: &str| {
        format!(
            "%y:2 = flow.scan state(%s : tensor<2xf32>) over(%x : tensor<3x2xf32>) -> ({types}) attributes {{{attributes}}} {{ {body} }}"
        )
    };
    let axes = |input: &str, direction: &str, output: &str| {
        format!(
            "input_axes = array<i64: {input}>, input_directions = array<i64: {direction}>, output_axes = array<i64: {output}>, output_directions = array<i64: 0>"
        )
    };
    let good = "^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>): flow.yield %a, %b : tensor<2xf32>, tensor<2xf32>";
    let types = "tensor<2xf32>, tensor<3x2xf32>";
    for (code, body) in [
        ("E0310", "flow.loop count(%c : tensor<i1>) { ^bb0(%i: tensor<i64>): flow.yield }".to_owned()),
        ("E0310", "flow.loop while(%n : tensor<i64>) { ^bb0(%i: tensor<i64>): flow.yield %c : tensor<i1> }".to_owned()),
        ("E0311", "flow.loop count(%n : tensor<i64>) { ^bb0(%i: tensor<i32>): flow.yield }".to_owned()),
        ("E0311", "flow.loop count(%n : tensor<i64>) { flow.yield }".to_owned()),
        (
            "E0311",
            "%y = flow.loop count(%n : tensor<i64>) carry(%s : tensor<2xf32>) -> (tensor<2xf32>) {
             ^bb0(%i: tensor<i64>, %a: tensor<3xf32>): flow.yield %s : tensor<2xf32> }"
                .to_owned(),
        ),
        ("E0311", scan(&axes("1", "0", "0"), types, good)),
        ("E0312", "%y = flow.if %c : tensor<i1> -> (tensor<2xf32>) { flow.yield } else { flow.yield %s : tensor<2xf32> }".to_owned()),
        (
            "E0312",
            "%y = flow.if %c : tensor<i1> -> (tensor<2xf32>) { flow.yield %x : tensor<3x2xf32> } else { flow.yield %s : tensor<2xf32> }".to_owned(),
        ),
        ("E0312", "flow.loop while(%c : tensor<i1>) { ^bb0(%i: tensor<i64>): flow.yield %n : tensor<i64> }".to_owned()),
        ("E0312", scan(&axes("0", "0", "0"), "tensor<2xf32>, tensor<4x2xf32>", good)),
        ("E0312", scan(&axes("0", "0", "2"), types, good)),
        ("E0313", "flow.if %c : tensor<i1> attributes {placement = \"moon\"} { flow.yield } else { flow.yield }".to_owned()),
        ("E0313", "flow.loop count(%n : tensor<i64>) attributes {unroll = 0 : i64} { ^bb0(%i: tensor<i64>): flow.yield }".to_owned()),
        ("E0313", "flow.loop count(%n : tensor<i64>) attributes {capacity = -1 : i64} { ^bb0(%i: tensor<i64>): flow.yield }".to_owned()),
        (
            "E0313",
            "%y = flow.loop count(%n : tensor<i64>) -> (tensor<4xi64>) attributes {capacity = 3 : i64} { ^bb0(%i: tensor<i64>): flow.yield %i : tensor<i64> }"
                .to_owned(),
        ),
        ("E0313", scan(&axes("2", "0", "0"), types, good)),
        ("E0313", scan(&axes("0", "2", "0"), types, good)),
        ("E0313", scan(&axes("0, 0", "0", "0"), types, good)),
        ("E0313", scan(&axes("0", "0", "-1"), types, good)),
        ("E0314", "flow.loop { ^bb0(%i: tensor<i64>): flow.yield }".to_owned()),
    ] {
        assert_eq!(error(&body).code(), code, "{body}");
    }
}

#[test]
fn extents_of_branches_must_fit_the_capacity() {
    let fits = |result: &str| {
        let session = Session::new();
        let source = format!(
            "func.func @main(%c: tensor<i1>, %a: tensor<4xf32>, %b: tensor<7xf32>) {{
               %y = flow.if %c : tensor<i1> -> ({result}) {{ flow.yield %a : tensor<4xf32> }} else {{ flow.yield %b : tensor<7xf32> }}
               return }}"
        );
        let module = session.parse_module(&source, "extents").unwrap();
        check(&module).is_empty()
    };
    assert!(fits("tensor<7xf32, {dims = [\"taken\"]}>"));
    assert!(fits("tensor<?xf32, {dims = [\"taken\"]}>"));
    assert!(!fits("tensor<6xf32, {dims = [\"taken\"]}>"));
    assert!(!fits("tensor<7xf32>"));
}

#[test]
fn the_documentation_is_the_generated_one() {
    let path = root().join("docs/dialects/flow.md");
    let written = fs::read_to_string(&path).unwrap_or_default();
    golden(&path, &written, DOCUMENTATION);
}

#[test]
fn mlir_opt_reads_the_dialect() {
    let prefix = std::env::var("MLIR_SYS_220_PREFIX").unwrap_or_else(|_| "/usr/lib/llvm-22".to_owned());
    let plugins = [PLUGIN, tenon_graph_dialect::PLUGIN].map(|plugin| format!("--load-dialect-plugin={plugin}"));
    let (path, text) = example();
    let session = Session::new();
    let module = session.parse_module(&text, "control").unwrap();
    let output = Command::new(Path::new(&prefix).join("bin/mlir-opt")).args(plugins).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), module.print(PrintOptions::default()).trim_end());
}
