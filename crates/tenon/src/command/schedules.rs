//! `tenon explain --schedules`: the tiles that were weighed for each product, by the model that chose.

use serde::Serialize;
use tenon_ir::Module;
use tenon_lowering::schedule::{Candidate, candidates};
use tenon_target::Target;

use super::output::{Output, aligned};
use crate::Failure;
use crate::driver::{Driver, Source};
use crate::stage::Stage;

/// Prints what was weighed for every kernel of the source, for each target.
pub(super) fn print<'s>(
    driver: &mut Driver<'s, '_>,
    source: &Source<'s>,
    targets: &[&'static Target],
    output: &Output,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (bucket, module) in driver.modules(source, Stage::Fuse)? {
        for target in targets {
            all.extend(of_module(&module, bucket.as_deref(), target)?);
        }
    }
    if output.json { output.print_json(&all) } else { print_table(&all, output) }
}

/// A kernel with the schedules that were weighed for it.
#[derive(Serialize)]
struct Schedules {
    target: &'static str,
    bucket: Option<String>,
    kernel: String,
    family: String,
    /// None where the family has one schedule for such a kernel.
    candidates: Vec<Weighed>,
    /// Schedules that it cannot have.
    ruled_out: Vec<RuledOut>,
}

/// A schedule that is not weighed, and why.
#[derive(Serialize)]
struct RuledOut {
    schedule: &'static str,
    reason: String,
}

/// A [`Candidate`] as it is printed.
#[derive(Serialize)]
struct Weighed {
    schedule: &'static str,
    tile: [u32; 3],
    splits: u32,
    warps: u32,
    blocks: u64,
    waves: u64,
    occupancy: f64,
    stages: u32,
    bytes: u64,
    clocks: u64,
    chosen: bool,
}

impl From<Candidate> for Weighed {
    fn from(candidate: Candidate) -> Self {
        let Candidate { schedule, tile, splits, warps, blocks, waves, occupancy, stages, bytes, clocks, chosen } =
            candidate;
        Weighed { schedule, tile, splits, warps, blocks, waves, occupancy, stages, bytes, clocks, chosen }
    }
}

fn of_module(module: &Module<'_>, bucket: Option<&str>, target: &'static Target) -> Result<Vec<Schedules>, Failure> {
    let kernels = module.op().walk().into_iter().filter(|op| op.is("graph.kernel"));
    kernels
        .map(|kernel| {
            let weighed = candidates(kernel, target)?;
            let ruled_out = weighed.ruled_out.into_iter();
            Ok(Schedules {
                target: target.name(),
                bucket: bucket.map(str::to_owned),
                kernel: kernel.string("sym_name").unwrap_or_default(),
                family: kernel.string("family").unwrap_or_default(),
                candidates: weighed.candidates.into_iter().map(Weighed::from).collect(),
                ruled_out: ruled_out.map(|out| RuledOut { schedule: out.schedule, reason: out.reason }).collect(),
            })
        })
        .collect()
}

fn print_table(all: &[Schedules], output: &Output) -> Result<(), Failure> {
    let headings = [
        "target",
        "bucket",
        "kernel",
        "schedule",
        "tile",
        "splits",
        "warps",
        "blocks",
        "waves",
        "occupancy",
        "stages",
        "bytes",
        "clocks",
        "",
    ];
    let mut rows = Vec::new();
    for kernel in all {
        let own = [kernel.target.to_owned(), kernel.bucket.clone().unwrap_or_default(), kernel.kernel.clone()];
        let least = kernel.candidates.iter().map(|candidate| candidate.clocks).min().unwrap_or(0).max(1);
        if kernel.candidates.is_empty() {
            let mut row = own.to_vec();
            row.extend(vec!["-".to_owned(); 10]);
            row.push(format!("`{}` has one schedule for it", kernel.family));
            rows.push(row);
        }
        for candidate in &kernel.candidates {
            let [rows_of_tile, columns, depth] = candidate.tile;
            let more = (candidate.clocks as f64 / least as f64 - 1.0) * 100.0;
            let verdict = match (candidate.chosen, kernel.candidates.len()) {
                (true, 1) => "chosen: the only tile".to_owned(),
                (true, _) => "chosen: the least clocks, of equals the first".to_owned(),
                (false, _) => format!("{more:.0} % more"),
            };
            rows.push(
                own.iter()
                    .cloned()
                    .chain([
                        candidate.schedule.to_owned(),
                        format!("{rows_of_tile}x{columns}x{depth}"),
                        candidate.splits.to_string(),
                        candidate.warps.to_string(),
                        candidate.blocks.to_string(),
                        candidate.waves.to_string(),
                        format!("{:.0} %", candidate.occupancy * 100.0),
                        candidate.stages.to_string(),
                        candidate.bytes.to_string(),
                        candidate.clocks.to_string(),
                        verdict,
                    ])
                    .collect(),
            );
        }
        for RuledOut { schedule, reason } in &kernel.ruled_out {
            let mut row = own.to_vec();
            row.push((*schedule).to_owned());
            row.extend(vec!["-".to_owned(); 9]);
            row.push(format!("not possible: {reason}"));
            rows.push(row);
        }
    }
    output.print(&aligned(&headings, &rows))
}
