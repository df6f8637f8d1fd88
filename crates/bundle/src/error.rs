//! Why a bundle is refused.

use std::path::PathBuf;

/// A bundle that cannot be read, written or taken.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is no bundle, or one of another format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// The file has another length than its header says.
    #[error("{}: the file has {found} bytes, and its header says {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// By the header.
        expected: u64,
        /// Of the file.
        found: u64,
    },
    /// A part is not what it was when the bundle was written.
    #[error("{}: {part} differs from what was built", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which part: ``part `weights.safetensors` ``, `the manifest`, `the space after …`.
        part: String,
    },
    /// The manifest is intact, and says what cannot be.
    #[error("{}: the manifest is not consistent: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What contradicts what.
        reason: String,
    },
    /// The bundle was made from or by something else than what is asked for.
    #[error("{}: the {part} differs: the bundle has {found}, expected is {expected}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// `model`, `recipe`, `compiler`.
        part: &'static str,
        /// What was asked for.
        expected: String,
        /// What the bundle has.
        found: String,
    },
    /// The bundle has nothing for a target.
    #[error("{}: nothing for {wanted}: {reason}", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The target asked for.
        wanted: String,
        /// What is there, and why it is not taken.
        reason: String,
    },
}

impl BundleError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            BundleError::File { .. } => "E0044",
            BundleError::Format { .. } => "E0045",
            BundleError::Length { .. } => "E0046",
            BundleError::Damaged { .. } => "E0047",
            BundleError::Manifest { .. } => "E0048",
            BundleError::Mismatch { .. } => "E0049",
            BundleError::Target { .. } => "E0050",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(
            match self {
                BundleError::File { .. } => return None,
                BundleError::Format { .. } => "name a file that `tenon build` of this version wrote",
                BundleError::Length { .. } | BundleError::Damaged { .. } => "copy the bundle again, or build it anew",
                BundleError::Manifest { .. } => "build the bundle anew",
                BundleError::Mismatch { part: "compiler", .. } => {
                    "run it with the version that built it, or build it anew with this one"
                }
                BundleError::Mismatch { .. } => "take the bundle that belongs to it, or build it anew",
                BundleError::Target { .. } => "build the bundle for this target too, or name one that it has",
            }
            .to_owned(),
        )
    }
}
