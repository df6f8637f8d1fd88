//! Matrix products: contractions and convolutions as tiles of C = A · B.
//!
//! [`problem`] sees any contraction or convolution as loops over batch, m, n and k with affine accesses; [`operand`] makes the offsets and masks
//! of a tile of A or B from a row part and a column part; [`plan`] picks tiles and layouts; [`build`] writes the main loop and hands the
//! accumulator to the epilogue.

mod build;
mod moved;
mod operand;
mod plan;
mod problem;

pub(super) use plan::GemmPlan;
