//! What a pass or its runner refuses.

use tenon_graph_dialect::SemanticError;
use tenon_ir::{IrError, Op};

use crate::Property;

/// Something in the module that a pass refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code, `docs/errors/`.
    pub code: &'static str,
    /// What is wrong, what was expected.
    pub message: String,
    /// Names of the model's nodes that it concerns.
    pub nodes: Vec<String>,
    /// What to change.
    pub help: Option<String>,
}

impl Refusal {
    /// A refusal that concerns no node in particular.
    pub fn new(code: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), nodes: Vec::new(), help: Some(help.into()) }
    }

    /// The same with the nodes that an operation came from.
    pub fn at(mut self, op: Op<'_>) -> Self {
        self.nodes = op.location().names();
        self
    }
}

/// Why a pass did not run, or did not finish.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PassError {
    /// A name that no pass has.
    #[error("no pass is called `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// The pass with the most similar name.
        nearest: Option<String>,
        /// Names of all passes.
        valid: Vec<String>,
    },
    /// A pass that later stages depend on was to be disabled.
    #[error("pass `{name}` cannot be disabled: later stages depend on it")]
    Required {
        /// The pass.
        name: String,
    },
    /// The module is not what a pass needs.
    #[error("pass `{pass}` needs a module that {property}: {detail}")]
    Needs {
        /// The pass.
        pass: &'static str,
        /// What is missing.
        property: Property,
        /// Where it is missing.
        detail: String,
    },
    /// The module does not verify.
    #[error("{when}: the module does not verify: {detail}")]
    Broken {
        /// `after pass …`, `before the first pass`.
        when: String,
        /// What was found.
        detail: String,
    },
    /// Something in the module is refused.
    #[error("{}{}", nodes(&.0.nodes), .0.message)]
    Refused(Box<Refusal>),
    /// An operator whose operands do not fit.
    #[error(transparent)]
    Semantic(#[from] SemanticError),
    /// The IR could not be read or changed.
    #[error(transparent)]
    Ir(#[from] IrError),
}

fn nodes(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("node `{}`: ", names.join("`, `")) }
}

impl From<tenon_flow_dialect::FlowError> for PassError {
    fn from(error: tenon_flow_dialect::FlowError) -> Self {
        let message = format!("{}: {}", error.operation, error.message);
        Refusal { code: error.code(), message, help: error.help(), nodes: error.nodes }.into()
    }
}

impl From<Refusal> for PassError {
    fn from(refusal: Refusal) -> Self {
        PassError::Refused(Box::new(refusal))
    }
}

impl PassError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            PassError::Unknown { .. } => "E0407",
            PassError::Required { .. } => "E0408",
            PassError::Needs { .. } => "E0409",
            PassError::Broken { .. } => "E0410",
            PassError::Refused(refusal) => refusal.code,
            PassError::Semantic(error) => error.code(),
            PassError::Ir(error) => error.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            PassError::Unknown { nearest: Some(nearest), valid, .. } => {
                Some(format!("did you mean `{nearest}`? Passes are {}", valid.join(", ")))
            }
            PassError::Unknown { valid, .. } => Some(format!("passes are {}", valid.join(", "))),
            PassError::Required { .. } => Some("leave it enabled".to_owned()),
            PassError::Needs { property, .. } => Some(property.help().to_owned()),
            PassError::Broken { .. } => Some(
                "if the module was edited by hand, correct it; if not, this is a fault of Tenon: report it with the model".to_owned(),
            ),
            PassError::Refused(refusal) => refusal.help.clone(),
            PassError::Semantic(error) => error.help(),
            PassError::Ir(error) => error.help(),
        }
    }

    /// Names of the model's nodes that it concerns.
    pub fn nodes(&self) -> &[String] {
        match self {
            PassError::Refused(refusal) => &refusal.nodes,
            PassError::Semantic(error) => &error.nodes,
            _ => &[],
        }
    }
}
