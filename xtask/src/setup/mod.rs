//! `cargo xtask setup`: finds what is missing and installs it.
//!
//! Invariants: what is there is judged by files, so that a complete machine costs a few file look-ups and no process; running
//! it twice installs once; what may not be installed here is printed as the exact command, with exit status 1.

mod apt;
mod packages;
mod python;

use crate::error::{Error, Result};
use crate::output;
use crate::tools::Tool;
use crate::workspace::Workspace;
use packages::Host;
pub use python::Set;
use std::ffi::OsString;

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    sets: Vec<Set>,
    check: bool,
}

impl Options {
    fn parse(arguments: &[OsString]) -> Result<Options> {
        let mut options = Options::default();
        for argument in arguments {
            match argument.to_str() {
                Some("--check") => options.check = true,
                Some("--ptxas") => options.sets.push(Set::Ptxas),
                Some("--onnx-suite") => options.sets.push(Set::OnnxSuite),
                Some("--iree") => options.sets.push(Set::Iree),
                _ => {
                    return Err(Error::Usage(format!(
                        "setup does not know `{}`: it takes --ptxas, --onnx-suite, --iree and --check",
                        argument.display()
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// Runs `setup` with its arguments.
pub fn command(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if options.check {
        return check(workspace, &options);
    }
    ensure(workspace)?;
    for set in &options.sets {
        python::ensure(workspace, *set)?;
    }
    check(workspace, &options)
}

/// Installs a group of Python packages into the checkout's virtual environment; silent when all are there.
pub fn install(workspace: &Workspace, set: Set) -> Result<()> {
    python::ensure(workspace, set)
}

/// Installs the Debian packages that are missing; silent when none is.
pub fn ensure(_workspace: &Workspace) -> Result<()> {
    let host = Host::from_environment()?;
    let missing = host.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if let Some(prefix) = host.foreign_prefix()
        && missing.iter().any(|package| package.in_prefix())
    {
        return Err(Error::Failed(format!(
            "{} is {}, where files of {} are missing: unset it, and the other two LLVM variables of .cargo/config.toml, to use Debian's packages",
            packages::PREFIX_VARIABLES[0],
            prefix.display(),
            names.join(", "),
        )));
    }
    apt::install(&names)?;
    let missing = host.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let details: Vec<String> =
        missing.iter().map(|package| format!("{} ({})", package.name, host.first_missing_file(package))).collect();
    Err(Error::Failed(format!("apt-get succeeded, but files are still missing: {}", details.join(", "))))
}

/// Prints what is there; an error when something that was asked for is not.
fn check(workspace: &Workspace, options: &Options) -> Result<()> {
    let host = Host::from_environment()?;
    let mut complete = true;
    for package in packages::PACKAGES {
        let file = host.first_missing_file(package);
        complete &= file.is_empty();
        match file.as_str() {
            "" => output::line(&format!("present  {}", package.name)),
            file => output::line(&format!("missing  {} (no {file})", package.name)),
        }
    }
    for set in Set::ALL {
        for requirement in set.requirements() {
            let present = python::is_installed(&workspace.venv(), requirement);
            complete &= present || !options.sets.contains(&set);
            let state = if present { "present " } else { "missing " };
            output::line(&format!("{state} {requirement} in .venv (optional: {})", set.flag()));
        }
    }
    for tool in Tool::ALL {
        match tool.locate(&workspace.venv())? {
            Some(path) => output::line(&format!("found    {} at {}", tool.name(), path.display())),
            None => output::line(&format!("absent   {} (optional: --ptxas, {} or PATH)", tool.name(), tool.variable())),
        }
    }
    if complete { Ok(()) } else { Err(Error::Failed("not everything is there: run `cargo xtask setup`".into())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn options_are_exact() {
        let options = Options::parse(&["--onnx-suite".into(), "--check".into()]).unwrap();
        assert_eq!(options, Options { sets: vec![Set::OnnxSuite], check: true });
        assert!(matches!(Options::parse(&["--onnx".into()]), Err(Error::Usage(_))));
    }
}
