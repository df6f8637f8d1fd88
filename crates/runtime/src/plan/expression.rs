//! Numbers that may depend on extents.

use serde::{Deserialize, Serialize};

/// A number, or an expression over extents that are known when the plan runs (`"ceildiv(batch * seq, 128)"`).
///
/// Serialises as a JSON number or string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expr {
    /// A number.
    Number(u64),
    /// An expression over the plan's extents.
    Text(String),
}

impl Expr {
    /// The number, where it is one.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Expr::Number(value) => Some(*value),
            Expr::Text(_) => None,
        }
    }
}

impl From<u64> for Expr {
    fn from(value: u64) -> Self {
        Expr::Number(value)
    }
}

impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expr::Number(value) => value.fmt(f),
            Expr::Text(text) => text.fmt(f),
        }
    }
}
