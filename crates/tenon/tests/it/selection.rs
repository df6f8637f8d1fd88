//! Sizes that depend on values: graphs of NonZero, Compress, Unique and NonMaxSuppression with what follows on them, through PTX on the simulator,
//! against what ONNX Runtime gives. `testdata/selection/generate.py` says where the cases are from.

use tenon::conformance::{Outcome, Settings, run_case};

use crate::*;

#[test]
fn graphs_are_as_onnx_runtime_computes_them() {
    let root = PathBuf::from(testdata("selection"));
    let target = tenon_target::Target::find("sm_80").unwrap();
    let settings = Settings { target, instruction_budget: 1 << 32, seed: 1 };
    let cases: Vec<_> = names_in(&root).into_iter().filter(|name| root.join(name).is_dir()).collect();
    assert!(cases.len() >= 30, "{}", cases.len());
    let wrong: Vec<_> = cases
        .iter()
        .map(|case| (case, run_case(&root.join(case), &settings)))
        .filter(|(_, verdict)| verdict.outcome != Outcome::Passed)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
