//! Errors of the hw dialect.

use tenon_ir::IrError;
use tenon_layout::LayoutError;

/// A tile program that cannot be built or is wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HwError {
    /// The operation was refused by MLIR.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// A layout is impossible.
    #[error("layout: {0}")]
    Layout(#[from] LayoutError),
    /// A type that is no tile, shared memory or buffer where one was expected.
    #[error("`{found}` is not {expected}")]
    Type {
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// An operation whose operands do not fit together.
    #[error("{operation}{}: {message}", in_kernel(kernel))]
    Semantic {
        /// `hw.…` name of the operation.
        operation: String,
        /// Kernel or program that it is in.
        kernel: Option<String>,
        /// What is wrong, what was expected.
        message: String,
    },
}

fn in_kernel(kernel: &Option<String>) -> String {
    kernel.as_ref().map(|name| format!(" in `@{name}`")).unwrap_or_default()
}

impl HwError {
    /// A wrong operation.
    pub fn semantic(operation: &str, message: impl Into<String>) -> Self {
        HwError::Semantic { operation: operation.to_owned(), kernel: None, message: message.into() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            HwError::Ir(error) => error.code(),
            HwError::Layout(error) => error.code(),
            HwError::Type { .. } => "E0321",
            HwError::Semantic { .. } => "E0322",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            HwError::Ir(error) => error.help(),
            HwError::Layout(error) => error.help(),
            HwError::Type { .. } | HwError::Semantic { .. } => {
                Some("compare the tile program with a dump of `tenon lower --stage hw`".to_owned())
            }
        }
    }
}
