//! Errors of programs.

use tenon_graph_dialect::SemanticError;
use tenon_ir::IrError;
use tenon_runtime::PlanError;

use crate::LoweringError;

/// A module without a program, or a program without a plan.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgramError {
    /// The module is not what the `fuse` stage gives.
    #[error("{}{message}", node(nodes))]
    Structure {
        /// Names of the model's nodes.
        nodes: Vec<String>,
        /// What is wrong.
        message: String,
    },
    /// Two inputs, outputs or weights of one name.
    #[error("two {kind}s are called `{name}`")]
    Name {
        /// `input`, `output` or `parameter`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A value without a fixed shape, or not in row-major order.
    #[error("{}{message}", node(nodes))]
    Shape {
        /// Names of the model's nodes.
        nodes: Vec<String>,
        /// What is wrong.
        message: String,
    },
    /// All values together are beyond what 64 bits address.
    #[error("the intermediate values together have 2^64 bytes or more")]
    TooLarge,
    /// An operation of an `hw.program` that does not fit.
    #[error("{operation} in the program: {message}")]
    Program {
        /// Name of the operation.
        operation: String,
        /// What is wrong.
        message: String,
    },
    /// The program launches a kernel that was not compiled.
    #[error("the program launches `@{kernel}`, which is no kernel of the module")]
    UnknownKernel {
        /// Name of the kernel.
        kernel: String,
    },
    /// The program gives a plan that must not run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A kernel cannot be lowered.
    #[error(transparent)]
    Kernel(#[from] LoweringError),
    /// The graph is wrong.
    #[error(transparent)]
    Graph(#[from] SemanticError),
    /// MLIR refused something.
    #[error(transparent)]
    Ir(#[from] IrError),
}

fn node(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!("node `{}`: ", nodes.join("`, `")) }
}

impl ProgramError {
    pub(super) fn structure(message: impl Into<String>) -> Self {
        ProgramError::Structure { nodes: Vec::new(), message: message.into() }
    }

    pub(super) fn program(operation: &str, message: impl Into<String>) -> Self {
        ProgramError::Program { operation: operation.to_owned(), message: message.into() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            ProgramError::Structure { .. } => "E0550",
            ProgramError::Name { .. } => "E0551",
            ProgramError::Shape { .. } => "E0552",
            ProgramError::TooLarge => "E0553",
            ProgramError::Program { .. } => "E0554",
            ProgramError::UnknownKernel { .. } => "E0555",
            ProgramError::Plan(error) => error.code(),
            ProgramError::Kernel(error) => error.code(),
            ProgramError::Graph(error) => error.code(),
            ProgramError::Ir(error) => error.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            ProgramError::Structure { .. } => {
                Some("compare the module with a dump of `tenon lower --stage fuse`".to_owned())
            }
            ProgramError::Name { kind, .. } => Some(format!("give each {kind} of the model its own name")),
            ProgramError::Shape { .. } => {
                Some("give every dimension a size, by a recipe or by `--shapes-from-inputs`".to_owned())
            }
            ProgramError::TooLarge => Some("use smaller shapes".to_owned()),
            ProgramError::Program { .. } | ProgramError::UnknownKernel { .. } => {
                Some("compare the program with a dump of `tenon lower --stage hw`".to_owned())
            }
            ProgramError::Plan(error) => error.help(),
            ProgramError::Kernel(error) => error.help(),
            ProgramError::Graph(error) => error.help(),
            ProgramError::Ir(error) => error.help(),
        }
    }
}
