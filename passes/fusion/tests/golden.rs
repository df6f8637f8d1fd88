//! Golden tests: `testdata/passes/group-*.mlir` through `group-kernels`, and what every grouping must keep.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use tenon_fusion_passes::GroupKernels;
use tenon_graph_dialect::Operator;
use tenon_ir::{Module, PrintOptions, Session};
use tenon_pass_manager::{Options, Property, Runner};
use tenon_recipe::NumericClass;

/// Operators that compute, by name and source nodes.
fn computing(module: &Module<'_>) -> Vec<(String, Vec<String>)> {
    let is_computing = |name: &str| Operator::NAMES.contains(&name) && name != "graph.constant";
    let mut found: Vec<_> = module
        .op()
        .walk()
        .iter()
        .filter(|op| is_computing(&op.name()))
        .map(|op| (op.name(), op.location().names()))
        .collect();
    found.sort();
    found
}

fn golden(name: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    let session = Session::new();
    let text = std::fs::read_to_string(folder.join(format!("{name}.mlir"))).unwrap();
    let mut module = session.parse_module(&text, name).unwrap();
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    let before = computing(&module);
    Runner::new(Options::default(), &[])
        .unwrap()
        .run_pass(&GroupKernels { class: NumericClass::Reassociates }, &mut module)
        .unwrap();
    let text = module.print(PrintOptions::default());
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
    // Nothing is computed twice, lost, or left outside; names are distinct and plain.
    assert_eq!(before, computing(&module));
    assert_eq!(Property::Kernels.missing(&module), None);
    let names: Vec<String> =
        module.op().walk().iter().filter(|op| op.is("graph.kernel")).map(|op| op.string("sym_name").unwrap()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let plain =
        |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    assert!(names.iter().all(plain), "{names:?}");
    // A kernel's location names the nodes of all its operators.
    for kernel in module.op().walk().into_iter().filter(|op| op.is("graph.kernel")) {
        let inner = kernel.walk();
        let names = kernel.location().names();
        let operators =
            inner.iter().filter(|op| Operator::NAMES.contains(&op.name().as_str()) && !op.is("graph.constant"));
        assert!(operators.flat_map(|op| op.location().names()).all(|name| names.contains(&name)));
    }
}

#[test]
fn epilogues() {
    golden("group-epilogue");
}

#[test]
fn maps() {
    golden("group-map");
}

#[test]
fn concatenations() {
    golden("group-concat");
}

#[test]
fn families() {
    golden("group-families");
}
