//! The hw dialect's documentation and examples, and stock `mlir-opt` on them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenon_hw_dialect::{DOCUMENTATION, PLUGIN, check};
use tenon_ir::{PrintOptions, Session};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Tile programs written by hand.
fn examples() -> Vec<PathBuf> {
    let files = fs::read_dir(root().join("testdata/hw")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "mlir")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn the_documentation_is_current() {
    let path = root().join("docs/dialects/hw.md");
    let is_set = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is_set("TENON_BLESS", "1") || is_set("INSTA_UPDATE", "always") {
        fs::write(&path, DOCUMENTATION).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == DOCUMENTATION,
        "{} differs; TENON_BLESS=1 rewrites it",
        path.display()
    );
}

#[test]
fn examples_pass_the_checks_and_parse_back() {
    for path in examples() {
        let session = Session::new();
        let module = session.parse_module(&fs::read_to_string(&path).unwrap(), "example").unwrap();
        let errors: Vec<_> = check(&module).iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        for locations in [false, true] {
            let options = PrintOptions { locations, generic: false };
            let text = module.print(options);
            assert_eq!(session.parse_module(&text, "again").unwrap().print(options), text, "{}", path.display());
        }
    }
}

#[test]
fn stock_mlir_opt_reads_the_examples() {
    let mlir_opt = Path::new("/usr/lib/llvm-22/bin/mlir-opt");
    for path in examples() {
        let plugin = format!("--load-dialect-plugin={PLUGIN}");
        let output = Command::new(mlir_opt).arg(plugin).arg(&path).args(["-o", "/dev/null"]).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    }
}
