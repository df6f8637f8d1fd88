//! Products by warpgroups (`wgmma`) of operands that a producer warp copies by tensor maps (TMA).
//!
//! [`operand`] finds whether an operand can be copied in boxes, and how its tensor map is described; [`plan`] picks the tile; [`build`] writes the
//! producer, the loop of the warps that multiply, and hands their sums to the epilogue of all products.

mod build;
mod operand;
mod plan;

pub(super) use plan::TmaPlan;
