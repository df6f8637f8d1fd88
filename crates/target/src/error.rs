//! What can be wrong with a target, an instruction, a block, or a run of ptxas or nvdisasm.

use std::path::PathBuf;
use std::time::Duration;

use crate::{ArchitectureName, Message, Version, nearest::nearest};

/// Why an architecture does not have an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructionUnavailable {
    /// The architecture is too old.
    #[error("it needs {minimum} or newer")]
    Architecture {
        /// The first that has it.
        minimum: ArchitectureName,
    },
    /// Only some architectures have it.
    #[error("only {} has it", list(.exact))]
    Exact {
        /// Those that have it.
        exact: Vec<ArchitectureName>,
    },
    /// The PTX that is emitted for the architecture is too old.
    #[error("it needs PTX {needed}, and PTX {emitted} is emitted")]
    PtxVersion {
        /// The first with the instruction.
        needed: Version,
        /// The architecture's.
        emitted: Version,
    },
}

/// The first messages in words.
fn first(messages: &[Message]) -> String {
    const MOST: usize = 5;
    let mut text = messages.iter().take(MOST).map(Message::to_string).collect::<Vec<_>>().join("; ");
    if messages.len() > MOST {
        text += &format!("; and {} more", messages.len() - MOST);
    }
    text
}

fn list_names(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut text = names.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}

fn list(names: &[ArchitectureName]) -> String {
    names.iter().map(ArchitectureName::to_string).collect::<Vec<_>>().join(", ")
}

/// What can be wrong with a target, an instruction, a block, or a run of ptxas or nvdisasm.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TargetError {
    /// A name that is neither GPU nor architecture.
    #[error("there is no target `{name}`")]
    UnknownTarget { name: String, nearest: Option<String>, known: Vec<String> },
    /// A name that is not in the instruction table.
    #[error("there is no instruction `{name}`")]
    UnknownInstruction { name: String, nearest: Option<String> },
    /// An instruction that the architecture does not have.
    #[error("{architecture} has no `{instruction}`: {reason}")]
    InstructionUnavailable { instruction: String, architecture: ArchitectureName, reason: InstructionUnavailable },
    /// Tensor cores that the target does not have.
    #[error("{target} has no tensor cores for operands of type {operands}")]
    NoTensorCores { operands: &'static str, target: String },
    /// A tool is nowhere.
    #[error("{tool} was not found: neither {variable}, nor the checkout's .venv, nor PATH has it")]
    ToolNotFound { tool: &'static str, variable: &'static str },
    /// The environment variable leads nowhere.
    #[error("{variable} is {}, which is no executable file", path.display())]
    ToolNotExecutable { variable: &'static str, path: PathBuf },
    /// The operating system refused.
    #[error("{tool} could not be run ({step}): {source}")]
    ToolIo { tool: &'static str, step: &'static str, source: std::io::Error },
    /// A tool did not end.
    #[error("{tool} did not end within {} s and was stopped", limit.as_secs_f64())]
    ToolTimeout { tool: &'static str, limit: Duration },
    /// A tool of a release that does not fit the architecture, or of none that can be read.
    #[error("{tool} is of CUDA {found}; {architecture} needs {needed}")]
    ToolRelease { tool: &'static str, found: String, architecture: ArchitectureName, needed: String },
    /// ptxas refused the PTX.
    #[error("ptxas refused the PTX for {architecture}: {}", first(messages))]
    PtxRefused { architecture: ArchitectureName, messages: Vec<Message> },
    /// ptxas succeeded, but what it says was not understood.
    #[error("the report of ptxas was not understood: {reason}")]
    PtxasReport { reason: String },
    /// No disassembler that is installed reads the architecture.
    #[error(
        "there is no SASS listing for {architecture}: nvdisasm is of CUDA {found}, the last to read it was {ceiling}"
    )]
    NoListing { architecture: ArchitectureName, found: Version, ceiling: Version },
    /// nvdisasm refused the cubin.
    #[error("nvdisasm refused the cubin: {}", messages.join("; "))]
    CubinRefused { messages: Vec<String> },
    /// nvdisasm succeeded, but its listing was not understood.
    #[error("line {line} of the listing of nvdisasm was not understood: {reason}")]
    Listing { line: usize, reason: String },
    /// A block that an SM cannot hold.
    #[error("a block with {requested} {what} does not fit {architecture}, which takes {least} to {most}")]
    BlockDoesNotFit { architecture: ArchitectureName, what: &'static str, requested: u32, least: u32, most: u32 },
    /// Kernels that ptxas gave fewer registers than they need.
    #[error("ptxas spills registers on {architecture}: {}", list_names(kernels))]
    Spills { architecture: ArchitectureName, kernels: Vec<String> },
    /// ptxas warned, or said that it gave performance away.
    #[error("ptxas warns of the PTX for {architecture}: {}", first(messages))]
    PtxasWarnings { architecture: ArchitectureName, messages: Vec<Message> },
    /// More than is taken from or given to a tool.
    #[error("{what} has more than {limit} {unit}, which is not taken")]
    TooLarge { what: &'static str, limit: u64, unit: &'static str },
}

impl TargetError {
    /// The error for a name that is none of `known`.
    pub(crate) fn unknown_target<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        TargetError::UnknownTarget {
            name: name.chars().take(64).collect(),
            nearest: nearest(name, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Stable code, explained in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            TargetError::UnknownTarget { .. } => "E0600",
            TargetError::UnknownInstruction { .. } => "E0601",
            TargetError::InstructionUnavailable { .. } => "E0602",
            TargetError::NoTensorCores { .. } => "E0603",
            TargetError::ToolNotFound { .. } => "E0604",
            TargetError::ToolNotExecutable { .. } => "E0605",
            TargetError::ToolIo { .. } => "E0606",
            TargetError::ToolTimeout { .. } => "E0607",
            TargetError::ToolRelease { .. } => "E0608",
            TargetError::PtxRefused { .. } => "E0609",
            TargetError::PtxasReport { .. } => "E0610",
            TargetError::NoListing { .. } => "E0611",
            TargetError::CubinRefused { .. } => "E0612",
            TargetError::Listing { .. } => "E0613",
            TargetError::BlockDoesNotFit { .. } => "E0614",
            TargetError::TooLarge { .. } => "E0615",
            TargetError::Spills { .. } => "E0616",
            TargetError::PtxasWarnings { .. } => "E0617",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        const SETUP: &str = "`cargo xtask setup --ptxas` installs the releases that the project is tested with";
        Some(match self {
            TargetError::UnknownTarget { nearest, known, .. } => {
                let question = nearest.as_ref().map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
                format!("{question}known are {}", known.join(", "))
            }
            TargetError::UnknownInstruction { nearest, .. } => match nearest {
                Some(name) => format!("did you mean `{name}`?"),
                None => "the names are those of the instruction table, `data/instructions.toml`".to_owned(),
            },
            TargetError::InstructionUnavailable { .. } => {
                "choose a target that has it, or leave the choice of instructions to the schedule".to_owned()
            }
            TargetError::NoTensorCores { .. } => "choose another type of operands, or the arithmetic units".to_owned(),
            TargetError::ToolNotFound { .. } => {
                format!("{SETUP}; compiling to PTX and running on the simulator need neither tool")
            }
            TargetError::ToolNotExecutable { variable, .. } => format!("correct or unset {variable}; {SETUP}"),
            TargetError::ToolIo { tool, .. } => {
                format!("see that the folder for temporary files has room and that {tool} starts from a shell; {SETUP}")
            }
            TargetError::ToolTimeout { .. } => "divide the module into smaller ones, or set a longer limit".to_owned(),
            TargetError::ToolRelease { .. } => SETUP.to_owned(),
            TargetError::PtxRefused { .. } => {
                "correct the line of the PTX that is named; PTX that Tenon emitted should never be refused: report it"
                    .to_owned()
            }
            TargetError::PtxasReport { .. } | TargetError::Listing { .. } => {
                format!("the tool's output differs from every release that is known; {SETUP}")
            }
            TargetError::NoListing { ceiling, .. } => {
                format!(
                    "registers, spills and shared memory are known from ptxas; for a listing, set TENON_NVDISASM to that of CUDA {ceiling} or older"
                )
            }
            TargetError::CubinRefused { .. } => {
                format!("give a cubin as ptxas wrote it, by a release no newer than nvdisasm's; {SETUP}")
            }
            TargetError::BlockDoesNotFit { what, .. } => format!("change the {what}, or the threads of a block"),
            TargetError::TooLarge { .. } => "divide the module into smaller ones".to_owned(),
            TargetError::Spills { .. } => {
                "PTX that Tenon emitted should never spill: report it with the model; in other PTX, raise `.maxnreg` or lower `.minnctapersm`"
                    .to_owned()
            }
            TargetError::PtxasWarnings { .. } => {
                "PTX that Tenon emitted should draw no warning: report it with the model; in other PTX, change the lines that are named"
                    .to_owned()
            }
        })
    }
}
