//! Test cases in the layout of the ONNX backend tests: a model, and folders of inputs and recorded outputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenon_import_onnx::{ImportOptions, Imported, Model, ValueInfo, import_loaded, import_model, read_value_pb};
use tenon_ir::{PrintOptions, Session};
use tenon_reference::{Mode, run_function};
use tenon_tensor::{DType, Tensor};

/// What became of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Passed,
    /// Refused, with the code and the message.
    Refused(&'static str, String),
    /// Values, types or shapes that are not those recorded, or a module that breaks a rule.
    Wrong(String),
}

/// Imports a model and checks that the module breaks no rule and parses back to the same text.
pub fn structure(model: &Path) -> Result<(), String> {
    let session = Session::new();
    let imported = import_model(&session, model, &ImportOptions::default())
        .map_err(|error| format!("{}: {error}", error.code()))?;
    check(&session, &imported)
}

fn check(session: &Session, imported: &Imported<'_>) -> Result<(), String> {
    if let Some(error) = tenon_graph_dialect::check(&imported.module).first() {
        return Err(format!("{}: {error}", error.code()));
    }
    for options in [PrintOptions::default(), PrintOptions { locations: true, generic: false }] {
        let text = imported.module.print(options);
        let again = session.parse_module(&text, "dump").map_err(|error| format!("does not parse back: {error}"))?;
        if again.print(options) != text {
            return Err("parses back to another text".to_owned());
        }
    }
    Ok(())
}

/// The folders `test_data_set_N` of a case, in order.
fn data_sets(folder: &Path) -> Vec<PathBuf> {
    (0..).map(|number| folder.join(format!("test_data_set_{number}"))).take_while(|path| path.is_dir()).collect()
}

/// Runs all data sets of a case in the reference interpreter.
pub fn run_case(folder: &Path, absolute: f64, relative: f64) -> Outcome {
    let model = match Model::load(folder.join("model.onnx")) {
        Ok(model) => model,
        Err(error) => return Outcome::Refused(error.code(), error.to_string()),
    };
    let sets = data_sets(folder);
    if sets.is_empty() {
        return Outcome::Wrong("there is no data set".to_owned());
    }
    for set in sets {
        match run_set(&model, &set, absolute, relative) {
            Outcome::Passed => {}
            other => return other,
        }
    }
    Outcome::Passed
}

fn run_set(model: &Model, set: &Path, absolute: f64, relative: f64) -> Outcome {
    // Tensors are stored by position among the inputs of the file, which include those with an initializer, if there are any.
    let read = |kind: &str, index: usize, port: &ValueInfo| {
        read_value_pb(set.join(format!("{kind}_{index}.pb")), &port.name, &port.value_type)
    };
    let mut given = BTreeMap::new();
    let mut order = Vec::new();
    for (index, input) in model.graph.inputs.iter().enumerate() {
        match read("input", index, input) {
            Ok(tensors) => {
                order.extend(tensors.iter().map(|(name, _)| name.clone()));
                given.extend(tensors);
            }
            Err(error) => return Outcome::Refused(error.code(), error.to_string()),
        };
    }
    let shape = |tensor: &Tensor| tensor.shape().iter().map(|size| *size as u64).collect();
    let shapes = given.iter().map(|(name, tensor)| (name.clone(), shape(tensor))).collect();
    let options = ImportOptions { shapes: Some(shapes), constants: given.clone() };
    let session = Session::new();
    let imported = match import_loaded(&session, model, "model.onnx", &options) {
        Ok(imported) => imported,
        Err(error) => return Outcome::Refused(error.code(), error.to_string()),
    };
    if let Err(fault) = check(&session, &imported) {
        return Outcome::Wrong(fault);
    }
    let arguments = order.iter().filter(|name| !imported.constant_inputs.contains(name));
    let arguments: Vec<Tensor> = arguments.filter_map(|name| given.get(name).cloned()).collect();
    let weights = |name: &str| imported.weights.get(name).cloned();
    let found = match run_function(&imported.module, "main", &arguments, &weights, Mode::Typed) {
        Ok(found) => found,
        // Undefined for these operands, or not supported by the interpreter.
        Err(error) if error.code() == "E0904" || error.code() == "E0905" => {
            return Outcome::Refused(error.code(), error.to_string());
        }
        Err(error) => return Outcome::Wrong(format!("{}: {error}", error.code())),
    };
    let mut recorded = Vec::new();
    for (index, output) in model.graph.outputs.iter().enumerate() {
        match read("output", index, output) {
            Ok(tensors) => recorded.extend(tensors),
            Err(error) => return Outcome::Refused(error.code(), error.to_string()),
        }
    }
    if recorded.len() != found.len() {
        return Outcome::Wrong(format!("{} outputs instead of {}", found.len(), recorded.len()));
    }
    for ((name, expected), found) in recorded.iter().zip(&found) {
        if let Err(fault) = compare(found, expected, absolute, relative) {
            return Outcome::Wrong(format!("{}: output {name}: {fault}", set.display()));
        }
    }
    Outcome::Passed
}

/// Whether `found` is `expected`: equal types and shapes; integers equal, floats within the tolerance, NaN where NaN is expected.
pub fn compare(found: &Tensor, expected: &Tensor, absolute: f64, relative: f64) -> Result<(), String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Err(format!(
            "{}{:?} instead of {}{:?}",
            found.dtype(),
            found.shape(),
            expected.dtype(),
            expected.shape()
        ));
    }
    // A narrow type is at best as exact as itself.
    let (absolute, relative) = match expected.dtype() {
        DType::F16 => (absolute.max(1e-3), relative.max(4e-3)),
        DType::BF16 => (absolute.max(1e-2), relative.max(2e-2)),
        dtype if dtype.is_float() => (absolute, relative),
        _ => (0.0, 0.0),
    };
    let (Ok(found_values), Ok(expected_values)) = (found.to_f64_vec(), expected.to_f64_vec()) else {
        return if found == expected { Ok(()) } else { Err("the elements differ".to_owned()) };
    };
    for (index, (a, b)) in found_values.iter().zip(&expected_values).enumerate() {
        let close = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= absolute + relative * b.abs();
        if !close {
            return Err(format!("element {index} is {a}, recorded is {b}"));
        }
    }
    Ok(())
}
