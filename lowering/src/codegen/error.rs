//! What can go wrong between the `gpu` stage and PTX.

use tenon_ir::IrError;

use crate::elementary::ElementaryError;
use crate::expand::ExpandError;

/// A kernel that does not become PTX.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CodegenError {
    /// MLIR or LLVM refused.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// An elementary function does not exist for its type.
    #[error(transparent)]
    Elementary(#[from] ElementaryError),
    /// The tile program cannot be expanded.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// The kernel calls a function that is not there.
    #[error("kernel `@{kernel}` calls `{symbol}`, which nothing defines")]
    Unresolved {
        /// Name of the kernel.
        kernel: String,
        /// The function.
        symbol: String,
    },
    /// Texts of PTX that cannot stand in one file.
    #[error("the PTX of kernels cannot be put together: {0}")]
    Concatenate(String),
}

impl CodegenError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            CodegenError::Ir(error) => error.code(),
            CodegenError::Elementary(error) => error.code(),
            CodegenError::Expand(error) => error.code(),
            CodegenError::Unresolved { .. } => "E0520",
            CodegenError::Concatenate(_) => "E0521",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            CodegenError::Ir(error) => error.help(),
            CodegenError::Elementary(error) => error.help(),
            CodegenError::Expand(error) => error.help(),
            CodegenError::Unresolved { .. } => {
                Some("use operations that have instructions of their own, or elementary functions on f32".to_owned())
            }
            CodegenError::Concatenate(_) => Some("compile all kernels of a program for one target".to_owned()),
        }
    }
}
