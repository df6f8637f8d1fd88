//! Exact simplifications of graphs.
//!
//! Every pass here keeps the sequence of rounded operations of every element (numeric class `exact`): it removes, merges and composes what
//! computes nothing. One file a pass.

mod broadcast;
mod compose;
mod dead;
mod dims;
mod identity;
mod merge;
mod support;

pub use broadcast::FoldBroadcast;
pub use compose::ComposeShapeOps;
pub use dead::RemoveDead;
pub use dims::FoldDims;
pub use identity::RemoveIdentity;
pub use merge::MergeIdentical;
