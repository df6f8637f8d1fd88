//! Buffers that a model writes: kept from run to run, in bundles too.

use std::sync::Arc;

use tenon::bundle::{build, load, pool, states};
use tenon::driver::{Driver, Request, Source};
use tenon_bundle::Bundle;
use tenon_import_onnx::ImportOptions;
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_runtime::{SimulatorDevice, SimulatorOptions};
use tenon_target::Target;
use tenon_tensor::{Tensor, read_npy};

use crate::*;

const RECIPE: &str = "recipe = 1\nname = \"counter\"\n";

fn bundle(folder: &tempfile::TempDir) -> PathBuf {
    let session = Session::new();
    let request = Request::of(Recipe::parse(RECIPE).unwrap());
    let mut driver = Driver::new(&session, &request).unwrap();
    let model = testdata("pt2/counter/model.pt2");
    let source = Source::model(&session, model.as_ref(), &ImportOptions::default(), None).unwrap();
    let built = build(&mut driver, &source, "counter").unwrap();
    built.write(&folder.path().join("out")).unwrap()
}

/// What the model of `testdata/pt2/make.py` gives in its runs: `total[1:4] += sum of rows of x`, `steps += 1`, and their product.
fn expected(x: &Tensor, runs: usize) -> Vec<Vec<f64>> {
    let values = x.to_f64_vec().unwrap();
    let mut total: Vec<f64> = (0..6).map(f64::from).collect();
    let mut outputs = Vec::new();
    for run in 1..=runs {
        for column in 1..4 {
            total[column] += values.iter().skip(column).step_by(6).sum::<f64>();
        }
        outputs.push(total.iter().map(|value| value * run as f64).collect());
    }
    outputs
}

#[test]
fn a_bundle_keeps_what_a_model_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(&folder);
    let opened = Bundle::open(&path).unwrap();
    let names: Vec<&String> = opened.manifest().states.keys().collect();
    assert_eq!(names, ["steps", "total"]);
    let (programs, weights) = load(&opened, Target::default_target()).unwrap();
    let device = Arc::new(SimulatorDevice::new(SimulatorOptions::default()));
    let mut pool = pool(device, &programs, &weights).unwrap();
    for (name, first) in states(&opened, &weights) {
        pool.keep(name, first);
    }
    let x = read_npy(testdata("pt2/counter/input_0.npy")).unwrap();
    for (run, expected) in expected(&x, 4).into_iter().enumerate() {
        let (_, result) = pool.run(&[("x".to_owned(), x.clone())]).unwrap();
        let output = result.outputs[0].1.to_f64_vec().unwrap();
        for (actual, expected) in output.iter().zip(&expected) {
            assert!((actual - expected).abs() < 1e-4, "run {run}: {actual} instead of {expected}");
        }
        assert_eq!(pool.kept()["steps"].get_i64(0), Some(run as i64 + 1));
    }
    // A value that the caller gives is taken instead, and what follows from it is kept.
    let steps = Tensor::from_i64(Vec::new(), &[10]).unwrap();
    pool.run(&[("x".to_owned(), x), ("steps".to_owned(), steps)]).unwrap();
    assert_eq!(pool.kept()["steps"].get_i64(0), Some(11));
}

#[test]
fn the_command_runs_a_bundle_from_its_first_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(&folder).to_str().unwrap().to_owned();
    let out = file(&folder, "results");
    let input = format!("x={}", testdata("pt2/counter/input_0.npy"));
    tenon(&["run", &path, "--input", &input, "-o", &out]).done();
    let x = read_npy(testdata("pt2/counter/input_0.npy")).unwrap();
    let total = read_npy(file(&folder, "results/total.npy")).unwrap();
    for (actual, expected) in total.iter_f64().unwrap().zip(&expected(&x, 1)[0]) {
        assert!((actual - expected).abs() < 1e-4, "{actual} instead of {expected}");
    }
    assert_eq!(read_npy(file(&folder, "results/steps.npy")).unwrap(), Tensor::from_i64(Vec::new(), &[1]).unwrap());
    let verified = tenon(&["verify", &path, "--numerics"]);
    let text = verified.done();
    assert!(text.contains("total (kept)") && text.contains("steps (kept)"), "{text}");
}

#[test]
fn a_state_without_its_first_value_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(&folder);
    let opened = Bundle::open(&path).unwrap();
    let mut manifest = opened.manifest().clone();
    let parts = manifest.parts.iter().map(|part| tenon_bundle::Part {
        name: part.name.clone(),
        pieces: vec![opened.part(&part.name).unwrap().clone()],
    });
    let parts: Vec<_> = parts.collect();
    manifest.states.insert("lost".to_owned(), "00".to_owned());
    let written = tenon_bundle::Writer::new(manifest, parts).write(folder.path(), "wrong.tenon").unwrap();
    let error = Bundle::open(&written).err().unwrap();
    assert_eq!(error.code(), "E0048");
    assert!(error.to_string().contains("`lost`"), "{error}");
}
