//! Commands that this version does not have.

use std::ffi::OsString;

use crate::{Diagnostic, Failure};

/// Commands that are planned; they are refused by name.
const PLANNED: &[&str] = &["profile", "tune"];

/// Commands of this version, for the nearest name.
const COMMANDS: &[&str] = &[
    "lower",
    "table",
    "explain",
    "bisect",
    "codegen",
    "build",
    "run",
    "verify",
    "diff",
    "recipe",
    "targets",
    "errors",
    "sim",
    "conformance",
];

/// Refuses a command: planned ones by code, others as wrong usage.
pub(super) fn run(words: &[OsString]) -> Result<(), Failure> {
    let name =
        words.first().map(|word| word.to_string_lossy().chars().take(60).collect::<String>()).unwrap_or_default();
    if PLANNED.contains(&name.as_str()) {
        let message = format!("`tenon {name}` is not part of this version");
        let help = format!("commands of this version are {}", COMMANDS.join(", "));
        return Err(Diagnostic::new("E0005", message).with_help(help).into());
    }
    let nearest = tenon_pass_manager::nearest(&name, COMMANDS.iter().copied());
    let hint = nearest.map(|nearest| format!("\n\n  tip: a similar command exists: '{nearest}'")).unwrap_or_default();
    let error =
        clap::Error::raw(clap::error::ErrorKind::InvalidSubcommand, format!("unrecognized command '{name}'{hint}\n"));
    error.exit()
}
