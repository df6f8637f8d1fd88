//! What can go wrong between Tenon and MLIR.

use crate::Diagnostic;

/// An operation on the IR that was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IrError {
    /// The text is no valid MLIR.
    #[error("{what} does not parse: {}", join(diagnostics))]
    Parse {
        /// What was being parsed: a file name, `type`, `attribute`.
        what: String,
        /// What MLIR said, with positions.
        diagnostics: Vec<Diagnostic>,
    },
    /// The text would crash the parser.
    #[error("{what} is refused before parsing: {reason}")]
    Text {
        /// What was being parsed.
        what: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The module breaks an invariant of an operation.
    #[error("the IR does not verify: {}", join(diagnostics))]
    Verify {
        /// What MLIR said.
        diagnostics: Vec<Diagnostic>,
    },
    /// No dialect that is loaded defines the operation.
    #[error("no dialect defines an operation `{0}`")]
    UnknownOperation(String),
    /// The operation could not be created.
    #[error("operation `{name}` cannot be built: {}", join(diagnostics))]
    Build {
        /// Name of the operation.
        name: String,
        /// What MLIR said.
        diagnostics: Vec<Diagnostic>,
    },
    /// An object of another session was passed in.
    #[error("{0} belongs to another session")]
    ForeignObject(&'static str),
    /// Something inside an erased operation was passed in.
    #[error("{0} is part of an erased operation")]
    Erased(&'static str),
    /// An operation with users was to be erased.
    #[error("operation `{0}` still has users and cannot be erased")]
    StillUsed(String),
    /// A pass pipeline does not parse or a pass failed.
    #[error("pass pipeline `{pipeline}` failed: {}", join(diagnostics))]
    Pipeline {
        /// The textual pipeline.
        pipeline: String,
        /// What MLIR said.
        diagnostics: Vec<Diagnostic>,
    },
    /// Translation to LLVM IR failed.
    #[error("translation to LLVM IR failed: {}", join(diagnostics))]
    Translate {
        /// What MLIR said.
        diagnostics: Vec<Diagnostic>,
    },
    /// LLVM refused a module, a target or a pass pipeline.
    #[error("LLVM: {0}")]
    Llvm(String),
}

impl IrError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            IrError::Parse { .. } => "E0401",
            IrError::Text { .. } => "E0402",
            IrError::Verify { .. } => "E0403",
            IrError::UnknownOperation(_)
            | IrError::Build { .. }
            | IrError::ForeignObject(_)
            | IrError::Erased(_)
            | IrError::StillUsed(_) => "E0404",
            IrError::Pipeline { .. } => "E0405",
            IrError::Translate { .. } | IrError::Llvm(_) => "E0406",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            IrError::Parse { .. } | IrError::Text { .. } => {
                Some("compare the text with a dump that `tenon lower` wrote for the same stage".to_owned())
            }
            _ => None,
        }
    }
}

fn join(diagnostics: &[Diagnostic]) -> String {
    if diagnostics.is_empty() {
        return "no reason was given".to_owned();
    }
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
