//! Errors of the graph dialect.

/// An operator that breaks a rule of the graph dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{operator}: {message}", node(nodes))]
pub struct SemanticError {
    /// Which kind of rule.
    pub kind: ErrorKind,
    /// `graph.…` name of the operation.
    pub operator: String,
    /// What is wrong, what was expected.
    pub message: String,
    /// Names of the model's nodes that the operation came from.
    pub nodes: Vec<String>,
}

fn node(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!("node `{}`: ", nodes.join("`, `")) }
}

/// Kind of rule that was broken; each has a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Wrong number of operands or results.
    Arity,
    /// An element type that the operator does not take.
    DType,
    /// Shapes that do not fit together.
    Shape,
    /// An attribute that is missing, malformed or out of range.
    Attribute,
    /// The written result type is not the one that follows from the operands.
    Result,
    /// A symbol or structure of the module is wrong.
    Structure,
}

impl SemanticError {
    /// An error without source nodes; [`crate::check`] adds them.
    pub fn new(kind: ErrorKind, operator: &str, message: impl Into<String>) -> Self {
        SemanticError { kind, operator: operator.to_owned(), message: message.into(), nodes: Vec::new() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            ErrorKind::Arity => "E0301",
            ErrorKind::DType => "E0302",
            ErrorKind::Shape => "E0303",
            ErrorKind::Attribute => "E0304",
            ErrorKind::Result => "E0305",
            ErrorKind::Structure => "E0306",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(
            match self.kind {
                ErrorKind::Arity => {
                    "give the operator as many operands as its page in the dialect's documentation says"
                }
                ErrorKind::DType => "cast the operand to an element type that the operator takes",
                ErrorKind::Shape => "check the dimensions of the operands, and of the inputs that they follow from",
                ErrorKind::Attribute => "correct the attribute",
                ErrorKind::Result => "write the result type that the operands give",
                ErrorKind::Structure => "compare the module with a dump of `tenon lower`",
            }
            .to_owned(),
        )
    }
}
