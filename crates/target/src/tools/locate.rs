//! Where `ptxas` and `nvdisasm` are looked for. The order holds everywhere in the project:
//!
//! 1. the environment variable `TENON_PTXAS` or `TENON_NVDISASM`, a path; set but not executable is an error, not a reason to look
//!    further;
//! 2. the virtual environment `.venv` of the checkout that the working directory is in:
//!    `.venv/lib/python3*/site-packages/nvidia/*/bin/`, folders in order of their names;
//! 3. `PATH`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{TargetError, Version};

use super::child;

/// A tool of NVIDIA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    variable: &'static str,
}

pub(super) const PTXAS: Tool = Tool { name: "ptxas", variable: "TENON_PTXAS" };
pub(super) const NVDISASM: Tool = Tool { name: "nvdisasm", variable: "TENON_NVDISASM" };

impl Tool {
    /// The tool by the order of the module's documentation; E0604 if it is nowhere, E0605 if the variable leads nowhere.
    pub(super) fn locate(self) -> Result<PathBuf, TargetError> {
        let folder = std::env::current_dir().ok();
        self.locate_in(std::env::var_os(self.variable), folder.as_deref(), std::env::var_os("PATH"))
    }

    fn locate_in(
        self,
        variable: Option<OsString>,
        working_folder: Option<&Path>,
        search: Option<OsString>,
    ) -> Result<PathBuf, TargetError> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        if let Some(path) = variable.map(PathBuf::from) {
            return if is_executable(&path) {
                Ok(absolute(path))
            } else {
                Err(TargetError::ToolNotExecutable { variable: self.variable, path })
            };
        }
        let in_checkout = working_folder.and_then(checkout).and_then(|root| self.in_environment(&root.join(".venv")));
        let on_path = || {
            let search = search.unwrap_or_default();
            std::env::split_paths(&search).map(|folder| folder.join(self.name)).find(|path| is_executable(path))
        };
        let found = in_checkout.or_else(on_path).map(absolute);
        found.ok_or(TargetError::ToolNotFound { tool: self.name, variable: self.variable })
    }

    /// The tool in a virtual environment of Python.
    fn in_environment(self, environment: &Path) -> Option<PathBuf> {
        let versions = folders(&environment.join("lib")).into_iter();
        let versions =
            versions.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")));
        let packages = versions.flat_map(|version| folders(&version.join("site-packages").join("nvidia")));
        let tools = packages.map(|package| package.join("bin").join(self.name));
        tools.filter(|path| is_executable(path)).min()
    }

    /// The CUDA release that the tool at `path` is of, from what it says to `--version`.
    pub(super) fn release(self, path: &Path) -> Result<Version, TargetError> {
        let output = child::run(self.name, path, &["--version".into()], None, child::DEFAULT_TIME_LIMIT)?;
        let release =
            output.text.lines().find_map(|line| line.split_once("release ")?.1.split(',').next()?.trim().parse().ok());
        release.filter(|_| output.success).ok_or_else(|| TargetError::ToolIo {
            tool: self.name,
            step: "asking for its release",
            source: std::io::Error::other(format!("{} does not say it", path.display())),
        })
    }
}

/// The checkout that `folder` is in.
fn checkout(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|root| root.join("crates/target/Cargo.toml").is_file())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn executable(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn variable_then_checkout_then_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let search = Some(root.join("bin").into_os_string());
        let working = root.join("checkout/crates/target");
        fs::create_dir_all(&working).unwrap();
        fs::write(working.join("Cargo.toml"), "").unwrap();
        let find = |variable: Option<PathBuf>| {
            PTXAS.locate_in(variable.map(PathBuf::into_os_string), Some(&working), search.clone())
        };
        let missing = find(None).unwrap_err();
        assert_eq!(missing.code(), "E0604");
        assert!(missing.to_string().contains("TENON_PTXAS"));
        assert!(missing.help().unwrap().contains("cargo xtask setup --ptxas"));

        executable(&root.join("bin/ptxas"), "");
        assert_eq!(find(None).unwrap(), root.join("bin/ptxas"));
        let packages = root.join("checkout/.venv/lib/python3.11/site-packages/nvidia");
        executable(&packages.join("cuda_nvcc/bin/ptxas"), "");
        executable(&packages.join("cu13/bin/ptxas"), "");
        assert_eq!(find(None).unwrap(), packages.join("cu13/bin/ptxas"));
        executable(&root.join("own"), "");
        assert_eq!(find(Some(root.join("own"))).unwrap(), root.join("own"));

        fs::set_permissions(root.join("own"), fs::Permissions::from_mode(0o644)).unwrap();
        for wrong in ["own", "absent", "bin"] {
            let error = find(Some(root.join(wrong))).unwrap_err();
            assert_eq!(error.code(), "E0605", "{wrong}");
            assert!(error.help().unwrap().contains("unset TENON_PTXAS"));
        }
    }

    #[test]
    fn the_release_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ptxas");
        executable(&path, "#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n");
        assert_eq!(PTXAS.release(&path).unwrap(), Version { major: 12, minor: 9 });
        executable(&path, "#!/bin/sh\necho hello\n");
        assert_eq!(PTXAS.release(&path).unwrap_err().code(), "E0606");
        executable(&path, "no program");
        assert_eq!(PTXAS.release(&path).unwrap_err().code(), "E0606");
    }
}
