//! Where things lie: the checkout, the build folder, cargo.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout that this program was built from.
pub struct Workspace {
    /// The folder of the workspace's Cargo.toml.
    pub root: PathBuf,
    /// The build folder of the running program, whatever chose it: `CARGO_TARGET_DIR`, a configuration file, or neither.
    pub target: PathBuf,
}

impl Workspace {
    /// The checkout by the place of this crate's sources, the build folder by the place of the running executable
    /// (`TARGET/debug/xtask`).
    pub fn find() -> Result<Workspace> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().unwrap_or(package).to_path_buf();
        if !root.join("Cargo.toml").is_file() {
            return Err(Error::Failed(format!(
                "{} holds no Cargo.toml: the checkout has moved; rebuild with `cargo xtask`",
                root.display()
            )));
        }
        let executable = std::env::current_exe().map_err(|error| Error::file(Path::new("xtask"), error))?;
        let target = executable.parent().and_then(Path::parent).map_or_else(|| root.join("target"), Path::to_path_buf);
        Ok(Workspace { root, target })
    }

    /// The project-local Python environment.
    pub fn venv(&self) -> PathBuf {
        self.root.join(".venv")
    }

    /// The cargo that started this program, or else the one on `PATH`, run in the root of the checkout.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }
}
