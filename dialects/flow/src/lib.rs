//! The flow dialect: control flow over tensors.
//!
//! `flow.td` defines the operations for MLIR; this crate reads and builds them ([`If`], [`Loop`], [`Scan`], any of them as [`Flow`]) and
//! checks what ODS cannot say ([`check`]): scalars where scalars are meant, and that types agree across the borders of regions. [`blocks`] gives
//! the blocks that a pass over operators goes through.
//!
//! Invariant: what enters or leaves a region fits the type on the other side: the element type and rank are equal, and a dimension that is
//! a number there is not known to be another one here; where the outer dimension has an extent of its own, its capacity covers.

mod build;
mod check;
mod error;
mod schedule;
mod view;
mod walk;

pub use build::yield_values;
pub use check::{check, check_operation};
pub use error::{FlowError, FlowErrorKind};
pub use schedule::{Placement, Schedule};
pub use view::{Flow, If, Loop, Scan};
pub use walk::{blocks, depth, is_control_flow};

/// What `mlir-tblgen` writes about the dialect.
pub const DOCUMENTATION: &str = include_str!(concat!(env!("OUT_DIR"), "/documentation.md"));

/// Path of the plugin that makes `mlir-opt --load-dialect-plugin=` know the dialect, on the machine that built this crate.
pub const PLUGIN: &str = env!("TENON_DIALECT_PLUGIN");

/// Full names of the operations.
pub const NAMES: &[&str] = &["flow.if", "flow.loop", "flow.scan", "flow.yield"];
