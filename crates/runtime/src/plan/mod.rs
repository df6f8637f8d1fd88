//! The launch plan: the host side of a compiled bucket as plain data.
//!
//! A plan says what memory a bucket needs and what to do with it, step by step; every device executes the same plan, and a bundle stores it
//! as JSON. Reading text that is no plan, and plans that would touch memory that is not theirs, are refused before anything runs:
//! [`LaunchPlan::from_json`] and [`LaunchPlan::validate`].
//!
//! Invariants of a valid plan:
//! - every index is in range, every name within its list unique;
//! - every expression is one over the plan's extents, every extent is that of an input's dimension, and with all extents at their
//!   capacities no value is larger than its memory;
//! - buffers lie inside the arena, aligned, and no two whose lifetimes meet overlap;
//! - a buffer that holds zeros between runs lies in memory of the device and is alive in all steps;
//! - steps of different streams that use the same memory are put in order by events;
//! - a step uses a buffer only between its first and last step, and never writes an input or a parameter by copy or fill;
//! - every output that has elements is the target of a step.

mod error;
mod expression;
mod lifetime;
mod ordering;
mod peak;
mod schema;
mod support;
mod validate;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use error::PlanError;
pub use expression::Expr;
pub(crate) use expression::{Expressions, Values};
pub use ordering::{MAX_STREAMS, Timeline};
pub use peak::Peak;
pub use schema::{
    Argument, Buffer, Conditional, Copy, EventMark, HostCall, Launch, LaunchPlan, Loop, MemoryKind, Memset, Operation,
    Place, ReadExtent, Requirement, SCHEMA_VERSION, StateTransfer, Step, TensorMap, TensorSlot,
};
pub(crate) use validate::MAX_GRID;
