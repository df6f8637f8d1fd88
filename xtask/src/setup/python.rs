//! Optional Python packages in the checkout's own virtual environment, `.venv`.

use super::apt;
use crate::error::{Error, Result};
use crate::tools::site_packages;
use crate::workspace::Workspace;
use std::path::Path;
use std::process::{Command, Stdio};

/// A group of packages that one flag asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// NVIDIA's assembler and disassembler.
    Ptxas,
    /// ONNX with its backend test suite, and ONNX Runtime to compare with.
    OnnxSuite,
    /// IREE's compiler and its ONNX importer, to compare with.
    Iree,
}

impl Set {
    /// Every set.
    pub const ALL: [Set; 3] = [Set::Ptxas, Set::OnnxSuite, Set::Iree];

    /// The flag of `setup` that asks for the set.
    pub fn flag(self) -> &'static str {
        match self {
            Set::Ptxas => "--ptxas",
            Set::OnnxSuite => "--onnx-suite",
            Set::Iree => "--iree",
        }
    }

    /// What pip is asked for: `NAME` or `NAME==VERSION`.
    ///
    /// ptxas is of CUDA 12.9, the last that knows sm_70; the disassembler reads cubins of every earlier release.
    pub fn requirements(self) -> &'static [&'static str] {
        match self {
            Set::Ptxas => &["nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-nvdisasm==13.5.37"],
            Set::OnnxSuite => &["onnx==1.23.2", "onnxruntime==1.32.0", "numpy"],
            Set::Iree => &["iree-base-compiler==3.13.0", "onnx==1.23.2", "numpy"],
        }
    }
}

/// Installs what `set` lacks; silent when nothing.
pub fn ensure(workspace: &Workspace, set: Set) -> Result<()> {
    let venv = workspace.venv();
    let missing: Vec<&str> =
        set.requirements().iter().copied().filter(|requirement| !is_installed(&venv, requirement)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let python = venv.join("bin/python");
    // Without pip, an earlier attempt was interrupted: creating it again completes it.
    if !python.exists() || !venv.join("bin/pip").exists() {
        ensure_venv_module()?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    eprintln!("installing with pip: {}", missing.join(" "));
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
        .args(&missing))?;
    match missing.iter().find(|requirement| !is_installed(&venv, requirement)) {
        None => Ok(()),
        Some(requirement) => {
            Err(Error::Failed(format!("pip succeeded, but {requirement} is not in {}", venv.display())))
        }
    }
}

/// Whether a virtual environment has a package, in the version that `requirement` names if it names one; judged by the
/// package's metadata folder, `NAME-VERSION.dist-info`.
pub fn is_installed(venv: &Path, requirement: &str) -> bool {
    let (name, version) =
        requirement.split_once("==").map_or((requirement, None), |(name, version)| (name, Some(version)));
    let prefix = format!("{}-", name.replace('-', "_"));
    site_packages(venv).iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten().any(|entry| {
        let entry = entry.file_name();
        let found = entry.to_str().and_then(|entry| entry.strip_prefix(&prefix)?.strip_suffix(".dist-info"));
        found.is_some_and(|found| version.is_none_or(|version| version == found))
    })
}

/// Debian's python3 comes without what creates virtual environments; both may have to be installed.
fn ensure_venv_module() -> Result<()> {
    let present = Command::new("python3")
        .args(["-c", "import venv, ensurepip"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if present { Ok(()) } else { apt::install(&["python3", "python3-venv"]) }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| Error::Failed(format!("{}: {error}", command.get_program().display())))?;
    if status.success() {
        return Ok(());
    }
    let line: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    Err(Error::Failed(format!("`{}` failed ({status})", line.join(" "))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn name_and_version_must_both_be_right() {
        let venv = tempfile::tempdir().unwrap();
        assert!(!is_installed(venv.path(), "numpy"));
        for entry in ["nvidia_cuda_nvcc_cu12-12.9.86.dist-info", "numpy-2.4.6.dist-info", "onnxruntime-1.0.dist-info"] {
            fs::create_dir_all(venv.path().join("lib/python3.11/site-packages").join(entry)).unwrap();
        }
        assert!(is_installed(venv.path(), "nvidia-cuda-nvcc-cu12==12.9.86"));
        assert!(!is_installed(venv.path(), "nvidia-cuda-nvcc-cu12==12.9"));
        assert!(is_installed(venv.path(), "numpy"));
        assert!(!is_installed(venv.path(), "onnx"));
    }
}
