//! Passes over shapes.
//!
//! - [`Contract`]: a recipe is applied to a model: dimensions are named, contradictions refused, the numeric promise and the shape space
//!   written into the module as `graph.numerics` and `graph.shape_space`, and every other clause that a later stage goes by as
//!   `graph.clauses`, so that a dump holds all that later stages need; [`attached`] reads it back.
//! - [`Bucket`]: one point of the shape space: symbols become numbers, and every operator is inferred anew from its operands.
//! - [`Rows`] and [`split`]: a dimension along which rows do not mix, and a bucket computed in parts along it.
//! - [`Entry`]: the function that a module is compiled from, with the names of its inputs and outputs.
//!
//! Invariant: after either pass each result type is what [`Operator::infer`](tenon_graph_dialect::Operator::infer) gives for the operands.

mod bucket;
mod clauses;
mod contract;
mod entry;
mod ranges;
mod rows;
mod satisfiable;
mod space;
mod split;
mod substitute;

pub use bucket::Bucket;
pub use clauses::{Attached, attached};
pub use contract::{Contract, bounds_of_counts, write_fixed};
pub use entry::{Entry, Port};
pub use ranges::{Range, of as ranges, suggestion as suggested_size};
pub use rows::{Mixed, Rows, RowsError};
pub use space::{Axis, Point, ShapeSpace};
pub use split::{MAX_PARTS, split};

/// A name as a key of TOML: bare where it may be, else quoted.
pub fn toml_key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")) }
}
