//! The recipe: what a compiled model promises.
//!
//! A recipe is a contract, so every clause is either enforced or refused when the file is read: [`Recipe::parse`] knows all clauses of the
//! schema, accepts those that this version enforces, and refuses the others by name. Nothing is accepted and ignored.
//!
//! - `document` turns TOML or YAML into one tree with spans.
//! - `schema` is the table of all keys, with those that are enforced: what is read, the JSON Schema and the list of refused clauses follow
//!   from it. `check` holds a tree against it, `read` makes a [`Recipe`].
//! - [`Recipe::canonical_json`] is the form with all defaults filled in; [`Recipe::hash`] is its SHA-256, so that comments, order, spelling
//!   and format do not change it, and a changed default does. [`Recipe::from_canonical`] reads the form back: what a bundle holds.

mod canonical;
mod check;
mod document;
mod error;
mod read;
mod recipe;
mod schema;

pub use canonical::Difference;
pub use document::Format;
pub use error::{RecipeError, RecipeErrorKind};
pub use read::Loaded;
pub use recipe::{
    AttentionImplementation, Branches, Collectives, Combine, Compile, ControlFlow, ControlFlowPolicy, ConvLayout,
    CustomOp, DimClause, DimEntry, Expectation, FakeQuant, Feedback, Hardware, InputClause, KernelLock, MAX_GRAPHS,
    NumericClass, Numerics, OverBudget, PadValue, Recipe, Tolerance,
};
pub use schema::refused_clauses;
