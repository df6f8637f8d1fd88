//! Attention by warpgroups (`wgmma`) of queries, keys and values that a producer warp copies by tensor maps (TMA).
//!
//! A warpgroup has 64 queries. Its scores are a product of two operands in shared memory; softmax turns them into weights in registers, which are
//! the left operand of the product with the values. Warpgroups of a block, or blocks of a multiprocessor, take turns: while one multiplies,
//! the other computes weights.
//!
//! [`operand`] finds whether an operand can be copied in boxes; [`plan`] picks the tile; [`build`] writes the producer and the loop over the keys.

mod build;
mod operand;
mod plan;

pub(super) use plan::TmaPlan;
