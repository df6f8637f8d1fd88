//! The graph dialect: tensors and operators.
//!
//! `graph.td` defines the operations for MLIR (assembly, traits, documentation); this crate gives them meaning in Rust:
//!
//! - [`TensorType`] and [`Dim`]: element type, capacity and extent of each dimension ([`DimExpr`]), order in memory.
//! - [`Operator`]: each operation that computes, as plain data, with the result types that follow from its operands. One file an operator
//!   under [`operators`], one line in `operator.rs` that registers it.
//! - [`check`]: all semantic checks of a module.
//!
//! Invariants: an operator's result types are a function of its attributes and operand types; the same function serves import, buckets
//! (where symbols become numbers and every operation is inferred anew) and checking. A dimension that cannot be shown to differ is taken
//! to fit; that it does is a [`Requirement`], which follows from the same data and which a run is held against.

mod check;
mod concatenation;
mod error;
mod operator;
pub mod operators;
mod requirement;
mod tensor_type;

pub use check::check;
pub use concatenation::{ConcatenatedPart, Destination, destination, is_written_in_parts};
pub use error::{ErrorKind, SemanticError};
pub use operator::{Operator, OperatorKind};
pub use requirement::Requirement;
pub use tenon_tensor::{Condition, DimExpr, Relation};
pub use tensor_type::{Dim, TensorType, read_dim_expr, write_dim_expr};

/// What `mlir-tblgen` writes about the dialect.
pub const DOCUMENTATION: &str = include_str!(concat!(env!("OUT_DIR"), "/documentation.md"));

/// Path of the plugin that makes `mlir-opt --load-dialect-plugin=` know the dialect, on the machine that built this crate.
pub const PLUGIN: &str = env!("TENON_DIALECT_PLUGIN");
