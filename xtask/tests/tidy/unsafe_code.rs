//! The keyword `unsafe` occurs in `crates/ir` alone. The lint `unsafe_code` forbids it too, but a crate can leave lints out.

use crate::tokens::{Token, tokens};
use crate::{CRATE_FOLDERS, Source, assert_none, sources};

fn violations(sources: &[Source]) -> Vec<String> {
    let outside = sources.iter().filter(|source| !source.path.starts_with("crates/ir/"));
    outside
        .flat_map(|source| {
            let lines = tokens(&source.text).into_iter().filter(|(_, token)| *token == Token::Word("unsafe".into()));
            lines.map(|(line, _)| format!("{}:{line}", source.path)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn unsafe_stays_in_one_crate() {
    assert_none("`unsafe` outside crates/ir", &violations(&sources(CRATE_FOLDERS, &[".rs"])));
}

#[test]
fn unsafe_is_seen() {
    let source = |path: &str| Source { path: path.into(), text: "// unsafe\nfn f() {\n    unsafe { g() }\n}\n".into() };
    assert_eq!(violations(&[source("crates/ir/src/lib.rs"), source("passes/a/src/lib.rs")]), ["passes/a/src/lib.rs:3"]);
}
