//! The ONNX backend tests, through import, PTX and the simulator.
//!
//! - [`Case`] and [`find_cases`]: the folders of a test tree; [`sample`] takes some of them, always the same for a seed.
//! - [`run_case`]: one case through everything, judged by value ([`Tolerance`]).
//! - [`run_cases`]: all cases, each in a worker process, so that none takes the others with it.
//! - [`Expectations`]: what each case should give, a text with a line a case.
//!
//! Invariants: a result never depends on the number of workers or on the other cases; a value that is not the recorded one is never
//! expected.

mod case;
mod expectations;
mod judge;
mod pool;
mod worker;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tenon_target::Target;

pub use case::run_case;
pub use expectations::{Deviation, Expectations};
pub use judge::{Tolerance, judge, judge_drawn};
pub use pool::{Limits, run_cases};
pub use worker::{WorkerArguments, serve};

use crate::{Diagnostic, Failure};

/// A folder with `model.onnx` and folders `test_data_set_N` of inputs and recorded outputs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The folder's name; its path within the tree where two folders have one name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
}

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every output of every data set has the recorded type, shape and values.
    Passed,
    /// Another type, shape or value; a check of the simulator; a fault of Tenon's own; a crash; no end within the limits.
    Failed,
    /// Refused by code before anything ran.
    Refused,
}

impl Outcome {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Refused => "refused",
        }
    }
}

/// What became of a case, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What.
    pub outcome: Outcome,
    /// Code of the refusal or fault.
    pub code: Option<String>,
    /// Why it is not passed.
    pub detail: Option<String>,
}

impl Verdict {
    fn failed(detail: impl Into<String>) -> Verdict {
        Verdict { outcome: Outcome::Failed, code: None, detail: Some(detail.into()) }
    }
}

/// A case with its result; as JSON, what `tenon conformance --json` prints of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// Name of the case.
    pub name: String,
    /// The operator that it is about; see [`operator_of`].
    pub operator: String,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Operator of a case whose model is more than one node.
pub const SEVERAL: &str = "(several)";

/// What a case is run for, and within which bounds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The target.
    pub target: &'static Target,
    /// Most warp instructions of a launch.
    pub instruction_budget: u64,
    /// Seed of the order of warps and blocks.
    pub seed: u64,
}

/// All cases at or below a folder, by name.
///
/// # Errors
/// `E0001`: the folder cannot be read. `E0040`: it holds no case.
pub fn find_cases(root: &Path) -> Result<Vec<Case>, Failure> {
    /// Deep enough for any unpacked suite, and an end where folders are linked in a circle.
    const DEPTH: usize = 8;
    let mut folders = Vec::new();
    let mut pending = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        if folder.join("model.onnx").is_file() {
            folders.push(folder);
            continue;
        }
        let unreadable =
            |error: std::io::Error| Failure::from(Diagnostic::new("E0001", format!("{}: {error}", folder.display())));
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if depth < DEPTH && path.is_dir() {
                pending.push((path, depth + 1));
            }
        }
    }
    if folders.is_empty() {
        let message = format!("{}: no folder in it holds a `model.onnx`", root.display());
        let help = "name the folder of an ONNX backend test tree, which holds `node` and `simple`";
        return Err(Diagnostic::new("E0040", message).with_help(help).into());
    }
    let own_name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut cases: Vec<Case> =
        folders.into_iter().map(|folder| Case { name: own_name(&folder).unwrap_or_default(), folder }).collect();
    cases.sort();
    let is_double = |index: usize| {
        let same = |other: Option<&Case>| other.is_some_and(|other| other.name == cases[index].name);
        same(cases.get(index + 1)) || index.checked_sub(1).is_some_and(|before| same(cases.get(before)))
    };
    let doubles: Vec<usize> = (0..cases.len()).filter(|index| is_double(*index)).collect();
    for index in doubles {
        let path = cases[index].folder.strip_prefix(root).unwrap_or(&cases[index].folder);
        cases[index].name = path.to_string_lossy().into_owned();
    }
    cases.sort();
    Ok(cases)
}

/// `count` of the cases, or all if there are fewer: those whose names hash lowest with the seed, so that a case that is added or
/// goes changes the rest of the sample by one at most.
pub fn sample(cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    let mut ranked: Vec<(u64, Case)> = cases.into_iter().map(|case| (hash(&case.name, seed), case)).collect();
    ranked.sort();
    ranked.truncate(count);
    let mut chosen: Vec<Case> = ranked.into_iter().map(|(_, case)| case).collect();
    chosen.sort();
    chosen
}

/// FNV-1a over the seed and the name, then the finaliser of SplitMix64, since the high bits of FNV-1a of like names are alike.
fn hash(name: &str, seed: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let mut state = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// The operator that a case is about: the only node of its model, or of the model that a function's expansion was made of; else
/// [`SEVERAL`].
pub fn operator_of(folder: &Path) -> String {
    let only = |folder: &Path| {
        let model = tenon_import_onnx::Model::load(folder.join("model.onnx")).ok()?;
        match model.graph.nodes.as_slice() {
            [node] if node.domain().is_empty() => Some(node.op_type().to_owned()),
            [node] => Some(format!("{}.{}", node.domain(), node.op_type())),
            _ => None,
        }
    };
    // `test_celu_expanded_ver18` is beside `test_celu`.
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let origin = name.split_once("_expanded").map(|(origin, _)| folder.with_file_name(origin));
    origin.as_deref().and_then(only).or_else(|| only(folder)).unwrap_or_else(|| SEVERAL.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_and_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["node/test_b", "node/test_a", "simple/test_a", "empty"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
            if path != "empty" {
                std::fs::write(folder.path().join(path).join("model.onnx"), b"").unwrap();
            }
        }
        let names = |root: &Path| find_cases(root).unwrap().into_iter().map(|case| case.name).collect::<Vec<_>>();
        assert_eq!(names(folder.path()), ["node/test_a", "simple/test_a", "test_b"]);
        assert_eq!(names(&folder.path().join("node")), ["test_a", "test_b"]);
        assert_eq!(names(&folder.path().join("node/test_a")), ["test_a"]);
        assert_eq!(find_cases(&folder.path().join("empty")).unwrap_err().0[0].code, "E0040");
        assert_eq!(find_cases(&folder.path().join("none")).unwrap_err().0[0].code, "E0001");
    }

    #[test]
    fn samples_are_stable() {
        let case = |index: usize| Case { name: format!("test_{index:03}"), folder: PathBuf::new() };
        let all: Vec<_> = (0..200).map(case).collect();
        let some = sample(all.clone(), 50, 1);
        assert_eq!((some.len(), some.is_sorted()), (50, true));
        assert_eq!(some, sample(all.iter().rev().cloned().collect(), 50, 1));
        let shared = |other: &[Case]| some.iter().filter(|case| other.contains(case)).count();
        assert!(shared(&sample(all.clone(), 50, 2)) < 30);
        assert!(shared(&sample(all[1..].to_vec(), 50, 1)) >= 49);
        assert_eq!(sample(all.clone(), 500, 1), all);
        // Like names do not come together.
        assert!(some.iter().filter(|case| case.name < "test_100".to_owned()).count().abs_diff(25) < 15);
    }
}
