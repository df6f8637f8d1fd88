//! Rules that every crate keeps, checked on the sources. Each rule is one file: a function from sources to a list of
//! violations, a test on this checkout, and a test on a planted violation.
#![allow(clippy::unwrap_used)]

mod dependencies;
mod docs;
mod error_pages;
mod formatting;
mod length;
mod links;
mod tokens;
mod unsafe_code;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the checkout.
struct Source {
    /// Path from the root of the checkout, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_generated(&self) -> bool {
        self.text.lines().next().is_some_and(|line| line.starts_with("// @generated"))
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The text files whose name ends in one of `endings`, below one of `folders` of the checkout, sorted by path.
fn sources(folders: &[&str], endings: &[&str]) -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    let named = |path: &PathBuf| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending));
    paths
        .into_iter()
        .filter(named)
        .map(|path| Source {
            text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            path: path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(),
        })
        .collect()
}

/// Files below `path`, which may itself be a file; cargo's build folders, marked as caches, are left out.
fn collect(path: &Path, paths: &mut Vec<PathBuf>) {
    if path.is_file() {
        paths.push(path.to_path_buf());
    } else if !path.join("CACHEDIR.TAG").exists() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), paths);
        }
    }
}

/// The folders that hold crates.
const CRATE_FOLDERS: &[&str] = &["crates", "dialects", "passes", "lowering", "xtask"];

/// Fails with one line for each violation.
fn assert_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

#[test]
fn the_sources_are_found() {
    let paths: Vec<String> = sources(CRATE_FOLDERS, &[".rs"]).into_iter().map(|source| source.path).collect();
    assert!(paths.iter().any(|path| path == "xtask/tests/tidy/main.rs"));
    assert!(paths.iter().any(|path| path.starts_with("crates/")));
}
