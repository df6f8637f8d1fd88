//! Driver of nvdisasm.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Architecture, TargetError, Version};

use super::child;
use super::listing::{self, Sass};
use super::locate::NVDISASM;

/// The disassembler of cubins.
#[derive(Clone, Debug)]
pub struct Nvdisasm {
    path: PathBuf,
    release: Version,
    time_limit: Duration,
}

impl Nvdisasm {
    /// The nvdisasm of this machine: `TENON_NVDISASM`, the checkout's `.venv`, `PATH`, in this order. E0604 if there is none, E0605
    /// if the variable leads nowhere.
    pub fn locate() -> Result<Self, TargetError> {
        Self::at(NVDISASM.locate()?)
    }

    /// The nvdisasm at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, TargetError> {
        let path = path.into();
        let release = NVDISASM.release(&path)?;
        Ok(Nvdisasm { path, release, time_limit: child::DEFAULT_TIME_LIMIT })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The CUDA release that it is of.
    pub fn release(&self) -> Version {
        self.release
    }

    /// Stops it after this time instead of two minutes.
    #[must_use]
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Nvdisasm { time_limit, ..self }
    }

    /// Disassembles a cubin of `architecture`, kernel by kernel in order of names. E0611 where this release does not read the
    /// architecture, E0612 for a cubin that it refuses, E0613 for a listing that is not understood.
    pub fn disassemble(&self, cubin: &[u8], architecture: impl AsRef<Architecture>) -> Result<Vec<Sass>, TargetError> {
        let architecture = architecture.as_ref();
        if let Some(ceiling) = architecture.nvdisasm.ceiling
            && self.release > ceiling
        {
            return Err(TargetError::NoListing { architecture: architecture.name, found: self.release, ceiling });
        }
        let failed = |step| move |source| TargetError::ToolIo { tool: NVDISASM.name, step, source };
        let folder = tempfile::tempdir().map_err(failed("creating a temporary folder"))?;
        fs::write(folder.path().join("module.cubin"), cubin).map_err(failed("writing the cubin"))?;
        let arguments = ["-c", "module.cubin"].map(OsString::from);
        let output = child::run(NVDISASM.name, &self.path, &arguments, Some(folder.path()), self.time_limit)?;
        if !output.success {
            let messages = output.messages.lines().filter(|line| !line.contains("warning")).take(20);
            return Err(TargetError::CubinRefused { messages: messages.map(str::to_owned).collect() });
        }
        listing::read(&output.text)
    }
}
