//! What is wrong with a recipe.

use std::ops::Range;

/// A fault of a recipe file, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecipeError {
    /// Which kind of fault.
    pub kind: RecipeErrorKind,
    /// What is wrong, what was expected.
    pub message: String,
    /// Bytes of the file that are at fault.
    pub span: Option<Range<usize>>,
    /// What to change.
    pub help: Option<String>,
}

/// Kind of fault; each has a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipeErrorKind {
    /// The file cannot be read.
    Unreadable,
    /// A format that is neither TOML nor YAML.
    Format,
    /// No valid TOML or YAML.
    Syntax,
    /// A key that no clause has.
    UnknownKey,
    /// A clause that this version does not enforce.
    Unsupported,
    /// A value of the wrong type or out of range.
    Value,
    /// The schema version is missing or unknown.
    Version,
    /// Clauses that contradict each other, or one that needs another.
    Conflict,
    /// More combinations of sizes than graphs may be compiled.
    ShapeSpace,
}

impl RecipeError {
    pub(crate) fn new(kind: RecipeErrorKind, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        RecipeError { kind, message: message.into(), span, help: None }
    }

    pub(crate) fn help_with(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self.kind {
            RecipeErrorKind::Unreadable => "E0200",
            RecipeErrorKind::Format => "E0201",
            RecipeErrorKind::Syntax => "E0202",
            RecipeErrorKind::UnknownKey => "E0203",
            RecipeErrorKind::Unsupported => "E0204",
            RecipeErrorKind::Value => "E0205",
            RecipeErrorKind::Version => "E0206",
            RecipeErrorKind::Conflict => "E0207",
            RecipeErrorKind::ShapeSpace => "E0208",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        self.help.clone()
    }
}
