//! When and how `ldmatrix` reads a tile from shared memory (and `stmatrix` writes one).
//!
//! Source: PTX ISA, "ldmatrix" and "stmatrix". A matrix is 8 rows of 16 bytes, each row contiguous and aligned; lane `l` names the
//! address of row `l mod 8` of matrix `l / 8` and receives, of each matrix, bytes `4 (l mod 4) …` of row `l / 4`; transposed (16-bit
//! elements only), the elements of rows `2 (l mod 4)` and the next in column `l / 4`.

use std::collections::HashMap;

use crate::access::check_element;
use crate::bits::{ShiftTerm, combine32, shift_terms};
use crate::{LANE_BITS, LayoutError, SharedLayout, Span, TileLayout, Wavefronts};

/// Bytes of a row of a matrix.
const ROW_BYTES: u32 = 16;

/// How `ldmatrix` reads all of a tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ldmatrix {
    /// Matrices per instruction: 1, 2 or 4.
    pub matrices: u32,
    /// Whether to use `.trans`.
    pub transposed: bool,
    /// One per instruction.
    pub groups: Vec<LdmatrixGroup>,
    /// The offset, in elements, that each bit of the lane adds (xor) to the address that the lane names. With fewer than four matrices
    /// the addresses of the upper lanes are not used.
    pub lane_offsets: [u32; LANE_BITS],
    /// The offset that each bit of the warp adds (xor).
    pub warp_offsets: Vec<u32>,
    /// Registers that hold the same as another, `(register, other)`: copied after loading.
    pub copies: Vec<(u32, u32)>,
    /// What the tile costs per warp.
    pub wavefronts: Wavefronts,
}

/// One `ldmatrix` instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdmatrixGroup {
    /// The registers that each matrix fills, lowest bits of the 32-bit register first.
    pub registers: Vec<Vec<u32>>,
    /// The offset, in elements, that the instruction adds (xor) to every address.
    pub offset: u32,
}

impl Ldmatrix {
    /// How `ldmatrix` reads `tile` from `shared`, if it can.
    pub fn new(tile: &TileLayout, shared: &SharedLayout, element_bytes: u32) -> Result<Option<Self>, LayoutError> {
        check_element("ldmatrix", element_bytes)?;
        if element_bytes > 4 {
            return Ok(None);
        }
        let map = shared.offsets(tile)?;
        // Elements of a row, and of a 32-bit register.
        let (row, packed) = (ROW_BYTES / element_bytes, 4 / element_bytes);
        let on_rows = |offsets: &[u32]| offsets.iter().all(|o| o % row == 0);
        if !on_rows(&map.warps) {
            return Ok(None);
        }
        let span = Span::of(&map.registers.iter().map(|&o| u64::from(o)).collect::<Vec<_>>());
        // The register index behind each bit of the place in a 32-bit register, and the offsets of the bits of a row's number.
        let (pack, rows, transposed);
        if map.lanes[..2] == [packed, 2 * packed] && on_rows(&map.lanes[2..]) {
            let bits: Vec<u32> =
                (0..packed.ilog2()).filter_map(|bit| span.express(1 << bit)).map(|t| t as u32).collect();
            if bits.len() as u32 != packed.ilog2() || map.registers.iter().any(|o| o % row >= packed) {
                return Ok(None);
            }
            (pack, rows, transposed) = (bits, [map.lanes[2], map.lanes[3], map.lanes[4]], false);
        } else if element_bytes == 2
            && map.lanes[2..] == [1, 2, 4]
            && on_rows(&map.lanes[..2])
            && on_rows(&map.registers)
        {
            let Some(bit) = map.registers.iter().position(|&o| o != 0) else { return Ok(None) };
            (pack, rows, transposed) = (vec![1 << bit], [map.registers[bit], map.lanes[0], map.lanes[1]], true);
        } else {
            return Ok(None);
        }

        // Each register bit beyond those packed, moved to the start of a 32-bit register, with its offset: independent ones count matrices.
        let mut seen = Span::new();
        for &register in &pack {
            seen.push(u64::from(combine32(&map.registers, register)), 0);
        }
        let mut starts = Vec::new();
        for bit in 0..map.registers.len() {
            let start = if transposed { 1 << bit } else { 1 << bit ^ combine32(&pack, map.registers[bit] % packed) };
            let offset = combine32(&map.registers, start);
            if seen.push(u64::from(offset), 0).is_none() {
                starts.push((start, offset));
            }
        }
        let (per_instruction, further) = starts.split_at(starts.len().min(2));
        let select = |list: &[(u32, u32)], index: u32| {
            list.iter()
                .enumerate()
                .filter(|(i, _)| index >> i & 1 == 1)
                .fold((0, 0), |(r, o), (_, s)| (r ^ s.0, o ^ s.1))
        };
        let groups: Vec<LdmatrixGroup> = (0..1u32 << further.len())
            .map(|group| {
                let (first, offset) = select(further, group);
                let registers = (0..1u32 << per_instruction.len()).map(|matrix| {
                    let start = first ^ select(per_instruction, matrix).0;
                    (0..packed).map(|i| start ^ combine32(&pack, i)).collect()
                });
                LdmatrixGroup { registers: registers.collect(), offset }
            })
            .collect();

        let mut lane_offsets = [rows[0], rows[1], rows[2], 0, 0];
        per_instruction.iter().zip(&mut lane_offsets[3..]).for_each(|(s, lane)| *lane = s.1);
        let holders: HashMap<u32, u32> = groups
            .iter()
            .flat_map(|g| g.registers.iter().flatten())
            .map(|&r| (combine32(&map.registers, r), r))
            .collect();
        let copies = (0..tile.registers()).filter_map(|register| {
            let holder = *holders.get(&combine32(&map.registers, register))?;
            (holder != register).then_some((register, holder))
        });
        let copies = copies.collect();
        let matrices = 1 << per_instruction.len();
        let words: Vec<u64> = rows.iter().map(|&o| u64::from(o * element_bytes / 4)).chain([1, 2]).collect();
        let banks: Vec<u64> = words.iter().map(|w| w % 32).collect();
        let per_matrix = 1u32 << (Span::of(&words).rank() - Span::of(&banks).rank());
        let wavefronts =
            Wavefronts { requests: groups.len() as u32, per_request: matrices * per_matrix, minimum: matrices };
        Ok(Some(Self { matrices, transposed, groups, lane_offsets, warp_offsets: map.warps, copies, wavefronts }))
    }

    /// The offset, in elements, of the row whose address a lane names. Its coordinates are those of [`SharedLayout::coordinates`].
    pub fn row_offset(&self, group: &LdmatrixGroup, lane: u32, warp: u32) -> u32 {
        group.offset ^ combine32(&self.lane_offsets, lane) ^ combine32(&self.warp_offsets, warp)
    }

    /// How the address that a lane names depends on the lane.
    pub fn lane_terms(&self) -> Vec<ShiftTerm> {
        shift_terms(&self.lane_offsets)
    }

    /// The bits of the offset that depend on lane or warp: a group's offset that avoids them can be an immediate.
    pub fn thread_bits(&self) -> u32 {
        self.lane_offsets.iter().chain(&self.warp_offsets).fold(0, |bits, o| bits | o)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{Random, family, random_layout_of, random_shared, seeds};
    use crate::{LANES, MmaShape, Swizzle};
    use proptest::prelude::*;

    /// Runs the instructions as the PTX ISA defines them, on a memory that holds at each offset its element's index.
    fn check(tile: &TileLayout, shared: &SharedLayout, element_bytes: u32) -> Option<Ldmatrix> {
        let plan = Ldmatrix::new(tile, shared, element_bytes).unwrap()?;
        let memory: Vec<u32> =
            (0..shared.elements()).map(|o| crate::layout::flatten(tile.shape(), &shared.coordinates(o))).collect();
        let (row, packed) = (16 / element_bytes, 4 / element_bytes);
        for warp in 0..tile.warps() {
            let mut loaded = vec![vec![None; tile.registers() as usize]; LANES as usize];
            for group in &plan.groups {
                assert_eq!(group.registers.len() as u32, plan.matrices);
                for (matrix, registers) in group.registers.iter().enumerate() {
                    let rows: Vec<u32> = (0..8).map(|r| plan.row_offset(group, 8 * matrix as u32 + r, warp)).collect();
                    assert!(rows.iter().all(|r| r % row == 0), "a row is not aligned");
                    assert_eq!(registers.len() as u32, packed);
                    for lane in 0..LANES {
                        for (i, &register) in registers.iter().enumerate() {
                            let i = i as u32;
                            let offset = if plan.transposed {
                                rows[(lane % 4 * 2 + i) as usize] + lane / 4
                            } else {
                                rows[(lane / 4) as usize] + lane % 4 * packed + i
                            };
                            let old = loaded[lane as usize][register as usize].replace(memory[offset as usize]);
                            assert_eq!(old, None);
                        }
                    }
                }
            }
            for lane in 0..LANES {
                let values = &mut loaded[lane as usize];
                for &(register, other) in &plan.copies {
                    assert_eq!(values[register as usize], None);
                    values[register as usize] = values[other as usize];
                }
                for register in 0..tile.registers() {
                    assert_eq!(values[register as usize], Some(tile.element(register, lane, warp)));
                }
            }
        }
        Some(plan)
    }

    #[test]
    fn operands_of_16_bits() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
        let a = mma.operand_a([64, 64], [2, 2]).unwrap();
        let b = mma.operand_b([64, 64], [2, 2]).unwrap();
        for (tile, order, transposed) in
            [(&a, [1, 0], false), (&a, [0, 1], true), (&b, [0, 1], false), (&b, [1, 0], true)]
        {
            let swizzled = SharedLayout::swizzled(&[64, 64], &order, swizzle).unwrap();
            let plan = check(tile, &swizzled, 2).unwrap();
            assert_eq!((plan.matrices, plan.transposed, plan.wavefronts.conflicts()), (4, transposed, 0));
            let plain = SharedLayout::row_major(&[64, 64], &order).unwrap();
            // Rows of 128 bytes: all eight start in one bank.
            assert_eq!(check(tile, &plain, 2).unwrap().wavefronts.conflicts(), 4 * 7);
        }
        // The fragment of A: four matrices in the order of its registers.
        let plan = Ldmatrix::new(&a, &SharedLayout::row_major(&[64, 64], &[1, 0]).unwrap(), 2).unwrap().unwrap();
        assert_eq!(plan.groups[0].registers, [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(plan.lane_offsets, [64, 128, 256, 8 * 64, 8]);
    }

    #[test]
    fn operands_of_other_widths() {
        for bits in [8, 32] {
            let mma = MmaShape { m: 16, n: 8, k: 256 / bits, element_bits: bits };
            let a = mma.operand_a([32, 64], [1, 2]).unwrap();
            let rows = SharedLayout::row_major(&[32, 64], &[1, 0]).unwrap();
            assert!(check(&a, &rows, bits / 8).is_some_and(|p| p.matrices == 4 && !p.transposed));
            let columns = SharedLayout::row_major(&[32, 64], &[0, 1]).unwrap();
            assert_eq!(check(&a, &columns, bits / 8), None);
        }
    }

    #[test]
    fn one_and_two_matrices() {
        let mma = MmaShape { m: 16, n: 8, k: 8, element_bits: 16 };
        let b = mma.operand_b([8, 8], [1, 1]).unwrap();
        let a = mma.operand_a([16, 8], [1, 1]).unwrap();
        let matrices = |tile: &TileLayout| {
            let shared = SharedLayout::row_major(tile.shape(), &[1, 0]).unwrap();
            check(tile, &shared, 2).map(|p| (p.matrices, p.transposed))
        };
        assert_eq!(matrices(&b), Some((1, true)));
        assert_eq!(matrices(&a), Some((2, false)));
    }

    #[test]
    fn whenever_it_applies_it_is_right() {
        for tile in family([32, 64], 2) {
            for order in [[0, 1], [1, 0]] {
                for max_phase in [1, 2, 4] {
                    let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase };
                    let shared = SharedLayout::swizzled(&[32, 64], &order, swizzle).unwrap();
                    for element_bytes in [1, 2, 4, 8] {
                        check(&tile, &shared, element_bytes);
                    }
                }
            }
        }
    }

    proptest! {
        // Random layouts that keep the lanes of a fragment, so that the rest of the conditions is put to the test.
        #[test]
        fn any_registers(seed in seeds(), transposed: bool) {
            let mut random = Random(seed);
            let tile = random_layout_of(&[8, 32], 0, &mut random);
            let lane = if transposed { [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]] } else { [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]] };
            let lane = lane.iter().map(|b| b.to_vec()).collect();
            if let Ok(tile) = TileLayout::new(vec![8, 32], tile.register_bases().to_vec(), lane, vec![]) {
                check(&tile, &SharedLayout::row_major(&[8, 32], &[1, 0]).unwrap(), 2);
                check(&tile, &random_shared(&[8, 32], &mut random), 2);
            }
        }
    }
}
