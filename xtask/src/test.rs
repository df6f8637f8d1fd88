//! `cargo xtask test` and `cargo xtask bless`: every test of the workspace, closed by one line a machine can read,
//! `N passed, N failed, N skipped`.

use crate::error::{Error, Result};
use crate::workspace::Workspace;
use crate::{output, programs, setup, tools};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::ops::AddAssign;
use std::process::{Command, ExitStatus, Stdio};

/// Runs all tests, or those whose name contains the filter.
pub fn test(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    run(workspace, "test", arguments, &[])
}

/// Runs the tests with every golden file that differs rewritten.
pub fn bless(workspace: &Workspace, arguments: &[OsString]) -> Result<()> {
    run(workspace, "bless", arguments, &[("INSTA_UPDATE", "always")])
}

fn run(workspace: &Workspace, name: &str, arguments: &[OsString], variables: &[(&str, &str)]) -> Result<()> {
    let filter = match arguments {
        [] => None,
        [filter] if !filter.to_string_lossy().starts_with('-') => Some(filter),
        _ => return Err(Error::Usage(format!("{name} takes one argument at most, a part of the tests' names"))),
    };
    setup::ensure(workspace)?;
    let command = |arguments: &[&str]| -> Result<Command> {
        let mut command = workspace.cargo();
        command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
        tools::export(&mut command, &workspace.venv())?;
        Ok(command)
    };
    let terminal = io::stderr().is_terminal();
    let mut counts = Counts::default();
    let mut success = true;
    if programs::find("cargo-nextest").is_some() {
        let level = if terminal { "pass" } else { "fail" };
        let color = if terminal { "always" } else { "never" };
        let mut nextest = command(&["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass"])?;
        nextest.args(["--status-level", level, "--final-status-level", "fail", "--color", color]).args(filter);
        success &= watch_stderr(nextest, &mut counts)?;
        // Doc tests are not nextest's: their output is of interest only when one fails.
        let mut docs = command(&["test", "--doc", "--workspace", "--no-fail-fast", "--quiet"])?;
        docs.arg("--").args(filter);
        success &= watch_stdout(docs, &mut counts, false)?;
    } else {
        let mut tests = command(&["test", "--workspace", "--no-fail-fast"])?;
        if !terminal {
            tests.arg("--quiet");
        }
        tests.arg("--").args(filter);
        success &= watch_stdout(tests, &mut counts, true)?;
    }
    if success && counts.passed == 0 {
        return Err(Error::Failed("no test has run: no test's name contains the filter".into()));
    }
    output::line(&format!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped));
    if success { Ok(()) } else { Err(Error::Failed(format!("{name} failed"))) }
}

/// How many tests ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Which closing lines are looked for.
#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    Libtest,
}

impl Runner {
    /// The counts of a closing line: `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 3 skipped` of
    /// nextest, `test result: ok. 3 passed; 0 failed; 1 ignored; …` of libtest. nextest repeats what a failed test printed,
    /// with libtest's closing line in it.
    fn counts(self, line: &str) -> Option<Counts> {
        let line = without_escapes(line);
        let list = match self {
            Runner::Nextest => line.trim_start().strip_prefix("Summary [")?.split_once("run:")?.1,
            Runner::Libtest => line.strip_prefix("test result: ")?,
        };
        let words: Vec<&str> = list.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let mut counts = Counts::default();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => counts.passed += number,
                "failed" | "timed" => counts.failed += number,
                "skipped" | "ignored" => counts.skipped += number,
                _ => {}
            }
        }
        Some(counts)
    }
}

/// Runs nextest, which writes to standard error, and passes on what it writes.
fn watch_stderr(mut command: Command, counts: &mut Counts) -> Result<bool> {
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| start_failed(&command, &error))?;
    let output = child.stderr.take().expect("standard error was just asked to be piped");
    *counts += pass_on(Runner::Nextest, output, Some(&mut io::stderr()), &mut Vec::new())?;
    finish(child.wait())
}

/// Runs libtest, which writes to standard output, and passes on what it writes: at once, or at the end and only if it failed.
fn watch_stdout(mut command: Command, counts: &mut Counts, at_once: bool) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| start_failed(&command, &error))?;
    let output = child.stdout.take().expect("standard output was just asked to be piped");
    let mut kept = Vec::new();
    let mut stdout = io::stdout();
    *counts += pass_on(Runner::Libtest, output, at_once.then_some(&mut stdout as &mut dyn Write), &mut kept)?;
    let success = finish(child.wait())?;
    if !success && !at_once {
        stdout.write_all(&kept).map_err(|error| Error::Failed(error.to_string()))?;
    }
    Ok(success)
}

/// Reads to the end, summing up closing lines; each line goes to `sink`, or is kept if there is none.
fn pass_on(runner: Runner, source: impl Read, mut sink: Option<&mut dyn Write>, kept: &mut Vec<u8>) -> Result<Counts> {
    let mut source = BufReader::new(source);
    let mut counts = Counts::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = source.read_until(b'\n', &mut line).map_err(|error| Error::Failed(error.to_string()))?;
        if length == 0 {
            return Ok(counts);
        }
        counts += runner.counts(&String::from_utf8_lossy(&line)).unwrap_or_default();
        match &mut sink {
            Some(sink) => sink.write_all(&line).map_err(|error| Error::Failed(error.to_string()))?,
            None => kept.extend_from_slice(&line),
        }
    }
}

fn finish(status: io::Result<ExitStatus>) -> Result<bool> {
    status.map(|status| status.success()).map_err(|error| Error::Failed(format!("cargo: {error}")))
}

fn start_failed(command: &Command, error: &io::Error) -> Error {
    Error::Failed(format!("{}: {error}", command.get_program().display()))
}

/// The text without terminal escape sequences (`ESC [ … letter`).
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn closing_lines_of_nextest() {
        let read = |line| Runner::Nextest.counts(line);
        assert_eq!(read("     Summary [   0.012s] 10 tests run: 10 passed, 0 skipped\n"), counts(10, 0, 0));
        assert_eq!(
            read(
                "  Summary [  12.001s] 9/12 tests run: 6 passed (2 slow, 1 leaky), 2 failed, 1 timed out, 3 skipped\n"
            ),
            counts(6, 3, 3)
        );
        let colored = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.0s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m passed, 0 skipped";
        assert_eq!(read(colored), counts(1, 0, 0));
        assert_eq!(read("    test result: FAILED. 0 passed; 1 failed; 0 ignored"), None);
        assert_eq!(read("test result: FAILED. 0 passed; 1 failed; 0 ignored"), None);
    }

    #[test]
    fn closing_lines_of_libtest() {
        let read = |line| Runner::Libtest.counts(line);
        let line =
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
        assert_eq!(read(line), counts(3, 2, 1));
        assert_eq!(read("test a::b ... ok\n"), None);
        assert_eq!(read("running 3 tests\n"), None);
    }

    #[test]
    fn output_is_passed_on_unchanged_and_counted() {
        let text = b"running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed\nno newline\xff";
        let (mut sink, mut kept) = (Vec::new(), Vec::new());
        let counts = pass_on(Runner::Libtest, &text[..], Some(&mut sink), &mut kept).unwrap();
        assert_eq!((counts.passed, sink.as_slice(), kept.len()), (3, &text[..], 0));
        pass_on(Runner::Libtest, &text[..], None, &mut kept).unwrap();
        assert_eq!(kept, text);
    }
}
