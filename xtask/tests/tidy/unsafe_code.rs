//! The keyword `unsafe` occurs in three crates alone: `crates/ir`, which calls MLIR and LLVM, `crates/cuda-device`, which calls NVIDIA's driver
//! (with the library that stands in for it in tests), and `crates/mapped-file`, which maps files into memory. The lint `unsafe_code` forbids it too, but a crate can leave lints out.

use crate::tokens::{Token, tokens};
use crate::{CRATE_FOLDERS, Source, assert_none, sources};

/// The folders with `unsafe`.
const MAY_BE_UNSAFE: &[&str] =
    &["crates/ir/", "crates/cuda-device/src/driver/", "crates/cuda-device/fake-driver/", "crates/mapped-file/"];

fn violations(sources: &[Source]) -> Vec<String> {
    let outside = sources.iter().filter(|source| !MAY_BE_UNSAFE.iter().any(|folder| source.path.starts_with(folder)));
    outside
        .flat_map(|source| {
            let lines = tokens(&source.text).into_iter().filter(|(_, token)| *token == Token::Word("unsafe".into()));
            lines.map(|(line, _)| format!("{}:{line}", source.path)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn unsafe_stays_in_three_crates() {
    let found = violations(&sources(CRATE_FOLDERS, &[".rs"]));
    assert_none("`unsafe` outside crates/ir, crates/cuda-device/src/driver and crates/mapped-file", &found);
}

#[test]
fn unsafe_is_seen() {
    let source = |path: &str| Source { path: path.into(), text: "// unsafe\nfn f() {\n    unsafe { g() }\n}\n".into() };
    let paths = [
        "crates/ir/src/lib.rs",
        "crates/cuda-device/src/driver/mod.rs",
        "passes/a/src/lib.rs",
        "crates/cuda-device/src/device.rs",
    ];
    assert_eq!(violations(&paths.map(source)), ["passes/a/src/lib.rs:3", "crates/cuda-device/src/device.rs:3"]);
}
