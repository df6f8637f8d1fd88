//! `cargo xtask lower …` and every other subcommand of `tenon`: set-up, a release build, and then `tenon` in place of this
//! process, so that streams, signals and exit status are its own.

use crate::error::{self, Error, Result};
use crate::workspace::Workspace;
use crate::{setup, tools};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Becomes `tenon ARGUMENTS` in the present working directory; returns only if that fails.
pub fn delegate(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    let mut command = built(workspace)?;
    command.args(arguments);
    let error = command.exec();
    Err(Error::Failed(format!("{}: {error}", command.get_program().display())))
}

/// A command that starts `tenon`, freshly built, with the tools that were found.
///
/// The first build takes minutes and shows cargo's progress on standard error; later ones show only what goes wrong.
pub fn built(workspace: &Workspace) -> Result<Command> {
    setup::ensure(workspace)?;
    let executable = workspace.target.join("release/tenon");
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", "tenon", "--bin", "tenon", "--target-dir"]).arg(&workspace.target);
    if executable.exists() {
        cargo.arg("--quiet");
    }
    let status = cargo.stdin(Stdio::null()).status().map_err(|error| Error::Failed(format!("cargo: {error}")))?;
    error::check(status)?;
    let mut command = Command::new(executable);
    tools::export(&mut command, &workspace.venv())?;
    Ok(command)
}
