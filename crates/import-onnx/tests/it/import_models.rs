//! Real models, imported: the module parses back, breaks no rule, and gives the recorded outputs in the reference interpreter.

use std::path::{Path, PathBuf};

use crate::common::suite::{Outcome, run_case, structure};

/// Folders with a `model.onnx` that must give their recorded outputs, and the tolerance (absolute, relative).
const MODELS: &[(&str, f64, f64)] = &[
    ("models/mtcnn_pnet", 1e-5, 1e-4),
    ("models/ppocrv6_det_tiny", 1e-4, 1e-3),
    ("models/ppocrv6_det_tiny_fp16", 3e-2, 1e-2),
    ("models/basic_pitch_nmp", 1e-4, 1e-3),
    ("models/swift_f0", 1e-3, 1e-3),
];

#[test]
fn real_models_give_their_recorded_outputs() {
    let Some(shared) = crate::common::real_models() else { return };
    for (folder, absolute, relative) in MODELS {
        let folder = shared.join(folder);
        structure(&folder.join("model.onnx")).unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()));
        match run_case(&folder, *absolute, *relative) {
            Outcome::Passed => println!("{}: passed", folder.display()),
            other => panic!("{}: {other:?}", folder.display()),
        }
    }
}

/// Skeletons have no data, but all of their structure.
fn skeletons(shared: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(shared.join("skeletons")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn filled_skeletons_import() {
    let Some(filled) = std::env::var_os("TENON_FILLED") else {
        println!("skipped: TENON_FILLED names no folder of filled skeletons");
        return;
    };
    let Some(shared) = crate::common::real_models() else { return };
    for skeleton in skeletons(&shared) {
        let name = skeleton.file_stem().unwrap().to_owned();
        let model = Path::new(&filled).join(name).join("model.onnx");
        structure(&model).unwrap_or_else(|fault| panic!("{}: {fault}", model.display()));
        // Recorded outputs may lie beside the model.
        if model.with_file_name("test_data_set_0").is_dir() {
            // Roundings of f16 differ from layer to layer.
            let absolute = if model.to_string_lossy().contains("f16") { 1e-2 } else { 1e-4 };
            match run_case(model.parent().unwrap(), absolute, 1e-3) {
                Outcome::Passed => println!("{}: passed", model.display()),
                other => panic!("{}: {other:?}", model.display()),
            }
        }
    }
}
