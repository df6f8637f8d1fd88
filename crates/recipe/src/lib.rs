//! The recipe: what a compiled model promises.
//!
//! A recipe is a contract, so every clause is either enforced or refused when the file is read: [`Recipe::parse`] knows all clauses of the
//! schema, accepts those that this version enforces, and refuses the others by name. Nothing is accepted and ignored.
//!
//! - `schema` is the tree of all keys, with those that are enforced; `read` turns TOML with spans into a [`Recipe`].
//! - [`Recipe::canonical_json`] is the form with all defaults filled in; [`Recipe::hash`] is its SHA-256, so that comments, order and
//!   spelling do not change it, and a changed default does.

mod error;
mod read;
mod recipe;
mod schema;

pub use error::{RecipeError, RecipeErrorKind};
pub use recipe::{DimClause, DimEntry, InputClause, NumericClass, Numerics, Recipe, Tolerance};
