//! Layouts of the fragments of matrix instructions, tiled over warps and repeated over a tile.
//!
//! Sources: PTX ISA, "Matrix Fragments for mma.m8n8k4 … mma.m16n8k256" and "Register Fragments for wgmma.mma_async".

use crate::construct::{Dealer, check_warps};
use crate::{LANES, LayoutError, TileLayout};

/// The shape of an `mma.sync` instruction and the width of its operands' elements, for the instructions whose fragments follow the
/// common scheme: all of n = 8 but f16 `m8n8k4`.
///
/// With `v` elements to a 32-bit register (one, if elements are wider), lane `l` holds of A row `l / 4`, and `v` consecutive k from
/// `v · (l mod 4)`; further registers add 8 rows (m = 16), then `4 v` in k. B is the same with columns for rows, without the 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MmaShape {
    /// Rows of A and C: 8 or 16.
    pub m: u32,
    /// Columns of B and C: 8.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Bits of an element of A and B: 4, 8, 16, 32 (tf32) or 64.
    pub element_bits: u32,
}

impl MmaShape {
    /// Elements of an operand in a 32-bit register.
    fn packed(&self) -> u32 {
        (32 / self.element_bits).max(1)
    }

    fn check(&self) -> Result<(), LayoutError> {
        let known = matches!(self.m, 8 | 16)
            && self.n == 8
            && matches!(self.element_bits, 4 | 8 | 16 | 32 | 64)
            && self.k.is_power_of_two()
            && self.k >= 4 * self.packed()
            && self.k <= 256;
        if known {
            return Ok(());
        }
        let reason = format!(
            "m{}n{}k{} of {}-bit elements has no fragments of the common scheme: m 8 or 16, n 8, k a power of two that fills a register",
            self.m, self.n, self.k, self.element_bits
        );
        Err(LayoutError::Argument { operation: "matrix fragment", reason })
    }

    /// The accumulator of a tile `[m, n]` over `warps` rows × columns of warps. Each warp has a block of whole rows and columns of its
    /// own; the warp's index counts rows of warps fastest. Register bits: the fragment (`n`, then the 8 rows), repeats along n, repeats
    /// along m. Where the tile has fewer instructions than warps along a dimension, warps repeat each other.
    pub fn accumulator(&self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        self.check()?;
        let mut dealer = fragments(&shape, [self.m, self.n], warps)?;
        dealer.registers(1, 2);
        dealer.lanes(1, 4);
        dealer.lanes(0, 8);
        dealer.registers(0, self.m / 8);
        repeat(&mut dealer, 1, warps[1]);
        repeat(&mut dealer, 0, warps[0]);
        dealer.warps(0, warps[0]);
        dealer.warps(1, warps[1]);
        dealer.finish(&[])
    }

    /// Operand A of a tile `[m, k]`, for an accumulator over the same `warps`: warps of one row of warps repeat each other. Register
    /// bits: the fragment, repeats along k, repeats along m.
    pub fn operand_a(&self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        self.check()?;
        let mut dealer = fragments(&shape, [self.m, self.k], warps)?;
        self.deal_k(&mut dealer, 1);
        dealer.lanes(0, 8);
        dealer.registers(0, self.m / 8);
        dealer.registers(1, dealer.left(1));
        repeat(&mut dealer, 0, warps[0]);
        dealer.warps(0, warps[0]);
        dealer.repeat_warps(warps[1]);
        dealer.finish(&[])
    }

    /// Operand B of a tile `[k, n]`, for an accumulator over the same `warps`: warps of one column of warps repeat each other. Register
    /// bits: the fragment, repeats along k, repeats along n.
    pub fn operand_b(&self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        self.check()?;
        let mut dealer = fragments(&shape, [self.k, self.n], warps)?;
        self.deal_k(&mut dealer, 0);
        dealer.lanes(1, 8);
        dealer.registers(0, dealer.left(0));
        repeat(&mut dealer, 1, warps[1]);
        dealer.repeat_warps(warps[0]);
        dealer.warps(1, warps[1]);
        dealer.finish(&[])
    }

    /// The lowest part of dimension `k`: a packed register, then four lanes.
    fn deal_k(&self, dealer: &mut Dealer, k: usize) {
        dealer.registers(k, self.packed());
        dealer.lanes(k, 4);
    }

    /// Elements of C in a fragment, per thread.
    pub fn accumulator_registers(&self) -> u32 {
        self.m * self.n / LANES
    }

    /// Elements of A in a fragment, per thread.
    pub fn a_registers(&self) -> u32 {
        self.m * self.k / LANES
    }

    /// Elements of B in a fragment, per thread.
    pub fn b_registers(&self) -> u32 {
        self.k * self.n / LANES
    }
}

/// Registers take what is left of a dimension, but for a factor that `warps` will take.
fn repeat(dealer: &mut Dealer, dim: usize, warps: u32) {
    dealer.registers(dim, (dealer.left(dim) / warps).max(1));
}

/// Nothing dealt yet of a tile that holds at least one instruction.
fn fragments(shape: &[u32; 2], instruction: [u32; 2], warps: [u32; 2]) -> Result<Dealer, LayoutError> {
    const OPERATION: &str = "matrix fragment";
    check_warps(OPERATION, warps[0])?;
    check_warps(OPERATION, warps[1])?;
    check_warps(OPERATION, warps[0] * warps[1])?;
    let dealer = Dealer::new(shape)?;
    if shape[0] < instruction[0] || shape[1] < instruction[1] {
        let reason = format!("the tile {shape:?} is smaller than the instruction's {instruction:?}");
        return Err(LayoutError::Argument { operation: OPERATION, reason });
    }
    Ok(dealer)
}

/// The accumulator `[m, n]` of `wgmma.mma_async.m64nNk*` over `warpgroups` rows × columns of four warps. Register bits: the
/// fragment of 8 columns, columns of the warpgroup, repeats of 64 rows.
pub fn wgmma_accumulator(shape: [u32; 2], warpgroups: [u32; 2]) -> Result<TileLayout, LayoutError> {
    let mut dealer = warpgroup_fragments(&shape, 8, warpgroups)?;
    dealer.registers(1, 2);
    dealer.lanes(1, 4);
    dealer.lanes(0, 8);
    dealer.registers(0, 2);
    dealer.warps(0, 4);
    repeat(&mut dealer, 1, warpgroups[1]);
    repeat(&mut dealer, 0, warpgroups[0]);
    dealer.warps(0, warpgroups[0]);
    dealer.warps(1, warpgroups[1]);
    dealer.finish(&[])
}

/// Operand A `[m, k]` of `wgmma.mma_async` in registers, of elements of `element_bits` (8, 16 or 32), for an accumulator over the same
/// `warpgroups`. Register bits: the fragment, repeats along k, repeats of 64 rows.
pub fn wgmma_operand_a(shape: [u32; 2], element_bits: u32, warpgroups: [u32; 2]) -> Result<TileLayout, LayoutError> {
    if !matches!(element_bits, 8 | 16 | 32) {
        let reason = format!("wgmma has no operands of {element_bits} bits in registers");
        return Err(LayoutError::Argument { operation: "matrix fragment", reason });
    }
    let mut dealer = warpgroup_fragments(&shape, 256 / element_bits, warpgroups)?;
    dealer.registers(1, 32 / element_bits);
    dealer.lanes(1, 4);
    dealer.lanes(0, 8);
    dealer.registers(0, 2);
    dealer.registers(1, dealer.left(1));
    dealer.warps(0, 4);
    repeat(&mut dealer, 0, warpgroups[0]);
    dealer.warps(0, warpgroups[0]);
    dealer.repeat_warps(warpgroups[1]);
    dealer.finish(&[])
}

fn warpgroup_fragments(shape: &[u32; 2], columns: u32, warpgroups: [u32; 2]) -> Result<Dealer, LayoutError> {
    check_warps("matrix fragment", warpgroups[0])?;
    check_warps("matrix fragment", warpgroups[1])?;
    fragments(shape, [64, columns], [4 * warpgroups[0].min(32), warpgroups[1]])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Row and column of element `i` of lane `lane`, by the tables of the PTX ISA.
    fn ptx_c(lane: u32, i: u32) -> [u32; 2] {
        [lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2]
    }

    fn ptx_a(k: u32, bits: u32, lane: u32, i: u32) -> [u32; 2] {
        let (group, thread) = (lane / 4, lane % 4);
        match (bits, k) {
            (16, 16) => [
                group + if matches!(i, 2 | 3 | 6 | 7) { 8 } else { 0 },
                thread * 2 + i % 2 + if i >= 4 { 8 } else { 0 },
            ],
            (16, 8) => [group + if i >= 2 { 8 } else { 0 }, thread * 2 + i % 2],
            (8, 16) => [group + if i >= 4 { 8 } else { 0 }, thread * 4 + i % 4],
            (8, 32) => [group + if i / 4 % 2 == 1 { 8 } else { 0 }, thread * 4 + i % 4 + if i >= 8 { 16 } else { 0 }],
            (4, 64) => [group + if i / 8 % 2 == 1 { 8 } else { 0 }, thread * 8 + i % 8 + if i >= 16 { 32 } else { 0 }],
            (32, 4) => [group + if i == 1 { 8 } else { 0 }, thread],
            (32, 8) => [group + if i % 2 == 1 { 8 } else { 0 }, thread + if i >= 2 { 4 } else { 0 }],
            other => panic!("{other:?}"),
        }
    }

    fn ptx_b(k: u32, bits: u32, lane: u32, i: u32) -> [u32; 2] {
        let (group, thread) = (lane / 4, lane % 4);
        let row = match (bits, k) {
            (16, _) => thread * 2 + i % 2 + if i >= 2 { 8 } else { 0 },
            (8, _) => thread * 4 + i % 4 + if i >= 4 { 16 } else { 0 },
            (4, _) => thread * 8 + i % 8 + if i >= 8 { 32 } else { 0 },
            (32, _) => thread + if i >= 1 { 4 } else { 0 },
            other => panic!("{other:?}"),
        };
        [row, group]
    }

    const SHAPES: [(u32, u32); 7] = [(16, 16), (8, 16), (16, 8), (32, 8), (64, 4), (4, 32), (8, 32)];

    #[test]
    fn single_fragments_are_those_of_the_ptx_isa() {
        for (k, bits) in SHAPES {
            let mma = MmaShape { m: 16, n: 8, k, element_bits: bits };
            let c = mma.accumulator([16, 8], [1, 1]).unwrap();
            let a = mma.operand_a([16, k], [1, 1]).unwrap();
            let b = mma.operand_b([k, 8], [1, 1]).unwrap();
            assert_eq!(
                (c.registers(), a.registers(), b.registers()),
                (mma.accumulator_registers(), mma.a_registers(), mma.b_registers())
            );
            for lane in 0..LANES {
                (0..c.registers()).for_each(|i| assert_eq!(c.coordinates(i, lane, 0), ptx_c(lane, i)));
                (0..a.registers())
                    .for_each(|i| assert_eq!(a.coordinates(i, lane, 0), ptx_a(k, bits, lane, i), "{mma:?} {lane} {i}"));
                (0..b.registers())
                    .for_each(|i| assert_eq!(b.coordinates(i, lane, 0), ptx_b(k, bits, lane, i), "{mma:?} {lane} {i}"));
            }
        }
    }

    #[test]
    fn tiles_are_fragments_repeated() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let warps = [2, 4];
        let (m, n, k) = (64, 128, 32);
        let c = mma.accumulator([m, n], warps).unwrap();
        let a = mma.operand_a([m, k], warps).unwrap();
        let b = mma.operand_b([k, n], warps).unwrap();
        let (m_repeats, n_repeats, k_repeats) = (m / 2 / 16, n / 4 / 8, k / 16);
        for warp in 0..8 {
            let (row, column) = (warp % 2 * m / 2, warp / 2 * n / 4);
            for (mi, ni, ki) in
                (0..m_repeats).flat_map(|i| (0..n_repeats).flat_map(move |j| (0..k_repeats).map(move |k| (i, j, k))))
            {
                for lane in 0..LANES {
                    for i in 0..4 {
                        let [r, s] = ptx_c(lane, i);
                        assert_eq!(
                            c.coordinates((mi * n_repeats + ni) * 4 + i, lane, warp),
                            [row + mi * 16 + r, column + ni * 8 + s]
                        );
                        let [r, s] = ptx_b(16, 16, lane, i);
                        assert_eq!(
                            b.coordinates((ni * k_repeats + ki) * 4 + i, lane, warp),
                            [ki * 16 + r, column + ni * 8 + s]
                        );
                    }
                    for i in 0..8 {
                        let [r, s] = ptx_a(16, 16, lane, i);
                        assert_eq!(
                            a.coordinates((mi * k_repeats + ki) * 8 + i, lane, warp),
                            [row + mi * 16 + r, ki * 16 + s]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn more_warps_than_instructions_repeat() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let c = mma.accumulator([16, 32], [2, 2]).unwrap();
        assert_eq!((c.replication().warps, c.registers()), (0b01, 8));
        assert_eq!(mma.operand_b([16, 32], [2, 2]).unwrap().replication().warps, 0b01);
        assert_eq!(mma.operand_a([16, 16], [2, 2]).unwrap().replication().warps, 0b11);
    }

    #[test]
    fn warpgroups() {
        let c = wgmma_accumulator([256, 64], [2, 1]).unwrap();
        for warp in 0..8 {
            for lane in 0..LANES {
                for r in 0..c.registers() {
                    let (i, block) = (r % 32, r / 32);
                    // Of the PTX ISA: row = 16 warp + lane / 4 + 8 (i / 2 mod 2), column = 8 (i / 4) + 2 (lane mod 4) + i mod 2.
                    let row = 16 * (warp % 4) + lane / 4 + 8 * (i / 2 % 2) + 64 * block + 128 * (warp / 4);
                    assert_eq!(c.coordinates(r, lane, warp), [row, 8 * (i / 4) + 2 * (lane % 4) + i % 2]);
                }
            }
        }
        let a = wgmma_operand_a([64, 16], 16, [1, 1]).unwrap();
        for warp in 0..4 {
            for lane in 0..LANES {
                for i in 0..8 {
                    let [row, column] = ptx_a(16, 16, lane, i);
                    assert_eq!(a.coordinates(i, lane, warp), [16 * warp + row, column]);
                }
            }
        }
    }

    #[test]
    fn refusals() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let codes = [
            MmaShape { k: 4, ..mma }.operand_a([16, 16], [1, 1]),
            MmaShape { element_bits: 0, ..mma }.operand_a([16, 16], [1, 1]),
            MmaShape { n: 16, ..mma }.accumulator([16, 16], [1, 1]),
            mma.accumulator([8, 8], [1, 1]),
            mma.accumulator([16, 8], [3, 1]),
            mma.accumulator([16, 8], [32, 2]),
            wgmma_accumulator([32, 8], [1, 1]),
            wgmma_accumulator([64, 8], [u32::MAX, 1]),
            wgmma_operand_a([64, 64], 4, [1, 1]),
        ];
        assert!(codes.iter().all(|c| c.as_ref().is_err_and(|e| e.code() == "E0486")), "{codes:?}");
    }
}
