//! Grouping of operators into kernels.
//!
//! [`GroupKernels`] puts every operator that computes into a `graph.kernel`: by `family` it says which schedules may implement an operator,
//! by `plan` which operators share a kernel, and by `build` it makes the kernels. Only exact groupings are made: every operator inside a
//! kernel rounds as it did outside, and no operator is computed twice.

mod build;
mod family;
mod group;
mod plan;

pub use family::Family;
pub use group::GroupKernels;
