//! `cargo xtask demo`: a real model through every stage to PTX, run on the simulator, compared with its recorded outputs.

use crate::error::{self, Error, Result};
use crate::npy::{self, Array};
use crate::output;
use crate::tenon;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::time::Instant;

const MODEL: &str = "testdata/models/ppocrv6_det_tiny";
const INPUT: &str = "x";
const OUTPUT: &str = "fetch_name_0";
/// The tolerance of the default recipe, absolute and relative.
const TOLERANCE: (f64, f64) = (1e-4, 1e-3);

/// Runs the demonstration.
pub fn command(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    if !arguments.is_empty() {
        return Err(Error::Usage("demo takes no arguments".into()));
    }
    let mut command = tenon::built(workspace)?;
    let output = workspace.target.join("demo");
    command.current_dir(&workspace.root).arg("run").arg(format!("{MODEL}/model.onnx"));
    command.args(["--shapes-from-inputs", "--input", &format!("{INPUT}={MODEL}/{INPUT}.0.npy"), "--counters", "-o"]);
    command.arg(&output);
    // A file of an earlier run must not pass for this one's.
    match fs::remove_dir_all(&output) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::file(&output, error)),
        _ => {}
    }
    let line: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    output::line(&format!("$ tenon {}", line.join(" ")));
    let start = Instant::now();
    error::check(command.status().map_err(|error| Error::Failed(format!("tenon: {error}")))?)?;
    output::line(&format!("took {:.1} s", start.elapsed().as_secs_f64()));

    let actual = npy::read(&output.join(format!("{OUTPUT}.npy")))?;
    let expected = npy::read(&workspace.root.join(format!("{MODEL}/{OUTPUT}.0.npy")))?;
    let difference = compare(&actual, &expected)?;
    output::line(&format!(
        "{OUTPUT} {:?}: {} elements, largest difference from ONNX Runtime's output {:.1e}, allowed {:.0e} + {:.0e} x value",
        actual.shape,
        actual.data.len(),
        difference.largest,
        TOLERANCE.0,
        TOLERANCE.1,
    ));
    if difference.beyond > 0 {
        return Err(Error::Failed(format!("{} elements of {OUTPUT} differ by more than allowed", difference.beyond)));
    }
    Ok(())
}

/// How far two arrays are apart.
struct Difference {
    /// The largest absolute difference; NaN if one element is NaN on one side only.
    largest: f64,
    /// How many elements are further apart than the tolerance.
    beyond: usize,
}

fn compare(actual: &Array, expected: &Array) -> Result<Difference> {
    if actual.shape != expected.shape {
        return Err(Error::Failed(format!("{OUTPUT} has shape {:?}, expected {:?}", actual.shape, expected.shape)));
    }
    let mut difference = Difference { largest: 0.0, beyond: 0 };
    for (actual, expected) in actual.data.iter().zip(&expected.data) {
        if actual == expected || actual.is_nan() && expected.is_nan() {
            continue;
        }
        let (actual, expected) = (f64::from(*actual), f64::from(*expected));
        let apart = (actual - expected).abs();
        if !apart.is_finite() || apart > TOLERANCE.0 + TOLERANCE.1 * expected.abs() {
            difference.beyond += 1;
        }
        if apart.is_nan() || apart > difference.largest {
            difference.largest = apart;
        }
    }
    Ok(difference)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn array(data: &[f32]) -> Array {
        Array { shape: vec![data.len()], data: data.to_vec() }
    }

    #[test]
    fn tolerance_is_absolute_plus_relative() {
        let expected = array(&[0.0, 1.0, 100.0, f32::NAN, f32::INFINITY]);
        let near = compare(&array(&[0.00009, 1.001, 100.09, f32::NAN, f32::INFINITY]), &expected).unwrap();
        assert_eq!(near.beyond, 0);
        assert!((near.largest - 0.09).abs() < 1e-5);
        let far = compare(&array(&[0.0002, 1.002, 100.2, 0.0, 0.0]), &expected).unwrap();
        assert_eq!(far.beyond, 5);
        assert!(compare(&array(&[0.0]), &expected).is_err());
    }

    #[test]
    fn the_model_and_its_recorded_run_are_shipped() {
        let workspace = Workspace::find().unwrap();
        let folder = workspace.root.join(MODEL);
        assert!(folder.join("model.onnx").is_file());
        assert_eq!(npy::read(&folder.join(format!("{INPUT}.0.npy"))).unwrap().shape, [1, 3, 96, 160]);
        assert_eq!(npy::read(&folder.join(format!("{OUTPUT}.0.npy"))).unwrap().shape, [1, 1, 96, 160]);
    }
}
