//! Every way in which a module, a launch or a running kernel can be refused.

use crate::fault::Fault;

/// An error of the simulator, with a stable code.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The text is not PTX that this crate reads.
    #[error("line {line}: {message}")]
    Parse {
        /// Line of the source, from 1; 0 when no line is to blame.
        line: u32,
        /// What was expected and found.
        message: String,
    },
    /// An instruction, modifier, type or operand that the simulator does not know or that does not fit.
    #[error("line {line}: {message}: `{text}`")]
    Instruction {
        /// Line of the source, from 1.
        line: u32,
        /// What is not known or does not fit.
        message: String,
        /// The instruction.
        text: String,
    },
    /// No entry of that name.
    #[error("the module has no entry `{0}`")]
    UnknownEntry(String),
    /// The launch does not fit the entry or the device.
    #[error("launch of `{entry}`: {message}")]
    Launch {
        /// Name of the entry.
        entry: String,
        /// What does not fit.
        message: String,
    },
    /// Memory of the device was used wrongly from the host, or there is not enough of it.
    #[error("device memory: {0}")]
    Memory(String),
    /// A tensor map whose fields do not fit together.
    #[error("tensor map: {0}")]
    TensorMap(String),
    /// A kernel did something that the machine forbids or that is a race.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

impl Error {
    pub(crate) fn parse(line: u32, message: impl Into<String>) -> Error {
        Error::Parse { line, message: message.into() }
    }

    /// Stable code, `E08xx`; each has a page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Parse { .. } => "E0801",
            Error::Instruction { .. } => "E0802",
            Error::UnknownEntry(_) => "E0803",
            Error::Launch { .. } => "E0804",
            Error::Memory(_) => "E0805",
            Error::TensorMap(_) => "E0806",
            Error::Fault(fault) => fault.kind.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Error::Parse { .. } => "check that the file is PTX text, complete, with .address_size 64".into(),
            Error::Instruction { .. } => {
                "compile for a target and PTX version whose instructions the simulator knows, or report the instruction"
                    .into()
            }
            Error::UnknownEntry(_) => "name one of the module's .visible .entry functions".into(),
            Error::Launch { .. } => "make grid, block, shared memory and arguments fit the entry's declaration".into(),
            Error::Memory(_) => "allocate enough, stay inside the allocation, and do not use it after free".into(),
            Error::TensorMap(_) => {
                "give sizes, strides and box as the PTX ISA allows them for a tiled tensor map".into()
            }
            Error::Fault(fault) => fault.kind.help().into(),
        })
    }

    /// The fault, when this is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
