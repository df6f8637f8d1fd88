//! Golden tests: `testdata/passes/decompose-NAME.mlir` through the pass.
#![allow(clippy::unwrap_used)]

use tenon_decompose_passes::Decompose;
use tenon_ir::{PrintOptions, Session};
use tenon_pass_manager::{Options, Runner};

fn golden(name: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/passes");
    let session = Session::new();
    let text = std::fs::read_to_string(folder.join(format!("{name}.mlir"))).unwrap();
    let mut module = session.parse_module(&text, name).unwrap();
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    Runner::new(Options::default(), &[]).unwrap().run_pass(&Decompose, &mut module).unwrap();
    assert!(tenon_pass_manager::check(&module).is_empty(), "{:?}", tenon_pass_manager::check(&module));
    let text = module.print(PrintOptions { locations: true, generic: false });
    insta::with_settings!({snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn attention() {
    golden("decompose-attention");
}
