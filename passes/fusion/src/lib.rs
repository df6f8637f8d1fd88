//! Grouping of operators into kernels.
//!
//! [`GroupKernels`] puts every operator that computes into a `graph.kernel`: by `family` it says which schedules may implement an operator,
//! by `plan` which operators share a kernel, and by `build` it makes the kernels. Only exact groupings are made: every operator inside a
//! kernel rounds as it did outside, and no operator is computed twice. [`FuseAttention`] goes before it, under recipes that let sums be
//! reassociated. What a recipe lets schedules of products do is the kernel's `numeric_class`.
//!
//! [`Kernels`] says of a grouped module which nodes share a kernel, and what stood in the way of others.
//!
//! [`MatchFusion`] finds the sequences of source patterns that a recipe requires and forbids, before anything is decomposed; grouping obeys.

mod apart;
mod attention;
mod build;
mod concatenation;
mod family;
mod group;
mod patterns;
mod plan;
mod spelled;

pub use apart::{Kernels, Relation};
pub use attention::FuseAttention;
pub use family::Family;
pub use group::GroupKernels;
pub use patterns::{MatchFusion, PATTERNS, Pattern};
