//! Driver of ptxas.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Architecture, TargetError, Version};

use super::child;
use super::locate::PTXAS;
use super::report::{self, FunctionFigures, KernelFigures, Message, Severity};

/// Most bytes of PTX that are assembled at once.
const PTX_LIMIT: usize = 256 << 20;

/// The PTX assembler.
#[derive(Clone, Debug)]
pub struct Ptxas {
    path: PathBuf,
    release: Version,
    time_limit: Duration,
}

/// A module of PTX that ptxas took.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The module as ELF.
    pub cubin: Vec<u8>,
    /// In the order in which ptxas compiled them.
    pub kernels: Vec<KernelFigures>,
    /// Functions that were not inlined.
    pub functions: Vec<FunctionFigures>,
    /// What ptxas had to say besides.
    pub messages: Vec<Message>,
}

impl Assembly {
    /// The figures of a kernel.
    pub fn kernel(&self, name: &str) -> Option<&KernelFigures> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Bytes of registers that kernels and functions store to memory and load back.
    pub fn spills(&self) -> u64 {
        let kernels = self.kernels.iter().map(|kernel| (kernel.spill_stores, kernel.spill_loads));
        let functions = self.functions.iter().map(|function| (function.spill_stores, function.spill_loads));
        kernels.chain(functions).map(|(stores, loads)| u64::from(stores) + u64::from(loads)).sum()
    }

    /// E0616 if a kernel or function spills registers, E0617 if ptxas warned or gave performance away: neither is acceptable in what Tenon
    /// emits.
    pub fn check(&self, architecture: impl AsRef<Architecture>) -> Result<(), TargetError> {
        let architecture = architecture.as_ref().name;
        let kernels = self.kernels.iter().map(|kernel| (&kernel.name, kernel.spill_stores + kernel.spill_loads));
        let functions = self.functions.iter().map(|each| (&each.name, each.spill_stores + each.spill_loads));
        let spilling = kernels.chain(functions).filter(|(_, bytes)| *bytes > 0);
        let kernels: Vec<String> = spilling.map(|(name, _)| name.clone()).collect();
        if !kernels.is_empty() {
            return Err(TargetError::Spills { architecture, kernels });
        }
        let is_bad = |message: &&Message| message.severity >= Severity::Warning || message.is_performance_loss();
        let messages: Vec<Message> = self.messages.iter().filter(is_bad).cloned().collect();
        if messages.is_empty() { Ok(()) } else { Err(TargetError::PtxasWarnings { architecture, messages }) }
    }

    /// Messages C75xx, none of which is acceptable in what Tenon emits.
    pub fn performance_losses(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| message.is_performance_loss())
    }
}

impl Ptxas {
    /// The ptxas of this machine: `TENON_PTXAS`, the checkout's `.venv`, `PATH`, in this order. E0604 if there is none, E0605 if
    /// the variable leads nowhere.
    pub fn locate() -> Result<Self, TargetError> {
        Self::at(PTXAS.locate()?)
    }

    /// The ptxas at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, TargetError> {
        let path = path.into();
        let release = PTXAS.release(&path)?;
        Ok(Ptxas { path, release, time_limit: child::DEFAULT_TIME_LIMIT })
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
        Ptxas { time_limit, ..self }
    }

    /// E0608 unless this release takes what is emitted for `architecture`.
    pub fn check_release(&self, architecture: &Architecture) -> Result<(), TargetError> {
        let releases = &architecture.ptxas;
        let needed = match releases.ceiling {
            Some(ceiling) if self.release > ceiling => format!("{ceiling} or older"),
            _ if self.release < releases.floor => format!("{} or newer", releases.floor),
            _ => return Ok(()),
        };
        let found = self.release.to_string();
        Err(TargetError::ToolRelease { tool: PTXAS.name, found, architecture: architecture.name, needed })
    }

    /// Assembles a module for `architecture`. E0608 for a release that does not fit, E0609 with ptxas's messages for PTX that it
    /// refuses, E0607 when it takes too long.
    pub fn assemble(&self, ptx: &str, architecture: impl AsRef<Architecture>) -> Result<Assembly, TargetError> {
        let architecture = architecture.as_ref();
        self.check_release(architecture)?;
        if ptx.len() > PTX_LIMIT {
            return Err(TargetError::TooLarge { what: "the PTX", limit: PTX_LIMIT as u64, unit: "bytes" });
        }
        let failed = |step| move |source| TargetError::ToolIo { tool: PTXAS.name, step, source };
        let folder = tempfile::tempdir().map_err(failed("creating a temporary folder"))?;
        fs::write(folder.path().join("module.ptx"), ptx).map_err(failed("writing the PTX"))?;
        let target = architecture.name.to_string();
        let arguments = ["-v", "-arch", &target, "-o", "module.cubin", "module.ptx"].map(OsString::from);
        let output = child::run(PTXAS.name, &self.path, &arguments, Some(folder.path()), self.time_limit)?;
        let text = output.messages + &output.text;
        if !output.success {
            return Err(TargetError::PtxRefused { architecture: architecture.name, messages: refusal(&text) });
        }
        let report = report::read(&text)?;
        let cubin = fs::read(folder.path().join("module.cubin")).map_err(failed("reading the cubin"))?;
        Ok(Assembly { cubin, kernels: report.kernels, functions: report.functions, messages: report.messages })
    }
}

/// The errors of a run that failed; if none is to be made out, all that it said.
fn refusal(text: &str) -> Vec<Message> {
    const MOST: usize = 100_000;
    let messages = text.lines().filter_map(report::message).filter(|message| message.severity >= Severity::Error);
    let errors: Vec<Message> = messages.take(MOST).collect();
    let other = |line: &str| Message { severity: Severity::Error, line: None, code: None, text: line.to_owned() };
    if errors.is_empty() { text.lines().take(MOST).map(other).collect() } else { errors }
}
