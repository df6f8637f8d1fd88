//! The tile of a product's result, whatever computed it.

use tenon_layout::TileLayout;

use super::problem::Problem;

/// What the epilogue knows of the tile that a block has computed.
pub(super) struct ResultTile<'p> {
    pub(super) problem: &'p Problem,
    pub(super) tile_m: u32,
    pub(super) tile_n: u32,
    /// How its sums lie in registers.
    pub(super) accumulator: &'p TileLayout,
    /// Whether there is shared memory to bring them into another layout.
    pub(super) may_move: bool,
}
