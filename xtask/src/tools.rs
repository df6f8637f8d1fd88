//! Where `ptxas` and `nvdisasm` are looked for. The order holds everywhere in the project:
//!
//! 1. the environment variable `TENON_PTXAS` or `TENON_NVDISASM`, a path; set but not executable is an error, not a reason to
//!    look further;
//! 2. the checkout's virtual environment, `.venv/lib/python3*/site-packages/nvidia/*/bin/`, folders in order of their names;
//! 3. `PATH`.
//!
//! Neither tool is needed to build or to pass the tests. `cargo xtask` sets the two variables for what it starts, so that
//! the checkout's `.venv` is found from any working directory.

use crate::error::{Error, Result};
use crate::programs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool of NVIDIA's that Tenon uses when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The PTX assembler.
    Ptxas,
    /// The disassembler of cubins.
    Nvdisasm,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Tool; 2] = [Tool::Ptxas, Tool::Nvdisasm];

    /// The name of the executable.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Ptxas => "ptxas",
            Tool::Nvdisasm => "nvdisasm",
        }
    }

    /// The environment variable that overrides the search.
    pub fn variable(self) -> &'static str {
        match self {
            Tool::Ptxas => "TENON_PTXAS",
            Tool::Nvdisasm => "TENON_NVDISASM",
        }
    }

    /// The tool by the order of the module's documentation, `None` when it is nowhere.
    pub fn locate(self, venv: &Path) -> Result<Option<PathBuf>> {
        if let Some(path) = std::env::var_os(self.variable()).map(PathBuf::from) {
            return if programs::is_executable(&path) {
                Ok(Some(path))
            } else {
                Err(Error::Failed(format!(
                    "{} is {}, which is no executable file: correct or unset it",
                    self.variable(),
                    path.display()
                )))
            };
        }
        Ok(self.in_venv(venv).or_else(|| programs::find(self.name())))
    }

    /// The tool in a virtual environment.
    pub fn in_venv(self, venv: &Path) -> Option<PathBuf> {
        let mut found: Vec<PathBuf> = site_packages(venv)
            .iter()
            .flat_map(|packages| folders(&packages.join("nvidia")))
            .map(|package| package.join("bin").join(self.name()))
            .filter(|path| programs::is_executable(path))
            .collect();
        found.sort();
        found.into_iter().next()
    }
}

/// Sets the variables of the tools that were found for a program that is about to be started.
pub fn export(command: &mut Command, venv: &Path) -> Result<()> {
    for tool in Tool::ALL {
        if let Some(path) = tool.locate(venv)? {
            command.env(tool.variable(), path);
        }
    }
    Ok(())
}

/// The package folders of a virtual environment: one for each version of Python in it, so usually one.
pub fn site_packages(venv: &Path) -> Vec<PathBuf> {
    folders(&venv.join("lib"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
        .map(|path| path.join("site-packages"))
        .collect()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn tool_at(venv: &Path, package: &str, name: &str) -> PathBuf {
        let folder = venv.join("lib/python3.11/site-packages/nvidia").join(package).join("bin");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_first_package_by_name_wins() {
        let venv = tempfile::tempdir().unwrap();
        assert_eq!(Tool::Ptxas.in_venv(venv.path()), None);
        tool_at(venv.path(), "cuda_nvcc", "ptxas");
        let first = tool_at(venv.path(), "cu13", "ptxas");
        assert_eq!(Tool::Ptxas.in_venv(venv.path()), Some(first));
        assert_eq!(Tool::Nvdisasm.in_venv(venv.path()), None);
    }
}
