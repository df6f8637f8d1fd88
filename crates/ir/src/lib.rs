//! Safe access to MLIR and LLVM.
//!
//! The only crate of the workspace that touches `mlir-sys` or inkwell; `unsafe` is here and in `crates/cuda-device` alone. Invariants that it keeps, so that no caller can break them:
//!
//! - A [`Session`] owns the MLIR context and outlives every [`Module`], type, attribute and location made from it (by lifetimes).
//! - A [`Module`] owns all operations inside it. Views ([`Op`], [`Value`], [`Block`], [`Region`]) borrow the module; running passes needs
//!   `&mut Module`, so no view survives one. An erased operation is kept, detached and without operands, until the module is dropped: a view
//!   of it is stale, never dangling.
//! - Operations are created attached to a block. Names that are not registered are refused, as MLIR would abort on them.
//! - Objects of two sessions never mix: building checks the context of everything it is given.
//! - Text that could crash MLIR's parser (a NUL byte, unbounded nesting) is refused before it is parsed.
//! - Diagnostics are collected by the session and end up in the [`IrError`] of the call that caused them.
//! - Threading inside MLIR is off; parallel work uses one session a thread.

mod attribute;
mod block;
mod builder;
mod bytecode;
mod context;
mod diagnostics;
mod error;
pub mod llvm;
mod location;
mod module;
mod op;
mod pipeline;
mod session;
mod text;
mod types;
mod value;

pub use attribute::Attribute;
pub use block::{Block, Region};
pub use builder::{Builder, OpBuilder};
pub use bytecode::Bytecode;
pub use context::Context;
pub use diagnostics::{Diagnostic, Severity};
pub use error::IrError;
pub use location::Location;
pub use module::{Module, PrintOptions};
pub use op::Op;
pub use pipeline::Pipeline;
pub use session::Session;
pub use types::Type;
pub use value::Value;
