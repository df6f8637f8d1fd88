//! Layouts of the fragments of f16 `mma.m8n8k4`, the matrix instruction of sm_70.
//!
//! Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". A warp computes four products at once, one for
//! each pair of quads (lanes `4 q …` and `16 + 4 q …`). Here the four make a product of 16 × 16 × 4: bit 2 of the lane takes 8 rows on,
//! bit 3 takes 8 columns on; quad pairs of equal rows hold the same of A, of equal columns the same of B.

use crate::construct::check_warps;
use crate::layout::check_shape;
use crate::{LayoutError, TileLayout};

/// The tile of a warp's instruction: rows, columns, depth.
const INSTRUCTION: [u32; 3] = [16, 16, 4];

/// The accumulator `[m, n]` of `mma.m8n8k4` with accumulators of `element_bits` (16 or 32), over `warps` rows × columns of warps, each with
/// a block of its own. Register bits: the fragment, repeats along n, repeats along m.
pub fn volta_accumulator(shape: [u32; 2], element_bits: u32, warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
    let (reg, lane) = match element_bits {
        16 => ([[0, 1], [0, 2], [0, 4]], [[1, 0], [2, 0], [8, 0], [0, 8], [4, 0]]),
        32 => ([[0, 1], [2, 0], [0, 4]], [[1, 0], [0, 2], [8, 0], [0, 8], [4, 0]]),
        _ => return fail(format!("m8n8k4 has no accumulators of {element_bits} bits")),
    };
    tile(shape, [INSTRUCTION[0], INSTRUCTION[1]], &reg, lane, [Some(warps[0]), Some(warps[1])], 1)
}

/// Operand A `[m, k]` of f16 `mma.m8n8k4` for an accumulator over the same `warps`; `row` as in the instruction's layout of A: the four
/// registers of a lane are consecutive in k (`.row`) or in m (`.col`). Register bits: the fragment, repeats along k, repeats along m.
pub fn volta_operand_a(shape: [u32; 2], row: bool, warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
    let (reg, [first, second]) =
        if row { ([[0, 1], [0, 2]], [[1, 0], [2, 0]]) } else { ([[1, 0], [2, 0]], [[0, 1], [0, 2]]) };
    let lane = [first, second, [8, 0], [0, 0], [4, 0]];
    tile_with_repeats(shape, [INSTRUCTION[0], INSTRUCTION[2]], &reg, lane, warps, 0)
}

/// Operand B `[k, n]` of f16 `mma.m8n8k4` for an accumulator over the same `warps`; `row` as in the instruction's layout of B: the four
/// registers of a lane are consecutive in n (`.row`) or in k (`.col`). Register bits: the fragment, repeats along k, repeats along n.
pub fn volta_operand_b(shape: [u32; 2], row: bool, warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
    let (reg, [first, second]) =
        if row { ([[0, 1], [0, 2]], [[1, 0], [2, 0]]) } else { ([[1, 0], [2, 0]], [[0, 1], [0, 2]]) };
    let lane = [first, second, [0, 0], [0, 8], [0, 4]];
    tile_with_repeats(shape, [INSTRUCTION[2], INSTRUCTION[1]], &reg, lane, warps, 1)
}

fn fail<T>(reason: String) -> Result<T, LayoutError> {
    Err(LayoutError::Argument { operation: "matrix fragment", reason })
}

/// An operand: warps spread over dimension `own` alone, the other (k) repeats first.
fn tile_with_repeats(
    shape: [u32; 2],
    instruction: [u32; 2],
    reg: &[[u32; 2]],
    lane: [[u32; 2]; 5],
    warps: [u32; 2],
    own: usize,
) -> Result<TileLayout, LayoutError> {
    check_warps("matrix fragment", warps[0])?;
    check_warps("matrix fragment", warps[1])?;
    let spread = if own == 0 { [Some(warps[0]), None] } else { [None, Some(warps[1])] };
    let layout = tile(shape, instruction, reg, lane, spread, 1 - own)?;
    // Warps along the other dimension repeat: theirs are the low bits for B, the high bits for A.
    let mut warp = layout.warp_bases().to_vec();
    let at = if own == 0 { warp.len() } else { 0 };
    let repeats = (0..warps[1 - own].trailing_zeros()).map(|_| vec![0; 2]);
    warp.splice(at..at, repeats);
    TileLayout::new(shape.to_vec(), layout.register_bases().to_vec(), layout.lane_bases().to_vec(), warp)
}

/// Fragments over a tile: repeats along `first`, then along the other dimension, then warps (`None`: no part in the dimension).
fn tile(
    shape: [u32; 2],
    instruction: [u32; 2],
    reg: &[[u32; 2]],
    lane: [[u32; 2]; 5],
    warps: [Option<u32>; 2],
    first: usize,
) -> Result<TileLayout, LayoutError> {
    check_shape(&shape)?;
    for count in warps.into_iter().flatten() {
        check_warps("matrix fragment", count)?;
    }
    if shape[0] < instruction[0] || shape[1] < instruction[1] {
        return fail(format!("the tile {shape:?} is smaller than the instruction's {instruction:?}"));
    }
    let unit = |dim: usize, size: u32| if dim == 0 { vec![size, 0] } else { vec![0, size] };
    let mut reg: Vec<Vec<u32>> = reg.iter().map(|b| b.to_vec()).collect();
    let mut warp = Vec::new();
    let block = |dim: usize| (shape[dim] / warps[dim].unwrap_or(1)).max(instruction[dim]);
    for dim in [first, 1 - first] {
        reg.extend((instruction[dim].ilog2()..block(dim).ilog2()).map(|bit| unit(dim, 1 << bit)));
    }
    for dim in 0..2 {
        for bit in 0..warps[dim].unwrap_or(1).trailing_zeros() {
            let size = block(dim) << bit;
            warp.push(if size < shape[dim] { unit(dim, size) } else { vec![0; 2] });
        }
    }
    TileLayout::new(shape.to_vec(), reg, lane.iter().map(|b| b.to_vec()).collect(), warp)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::LANES;

    /// The origin of a quad pair's product.
    fn origin(lane: u32) -> [u32; 2] {
        [lane / 4 % 2 * 8, lane / 8 % 2 * 8]
    }

    #[test]
    fn fragments_are_those_of_the_ptx_isa() {
        let wide = volta_accumulator([16, 16], 32, [1, 1]).unwrap();
        let narrow = volta_accumulator([16, 16], 16, [1, 1]).unwrap();
        let a = [true, false].map(|row| volta_operand_a([16, 4], row, [1, 1]).unwrap());
        let b = [true, false].map(|row| volta_operand_b([4, 16], row, [1, 1]).unwrap());
        for lane in 0..LANES {
            let [m, n] = origin(lane);
            let upper = if lane < 16 { 0 } else { 4 };
            for i in 0..8 {
                let row = (lane & 1) + (i & 2) + upper;
                assert_eq!(wide.coordinates(i, lane, 0), [m + row, n + (i & 4) + (lane & 2) + (i & 1)]);
                assert_eq!(narrow.coordinates(i, lane, 0), [m + lane % 4 + upper, n + i]);
            }
            for i in 0..4 {
                assert_eq!(a[0].coordinates(i, lane, 0), [m + lane % 4 + upper, i]);
                assert_eq!(a[1].coordinates(i, lane, 0), [m + i + upper, lane % 4]);
                assert_eq!(b[0].coordinates(i, lane, 0), [lane % 4, n + i + upper]);
                assert_eq!(b[1].coordinates(i, lane, 0), [i, n + lane % 4 + upper]);
            }
        }
    }

    #[test]
    fn tiles() {
        let warps = [2, 4];
        let c = volta_accumulator([64, 128], 32, warps).unwrap();
        let a = volta_operand_a([64, 8], true, warps).unwrap();
        let b = volta_operand_b([8, 128], false, warps).unwrap();
        for warp in 0..8 {
            let (row, column) = (warp % 2 * 32, warp / 2 * 32);
            for lane in 0..LANES {
                let [m, n] = origin(lane);
                for (mi, ni) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                    let at = c.coordinates((mi * 2 + ni) * 8, lane, warp);
                    assert_eq!([at[0] & !7, at[1] & !7], [row + mi * 16 + m, column + ni * 16 + n]);
                }
                for (i, ki) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                    let at = a.coordinates((i * 2 + ki) * 4, lane, warp);
                    assert_eq!([at[0] & !7, at[1]], [row + i * 16 + m, ki * 4]);
                    let at = b.coordinates((i * 2 + ki) * 4, lane, warp);
                    assert_eq!([at[0], at[1] & !7], [ki * 4, column + i * 16 + n]);
                }
            }
        }
        assert_eq!(volta_accumulator([16, 16], 16, [2, 1]).unwrap().replication().warps, 1);
    }

    #[test]
    fn refusals() {
        let codes = [
            volta_accumulator([8, 16], 32, [1, 1]),
            volta_accumulator([16, 16], 64, [1, 1]),
            volta_operand_a([16, 2], true, [1, 1]),
            volta_operand_b([4, 16], true, [3, 1]),
            volta_accumulator([16, 16], 32, [64, 1]),
        ];
        assert!(codes.iter().all(|c| c.as_ref().is_err_and(|e| e.code() == "E0486")), "{codes:?}");
        assert_eq!(volta_accumulator([0, 16], 32, [1, 1]).unwrap_err().code(), "E0481");
    }
}
