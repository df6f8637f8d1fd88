//! What can stand in the way of expanding a tile program.

use std::fmt;

use tenon_hw_dialect::HwError;
use tenon_ir::IrError;
use tenon_layout::LayoutError;

/// The operation that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the operation, `hw.load`.
    pub operation: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Nodes of the model that the operation comes from.
    pub nodes: Vec<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in kernel `@{}`", self.operation, self.kernel)?;
        if !self.nodes.is_empty() {
            write!(f, " (from {})", self.nodes.join(", "))?;
        }
        Ok(())
    }
}

/// A tile program that cannot be expanded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExpandError {
    /// MLIR refused what was built.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// A type of the hw dialect is wrong.
    #[error(transparent)]
    Hw(#[from] HwError),
    /// The operation has no expansion.
    #[error("{place}: no expansion is known for this operation")]
    UnknownOperation {
        /// Which.
        place: Place,
    },
    /// Layouts of operands and results do not fit each other.
    #[error("{place}: {reason}")]
    Layout {
        /// Which operation.
        place: Place,
        /// What does not fit.
        reason: String,
    },
    /// The target lacks the instruction, or nobody knows it.
    #[error("{place}: instruction `{instruction}`: {reason}")]
    Instruction {
        /// Which operation.
        place: Place,
        /// The instruction's name.
        instruction: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The operation does not take this element type.
    #[error("{place}: {reason}")]
    Element {
        /// Which operation.
        place: Place,
        /// What is wrong with the type.
        reason: String,
    },
    /// The kernel's text breaks a rule of its operations.
    #[error("{place}: {reason}")]
    Malformed {
        /// Which operation.
        place: Place,
        /// The rule.
        reason: String,
    },
    /// The kernel needs more shared memory than a block can have.
    #[error("kernel `@{kernel}` needs {bytes} bytes of shared memory; the target gives a block at most {limit}")]
    SharedMemory {
        /// Name of the kernel.
        kernel: String,
        /// What it needs.
        bytes: u64,
        /// What there is.
        limit: u64,
    },
}

impl ExpandError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            ExpandError::Ir(error) => error.code(),
            ExpandError::Hw(error) => error.code(),
            ExpandError::UnknownOperation { .. } => "E0510",
            ExpandError::Layout { .. } => "E0511",
            ExpandError::Instruction { .. } => "E0512",
            ExpandError::Element { .. } => "E0513",
            ExpandError::Malformed { .. } => "E0514",
            ExpandError::SharedMemory { .. } => "E0515",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            ExpandError::Ir(error) => return error.help(),
            ExpandError::Hw(error) => return error.help(),
            ExpandError::UnknownOperation { .. } => {
                "a kernel holds operations of hw, and scalar code of arith, math and scf".to_owned()
            }
            ExpandError::Layout { .. } => "put `hw.convert_layout` before the operation".to_owned(),
            ExpandError::Instruction { .. } => {
                "`tenon targets` lists the matrix instructions of each target; `fma` is on all of them".to_owned()
            }
            ExpandError::Element { .. } => "convert the elements with `hw.map` before the operation".to_owned(),
            ExpandError::Malformed { .. } => {
                "compare the tile program with a dump of `tenon lower --stage hw`".to_owned()
            }
            ExpandError::SharedMemory { .. } => "use smaller tiles or fewer slots".to_owned(),
        })
    }
}

/// A layout that is impossible is one that does not fit.
pub(super) fn layout_error(place: Place, error: &LayoutError) -> ExpandError {
    ExpandError::Layout { place, reason: error.to_string() }
}
