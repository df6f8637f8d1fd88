//! Warps that share a tile of the result, as rows and columns of warps.

/// Fewest warps of a block.
pub(super) const LEAST: u32 = 4;

/// Elements of the result that four warps hold at most: 128 registers of a thread.
const MOST_OF_FOUR: u32 = 128 * 128;

/// Where a matrix instruction computes the tile: each warp has a quarter, of 64 × 64 at most; wider tiles are of eight warps.
pub(super) fn of_instruction([rows, columns]: [u32; 2]) -> [u32; 2] {
    if rows * columns > MOST_OF_FOUR { [2, 4] } else { [2, 2] }
}

/// Where CUDA cores compute it: threads have 8 × 8 elements at most.
pub(super) fn of_cuda_cores([rows, columns]: [u32; 2]) -> [u32; 2] {
    if rows * columns > 64 * 128 { [4, 2] } else { [4, 1] }
}
