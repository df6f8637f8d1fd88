//! The text of every stage of a small model.

use crate::*;

#[test]
fn every_stage_of_a_small_model() {
    let folder = tempfile::tempdir().unwrap();
    let out = file(&folder, "stages");
    tenon(&["lower", &testdata("command/rows.mlir"), "--all", "-o", &out]).done();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(testdata("stages"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for name in names_in(Path::new(&out)) {
        // SASS is there only where NVIDIA's tools are.
        if name.starts_with("10-sass") {
            continue;
        }
        let text = std::fs::read_to_string(Path::new(&out).join(&name)).unwrap();
        settings.bind(|| insta::assert_snapshot!(name.clone(), text));
    }
}
