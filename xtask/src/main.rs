//! `cargo xtask`: what a checkout needs before and around `tenon`.
//!
//! Invariants: no dependency on LLVM, nor on any crate that has one, since this program installs it; no dependency at all
//! outside tests, so that it starts within a second on a new machine. One subcommand, one file. A subcommand that is not
//! known here is one of `tenon`'s and is handed on with its arguments, standard streams and exit status.

mod bench;
mod demo;
mod error;
mod npy;
mod output;
mod programs;
mod setup;
mod tenon;
mod test;
mod tools;
mod workspace;

use error::Result;
use std::ffi::OsString;
use std::process::ExitCode;
use workspace::Workspace;

const USAGE: &str = "\
Usage: cargo xtask COMMAND [ARGUMENTS]

  setup [--ptxas] [--onnx-suite] [--iree] [--check]
                   install what is missing: LLVM and MLIR 22, a C++ compiler
                   --ptxas       also ptxas and nvdisasm, into .venv
                   --onnx-suite  also onnx, onnxruntime and numpy, into .venv
                   --iree        also IREE's compiler, into .venv
                   --check       install nothing, list what is there
  test [FILTER]    all tests of the workspace, or those whose name has FILTER in it
  bless [FILTER]   the same, accepting every changed golden file
  bench --against iree [--repetitions N] [--json] [MODEL...]
                   compile models with Tenon and with IREE in turn: time, peak memory, shares
  demo             lower and run a real model, compare with its recorded outputs
  help             this text

Any other COMMAND is `tenon COMMAND`: cargo xtask lower, run, table, targets, ...
`cargo xtask tenon --help` prints tenon's own help.";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(message) = error.message() {
                eprintln!("xtask: {message}");
            }
            error.exit_code()
        }
    }
}

fn dispatch(arguments: &[OsString]) -> Result<()> {
    let Some((command, rest)) = arguments.split_first() else {
        output::line(USAGE);
        return Ok(());
    };
    let workspace = Workspace::find()?;
    match command.to_str() {
        Some("help" | "--help" | "-h") => {
            output::line(USAGE);
            Ok(())
        }
        Some("setup") => setup::command(&workspace, rest),
        Some("test") => test::test(&workspace, rest),
        Some("bless") => test::bless(&workspace, rest),
        Some("bench") => bench::command(&workspace, rest),
        Some("demo") => demo::command(&workspace, rest),
        Some("tenon") => tenon::delegate(&workspace, rest),
        _ => tenon::delegate(&workspace, arguments),
    }
}
