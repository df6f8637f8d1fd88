//! Matrix products: contractions and convolutions as tiles of C = A · B.
//!
//! [`problem`] sees any contraction or convolution as loops over batch, m, n and k with affine accesses. There are two schedules, and [`choice`]
//! takes the one of less time:
//!
//! - blocks of warps that copy their operands themselves: [`operand`] makes the offsets and masks of a tile of A or B from a row part and a
//!   column part; [`plan`] picks tiles and layouts; [`build`] writes the main loop and hands the accumulator to the epilogue;
//! - warpgroups that multiply what a producer warp copies by tensor maps: [`tma`].
//!
//! [`split`] lets several blocks share the sums of a tile, where the result has few.
//! [`tf32`] says when products of f32 go to tensor cores, and what that does to numbers.

mod build;
mod choice;
mod moved;
mod operand;
mod plan;
mod problem;
mod result;
mod split;
mod tf32;
mod tma;
mod warps;

pub(super) use choice::GemmSchedule;
