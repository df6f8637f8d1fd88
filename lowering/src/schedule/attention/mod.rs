//! Attention in one launch: softmax(cap(scale · q kᵀ) + mask) v without scores in memory.
//!
//! A block has some queries of one head and goes over the keys tile by tile: the scores of a tile are one product, the tile's part of the
//! result is another, and between them stands softmax as it goes: with each tile the greatest score so far may grow, by which sums and results so far are
//! scaled down (Milakov and Gimelshein, "Online normalizer calculation for softmax"; Dao, "FlashAttention-2").
//!
//! - [`problem`]: the operation in the body, with operands and result behind transpositions.
//! - [`choice`]: the schedule, of two: by `mma.sync` or on CUDA cores, or [`tma`], by warpgroups and tensor maps.
//! - [`plan`]: tiles, matrix instructions and layouts of the first; [`build`], its loop over the keys; [`stream`], tiles of an operand on their
//!   way to shared memory.
//! - [`tile`]: what the rest knows of a block, whichever schedule computes it.
//! - [`keys`]: which tiles of keys a block goes over.
//! - [`scores`]: from products to weights: scale, cap, masks, the running maximum and sum.
//! - [`result`]: the result.
//!
//! Invariants: a warp has whole rows of scores, so that their maxima and sums stay inside it; heads, keys and queries beyond an extent are masked or
//! never read. In exact arithmetic the result is that of the operation; rounding differs: sums go tile by tile, and where a matrix
//! instruction takes the weights they are rounded to the operands' type (an error of at most half a unit in the last place of each
//! weight, no larger than the result's own rounding), after an exponential of 2 ulp of f32 in place of 1.

mod build;
mod choice;
mod keys;
mod plan;
mod problem;
mod result;
mod scores;
mod stream;
mod tile;
mod tma;

pub(super) use choice::AttentionSchedule;
