//! The layout of a tile in shared memory.

use std::fmt;

use crate::bits::{BitMatrix, ShiftTerm, combine32, shift_terms};
use crate::construct::check_order;
use crate::layout::{check_bases, check_shape, flatten, unflatten};
use crate::text::Parser;
use crate::{LANE_BITS, LayoutError, MAX_ELEMENT_BITS, TileLayout};

/// Which element of a tile lies at which offset, counted in elements: one vector of coordinates per bit of the offset, a bijection.
///
/// Being linear, it also serves part of a tile: the offset of `start + c` is the offset of `start` xor that of `c` for a part whose
/// start is a multiple of its power-of-two size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedLayout {
    shape: Vec<u32>,
    offset: Vec<Vec<u32>>,
    /// The offset of each bit of the row-major index.
    inverse: Vec<u32>,
}

/// A swizzle of rows: the column of an element, in units of `vec` elements, is combined by xor with the number of its row.
///
/// The element at row `r` and column `c` lies in column `((c / vec) ^ (r / per_phase mod max_phase)) · vec + c mod vec` of row `r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    /// Elements that stay together.
    pub vec: u32,
    /// Consecutive rows that are swizzled alike.
    pub per_phase: u32,
    /// The number of different permutations of a row; 1 is no swizzle.
    pub max_phase: u32,
}

impl Swizzle {
    /// No swizzle.
    pub const NONE: Self = Self { vec: 1, per_phase: 1, max_phase: 1 };
}

/// Offsets in shared memory, in elements, by bits of register, lane and warp: the offset of what a thread's register holds is the xor
/// of those that the bits select.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OffsetMap {
    /// Per bit of the register index.
    pub registers: Vec<u32>,
    /// Per bit of the lane.
    pub lanes: [u32; LANE_BITS],
    /// Per bit of the warp.
    pub warps: Vec<u32>,
}

impl OffsetMap {
    /// The offset of an element, in elements.
    pub fn offset(&self, register: u32, lane: u32, warp: u32) -> u32 {
        combine32(&self.registers, register) ^ combine32(&self.lanes, lane) ^ combine32(&self.warps, warp)
    }

    /// The bits of the offset that depend on lane or warp. A constant that avoids them can be added, hence be an immediate of the access.
    pub fn thread_bits(&self) -> u32 {
        self.lanes.iter().chain(&self.warps).fold(0, |bits, o| bits | o)
    }

    /// How the offset depends on the lane.
    pub fn lane_terms(&self) -> Vec<ShiftTerm> {
        shift_terms(&self.lanes)
    }

    /// How the offset depends on the warp.
    pub fn warp_terms(&self) -> Vec<ShiftTerm> {
        shift_terms(&self.warps)
    }
}

impl SharedLayout {
    /// A layout with one vector of coordinates per bit of the offset.
    pub fn new(shape: Vec<u32>, offset: Vec<Vec<u32>>) -> Result<Self, LayoutError> {
        let bits = check_shape(&shape)?;
        check_bases("offset", &shape, &offset, MAX_ELEMENT_BITS as usize)?;
        let columns = offset.iter().map(|b| u64::from(flatten(&shape, b))).collect();
        let inverse = BitMatrix::new(bits, columns).and_then(|m| m.inverse());
        let Some(inverse) = inverse else {
            let reason = format!("{} vectors for 2^{bits} elements, or one depends on others", offset.len());
            return Err(LayoutError::NotBijective { shape, reason });
        };
        let inverse = inverse.columns().iter().map(|&c| c as u32).collect();
        Ok(Self { shape, offset, inverse })
    }

    /// Elements in order, dimension `order[0]` fastest.
    pub fn row_major(shape: &[u32], order: &[usize]) -> Result<Self, LayoutError> {
        Self::swizzled(shape, order, Swizzle::NONE)
    }

    /// Elements in order, dimension `order[0]` (columns) fastest, each row of `order[1]` swizzled.
    pub fn swizzled(shape: &[u32], order: &[usize], swizzle: Swizzle) -> Result<Self, LayoutError> {
        check_shape(shape)?;
        check_order("shared-memory layout", order, shape.len())?;
        let mut offset = ordered(shape, order);
        let Swizzle { vec, per_phase, max_phase } = swizzle;
        if max_phase != 1 {
            let fail = |reason: String| Err(LayoutError::Argument { operation: "swizzle", reason });
            if [vec, per_phase, max_phase].iter().any(|f| !f.is_power_of_two()) {
                return fail(format!("{swizzle:?} has a parameter that is not a power of two"));
            }
            let [columns, rows, ..] = order else {
                return fail("a tile of one dimension has no rows to swizzle".into());
            };
            if u64::from(vec) * u64::from(max_phase) > u64::from(shape[*columns]) {
                return fail(format!("{max_phase} phases of {vec} elements do not fit a row of {}", shape[*columns]));
            }
            // An offset bit that selects a row also moves the column: the swizzle is its own inverse.
            for basis in &mut offset {
                basis[*columns] ^= (basis[*rows] / per_phase % max_phase) * vec;
            }
        }
        Self::new(shape.to_vec(), offset)
    }

    /// The layout that a TMA copy leaves with a swizzle of `swizzle_bytes` (32, 64 or 128; PTX ISA, "Tensor swizzling modes"): columns
    /// (`order[0]`) in blocks of that many bytes, one block after the other; in a block, 16-byte units of a row are combined by xor with
    /// the number of the row's 128-byte line.
    pub fn tma(shape: &[u32], order: &[usize], element_bytes: u32, swizzle_bytes: u32) -> Result<Self, LayoutError> {
        check_shape(shape)?;
        check_order("shared-memory layout", order, shape.len())?;
        let fail = |reason: String| Err(LayoutError::Argument { operation: "TMA swizzle", reason });
        if !matches!(swizzle_bytes, 32 | 64 | 128) || !matches!(element_bytes, 1 | 2 | 4 | 8) {
            return fail(format!("{swizzle_bytes} bytes of {element_bytes}-byte elements"));
        }
        let [columns, rows, ..] = *order else {
            return fail("a tile of one dimension has no rows to swizzle".into());
        };
        let width = swizzle_bytes / element_bytes;
        if shape[columns] < width {
            return fail(format!("a row of {} elements is shorter than {swizzle_bytes} bytes", shape[columns]));
        }
        let (vec, max_phase, per_phase) = (16 / element_bytes, swizzle_bytes / 16, 128 / swizzle_bytes);
        let (mut inside, outside): (Vec<_>, Vec<_>) =
            ordered(shape, order).into_iter().partition(|b| b[columns] < width);
        for basis in &mut inside {
            basis[columns] ^= (basis[rows] / per_phase % max_phase) * vec;
        }
        Self::new(shape.to_vec(), [inside, outside].concat())
    }

    /// The tile's shape.
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// The vector of each bit of the offset.
    pub fn bases(&self) -> &[Vec<u32>] {
        &self.offset
    }

    /// The number of elements.
    pub fn elements(&self) -> u32 {
        1 << self.offset.len()
    }

    /// The coordinates of the element at an offset.
    pub fn coordinates(&self, offset: u32) -> Vec<u32> {
        let columns: Vec<u32> = self.offset.iter().map(|b| flatten(&self.shape, b)).collect();
        unflatten(&self.shape, combine32(&columns, offset))
    }

    /// The offset of an element, in elements.
    pub fn offset(&self, coordinates: &[u32]) -> u32 {
        combine32(&self.inverse, flatten(&self.shape, coordinates))
    }

    /// The same memory with dimensions permuted: dimension `i` of the result is dimension `permutation[i]` of this.
    pub fn transpose(&self, permutation: &[usize]) -> Result<Self, LayoutError> {
        check_order("transposition", permutation, self.shape.len())?;
        let permuted = |v: &[u32]| permutation.iter().map(|&d| v[d]).collect::<Vec<_>>();
        Self::new(permuted(&self.shape), self.offset.iter().map(|b| permuted(b)).collect())
    }

    /// The offsets of what each register of each thread of `tile` holds. The tile is all of this or, with the same number of dimensions,
    /// the part that starts at the origin.
    pub fn offsets(&self, tile: &TileLayout) -> Result<OffsetMap, LayoutError> {
        if tile.rank() != self.shape.len() || tile.shape().iter().zip(&self.shape).any(|(t, s)| t > s) {
            let reason = format!("a tile {:?} is no part of {:?} in shared memory", tile.shape(), self.shape);
            return Err(LayoutError::Mismatch { operation: "access", reason });
        }
        let each = |bases: &[Vec<u32>]| bases.iter().map(|b| self.offset(b)).collect::<Vec<_>>();
        let mut lanes = [0; LANE_BITS];
        lanes.iter_mut().zip(each(tile.lane_bases())).for_each(|(l, o)| *l = o);
        Ok(OffsetMap { registers: each(tile.register_bases()), lanes, warps: each(tile.warp_bases()) })
    }

    /// Reads the written form, `offset = [[0, 1], …]`, of a layout of a tile of `shape`.
    pub fn parse(shape: &[u32], text: &str) -> Result<Self, LayoutError> {
        let mut parser = Parser::new(text);
        let offset = parser.entry("offset", MAX_ELEMENT_BITS as usize)?;
        parser.end()?;
        Self::new(shape.to_vec(), offset)
    }
}

impl fmt::Display for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset = {:?}", self.offset)
    }
}

/// Unit vectors of each bit of each dimension, those of `order[0]` first.
fn ordered(shape: &[u32], order: &[usize]) -> Vec<Vec<u32>> {
    let bits = order.iter().flat_map(|&dim| (0..shape[dim].trailing_zeros()).map(move |bit| (dim, bit)));
    bits.map(|(dim, bit)| (0..shape.len()).map(|d| if d == dim { 1 << bit } else { 0 }).collect()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_follow_the_formula() {
        for (vec, per_phase, max_phase) in [(1, 1, 1), (8, 1, 8), (4, 2, 4), (1, 4, 32), (8, 1, 2)] {
            let layout = SharedLayout::swizzled(&[32, 64], &[1, 0], Swizzle { vec, per_phase, max_phase }).unwrap();
            for r in 0..32 {
                for c in 0..64 {
                    let column = ((c / vec) ^ (r / per_phase % max_phase)) * vec + c % vec;
                    assert_eq!(layout.offset(&[r, c]), r * 64 + column);
                    assert_eq!(layout.coordinates(r * 64 + column), [r, c]);
                }
            }
        }
        let columns_first = SharedLayout::row_major(&[4, 8, 2], &[0, 2, 1]).unwrap();
        assert_eq!(columns_first.offset(&[1, 3, 1]), 1 + 4 + 8 * 3);
    }

    #[test]
    fn tma_swizzles_permute_16_byte_units_by_line() {
        for (element_bytes, swizzle_bytes) in [(2, 128), (2, 64), (4, 32), (1, 128)] {
            let layout = SharedLayout::tma(&[64, 256], &[1, 0], element_bytes, swizzle_bytes).unwrap();
            let width = swizzle_bytes / element_bytes;
            for r in 0..64 {
                for c in 0..256 {
                    // The definition on byte addresses: bits 4.. are combined with bits 7.. of the address in the block.
                    let plain = (r * width + c % width) * element_bytes;
                    let units = swizzle_bytes / 16;
                    let swizzled = plain ^ ((plain >> 7) % units) << 4;
                    assert_eq!(layout.offset(&[r, c]) * element_bytes, swizzled + c / width * 64 * swizzle_bytes);
                }
            }
        }
    }

    #[test]
    fn text_round_trip() {
        let layout = SharedLayout::swizzled(&[4, 8], &[1, 0], Swizzle { vec: 2, per_phase: 1, max_phase: 4 }).unwrap();
        assert_eq!(layout.to_string(), "offset = [[0, 1], [0, 2], [0, 4], [1, 2], [2, 4]]");
        assert_eq!(SharedLayout::parse(&[4, 8], &layout.to_string()), Ok(layout.clone()));
        assert_eq!(SharedLayout::parse(&[4, 8], "offset = [").unwrap_err().code(), "E0484");
        assert_eq!(SharedLayout::parse(&[4, 8], "offset = [[0, 1]] ]").unwrap_err().code(), "E0484");
        let transposed = layout.transpose(&[1, 0]).unwrap();
        assert_eq!(transposed.offset(&[5, 3]), layout.offset(&[3, 5]));
    }

    #[test]
    fn parts_of_a_tile() {
        let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
        let shared = SharedLayout::swizzled(&[64, 64], &[1, 0], swizzle).unwrap();
        let tile = TileLayout::contiguous(&[64, 16], &[1, 0], 8, 1).unwrap();
        let map = shared.offsets(&tile).unwrap();
        for start in [0, 16, 32, 48] {
            for (r, l) in [(0, 0), (5, 17), (31, 31)] {
                let c = tile.coordinates(r, l, 0);
                assert_eq!(shared.offset(&[c[0], c[1] + start]), map.offset(r, l, 0) ^ shared.offset(&[0, start]));
            }
        }
    }

    #[test]
    fn refusals() {
        let code = |r: Result<SharedLayout, LayoutError>| r.map_err(|e| e.code()).unwrap_err();
        let swizzle = |vec, per_phase, max_phase| Swizzle { vec, per_phase, max_phase };
        assert_eq!(code(SharedLayout::new(vec![4], vec![vec![1], vec![1]])), "E0487");
        assert_eq!(code(SharedLayout::new(vec![4], vec![vec![1]])), "E0487");
        assert_eq!(code(SharedLayout::new(vec![4], vec![vec![1], vec![4]])), "E0482");
        assert_eq!(code(SharedLayout::swizzled(&[4, 8], &[1, 0], swizzle(2, 1, 8))), "E0486");
        assert_eq!(code(SharedLayout::swizzled(&[4, 8], &[1, 0], swizzle(u32::MAX, 0, 2))), "E0486");
        assert_eq!(code(SharedLayout::swizzled(&[8], &[0], swizzle(1, 1, 2))), "E0486");
        assert_eq!(code(SharedLayout::row_major(&[8], &[1])), "E0486");
        assert_eq!(code(SharedLayout::tma(&[8, 8], &[1, 0], 2, 128)), "E0486");
        assert_eq!(code(SharedLayout::tma(&[8, 8], &[1, 0], 2, 16)), "E0486");
        let tile = TileLayout::contiguous(&[64, 16], &[1, 0], 8, 1).unwrap();
        assert_eq!(SharedLayout::row_major(&[32, 64], &[1, 0]).unwrap().offsets(&tile).unwrap_err().code(), "E0485");
    }
}
