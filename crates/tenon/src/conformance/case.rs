//! One case: import, PTX, simulator, judgement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_import_onnx::{ImportOptions, Model, ValueInfo, ValueType, read_tensor_pb, read_value_pb};
use tenon_ir::Session;
use tenon_recipe::Recipe;
use tenon_runtime::{Instance, SimulatorDevice, SimulatorOptions};
use tenon_tensor::Tensor;

use super::{Outcome, Settings, Verdict, judge, judge_drawn};
use crate::driver::{Driver, Request, Source};
use crate::{Diagnostic, Failure};

/// Memory of the simulated device, in bytes: far more than a case of the suite needs.
const DEVICE_BYTES: u64 = 1 << 30;

/// Codes by which Tenon reports a fault of its own rather than refuse a model: a module that it made does not verify, a kernel does
/// not fit what made it, a step of the compiler failed. A case that ends so has failed.
const OWN_FAULTS: &[&str] = &[
    "E0099", "E0139", "E0401", "E0402", "E0403", "E0404", "E0405", "E0406", "E0410", "E0503", "E0510", "E0511",
    "E0513", "E0514", "E0520", "E0521", "E0550", "E0554", "E0555",
];

/// Runs every data set of a case on the simulator, with all checks on, compiled for exactly the shapes of its inputs.
///
/// An input whose value decides a shape is taken as a constant, as `tenon run --shapes-from-inputs` does.
pub fn run_case(folder: &Path, settings: &Settings) -> Verdict {
    match run_sets(folder, settings) {
        Ok(()) => Verdict { outcome: Outcome::Passed, code: None, detail: None },
        Err(verdict) => verdict,
    }
}

/// A refusal, or a fault if its code says so.
fn refused(failure: Failure) -> Verdict {
    let is_fault = failure.0.iter().any(|diagnostic| OWN_FAULTS.contains(&diagnostic.code.as_str()));
    with_code(if is_fault { Outcome::Failed } else { Outcome::Refused }, &failure)
}

fn with_code(outcome: Outcome, failure: &Failure) -> Verdict {
    let detail: Vec<_> = failure.0.iter().map(|diagnostic| diagnostic.message.replace('\n', " ")).collect();
    let code = failure.0.first().map(|diagnostic| diagnostic.code.clone());
    Verdict { outcome, code, detail: Some(detail.join("; ")) }
}

fn run_sets(folder: &Path, settings: &Settings) -> Result<(), Verdict> {
    let model = Model::load(folder.join("model.onnx")).map_err(|error| refused(error.into()))?;
    let sets: Vec<PathBuf> =
        (0..).map(|number| folder.join(format!("test_data_set_{number}"))).take_while(|path| path.is_dir()).collect();
    if sets.is_empty() {
        return Err(Verdict::failed("there is no folder test_data_set_0"));
    }
    for set in sets {
        run_set(folder, &model, &set, settings)?;
    }
    Ok(())
}

/// The recorded tensors of an input or output; types that Tenon has no tensors of are refused, a file that is not there is a fault of the
/// tree.
fn read(set: &Path, kind: &str, index: usize, port: &ValueInfo) -> Result<Vec<(String, Tensor)>, Verdict> {
    let path = set.join(format!("{kind}_{index}.pb"));
    if !path.is_file() {
        return Err(Verdict::failed(format!("{} is not there", path.display())));
    }
    read_value_pb(&path, &port.name, &port.value_type).map_err(|error| refused(error.into()))
}

fn run_set(folder: &Path, model: &Model, set: &Path, settings: &Settings) -> Result<(), Verdict> {
    let mut given = BTreeMap::new();
    for (index, input) in model.graph.inputs.iter().enumerate() {
        // Files are in the order of the inputs. Where inputs with an initializer have files too, names say which file is whose.
        let own_name = match input.value_type {
            ValueType::Tensor(_) => {
                read_tensor_pb(set.join(format!("input_{index}.pb"))).map(|(name, _)| name).unwrap_or_default()
            }
            _ => String::new(),
        };
        let port = model.graph.inputs.iter().find(|input| input.name == own_name).unwrap_or(input);
        given.extend(read(set, "input", index, port)?);
    }
    let outputs = compile_and_run(folder, given, settings)?;
    let mut recorded = Vec::new();
    for (index, output) in model.graph.outputs.iter().enumerate() {
        recorded.extend(read(set, "output", index, output)?);
    }
    let names = |list: &[(String, Tensor)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    if names(&outputs) != names(&recorded) {
        let (found, wanted) = (names(&outputs).join(", "), names(&recorded).join(", "));
        return Err(Verdict::failed(format!("outputs [{found}] instead of [{wanted}]")));
    }
    let judge = if draws(model) { judge_drawn } else { judge };
    for ((name, found), (_, recorded)) in outputs.iter().zip(&recorded) {
        judge(found, recorded).map_err(|difference| {
            let set = set.file_name().unwrap_or_default().to_string_lossy();
            Verdict::failed(format!("{set}: output {name}: {difference}"))
        })?;
    }
    Ok(())
}

/// Whether the model draws random numbers, of which ONNX prescribes none.
fn draws(model: &Model) -> bool {
    const OPERATORS: [&str; 6] =
        ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];
    model.graph.nodes.iter().any(|node| node.domain().is_empty() && OPERATORS.contains(&node.op_type()))
}

/// Outputs in the model's order.
fn compile_and_run(
    folder: &Path,
    given: BTreeMap<String, Tensor>,
    settings: &Settings,
) -> Result<Vec<(String, Tensor)>, Verdict> {
    let shape = |tensor: &Tensor| -> Vec<u64> { tensor.shape().iter().map(|size| *size as u64).collect() };
    let shapes: BTreeMap<String, Vec<u64>> = given.iter().map(|(name, tensor)| (name.clone(), shape(tensor))).collect();
    let request = Request {
        recipe: Recipe::default(),
        targets: vec![settings.target],
        targets_are_named: true,
        bucket: Vec::new(),
        input_shapes: Some(shapes.clone().into_iter().collect()),
        passes: tenon_pass_manager::Options::default(),
        threads: 1,
    };
    let session = Session::new();
    let compile = || -> Result<_, Failure> {
        let options = ImportOptions { shapes: Some(shapes), constants: given.clone() };
        let source = Source::model(&session, &folder.join("model.onnx"), &options, None)?;
        let mut programs = Driver::new(&session, &request)?.programs(&source)?;
        let (Some(program), true) = (programs.pop(), programs.is_empty()) else {
            return Err(Diagnostic::new("E0034", "the inputs fit several buckets").into());
        };
        Ok((program.executable(&source.weights)?, source.constant_inputs))
    };
    let (executable, constants) = compile().map_err(refused)?;
    let device = SimulatorDevice::new(SimulatorOptions {
        memory_bytes: DEVICE_BYTES,
        seed: settings.seed,
        threads: 1,
        instruction_budget: settings.instruction_budget,
        ..SimulatorOptions::default()
    });
    let inputs: Vec<(String, Tensor)> = given.into_iter().filter(|(name, _)| !constants.contains(name)).collect();
    // From here on there is a program, and whatever goes wrong is its fault.
    let run = || -> Result<_, Failure> {
        let mut instance = Instance::new(Arc::new(device), Arc::new(executable))?;
        Ok(instance.run(&inputs)?.outputs)
    };
    run().map_err(|failure| with_code(Outcome::Failed, &failure))
}
