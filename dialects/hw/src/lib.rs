//! The hw dialect: tile programs of one target, and the launch plan.
//!
//! `hw.td` defines the operations for MLIR; this crate gives typed access in Rust:
//!
//! - [`TileType`], [`SharedType`]: types as data, layouts by [`tenon_layout`].
//! - [`check`]: semantic checks of a module.
//! - [`TileBuilder`] and [`Scalar`]: makers of tile operations and of the scalar code inside them.
//!
//! Invariants: every tile has a layout that covers it; element types are signless; a kernel touches global memory only through its pointer
//! arguments.

mod check;
mod error;
mod pipeline;
mod scalar;
mod tile;
mod types;

pub use check::check;
pub use error::HwError;
pub use pipeline::{Mbarriers, WarpgroupOperand};
pub use scalar::{FloatPredicate, IntegerPredicate, Scalar};
pub use tile::{Access, Shared, Tile, TileBuilder, line_layout};
pub use types::{SharedType, TensorMapType, TileType, read_mbarriers};

/// The dialect's operations, types and attributes, as `mlir-tblgen` documents them.
pub const DOCUMENTATION: &str = include_str!(concat!(env!("OUT_DIR"), "/documentation.md"));

/// The dialect as a plugin that stock `mlir-opt --load-dialect-plugin=` loads.
pub const PLUGIN: &str = env!("TENON_DIALECT_PLUGIN");
