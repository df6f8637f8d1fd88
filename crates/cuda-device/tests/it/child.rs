//! Tests in processes of their own, with another library in the place of the driver's.

use std::path::Path;
use std::process::Command;

use tenon_fake_cuda_driver::settings::{LOG, SETTINGS};

/// Set in the child, to the test's name.
const CHILD: &str = "TENON_CUDA_TEST";

/// Runs `body` in a process where the fake driver is found, with some settings. Gives what the driver wrote down; in the child, nothing.
///
/// `test` is the test's own name, `MODULE::FUNCTION`.
pub fn with_driver(test: &str, settings: &str, body: fn()) -> Option<Log> {
    run(test, &[(SETTINGS, settings)], body, |folder| tenon_fake_cuda_driver::install(folder).unwrap())
}

/// Runs `body` in a process with some environment, whose loader looks first into a folder that `prepare` fills.
pub fn run(test: &str, environment: &[(&str, &str)], body: fn(), prepare: impl FnOnce(&Path)) -> Option<Log> {
    if let Some(name) = std::env::var_os(CHILD) {
        assert_eq!(name, test, "the test must run itself");
        body();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let log = folder.path().join("calls");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, test)
        .envs(environment.iter().copied())
        .env(LOG, &log)
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    // One test ran, and passed.
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{environment:?}: {}\n{stdout}\n{stderr}",
        output.status
    );
    Some(Log { text: std::fs::read_to_string(log).unwrap_or_default() })
}

/// What the driver wrote down.
pub struct Log {
    pub text: String,
}

impl Log {
    /// How often a function was called.
    pub fn count(&self, function: &str) -> usize {
        self.lines(function).count()
    }

    /// The calls of a function.
    pub fn lines(&self, function: &str) -> impl Iterator<Item = &str> {
        let start = format!("{function} ");
        self.text.lines().filter(move |line| line.starts_with(&start))
    }

    /// Fails where a call was made that a driver might not have survived, or something was not given back.
    pub fn assert_right(&self) {
        assert!(!self.text.is_empty(), "the fake driver was not called");
        assert!(!self.text.contains("WRONG"), "{}", self.text);
    }
}
