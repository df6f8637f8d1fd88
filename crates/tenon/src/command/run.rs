//! `tenon run`: run a model.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use tenon_ir::Session;
use tenon_runtime::{Instance, LaunchPlan, RuntimeError, SimulatorOptions};
use tenon_target::Target;
use tenon_tensor::{Tensor, read_npy_as};

use super::arguments::ModelArguments;
use super::device::DeviceName;
use super::output::Output;
use super::run_report::Report;
use crate::{Diagnostic, Failure};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) model: ModelArguments,
    /// Where to run: `sim`, or `cuda[:N]`
    #[arg(long, value_name = "DEVICE", default_value = "sim", value_parser = DeviceName::parse)]
    pub(super) device: DeviceName,
    /// Write each output as NAME.npy into this folder
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Print what the simulator counted
    #[arg(long)]
    pub(super) counters: bool,
    /// Seed of the order of warps and blocks; results do not depend on it
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Refuse a bundle that was not built by exactly this recipe; without it a bundle is taken as it is
    #[arg(long, value_name = "SHA256")]
    pub(super) recipe_hash: Option<String>,
    #[arg(long, hide = true)]
    list: bool,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let seed = arguments.seed.unwrap_or(0);
    if let Some(path) = arguments.model.model.as_deref().filter(|path| tenon_bundle::Bundle::is_one(path)) {
        return super::bundled::run(path, arguments, output);
    }
    if arguments.recipe_hash.is_some() {
        let message = "--recipe-hash is for bundles; a model is compiled by the recipe that is given";
        return Err(Diagnostic::new("E0051", message).with_help("leave it out, or name a bundle").into());
    }
    arguments.device.check_options(&[("--seed", arguments.seed.is_some()), ("--counters", arguments.counters)])?;
    // Before the work of compiling: there may be no such device.
    let device = arguments.device.open(SimulatorOptions { seed, ..SimulatorOptions::default() })?;
    let start = Instant::now();
    let session = Session::new();
    let raw = arguments.model.read_inputs()?;
    let mut prepared = arguments.model.prepare(&session, &raw, output, true)?;
    if !prepared.request.targets_are_named {
        // Of a recipe's several targets a run takes the default one, as it does of a bundle's.
        let default = Target::default_target();
        let targets = &mut prepared.request.targets;
        if targets.iter().any(|target| target.name() == default.name()) {
            targets.retain(|target| target.name() == default.name());
        }
    }
    let (request, source) = (&prepared.request, &prepared.source);
    if request.targets.len() > 1 {
        let names: Vec<_> = request.targets.iter().map(|target| target.name()).collect();
        let message = format!("a run has one target, not {}", names.join(", "));
        return Err(Diagnostic::new("E0036", message).with_help("name one with --target").into());
    }
    for target in &request.targets {
        device.check_target(&target.architecture.name.to_string())?;
    }
    let mut driver = prepared.driver(&session)?.with_progress(|text| output.progress(text));
    let mut programs = driver.programs(source)?;
    let (Some(program), true) = (programs.pop(), programs.is_empty()) else {
        let message = "the inputs fit several buckets: a free dimension is in none of them";
        return Err(Diagnostic::new("E0034", message)
            .with_help("give every input, or name the bucket with --bucket")
            .into());
    };
    let (target, bucket) = (program.target, program.bucket.clone());
    // The importer names what bounds a count so.
    let counts: Vec<_> = program.point.iter().filter(|(name, _)| name.ends_with("_most")).cloned().collect();
    let executable = Arc::new(program.executable(&source.weights)?);
    let inputs = typed_inputs(&arguments.model.inputs, raw, executable.plan(), &source.constant_inputs)?;
    let device_name = arguments.device.describe(device.as_ref());
    let mut instance = Instance::new(device, executable)?;
    for name in &source.states {
        if let Some(first) = source.weights.get(name) {
            instance.keep(name, first.clone());
        }
    }
    let compiled = start.elapsed();
    let start = Instant::now();
    output.progress("running");
    let result = instance.run(&inputs).map_err(|error| at_bound(error, &counts))?;
    output.end_progress();
    let ran = start.elapsed();

    let report = Report {
        source: source.name.clone(),
        target: target.name(),
        bucket,
        device: device_name,
        constant_inputs: &source.constant_inputs,
        prepared: "compiled",
        preparing: compiled,
        running: ran,
    };
    report.print(&result, arguments, output)
}

/// The failure of a run; where it goes beyond a bound of the recipe, of a loop or of what the model counts, the help names the clause. `counts` are the bounds
/// of the bucket.
pub(super) fn at_bound(error: RuntimeError, counts: &[(String, u64)]) -> Failure {
    let is_reached = |(name, most): &&(String, u64)| match &error {
        RuntimeError::Rounds { limit, .. } => limit == most,
        RuntimeError::Size { expression, .. } => name.strip_suffix("_most") == Some(expression),
        _ => false,
    };
    let help = counts.iter().find(is_reached).map(|(name, most)| {
        let inputs = match &error {
            RuntimeError::Rounds { .. } => "give inputs for which the loop ends sooner",
            _ => "give inputs for which the model counts less",
        };
        format!("{inputs}, or allow more than {most} in `semantic.dims.{name}` of the recipe")
    });
    let mut failure = Failure::from(error);
    if help.is_some() {
        failure.0.iter_mut().for_each(|diagnostic| diagnostic.help = help.clone());
    }
    failure
}

/// Inputs with the types of the model: types that NumPy lacks are read as their bits. Inputs that became constants are left out.
pub(super) fn typed_inputs(
    files: &[(String, PathBuf)],
    raw: BTreeMap<String, Tensor>,
    plan: &LaunchPlan,
    constants: &[String],
) -> Result<Vec<(String, Tensor)>, Failure> {
    let mut inputs = Vec::new();
    for (name, tensor) in raw {
        if constants.contains(&name) {
            continue;
        }
        let wanted = plan.inputs.iter().find(|slot| slot.name == name).map(|slot| slot.dtype);
        let file = files.iter().find(|(known, _)| *known == name);
        let tensor = match (wanted, file) {
            (Some(dtype), Some((_, path))) if dtype != tensor.dtype() && !is_numpy(dtype) => read_npy_as(path, dtype)?,
            _ => tensor,
        };
        inputs.push((name, tensor));
    }
    Ok(inputs)
}

/// Whether NumPy has the type itself, so that another type in the file is a mistake.
fn is_numpy(dtype: tenon_tensor::DType) -> bool {
    use tenon_tensor::DType::*;
    matches!(dtype, Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | F16 | F32 | F64 | Complex64 | Complex128)
}
