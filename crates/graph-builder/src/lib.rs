//! What front ends build modules of the graph dialect with.
//!
//! A [`GraphBuilder`] holds the values of a model, each by a [`Handle`]. Operations on known values are evaluated while they are emitted
//! (`fold` for constants, `symbolic` for integers known as expressions over dimensions), so shape arithmetic leaves no operations behind; a
//! known value becomes one only when an operation that computes needs it. `counter` follows numbers that loops count, `indices` holds known indices against what they address. `shorthand` has what importers write most, `einsum` products in
//! Einstein notation.
//!
//! Nothing here knows of a file format. Errors are those of the graph dialect; a front end adds the node.

mod builder;
mod counter;
mod einsum;
mod fold;
mod indices;
mod shorthand;
mod symbolic;

pub use builder::{Argument, GraphBuilder, Handle, Output, Weights};
pub use counter::linear;
pub use einsum::{EinsumError, einsum};
pub use shorthand::{accumulator, product};
pub use symbolic::sign;
