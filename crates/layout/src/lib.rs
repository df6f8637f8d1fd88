//! Linear layouts: which register of which lane of which warp holds which element of a tile.
//!
//! A tile's shape is a list of powers of two, so that an element's coordinates are bits; so are the indices of registers, lanes
//! and warps, and the offset in shared memory. A layout is a map between the two that is linear over those bits (xor for
//! addition), written as one basis vector of coordinates per index bit. Everything a code generator asks follows from that by
//! linear algebra: vector widths, bank conflicts, whether `ldmatrix` applies, how to go from one layout to another and what that
//! costs, how to reduce a dimension.
//!
//! Invariants:
//! - A [`TileLayout`] is surjective: every element lies somewhere. An element may lie in several places, which then hold the same value.
//! - A [`SharedLayout`] is a bijection between offsets and elements.
//! - Tiles have at most 2^20 elements and 16 dimensions, blocks at most 32 warps, so that nothing here can exhaust memory.
//! - The crate knows nothing of IR, targets or code: it gives plans, a code generator carries them out.

mod access;
mod bits;
mod construct;
mod convert;
mod error;
mod layout;
mod ldmatrix;
mod mma;
mod mma_volta;
mod reduce;
mod reshape;
mod scan;
mod shared;
mod shuffle;
mod swizzle;
mod text;

#[cfg(test)]
mod testing;

pub use access::{MAX_ACCESS_BYTES, VectorAccess, Wavefronts, bank_conflicts, vector_width};
pub use bits::{BitMatrix, ShiftTerm, Span, shift_terms};
pub use convert::{Conversion, ConversionCost, SharedRoundTrip};
pub use error::LayoutError;
pub use layout::{
    LANE_BITS, LANES, MAX_DIMENSIONS, MAX_ELEMENT_BITS, MAX_REGISTER_BITS, MAX_WARP_BITS, RegisterOffset, Replication,
    TileLayout,
};
pub use ldmatrix::{Ldmatrix, LdmatrixGroup};
pub use mma::{MmaShape, wgmma_accumulator, wgmma_operand_a};
pub use mma_volta::{volta_accumulator, volta_operand_a, volta_operand_b};
pub use reduce::{ButterflyStep, CrossWarp, ReductionPlan};
pub use scan::{CrossWarpScan, ScanPlan, ScanStep};
pub use shared::{OffsetMap, SharedLayout, Swizzle};
pub use shuffle::{Exchange, Shuffle, ShufflePart, ShufflePlan, ThreadFunction};
pub use swizzle::{ChosenSwizzle, SharedAccess};
