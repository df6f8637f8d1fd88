//! How to scan (take prefix sums along) one dimension of a tile.

use crate::bits::combine32;
use crate::{LANE_BITS, LANES, LayoutError, TileLayout};

/// One step across lanes. A lane whose bit `bit` is set combines, from the left, the value of lane `(lane & !(bit | below)) | below`:
/// the last lane of the half before its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScanStep {
    /// The bit of the lane that tells the halves apart.
    pub bit: u32,
    /// The bits of the lane that count within a half.
    pub below: u32,
}

impl ScanStep {
    /// The lane to read from; nothing for lanes of the first half.
    pub fn source(&self, lane: u32) -> Option<u32> {
        (lane & self.bit != 0).then_some((lane & !(self.bit | self.below)) | self.below)
    }
}

/// How warps combine their totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossWarpScan {
    /// The bits of the warp that count along the dimension, lowest first.
    pub warp_bits: Vec<u32>,
    /// Where the totals of warps lie, as a tile of `[slots]` and then the tile's shape without the dimension: register `c` of each thread
    /// is the total of chain `c` of its warp, alike in all lanes that the scan spans.
    pub totals: TileLayout,
    /// Where every warp wants them: register `c · slots + s` is slot `s` of chain `c`. `Conversion::between(totals, gathered)` brings
    /// them there. A warp combines, from the left, those of the slots before its own, and for the next round those of all slots.
    pub gathered: TileLayout,
}

/// The steps of an inclusive scan along `dim`.
///
/// The dimension is cut, from its lowest bits, into runs in registers, then lanes, then warps, then rounds, again in registers. For each
/// round in order, and each of its chains (elements with the same other coordinates):
/// 1. each thread scans its run, register by register;
/// 2. the last value of the run goes through the steps across lanes, giving each lane an inclusive scan of run totals; what precedes the
///    lane's run is that value of the lane before;
/// 3. the total of the warp (that of the last lane of the scan) goes through the exchange across warps;
/// 4. what precedes — of the rounds before, the warps before, the lanes before, in this order — is combined into every register of the run.
///
/// The operation must be associative up to its numeric class; it need not be commutative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPlan {
    /// The dimension.
    pub dim: usize,
    /// Registers by round, chain and place in the run. Chains are in the order of the registers of [`TileLayout::slice`].
    pub rounds: Vec<Vec<Vec<u32>>>,
    /// The steps across lanes.
    pub steps: Vec<ScanStep>,
    /// The step across warps, if they share the dimension.
    pub cross_warp: Option<CrossWarpScan>,
}

/// Which index bit holds a coordinate bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Register(u32),
    Lane(u32),
    Warp(u32),
}

impl ScanPlan {
    /// A layout in which dimension `dim` of a tile can be scanned with few steps: a run of up to `run` registers, then lanes; other
    /// dimensions over the lanes left and the warps, or, where they are too small, the scanned one over warps too.
    pub fn layout_for(shape: &[u32], dim: usize, run: u32, warps: u32) -> Result<TileLayout, LayoutError> {
        if dim >= shape.len() {
            let reason = format!("dimension {dim} of a tile of {} dimensions", shape.len());
            return Err(LayoutError::Argument { operation: "scan layout", reason });
        }
        let mut order = vec![dim];
        order.extend((0..shape.len()).rev().filter(|&d| d != dim));
        TileLayout::contiguous(shape, &order, run.min(shape[dim]), warps)
    }

    /// The plan for scanning `dim` of a tile of this layout.
    ///
    /// Errors: a bit of the coordinate is not held by an index bit of its own, registers repeat each other, or the order of registers,
    /// lanes (among themselves too), warps and rounds is not that of the coordinate.
    pub fn new(layout: &TileLayout, dim: usize) -> Result<Self, LayoutError> {
        let slice = layout.slice(dim)?;
        let fail = |reason: &str| Err(LayoutError::Scan { dim, reason: reason.into() });
        if layout.replication().registers != 0 {
            return fail("registers of a thread repeat each other");
        }
        let bits = layout.shape()[dim].trailing_zeros() as usize;
        let mut holders: Vec<Option<Holder>> = vec![None; bits];
        let indices = [layout.register_bases(), layout.lane_bases(), layout.warp_bases()];
        let kinds: [fn(u32) -> Holder; 3] = [Holder::Register, Holder::Lane, Holder::Warp];
        for (bases, kind) in indices.into_iter().zip(kinds) {
            for (i, basis) in bases.iter().enumerate().filter(|(_, b)| b[dim] != 0) {
                let alone = basis[dim].is_power_of_two() && basis.iter().enumerate().all(|(d, &c)| d == dim || c == 0);
                let holder = &mut holders[basis[dim].trailing_zeros() as usize];
                if !alone || holder.is_some() {
                    return fail(
                        "a bit of the coordinate is not held by one bit of register, lane or warp index alone",
                    );
                }
                *holder = Some(kind(i as u32));
            }
        }
        // Surjective and alone: every bit has its holder.
        let Some(holders) = holders.into_iter().collect::<Option<Vec<Holder>>>() else {
            return fail("a bit of the coordinate is held by no index bit");
        };
        let mut rest = &holders[..];
        let mut take = |wanted: fn(&Holder) -> bool| {
            let (taken, left) = rest.split_at(rest.iter().take_while(|h| wanted(h)).count());
            rest = left;
            taken
                .iter()
                .map(|&(Holder::Register(i) | Holder::Lane(i) | Holder::Warp(i))| 1u32 << i)
                .collect::<Vec<u32>>()
        };
        let run = take(|h| matches!(h, Holder::Register(_)));
        let lanes = take(|h| matches!(h, Holder::Lane(_)));
        let warp_bits = take(|h| matches!(h, Holder::Warp(_)));
        let rounds = take(|h| matches!(h, Holder::Register(_)));
        if !rest.is_empty() {
            return fail("its bits do not lie in registers, then lanes, then warps, then registers again");
        }

        if !lanes.is_sorted() {
            return fail("the bits of the lane do not count along it in their order");
        }
        let chains: Vec<u32> = (0..layout.register_bases().len() as u32)
            .map(|i| 1 << i)
            .filter(|bit| !run.contains(bit) && !rounds.contains(bit))
            .collect();
        let register =
            |round, chain, place| combine32(&rounds, round) | combine32(&chains, chain) | combine32(&run, place);
        let rounds = (0..1u32 << rounds.len())
            .map(|round| {
                let chain = |chain| (0..1u32 << run.len()).map(|place| register(round, chain, place)).collect();
                (0..1u32 << chains.len()).map(chain).collect()
            })
            .collect();
        let mut below = 0;
        let steps = lanes.iter().map(|&bit| {
            let step = ScanStep { bit, below };
            below |= bit;
            step
        });
        let steps = steps.collect();
        let cross_warp = if warp_bits.is_empty() { None } else { Some(cross_warp(&slice, warp_bits)?) };
        Ok(Self { dim, rounds, steps, cross_warp })
    }

    /// The lane before, along the dimension: where to read what precedes a lane's run. Nothing for the first.
    pub fn lane_before(&self, lane: u32) -> Option<u32> {
        let mask = self.lane_mask();
        // The scan's bits of the lane ascend, so this counts down within them.
        (lane & mask != 0).then(|| (lane & !mask) | ((lane & mask) - 1) & mask)
    }

    /// The lane, of those that the scan of `lane` spans, that holds the warp's total.
    pub fn last_lane(&self, lane: u32) -> u32 {
        (lane | self.lane_mask()) % LANES
    }

    fn lane_mask(&self) -> u32 {
        self.steps.iter().fold(0, |mask, s| mask | s.bit)
    }

    /// The slot of a warp's totals; zero if warps do not share the dimension.
    pub fn slot(&self, warp: u32) -> u32 {
        let bits = self.cross_warp.iter().flat_map(|c| &c.warp_bits).enumerate();
        bits.filter(|(_, bit)| warp & *bit != 0).map(|(i, _)| 1 << i).sum()
    }
}

fn cross_warp(slice: &TileLayout, warp_bits: Vec<u32>) -> Result<CrossWarpScan, LayoutError> {
    let slots = 1u32 << warp_bits.len();
    let mut shape = vec![slots];
    shape.extend(slice.shape());
    let with = |slot: u32, rest: &[u32]| [&[slot], rest].concat();
    let plain = |vectors: &[Vec<u32>]| vectors.iter().map(|rest| with(0, rest)).collect::<Vec<_>>();
    let (reg, lane, warp) = (plain(slice.register_bases()), plain(slice.lane_bases()), plain(slice.warp_bases()));
    debug_assert_eq!(lane.len(), LANE_BITS);
    let mut slotted = warp.clone();
    for (i, bit) in warp_bits.iter().enumerate() {
        slotted[bit.trailing_zeros() as usize][0] = 1 << i;
    }
    let totals = TileLayout::new(shape.clone(), reg.clone(), lane.clone(), slotted)?;
    let slot_bits = (0..warp_bits.len()).map(|i| with(1 << i, &vec![0; slice.rank()]));
    let gathered = TileLayout::new(shape, slot_bits.chain(reg).collect(), lane, warp)?;
    Ok(CrossWarpScan { warp_bits, totals, gathered })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{family, random_layout, seeds};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Concatenation: associative and not commutative, so that order is put to the test.
    fn join(a: &[u32], b: &[u32]) -> Vec<u32> {
        [a, b].concat()
    }

    type PerThread = Vec<Vec<Vec<u32>>>;

    fn check(layout: &TileLayout, dim: usize) -> bool {
        let plan = match ScanPlan::new(layout, dim) {
            Ok(plan) => plan,
            Err(error) => {
                assert_eq!(error.code(), "E0488");
                return false;
            }
        };
        let mut registers: Vec<Vec<Vec<Vec<u32>>>> = (0..layout.warps())
            .map(|w| {
                (0..LANES).map(|l| (0..layout.registers()).map(|r| vec![layout.element(r, l, w)]).collect()).collect()
            })
            .collect();
        let chains = plan.rounds[0].len();
        // What precedes the round, by warp, lane and chain.
        let mut carry: Vec<PerThread> = vec![vec![vec![vec![]; chains]; LANES as usize]; layout.warps() as usize];
        for round in &plan.rounds {
            for (c, chain) in round.iter().enumerate() {
                for thread in registers.iter_mut().flatten() {
                    for pair in chain.windows(2) {
                        thread[pair[1] as usize] = join(&thread[pair[0] as usize], &thread[pair[1] as usize]);
                    }
                }
                let mut sums: PerThread = registers
                    .iter()
                    .map(|lanes| lanes.iter().map(|thread| thread[*chain.last().unwrap() as usize].clone()).collect())
                    .collect();
                for step in &plan.steps {
                    for lanes in &mut sums {
                        let before = lanes.clone();
                        for (l, sum) in lanes.iter_mut().enumerate() {
                            if let Some(source) = step.source(l as u32) {
                                *sum = join(&before[source as usize], sum);
                            }
                        }
                    }
                }
                let total = |w: usize, l: usize| sums[w][plan.last_lane(l as u32) as usize].clone();
                let mut scratch: HashMap<u32, Vec<u32>> = HashMap::new();
                if let Some(cross) = &plan.cross_warp {
                    for w in 0..sums.len() {
                        for l in 0..LANES as usize {
                            let at = cross.totals.element(c as u32, l as u32, w as u32);
                            let old = scratch.insert(at, total(w, l));
                            assert!(old.is_none_or(|old| old == total(w, l)));
                        }
                    }
                }
                for w in 0..sums.len() {
                    for l in 0..LANES as usize {
                        let mut before = carry[w][l][c].clone();
                        let mut after = before.clone();
                        if let Some(cross) = &plan.cross_warp {
                            let slots = cross.totals.shape()[0];
                            for s in 0..slots {
                                let t = &scratch[&cross.gathered.element(c as u32 * slots + s, l as u32, w as u32)];
                                if s < plan.slot(w as u32) {
                                    before = join(&before, t);
                                }
                                after = join(&after, t);
                            }
                        } else {
                            after = join(&after, &total(w, l));
                        }
                        if let Some(lane) = plan.lane_before(l as u32) {
                            before = join(&before, &sums[w][lane as usize]);
                        }
                        for &r in chain {
                            registers[w][l][r as usize] = join(&before, &registers[w][l][r as usize]);
                        }
                        carry[w][l][c] = after;
                    }
                }
            }
        }
        for (w, lanes) in registers.iter().enumerate() {
            for (l, thread) in lanes.iter().enumerate() {
                for (r, value) in thread.iter().enumerate() {
                    let mut at = layout.coordinates(r as u32, l as u32, w as u32);
                    let last = at[dim];
                    let expected: Vec<u32> = (0..=last)
                        .map(|i| {
                            at[dim] = i;
                            layout.flatten(&at)
                        })
                        .collect();
                    assert_eq!(*value, expected, "{layout} dim {dim} register {r} lane {l} warp {w}");
                }
            }
        }
        true
    }

    #[test]
    fn layouts_made_for_scanning() {
        for (shape, warps) in
            [(vec![256], 4), (vec![16, 32], 2), (vec![4, 8, 8], 4), (vec![2], 1), (vec![1, 64], 1), (vec![512], 1)]
        {
            for dim in 0..shape.len() {
                for run in [1, 4] {
                    let layout = ScanPlan::layout_for(&shape, dim, run, warps).unwrap();
                    assert!(check(&layout, dim), "{layout}");
                }
            }
        }
        assert_eq!(ScanPlan::layout_for(&[4], 1, 1, 1).unwrap_err().code(), "E0486");
    }

    #[test]
    fn usual_layouts() {
        let scanned = family([16, 32], 2).iter().flat_map(|l| [check(l, 0), check(l, 1)]).filter(|&s| s).count();
        assert!(scanned > 40, "{scanned}");
    }

    proptest! {
        #[test]
        fn any_layout_is_scanned_right_or_refused(seed in seeds()) {
            let layout = random_layout(seed);
            (0..layout.rank()).for_each(|dim| {
                check(&layout, dim);
            });
        }
    }
}
