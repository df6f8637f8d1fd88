//! A worker: a process that runs one case after the other and says what became of each.
//!
//! Requests come on standard input, a JSON text with the case's folder each line. Answers go to standard output, two lines each: the
//! operator as soon as it is known, then the verdict.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use tenon_target::Target;

use super::{Settings, operator_of, run_case};
use crate::{Diagnostic, Failure};

/// Name of the subcommand that becomes a worker.
pub(super) const SUBCOMMAND: &str = "conformance-worker";

/// What a worker is told when it starts.
#[derive(Debug, Clone, Args)]
pub struct WorkerArguments {
    /// The target.
    #[arg(long)]
    pub(super) target: String,
    /// Most warp instructions of a launch.
    #[arg(long)]
    pub(super) instruction_budget: u64,
    /// Most bytes of address space.
    #[arg(long)]
    pub(super) memory: u64,
    /// Seed of the order of warps and blocks.
    #[arg(long)]
    pub(super) seed: u64,
}

impl WorkerArguments {
    /// As words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        vec![
            SUBCOMMAND.to_owned(),
            format!("--target={}", self.target),
            format!("--instruction-budget={}", self.instruction_budget),
            format!("--memory={}", self.memory),
            format!("--seed={}", self.seed),
        ]
    }
}

/// Runs cases until there are no more requests.
///
/// # Errors
/// An unknown target, a limit that cannot be set, streams that cannot be read or written.
pub fn serve(arguments: &WorkerArguments) -> Result<(), Failure> {
    let settings = Settings {
        target: Target::find(&arguments.target)?,
        instruction_budget: arguments.instruction_budget,
        seed: arguments.seed,
    };
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Failure::from(Diagnostic::new("E0043", format!("a worker cannot {what}: {error}")))
    };
    // Memory that is asked for beyond the limit is a failed allocation in this process, not the end of another one.
    let known = getrlimit(Resource::As);
    let current = known.maximum.map_or(arguments.memory, |most| most.min(arguments.memory));
    setrlimit(Resource::As, Rlimit { current: Some(current), ..known })
        .map_err(|error| failed("limit its memory", &error))?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed("follow its parent", &error))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| failed("read a request", &error))?;
        let folder: PathBuf = serde_json::from_str(&line).map_err(|error| failed("read a request", &error))?;
        answer(&operator_of(&folder)).map_err(|error| failed("answer", &error))?;
        answer(&run_case(&folder, &settings)).map_err(|error| failed("answer", &error))?;
    }
    Ok(())
}

fn answer(value: &impl serde::Serialize) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
