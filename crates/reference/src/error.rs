//! What the interpreter refuses.

use tenon_graph_dialect::{ErrorKind, SemanticError};
use tenon_tensor::TensorError;

/// An operation that cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{operation}: {message}", node(nodes))]
pub struct ReferenceError {
    /// What kind of obstacle.
    pub kind: ReferenceErrorKind,
    /// Name of the operation, or of the function or parameter.
    pub operation: String,
    /// What is wrong, what was expected.
    pub message: String,
    /// Names of the model's nodes that the operation came from.
    pub nodes: Vec<String>,
}

fn node(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!("node `{}`: ", nodes.join("`, `")) }
}

/// Kind of obstacle; each has a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceErrorKind {
    /// A dimension that is no number.
    Symbolic,
    /// A value above the limit on memory.
    TooLarge,
    /// A tensor that is not of the declared type.
    Mismatch,
    /// The operator has no value here: an index outside of a scatter, an extremum of nothing.
    Undefined,
    /// An operation or combination of types that the interpreter does not know.
    Unsupported,
    /// A parameter that is missing or defined in terms of itself.
    Parameter,
    /// No such function, or one without the structure of a function.
    Structure,
    /// The operator breaks a rule of the graph dialect; the code is the rule's.
    Semantic(ErrorKind),
}

impl ReferenceError {
    pub(crate) fn new(kind: ReferenceErrorKind, operation: &str, message: impl Into<String>) -> Self {
        ReferenceError { kind, operation: operation.to_owned(), message: message.into(), nodes: Vec::new() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            ReferenceErrorKind::Symbolic => "E0901",
            ReferenceErrorKind::TooLarge => "E0902",
            ReferenceErrorKind::Mismatch => "E0903",
            ReferenceErrorKind::Undefined => "E0904",
            ReferenceErrorKind::Unsupported => "E0905",
            ReferenceErrorKind::Parameter => "E0906",
            ReferenceErrorKind::Structure => "E0907",
            ReferenceErrorKind::Semantic(kind) => SemanticError::new(kind, "", "").code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(
            match self.kind {
                ReferenceErrorKind::Symbolic => {
                    "give every symbolic dimension a number first: evaluate a module after the `bucket` stage"
                }
                ReferenceErrorKind::TooLarge => "evaluate with smaller shapes",
                ReferenceErrorKind::Mismatch => "give a tensor of the declared element type and shape",
                ReferenceErrorKind::Undefined => "give the operator operands for which it is defined",
                ReferenceErrorKind::Unsupported => "express the operation by operators of the graph dialect",
                ReferenceErrorKind::Parameter => "give the weights of the model that the module was made from",
                ReferenceErrorKind::Structure => {
                    "name a function of the module whose body is one block ending in `func.return`"
                }
                ReferenceErrorKind::Semantic(kind) => return SemanticError::new(kind, "", "").help(),
            }
            .to_owned(),
        )
    }

    pub(crate) fn with_nodes(mut self, nodes: Vec<String>) -> Self {
        if self.nodes.is_empty() {
            self.nodes = nodes;
        }
        self
    }
}

impl From<SemanticError> for ReferenceError {
    fn from(error: SemanticError) -> Self {
        ReferenceError {
            kind: ReferenceErrorKind::Semantic(error.kind),
            operation: error.operator,
            message: error.message,
            nodes: error.nodes,
        }
    }
}

impl From<TensorError> for ReferenceError {
    fn from(error: TensorError) -> Self {
        ReferenceError::new(ReferenceErrorKind::Mismatch, "tensor", error.to_string())
    }
}
