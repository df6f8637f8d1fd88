//! Errors of lowering.

use tenon_graph_dialect::SemanticError;
use tenon_hw_dialect::HwError;
use tenon_ir::IrError;
use tenon_layout::LayoutError;

/// A kernel that cannot be lowered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoweringError {
    /// An operator, or one of its options, that no schedule covers.
    #[error("{}`{operator}` has no schedule: {reason}", node(nodes))]
    Unsupported {
        /// Name of the operator.
        operator: String,
        /// Names of the model's nodes.
        nodes: Vec<String>,
        /// What is not covered.
        reason: String,
    },
    /// A dimension without a fixed size, or a tensor beyond what 32-bit offsets reach.
    #[error("{}{reason}", node(nodes))]
    Shape {
        /// Names of the model's nodes.
        nodes: Vec<String>,
        /// What is wrong.
        reason: String,
        /// What to change.
        help: &'static str,
    },
    /// The kernel's body is not what its family asks for.
    #[error("kernel `{kernel}`: {reason}")]
    Kernel {
        /// Name of the kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// The graph is wrong.
    #[error(transparent)]
    Graph(#[from] SemanticError),
    /// The tile program cannot be built.
    #[error(transparent)]
    Hw(#[from] HwError),
}

/// What to change where a size is known at launch only.
const DO_NOT_PAD: &str = "let the dimension that these sizes follow from not pad: in `semantic.dims`, `between = \"reject\"` with every size that requests have in `allowed`; inputs that share it have one name for it in `semantic.inputs`";

fn node(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!("node `{}`: ", nodes.join("`, `")) }
}

impl From<IrError> for LoweringError {
    fn from(error: IrError) -> Self {
        LoweringError::Hw(error.into())
    }
}

impl From<LayoutError> for LoweringError {
    fn from(error: LayoutError) -> Self {
        LoweringError::Hw(error.into())
    }
}

impl LoweringError {
    /// An operator or option without a schedule; the caller adds the nodes.
    pub(crate) fn unsupported(operator: &str, reason: impl Into<String>) -> Self {
        LoweringError::Unsupported { operator: operator.to_owned(), nodes: Vec::new(), reason: reason.into() }
    }

    /// A shape that is too large; the caller adds the nodes.
    pub(crate) fn shape(reason: impl Into<String>) -> Self {
        let help = "allow smaller sizes in `semantic.dims` of the recipe, or cut the tensor in the model";
        LoweringError::Shape { nodes: Vec::new(), reason: reason.into(), help }
    }

    /// A dimension without a largest size; the caller adds the nodes.
    pub(crate) fn unbounded(reason: impl Into<String>) -> Self {
        let help = "give every dimension a size, by a recipe or by `--shapes-from-inputs`";
        LoweringError::Shape { nodes: Vec::new(), reason: reason.into(), help }
    }

    /// Sizes that are known at launch only, and that a kernel cannot work with; the caller adds the nodes.
    pub(crate) fn padded(reason: impl Into<String>) -> Self {
        LoweringError::Shape { nodes: Vec::new(), reason: reason.into(), help: DO_NOT_PAD }
    }

    /// Adds the model's nodes where none are named yet.
    pub(crate) fn with_nodes(mut self, names: Vec<String>) -> Self {
        if let LoweringError::Unsupported { nodes, .. } | LoweringError::Shape { nodes, .. } = &mut self
            && nodes.is_empty()
        {
            *nodes = names;
        }
        self
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            LoweringError::Unsupported { .. } => "E0501",
            LoweringError::Shape { .. } => "E0502",
            LoweringError::Kernel { .. } => "E0503",
            LoweringError::Graph(error) => error.code(),
            LoweringError::Hw(error) => error.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            // How operators say that an extent stands where they need a number.
            LoweringError::Unsupported { reason, .. } if reason.contains("known at launch only") => {
                Some(DO_NOT_PAD.to_owned())
            }
            LoweringError::Unsupported { .. } => {
                Some("express the node by other operators, or leave it out of the model".to_owned())
            }
            LoweringError::Shape { help, .. } => Some((*help).to_owned()),
            LoweringError::Kernel { .. } => {
                Some("compare the kernel with a dump of `tenon lower --stage fuse`".to_owned())
            }
            LoweringError::Graph(error) => error.help(),
            LoweringError::Hw(error) => error.help(),
        }
    }
}
