//! Errors of the flow dialect.

/// An operation that breaks a rule of the flow dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{operation}: {message}", node(nodes))]
pub struct FlowError {
    /// Which kind of rule.
    pub kind: FlowErrorKind,
    /// `flow.…` name of the operation.
    pub operation: String,
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
pub enum FlowErrorKind {
    /// A condition or trip count of another type.
    Control,
    /// The arguments of a region do not take what enters it.
    Entry,
    /// A region does not yield what its operation gives.
    Yield,
    /// An attribute that is missing, malformed or out of range.
    Attribute,
    /// A loop without an end, a scan over nothing.
    Unbounded,
}

impl FlowError {
    pub(crate) fn new(kind: FlowErrorKind, operation: &str, message: impl Into<String>) -> Self {
        FlowError { kind, operation: operation.to_owned(), message: message.into(), nodes: Vec::new() }
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            FlowErrorKind::Control => "E0310",
            FlowErrorKind::Entry => "E0311",
            FlowErrorKind::Yield => "E0312",
            FlowErrorKind::Attribute => "E0313",
            FlowErrorKind::Unbounded => "E0314",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        Some(
            match self.kind {
                FlowErrorKind::Control => "give an i1 scalar as a condition and an i64 scalar as a trip count",
                FlowErrorKind::Entry => "give the region an argument of fitting type for everything that enters it",
                FlowErrorKind::Yield => "yield a value of fitting type for each result",
                FlowErrorKind::Attribute => "correct the attribute",
                FlowErrorKind::Unbounded => "give the loop a trip count or a condition, the scan a tensor",
            }
            .to_owned(),
        )
    }
}
