//! Running a tool: with a time limit, output into files, and nothing left behind.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::TargetError;

/// How long a tool may run unless the caller says otherwise.
pub(super) const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(120);

/// Most bytes that are read of a tool's output.
const OUTPUT_LIMIT: u64 = 256 << 20;

/// What a tool did.
pub(super) struct Output {
    pub(super) success: bool,
    /// Standard output.
    pub(super) text: String,
    /// Standard error.
    pub(super) messages: String,
}

/// A child that leads a process group of its own. Unless it was waited for, it is stopped with all that it started when this goes
/// out of scope: what a wrapper script started would go on, and its output with it, if only the script were stopped.
struct Running {
    child: Child,
    ended: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // The child was not waited for, so its number is still its own. Failure means that it has ended.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Runs `program`, called `tool` in errors, in `folder`. Output goes to files and not to pipes, so that a grandchild that outlives
/// the tool holds nothing up.
pub(super) fn run(
    tool: &'static str,
    program: &Path,
    arguments: &[OsString],
    folder: Option<&Path>,
    limit: Duration,
) -> Result<Output, TargetError> {
    run_within(tool, program, arguments, folder, limit, OUTPUT_LIMIT)
}

fn run_within(
    tool: &'static str,
    program: &Path,
    arguments: &[OsString],
    folder: Option<&Path>,
    limit: Duration,
    output_limit: u64,
) -> Result<Output, TargetError> {
    let failed = |step| move |source| TargetError::ToolIo { tool, step, source };
    let create = || tempfile::tempfile().map_err(failed("creating a temporary file"));
    let (mut text, mut messages) = (create()?, create()?);
    let share = |file: &File| file.try_clone().map(Stdio::from).map_err(failed("creating a temporary file"));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(share(&text)?).stderr(share(&messages)?).process_group(0);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut running = Running { child: start(&mut command).map_err(failed("starting it"))?, ended: false };
    let status = wait(tool, &mut running.child, limit, [&text, &messages], output_limit)?;
    running.ended = true;
    let read = |file: &mut File| read_all(tool, file, output_limit);
    Ok(Output { success: status.success(), text: read(&mut text)?, messages: read(&mut messages)? })
}

/// Starts the program; while another process still has the file open for writing, as happens right after it was installed, again.
fn start(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..50 {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    command.spawn()
}

fn wait(
    tool: &'static str,
    child: &mut Child,
    limit: Duration,
    outputs: [&File; 2],
    output_limit: u64,
) -> Result<ExitStatus, TargetError> {
    let failed = |source| TargetError::ToolIo { tool, step: "waiting for it", source };
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if start.elapsed() >= limit {
            return Err(TargetError::ToolTimeout { tool, limit });
        }
        for output in outputs {
            check_size(output.metadata().map_err(failed)?.len(), output_limit)?;
        }
        thread::sleep(pause.min(limit.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn check_size(bytes: u64, limit: u64) -> Result<(), TargetError> {
    if bytes > limit {
        return Err(TargetError::TooLarge { what: "the output of a tool", limit, unit: "bytes" });
    }
    Ok(())
}

fn read_all(tool: &'static str, file: &mut File, limit: u64) -> Result<String, TargetError> {
    let failed = |source| TargetError::ToolIo { tool, step: "reading its output", source };
    check_size(file.metadata().map_err(failed)?.len(), limit)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Output, TargetError> {
        run("sh", Path::new("/bin/sh"), &["-c".into(), script.into()], None, limit)
    }

    #[test]
    fn output_and_status_come_back() {
        let output = shell("echo out; echo err >&2; exit 3", DEFAULT_TIME_LIMIT).unwrap();
        assert!(!output.success);
        assert_eq!((output.text.as_str(), output.messages.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_tool_that_hangs_is_stopped_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let late = folder.path().join("late");
        let script = format!("(sleep 1; echo > {}) & sleep 5", late.display());
        let start = Instant::now();
        let error = shell(&script, Duration::from_millis(200)).err().unwrap();
        assert_eq!(error.code(), "E0607");
        assert!(error.to_string().contains("within 0.2 s") && error.help().is_some(), "{error}");
        assert!(start.elapsed() < Duration::from_secs(4));
        thread::sleep(Duration::from_millis(1500));
        assert!(!late.exists(), "what the tool started was not stopped");
    }

    #[test]
    fn a_tool_that_floods_is_stopped() {
        // 16 MiB at most, whatever becomes of it, and longer than the test otherwise.
        let script = "head -c 16777216 /dev/zero; sleep 5".into();
        let start = Instant::now();
        let flood = run_within("sh", Path::new("/bin/sh"), &["-c".into(), script], None, DEFAULT_TIME_LIMIT, 1 << 20);
        assert_eq!(flood.err().unwrap().code(), "E0615");
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_tool_that_does_not_start_is_an_error() {
        let error = run("ptxas", Path::new("/nonexistent"), &[], None, DEFAULT_TIME_LIMIT).err().unwrap();
        assert_eq!(error.code(), "E0606");
        assert!(error.to_string().contains("starting it"));
    }
}
