//! The command line.
//!
//! One file a command: its arguments, what it does, what it prints. Exit status: 0 done, 1 refused, 2 wrong usage.

mod arguments;
mod bisect;
mod build;
mod bundled;
mod codegen;
mod conformance;
mod device;
mod diff;
mod errors;
mod explain;
mod later;
mod lower;
mod output;
mod recipe;
mod run;
mod run_report;
mod schedules;
mod sim;
mod table;
mod targets;
mod verify;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::Failure;
use crate::conformance::{WorkerArguments, serve};
use output::Output;

/// Compiles models to PTX, and runs them with or without a GPU.
#[derive(Parser)]
#[command(name = "tenon", version, about, max_term_width = 120, disable_help_subcommand = true)]
struct Command {
    /// Print for machines: results and errors as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Print nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print what is done.
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Print or write the stages of a model.
    Lower(lower::Arguments),
    /// Print one row per operator: types, layout, kernel.
    Table(table::Arguments),
    /// Print what was decided: kernels, rewrites.
    Explain(explain::Arguments),
    /// Find the first rewrite after which the graph leaves the recipe's tolerance.
    Bisect(bisect::Arguments),
    /// Assemble the kernels of models, and print registers, spills, occupancy and instructions.
    Codegen(codegen::Arguments),
    /// Compile a model for all targets and buckets of a recipe into one file.
    Build(build::Arguments),
    /// Run a model or a bundle, on the simulator unless told otherwise.
    Run(run::Arguments),
    /// Check a bundle, or the bundle that a model becomes: hashes, graph, kernels, numbers.
    Verify(verify::Arguments),
    /// Say what differs between two bundles, or two graphs.
    Diff(diff::Arguments),
    /// Write, check and compare recipes.
    #[command(subcommand)]
    Recipe(recipe::Recipes),
    /// List the targets.
    Targets,
    /// Explain an error code, or list all.
    Errors(errors::Arguments),
    /// Run a PTX file on the simulator.
    Sim(sim::Arguments),
    /// Run a test suite, and compare the results with those expected.
    #[command(subcommand)]
    Conformance(conformance::Suite),
    /// Runs cases of a suite that a parent process names.
    #[command(hide = true)]
    ConformanceWorker(WorkerArguments),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(internal_error));
    let command = Command::parse();
    let output = Output { json: command.json, quiet: command.quiet, verbose: command.verbose };
    let run = || run(command.command, &output);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            output.failure(&failure);
            ExitCode::from(1)
        }
        Err(_) => ExitCode::from(1),
    }
}

fn run(command: Subcommands, output: &Output) -> Result<(), Failure> {
    match command {
        Subcommands::Lower(arguments) => lower::run(&arguments, output),
        Subcommands::Table(arguments) => table::run(&arguments, output),
        Subcommands::Explain(arguments) => explain::run(&arguments, output),
        Subcommands::Bisect(arguments) => bisect::run(&arguments, output),
        Subcommands::Codegen(arguments) => codegen::run(&arguments, output),
        Subcommands::Build(arguments) => build::run(&arguments, output),
        Subcommands::Run(arguments) => run::run(&arguments, output),
        Subcommands::Verify(arguments) => verify::run(&arguments, output),
        Subcommands::Diff(arguments) => diff::run(&arguments, output),
        Subcommands::Recipe(command) => recipe::run(&command, output),
        Subcommands::Targets => targets::run(output),
        Subcommands::Errors(arguments) => errors::run(&arguments, output),
        Subcommands::Sim(arguments) => sim::run(&arguments, output),
        Subcommands::Conformance(suite) => conformance::run(&suite, output),
        Subcommands::ConformanceWorker(arguments) => serve(&arguments),
        Subcommands::Other(words) => later::run(&words),
    }
}

/// Last line of defence: a panic is a fault of Tenon, whatever the input.
fn internal_error(info: &std::panic::PanicHookInfo<'_>) {
    let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let reason = info.payload_as_str().unwrap_or("no reason given");
    let diagnostic = crate::Diagnostic::new("E0099", format!("internal error{place}: {reason}"))
        .with_help("this is a fault of Tenon: report it with the command and the files it was given");
    eprint!("{}", diagnostic.render(std::io::stderr().is_terminal()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
