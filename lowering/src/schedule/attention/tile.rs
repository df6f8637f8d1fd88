//! What softmax and the result know of a block, whichever schedule computes it.

use tenon_layout::TileLayout;

use super::problem::Problem;

/// The part of attention that a block computes at a time.
#[derive(Clone, Copy)]
pub(super) struct BlockTile<'p> {
    pub(super) problem: &'p Problem,
    pub(super) queries: u32,
    pub(super) keys: u32,
    /// Warps that hold it, each whole rows of queries.
    pub(super) warps: u32,
    /// Width of a chunk of results, and their number.
    pub(super) width: (u32, u32),
    /// Layouts of a tile of scores and of a chunk of results.
    pub(super) scores: &'p TileLayout,
    pub(super) sums: &'p TileLayout,
    /// Whether matrix instructions multiply, which take weights of the operands' type.
    pub(super) by_instruction: bool,
}

impl BlockTile<'_> {
    /// Whether tiles hold no key that does not exist. Of an extent none may be there at all.
    pub(super) fn has_whole_keys(&self) -> bool {
        self.problem.keys.known().is_some_and(|keys| keys > 0 && keys % u64::from(self.keys) == 0)
    }
}
