//! Dependencies between the crates of the workspace point one way, and C libraries are each reached through one crate.

use crate::{assert_none, root};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// For each crate's folder, the folders it may depend on. `*` stands for one folder name or its end.
///
/// A crate whose folder is not here is a violation: say where it belongs. Crates of one row may use each other where the row
/// names itself; cargo refuses cycles. Dependencies of tests alone are free, but for [`NOBODY_USES`] and [`ALONE`].
const MAY_USE: &[(&str, &[&str])] = &[
    ("crates/tensor", &[]),
    ("crates/mapped-file", &[]),
    ("crates/object-storage", &[]),
    ("crates/ptx-sim", &[]),
    ("crates/layout", &[]),
    ("crates/dialect-build", &[]),
    ("crates/target", &["crates/tensor"]),
    ("crates/recipe", &["crates/tensor", "crates/target"]),
    ("crates/ir", &["crates/tensor"]),
    ("dialects/*", &["crates/tensor", "crates/layout", "crates/dialect-build", "crates/ir", "dialects/*"]),
    ("crates/reference", &["crates/tensor", "crates/ir", "dialects/*"]),
    ("crates/graph-builder", &["crates/tensor", "crates/ir", "crates/reference", "dialects/*"]),
    (
        "crates/import-*",
        &["crates/mapped-file", "crates/tensor", "crates/ir", "crates/recipe", "crates/graph-builder", "dialects/*"],
    ),
    (
        "passes/*",
        &[
            "crates/tensor",
            "crates/layout",
            "crates/ir",
            "crates/target",
            "crates/recipe",
            "crates/reference",
            "dialects/*",
            "passes/*",
        ],
    ),
    (
        "lowering",
        &[
            "crates/tensor",
            "crates/layout",
            "crates/ir",
            "crates/target",
            "crates/recipe",
            "crates/runtime",
            "dialects/*",
            "passes/*",
        ],
    ),
    ("crates/bundle", &["crates/tensor", "crates/mapped-file"]),
    (
        "crates/runtime",
        &[
            "crates/tensor",
            "crates/ir",
            "crates/target",
            "crates/recipe",
            "crates/bundle",
            "crates/ptx-sim",
            "dialects/*",
        ],
    ),
    ("crates/cuda-device", &["crates/tensor", "crates/target", "crates/runtime"]),
    ("crates/cuda-device/*", &["crates/ptx-sim"]),
    ("crates/tenon", &["crates/*", "dialects/*", "passes/*", "lowering"]),
    ("xtask", &[]),
];

/// What no other crate may use, in tests either.
const NOBODY_USES: &[&str] = &["crates/tenon", "xtask"];

/// What uses no crate of the workspace, in tests either: the simulator is a witness only if it knows nothing of Tenon.
const ALONE: &[&str] = &["crates/ptx-sim", "xtask"];

/// What binds a C library, and the one crate that may use it.
const BINDS: &[(&str, &str)] = &[("mlir-sys", "crates/ir"), ("cudarc", "crates/cuda-device")];

/// A dependency as `cargo metadata` gives it.
struct Dependency {
    name: String,
    /// Folder from the root, of a crate of the workspace.
    folder: Option<String>,
    only_tests: bool,
}

struct Package {
    folder: String,
    dependencies: Vec<Dependency>,
}

fn matches(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && !rest.contains('/')),
        None => pattern == folder,
    }
}

fn violations(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for Package { folder, dependencies } in packages {
        let Some((_, may_use)) = MAY_USE.iter().find(|(pattern, _)| matches(pattern, folder)) else {
            found.push(format!("{folder} has no row in the table of xtask/tests/tidy/dependencies.rs"));
            continue;
        };
        for dependency in dependencies {
            if let Some((name, user)) = BINDS.iter().find(|(name, user)| dependency.name == *name && folder != user) {
                found.push(format!("{folder} uses {name}, which only {user} may"));
            }
            let Some(used) = &dependency.folder else { continue };
            let allowed = if NOBODY_USES.contains(&used.as_str()) || ALONE.contains(&folder.as_str()) {
                false
            } else {
                dependency.only_tests || may_use.iter().any(|pattern| matches(pattern, used))
            };
            if !allowed {
                found.push(format!("{folder} uses {used}"));
            }
        }
    }
    found
}

/// The packages of the workspace, from the output of `cargo metadata --no-deps`.
fn packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let relative = |path: &str| Path::new(path).strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned());
    let folder = |package: &Value| relative(Path::new(package["manifest_path"].as_str().unwrap()).parent()?.to_str()?);
    let dependency = |value: &Value| Dependency {
        name: value["name"].as_str().unwrap().into(),
        folder: value["path"].as_str().and_then(relative),
        only_tests: value["kind"] == "dev",
    };
    let list = metadata["packages"].as_array().unwrap().iter();
    list.map(|package| Package {
        folder: folder(package).expect("members lie below the root"),
        dependencies: package["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
    })
    .collect()
}

#[test]
fn dependencies_point_one_way() {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = packages(&metadata, &root());
    assert!(packages.iter().any(|package| package.folder == "xtask"));
    assert_none("dependencies between crates", &violations(&packages));
}

#[test]
fn a_wrong_dependency_is_seen() {
    let json = |folder: &str, dependencies: &[(&str, &str, &str)]| {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(name, path, kind)| {
                let text = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
                serde_json::json!({"name": name, "path": text(path), "kind": text(kind)})
            })
            .collect();
        serde_json::json!({"manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": dependencies})
    };
    let metadata = serde_json::json!({"packages": [
        json("dialects/hw", &[("tenon-ir", "/r/crates/ir", ""), ("tenon-graph", "/r/dialects/graph", ""), ("mlir-sys", "", "build")]),
        json("crates/tensor", &[("tenon-ir", "/r/crates/ir", ""), ("cudarc", "", "")]),
        json("crates/ptx-sim", &[("tenon-tensor", "/r/crates/tensor", "dev")]),
        json("lowering", &[("tenon", "/r/crates/tenon", "dev"), ("tenon-runtime", "/r/crates/runtime", "dev")]),
        json("crates/ir", &[("mlir-sys", "", "")]),
        json("crates/new", &[]),
    ]});
    assert_eq!(
        violations(&packages(&metadata, Path::new("/r"))),
        [
            "dialects/hw uses mlir-sys, which only crates/ir may",
            "crates/tensor uses crates/ir",
            "crates/tensor uses cudarc, which only crates/cuda-device may",
            "crates/ptx-sim uses crates/tensor",
            "lowering uses crates/tenon",
            "crates/new has no row in the table of xtask/tests/tidy/dependencies.rs",
        ]
    );
}
