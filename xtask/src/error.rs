//! How a subcommand ends when it does not succeed: 1 refused or failed, 2 wrong usage, or another program's own status.

use std::fmt::Display;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

/// The result of every subcommand.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a subcommand did not succeed.
#[derive(Debug)]
pub enum Error {
    /// The command line is wrong; exit status 2.
    Usage(String),
    /// Something is missing, failed or differs; exit status 1.
    Failed(String),
    /// A program that was started has said itself what is wrong; its exit status is passed on.
    Status(u8),
}

impl Error {
    /// What to print, if the failing program has not already done so.
    pub fn message(&self) -> Option<&str> {
        match self {
            Error::Usage(message) | Error::Failed(message) => Some(message),
            Error::Status(_) => None,
        }
    }

    /// The exit status of the process.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Error::Usage(_) => ExitCode::from(2),
            Error::Failed(_) => ExitCode::from(1),
            Error::Status(status) => ExitCode::from(*status),
        }
    }

    /// An operating-system error on `path`.
    pub fn file(path: &Path, error: impl Display) -> Error {
        Error::Failed(format!("{}: {error}", path.display()))
    }
}

/// `Ok` when a program succeeded, else its status; a program ended by signal N counts as 128 + N, as shells have it.
pub fn check(status: ExitStatus) -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    if status.success() {
        return Ok(());
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Err(Error::Status(u8::try_from(code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_status_is_passed_on() {
        assert!(check(ExitStatus::from_raw(0)).is_ok());
        assert!(matches!(check(ExitStatus::from_raw(3 << 8)), Err(Error::Status(3))));
        assert!(matches!(check(ExitStatus::from_raw(9)), Err(Error::Status(137))));
    }
}
