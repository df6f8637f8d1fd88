//! The ONNX backend tests and the reduced cases, through the importer and the reference interpreter. No value may be wrong; what is not
//! supported is refused by code.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::suite::{Outcome, run_case};
use tenon_import_onnx::Model;

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("model.onnx").is_file()).collect();
    folders.sort();
    folders
}

/// Runs all cases of a folder on two threads and prints counts by operator; gives the names of those with wrong values.
fn run(root: &Path) -> (usize, usize, Vec<String>) {
    let folders = folders(root);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(folder) = folders.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let outcome = std::panic::catch_unwind(|| run_case(folder, 1e-5, 1e-3));
            done.push((folder.clone(), outcome.unwrap_or_else(|_| Outcome::Wrong("a panic".to_owned()))));
        }
        done
    };
    let mut outcomes = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut by_operator: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut passed, mut refused, mut wrong) = (0, 0, Vec::new());
    for (folder, outcome) in &outcomes {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let operator = operator(folder, &name);
        let counts = by_operator.entry(operator).or_default();
        match outcome {
            Outcome::Passed => {
                passed += 1;
                counts[0] += 1;
            }
            Outcome::Refused(code, message) => {
                refused += 1;
                counts[1] += 1;
                println!("refused {name}: {code} {message}");
                *reasons.entry((*code).to_owned()).or_default() += 1;
            }
            Outcome::Wrong(fault) => {
                counts[2] += 1;
                println!("WRONG {name}: {fault}");
                wrong.push(name);
            }
        }
    }
    println!("operator: passed refused wrong");
    for (operator, [passed, refused, wrong]) in by_operator {
        println!("{operator}: {passed} {refused} {wrong}");
    }
    println!("refused by code: {reasons:?}");
    println!("{}: {passed} passed, {refused} refused, {} wrong", root.display(), wrong.len());
    (passed, refused, wrong)
}

/// The operator that a case is about: the only one of its graph, else `expanded` or `several`.
fn operator(folder: &Path, name: &str) -> String {
    if name.contains("_expanded") {
        return "(expanded)".to_owned();
    }
    match Model::load(folder.join("model.onnx")) {
        Ok(model) => match model.graph.nodes.as_slice() {
            [only] => only.op_type().to_owned(),
            _ => "(several)".to_owned(),
        },
        Err(_) => "(unreadable)".to_owned(),
    }
}

#[test]
fn reduced_cases_are_right_or_refused() {
    let Some(shared) = common::real_models() else { return };
    let (passed, _, wrong) = run(&shared.join("cases"));
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(passed >= 30, "{passed}");
}

/// The suite lies where `TENON_ONNX_SUITE` says: a folder that holds `node` and `simple`.
#[test]
fn the_onnx_suite_is_right_or_refused() {
    let Some(suite) = std::env::var_os("TENON_ONNX_SUITE").map(PathBuf::from) else {
        println!("skipped: TENON_ONNX_SUITE names no unpacked suite");
        return;
    };
    for part in ["node", "simple"] {
        let (_, _, wrong) = run(&suite.join(part));
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
