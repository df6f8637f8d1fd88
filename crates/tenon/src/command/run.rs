//! `tenon run`: run a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use tenon_ir::Session;
use tenon_runtime::{Counters, Instance, LaunchPlan, RunResult, SimulatorOptions, StepReport};
use tenon_tensor::{Tensor, read_npy_as, write_npy};

use super::arguments::ModelArguments;
use super::device::DeviceName;
use super::output::{Output, aligned};
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

/// An output as it is reported.
#[derive(Serialize)]
pub(super) struct OutputRow {
    pub(super) name: String,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct KernelRow {
    kernel: String,
    launches: usize,
    warp_instructions: u64,
    lane_instructions: u64,
    global_sectors: u64,
    shared_extra_wavefronts: u64,
    mma_macs: u64,
    barrier_waits: u64,
}

#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) target: &'static str,
    pub(super) bucket: Option<String>,
    pub(super) device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    pub(super) launches: usize,
    /// The sizes that the bucket left open, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) extents: BTreeMap<String, i64>,
    pub(super) constant_inputs: Vec<String>,
    pub(super) compile_seconds: f64,
    pub(super) run_seconds: f64,
    pub(super) outputs: Vec<OutputRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<Counters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernels: Option<Vec<KernelRow>>,
}

pub(super) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let seed = arguments.seed.unwrap_or(0);
    if let Some(path) = arguments.model.model.as_deref().filter(|path| tenon_bundle::Bundle::is_one(path)) {
        return super::bundled::run(path, arguments, output);
    }
    arguments.device.check_options(&[("--seed", arguments.seed.is_some()), ("--counters", arguments.counters)])?;
    // Before the work of compiling: there may be no such device.
    let device = arguments.device.open(SimulatorOptions { seed, ..SimulatorOptions::default() })?;
    let start = Instant::now();
    let session = Session::new();
    let raw = arguments.model.read_inputs()?;
    let request = arguments.model.request(output, &raw, true)?;
    if request.targets.len() > 1 {
        let names: Vec<_> = request.targets.iter().map(|target| target.name()).collect();
        let message = format!("a run has one target, not {}", names.join(", "));
        return Err(Diagnostic::new("E0036", message).with_help("name one with --target").into());
    }
    for target in &request.targets {
        device.check_target(&target.architecture.name.to_string())?;
    }
    let mut driver = arguments.model.driver(&session, &request)?.with_progress(|text| output.progress(text));
    let source = arguments.model.source(&session, &raw, output)?;
    let mut programs = driver.programs(&source)?;
    let (Some(program), true) = (programs.pop(), programs.is_empty()) else {
        let message = "the inputs fit several buckets: a free dimension is in none of them";
        return Err(Diagnostic::new("E0034", message)
            .with_help("give every input, or name the bucket with --bucket")
            .into());
    };
    let (target, bucket) = (program.target, program.bucket.clone());
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
    let result = instance.run(&inputs)?;
    output.end_progress();
    let ran = start.elapsed();

    let outputs = write_outputs(&result, arguments.output.as_deref())?;
    if output.json {
        return output.print_json(&Machine {
            target: target.name(),
            bucket,
            device: device_name,
            seed: (arguments.device == DeviceName::Simulator).then_some(seed),
            launches: result.launches,
            extents: result.extents.clone(),
            constant_inputs: source.constant_inputs.clone(),
            compile_seconds: compiled.as_secs_f64(),
            run_seconds: ran.as_secs_f64(),
            outputs,
            counters: arguments.counters.then(|| total(&result)),
            kernels: arguments.counters.then(|| by_kernel(&result)),
        });
    }
    let bucket = bucket.map(|bucket| format!(", bucket {bucket}")).unwrap_or_default();
    output.print(&format!(
        "{} for {}{bucket}: compiled in {:.2} s, {} launches on {} in {:.2} s\n",
        source.name,
        target.name(),
        compiled.as_secs_f64(),
        result.launches,
        if arguments.device == DeviceName::Simulator { "the simulator" } else { &device_name },
        ran.as_secs_f64()
    ))?;
    if arguments.counters {
        output.print(&counters_text(&result))?;
    }
    for row in outputs {
        let file = row.file.map(|file| format!(" in {}", file.display())).unwrap_or_default();
        output.print(&format!("output {}: {}{:?}{file}\n", row.name, row.dtype, row.shape))?;
    }
    Ok(())
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

/// `NAME.npy`, with characters that file names should not have replaced.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    format!("{}.npy", name.chars().map(|c| if keep(c) { c } else { '_' }).collect::<String>())
}

pub(super) fn write_outputs(result: &RunResult, folder: Option<&Path>) -> Result<Vec<OutputRow>, Failure> {
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .map_err(|error| Diagnostic::new("E0002", format!("{}: {error}", folder.display())))?;
        let names: Vec<_> = result.outputs.iter().map(|(name, _)| file_name(name)).collect();
        if let Some((index, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            let message = format!("outputs `{}` and another would both be the file {name}", result.outputs[index].0);
            return Err(Diagnostic::new("E0037", message).with_help("rename an output of the model").into());
        }
    }
    let mut rows = Vec::new();
    for (name, tensor) in &result.outputs {
        let file = folder.map(|folder| folder.join(file_name(name)));
        if let Some(file) = &file {
            write_npy(file, tensor)?;
        }
        rows.push(OutputRow { name: name.clone(), dtype: tensor.dtype().name(), shape: tensor.shape().to_vec(), file });
    }
    Ok(rows)
}

pub(super) fn total(result: &RunResult) -> Counters {
    let mut total = Counters::default();
    result
        .steps
        .iter()
        .flat_map(StepReport::walk)
        .filter_map(|step| step.counters.as_ref())
        .for_each(|counters| total.add(counters));
    total
}

pub(super) fn by_kernel(result: &RunResult) -> Vec<KernelRow> {
    let mut rows: Vec<KernelRow> = Vec::new();
    for step in result.steps.iter().flat_map(StepReport::walk) {
        let (Some(entry), Some(counters)) = (&step.entry, &step.counters) else { continue };
        let index = rows.iter().position(|row| row.kernel == *entry).unwrap_or_else(|| {
            rows.push(KernelRow {
                kernel: entry.clone(),
                launches: 0,
                warp_instructions: 0,
                lane_instructions: 0,
                global_sectors: 0,
                shared_extra_wavefronts: 0,
                mma_macs: 0,
                barrier_waits: 0,
            });
            rows.len() - 1
        });
        let row = &mut rows[index];
        row.launches += 1;
        row.warp_instructions += counters.warp_instructions;
        row.lane_instructions += counters.lane_instructions;
        row.global_sectors += counters.global_sectors;
        row.shared_extra_wavefronts += counters.shared_extra_wavefronts;
        row.mma_macs += counters.mma_macs;
        row.barrier_waits += counters.barrier_waits;
    }
    rows
}

pub(super) fn counters_text(result: &RunResult) -> String {
    let cells = |row: KernelRow| {
        vec![
            row.kernel,
            row.launches.to_string(),
            row.warp_instructions.to_string(),
            row.global_sectors.to_string(),
            row.shared_extra_wavefronts.to_string(),
            row.mma_macs.to_string(),
            row.barrier_waits.to_string(),
        ]
    };
    let rows: Vec<_> = by_kernel(result).into_iter().map(cells).collect();
    let headings =
        ["kernel", "launches", "warp instructions", "global sectors", "bank conflicts", "mma MACs", "barrier waits"];
    let total = total(result);
    format!(
        "{}total: {} warp instructions, {} lane instructions, {:.2} global sectors a request, {} bytes of asynchronous copies, L2 hit rate {:.2}\n",
        aligned(&headings, &rows),
        total.warp_instructions,
        total.lane_instructions,
        total.sectors_per_request(),
        total.async_copy_bytes,
        total.l2_hit_rate()
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(file_name("a/b c:0"), "a_b_c_0.npy");
        assert_eq!(file_name("y.1-x_2"), "y.1-x_2.npy");
    }
}
