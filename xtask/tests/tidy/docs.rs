//! Every library and program begins with what it is for.

use crate::{CRATE_FOLDERS, Source, assert_none, sources};

fn violations(sources: &[Source]) -> Vec<String> {
    let roots =
        sources.iter().filter(|source| source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs"));
    roots.filter(|source| !source.text.starts_with("//! ")).map(|source| source.path.clone()).collect()
}

#[test]
fn crates_say_what_they_are_for() {
    assert_none(
        "crate roots that do not begin with `//! ` documentation",
        &violations(&sources(CRATE_FOLDERS, &[".rs"])),
    );
}

#[test]
fn a_crate_without_documentation_is_seen() {
    let source = |text: &str| Source { path: "crates/a/src/lib.rs".into(), text: text.into() };
    assert_eq!(violations(&[source("mod a;\n//! late"), source("//! Early.\nmod a;")]), ["crates/a/src/lib.rs"]);
}
