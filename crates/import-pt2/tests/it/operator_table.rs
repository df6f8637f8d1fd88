//! `docs/aten-operators.md` says what the table of operators says.

use std::path::Path;

#[test]
fn the_page_of_operators_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/aten-operators.md");
    let page = tenon_import_pt2::operator_table();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is not what the table gives; `cargo xtask bless operators` writes it anew",
        path.display()
    );
}
