//! Golden tests: `testdata/passes/NAME.mlir` through one pass.
#![allow(clippy::unwrap_used)]

use tenon_cleanup_passes::*;
use tenon_ir::{PrintOptions, Session};
use tenon_pass_manager::{Options, Pass, Runner};

fn golden(pass: &dyn Pass) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    let file = folder.join(format!("{}.mlir", pass.name()));
    let session = Session::new();
    let mut module = session.parse_module(&std::fs::read_to_string(&file).unwrap(), pass.name()).unwrap();
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    let mut runner = Runner::new(Options::default(), &[]).unwrap();
    runner.run_pass(pass, &mut module).unwrap();
    let counters: Vec<_> =
        runner.report().counters.iter().map(|(_, name, value)| format!("// {name}: {value}\n")).collect();
    let text = format!("{}{}", counters.concat(), module.print(PrintOptions { locations: true, generic: false }));
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(pass.name(), text);
    });
    // Running it again on a module without a rewrite left to do changes nothing.
    let mut nothing = Runner::new(Options { stop_after_rewrite: Some(0), ..Options::default() }, &[]).unwrap();
    let before = module.print(PrintOptions { locations: true, generic: false });
    nothing.run_pass(pass, &mut module).unwrap();
    assert_eq!(before, module.print(PrintOptions { locations: true, generic: false }));
}

#[test]
fn remove_dead() {
    golden(&RemoveDead);
}

#[test]
fn fold_dims() {
    golden(&FoldDims);
}

#[test]
fn remove_identity() {
    golden(&RemoveIdentity);
}

#[test]
fn compose_shape_ops() {
    golden(&ComposeShapeOps);
}

#[test]
fn fold_broadcast() {
    golden(&FoldBroadcast);
}

#[test]
fn merge_identical() {
    golden(&MergeIdentical);
}
