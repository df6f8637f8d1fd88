//! What `tenon run` reports, of a model that was compiled for the run and of a bundle alike.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tenon_runtime::{Counters, RunResult, StepReport};
use tenon_tensor::write_npy;

use super::device::DeviceName;
use super::output::{Output, aligned};
use super::run::Arguments;
use crate::{Diagnostic, Failure};

/// What is known of a run besides its result.
pub(super) struct Report<'a> {
    /// The model's name, or the bundle's file.
    pub(super) source: String,
    pub(super) target: &'static str,
    pub(super) bucket: Option<String>,
    pub(super) device: String,
    pub(super) constant_inputs: &'a [String],
    /// How the program came to be: `compiled` or `loaded`.
    pub(super) prepared: &'static str,
    pub(super) preparing: Duration,
    pub(super) running: Duration,
}

/// An output as it is reported.
#[derive(Serialize)]
struct OutputRow {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

#[derive(Default, Serialize)]
struct KernelRow {
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
struct Machine<'a> {
    target: &'static str,
    bucket: Option<String>,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    launches: usize,
    /// The sizes that the bucket left open, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extents: &'a BTreeMap<String, i64>,
    constant_inputs: &'a [String],
    compile_seconds: f64,
    run_seconds: f64,
    outputs: Vec<OutputRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Counters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<Vec<KernelRow>>,
}

impl Report<'_> {
    /// Writes the outputs where that is asked for, and prints what was run.
    pub(super) fn print(self, result: &RunResult, arguments: &Arguments, output: &Output) -> Result<(), Failure> {
        let outputs = write_outputs(result, arguments.output.as_deref())?;
        let is_simulator = arguments.device == DeviceName::Simulator;
        if output.json {
            return output.print_json(&Machine {
                target: self.target,
                bucket: self.bucket,
                device: self.device,
                seed: is_simulator.then(|| arguments.seed.unwrap_or(0)),
                launches: result.launches,
                extents: &result.extents,
                constant_inputs: self.constant_inputs,
                compile_seconds: self.preparing.as_secs_f64(),
                run_seconds: self.running.as_secs_f64(),
                outputs,
                counters: arguments.counters.then(|| total(result)),
                kernels: arguments.counters.then(|| by_kernel(result)),
            });
        }
        let bucket = self.bucket.map(|bucket| format!(", bucket {bucket}")).unwrap_or_default();
        output.print(&format!(
            "{} for {}{bucket}: {} in {:.2} s, {} launches on {} in {:.2} s\n",
            self.source,
            self.target,
            self.prepared,
            self.preparing.as_secs_f64(),
            result.launches,
            if is_simulator { "the simulator" } else { &self.device },
            self.running.as_secs_f64()
        ))?;
        if arguments.counters {
            output.print(&counters_text(result))?;
        }
        for row in outputs {
            let file = row.file.map(|file| format!(" in {}", file.display())).unwrap_or_default();
            output.print(&format!("output {}: {}{:?}{file}\n", row.name, row.dtype, row.shape))?;
        }
        Ok(())
    }
}

/// `NAME.npy`, with characters that file names should not have replaced.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    format!("{}.npy", name.chars().map(|c| if keep(c) { c } else { '_' }).collect::<String>())
}

fn write_outputs(result: &RunResult, folder: Option<&Path>) -> Result<Vec<OutputRow>, Failure> {
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

fn total(result: &RunResult) -> Counters {
    let mut total = Counters::default();
    result
        .steps
        .iter()
        .flat_map(StepReport::walk)
        .filter_map(|step| step.counters.as_ref())
        .for_each(|counters| total.add(counters));
    total
}

fn by_kernel(result: &RunResult) -> Vec<KernelRow> {
    let mut rows: Vec<KernelRow> = Vec::new();
    for step in result.steps.iter().flat_map(StepReport::walk) {
        let (Some(entry), Some(counters)) = (&step.entry, &step.counters) else { continue };
        let index = rows.iter().position(|row| row.kernel == *entry).unwrap_or_else(|| {
            rows.push(KernelRow { kernel: entry.clone(), ..KernelRow::default() });
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

fn counters_text(result: &RunResult) -> String {
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
