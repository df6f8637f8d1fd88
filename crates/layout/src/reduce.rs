//! How to reduce one dimension of a tile.

use crate::bits::{beyond, combine32, kernel};
use crate::{LANE_BITS, LayoutError, Span, TileLayout};

/// One step of a butterfly: every lane combines its registers with those of the lane at `lane ^ lane_xor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ButterflyStep {
    /// The mask of `shfl.sync.bfly`.
    pub lane_xor: u32,
    /// Result register `q` combines with register `q ^ register_xor` of the other lane: the register to send.
    pub register_xor: u32,
}

/// How warps combine their partial results through shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossWarp {
    /// Partial results of each element, a power of two.
    pub slots: u32,
    /// Where the partial results lie after the butterfly, as a tile of `[slots]` and then the result's shape: result register `q` of
    /// each thread is register `q` here.
    pub partial: TileLayout,
    /// Where they are wanted: register `q · slots + s` is slot `s` of result register `q`; every thread combines those of each `q`, in
    /// order of slots. `Conversion::between(partial, gathered)` brings them there.
    pub gathered: TileLayout,
}

/// The steps that reduce dimension `dim` of a tile: within threads, then across lanes, then across warps. Each element counts once,
/// however often it is repeated over registers, lanes and warps. The operation must be associative and commutative up to its
/// numeric class; all threads that hold an element of the result compute the same bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReductionPlan {
    /// The dimension reduced.
    pub dim: usize,
    /// Where the result lies: `slice(dim)`, repeated over the lanes and warps that took part.
    pub result: TileLayout,
    /// The registers of the tile that each register of the result combines, in order.
    pub groups: Vec<Vec<u32>>,
    /// The steps across lanes, in order.
    pub butterfly: Vec<ButterflyStep>,
    /// The step across warps, if warps share the dimension.
    pub cross_warp: Option<CrossWarp>,
}

impl ReductionPlan {
    /// The plan for reducing `dim` of a tile of this layout.
    pub fn new(layout: &TileLayout, dim: usize) -> Result<Self, LayoutError> {
        let result = layout.slice(dim)?;
        // The tile's elements, and what remains of them, by bits of register, lane and warp.
        let elements = layout.columns();
        let without = |basis: &Vec<u32>| {
            let rest: Vec<u32> = basis.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, c)| *c).collect();
            u64::from(result.flatten(&rest))
        };
        let bases = [layout.register_bases(), layout.lane_bases(), layout.warp_bases()].concat();
        let remaining: Vec<u64> = bases.iter().map(without).collect();

        // Index differences between places of one element of the result, and between places of one element of the tile: only the
        // former modulo the latter are to be combined. Both lists grow from registers over lanes to warps.
        let alike = kernel(&remaining);
        let repeated = kernel(&elements);
        let registers = layout.register_bases().len();
        let reach = |limit: usize, list: &[u64]| list.iter().copied().filter(|v| v >> limit == 0).collect::<Vec<_>>();
        let within_warp = registers + LANE_BITS;

        let of_registers = beyond(&reach(registers, &repeated), &reach(registers, &alike));
        let known = [reach(registers, &alike), reach(within_warp, &repeated)].concat();
        let of_lanes = beyond(&known, &reach(within_warp, &alike));
        let known = [reach(within_warp, &alike), repeated].concat();
        let of_warps = beyond(&known, &alike);

        // The register bits that the slice kept, and the register of the result behind their combinations.
        let mut span = Span::new();
        let kept: Vec<usize> = (0..registers).filter(|&i| span.push(remaining[i], 0).is_none()).collect();
        let spread = |q: u32| kept.iter().enumerate().map(|(i, &bit)| (q >> i & 1) << bit).sum::<u32>();
        let gather = |v: u64| kept.iter().enumerate().map(|(i, &bit)| ((v >> bit & 1) as u32) << i).sum::<u32>();

        let differences: Vec<u32> = of_registers.iter().map(|&v| v as u32).collect();
        let groups = (0..result.registers())
            .map(|q| {
                let mut group: Vec<u32> =
                    (0..1u32 << differences.len()).map(|i| spread(q) ^ combine32(&differences, i)).collect();
                group.sort_unstable();
                group
            })
            .collect();
        let lane_mask = (1u64 << LANE_BITS) - 1;
        let butterfly = of_lanes
            .iter()
            .map(|&v| ButterflyStep { lane_xor: (v >> registers & lane_mask) as u32, register_xor: gather(v) })
            .collect();
        let cross_warp = if of_warps.is_empty() {
            None
        } else {
            Some(cross_warp(&result, &bases, &kept, &known, &of_warps, registers)?)
        };
        Ok(Self { dim, result, groups, butterfly, cross_warp })
    }

    /// Shuffles of a value of up to 32 bits that the plan takes in each warp.
    pub fn shuffles(&self) -> u32 {
        self.butterfly.len() as u32 * self.result.registers()
    }
}

/// The exchange of partial results: places that differ by `known` hold the same one, those that differ by `of_warps` others of the
/// same element.
fn cross_warp(
    result: &TileLayout,
    bases: &[Vec<u32>],
    kept: &[usize],
    known: &[u64],
    of_warps: &[u64],
    registers: usize,
) -> Result<CrossWarp, LayoutError> {
    // A linear function from places to slots: zero on `known`, a bit for each of `of_warps`.
    let mut span = Span::new();
    for &v in known {
        span.push(v, 0);
    }
    for (i, &v) in of_warps.iter().enumerate() {
        span.push(v, 1 << i);
    }
    for i in 0..bases.len() {
        span.push(1 << i, 0);
    }
    let slot = |bit: usize| span.express(1 << bit).unwrap_or(0) as u32;

    let slots = 1u32 << of_warps.len();
    let mut shape = vec![slots];
    shape.extend(result.shape());
    let with = |slot: u32, rest: &[u32]| [&[slot], rest].concat();
    let all = |vectors: &[Vec<u32>], first: usize| {
        vectors.iter().enumerate().map(|(i, rest)| with(slot(first + i), rest)).collect::<Vec<_>>()
    };
    let reg = result.register_bases().iter().zip(kept).map(|(rest, &bit)| with(slot(bit), rest)).collect();
    let lane = all(result.lane_bases(), registers);
    let warp = all(result.warp_bases(), registers + LANE_BITS);
    let partial = TileLayout::new(shape.clone(), reg, lane, warp)?;

    let none = vec![0; result.rank()];
    let plain = |vectors: &[Vec<u32>]| vectors.iter().map(|rest| with(0, rest)).collect::<Vec<_>>();
    let slot_bits = (0..of_warps.len()).map(|i| with(1 << i, &none));
    let reg = slot_bits.chain(plain(result.register_bases())).collect();
    let gathered = TileLayout::new(shape, reg, plain(result.lane_bases()), plain(result.warp_bases()))?;
    Ok(CrossWarp { slots, partial, gathered })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{family, random_layout, seeds};
    use crate::{LANES, MmaShape};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The value of an element: a bit of its own for small tiles would overflow, so a hash whose sums do not collide by chance.
    fn value(element: u32) -> u64 {
        crate::testing::Random(u64::from(element) + 1).next()
    }

    /// Carries the plan out with wrapping sums and compares every place with the sum taken from the coordinates alone.
    fn check(layout: &TileLayout, dim: usize) {
        let plan = ReductionPlan::new(layout, dim).unwrap();
        let mut expected: HashMap<Vec<u32>, u64> = HashMap::new();
        for element in 0..layout.elements() {
            let mut rest = layout.unflatten(element);
            rest.remove(dim);
            let sum = expected.entry(rest).or_default();
            *sum = sum.wrapping_add(value(element));
        }
        let registers = plan.result.registers() as usize;
        assert_eq!(plan.groups.len(), registers);
        let mut warps: Vec<Vec<Vec<u64>>> = (0..layout.warps())
            .map(|w| {
                (0..LANES)
                    .map(|l| {
                        let sum = |group: &Vec<u32>| {
                            group.iter().fold(0u64, |sum, &r| sum.wrapping_add(value(layout.element(r, l, w))))
                        };
                        plan.groups.iter().map(sum).collect()
                    })
                    .collect()
            })
            .collect();
        for step in &plan.butterfly {
            assert!(step.lane_xor != 0);
            for lanes in &mut warps {
                let before = lanes.clone();
                for (l, values) in lanes.iter_mut().enumerate() {
                    for (q, v) in values.iter_mut().enumerate() {
                        *v = v.wrapping_add(before[l ^ step.lane_xor as usize][q ^ step.register_xor as usize]);
                    }
                }
            }
        }
        if let Some(cross) = &plan.cross_warp {
            let mut scratch: HashMap<u32, u64> = HashMap::new();
            for (w, lanes) in warps.iter().enumerate() {
                for (l, values) in lanes.iter().enumerate() {
                    for (q, &v) in values.iter().enumerate() {
                        let old = scratch.insert(cross.partial.element(q as u32, l as u32, w as u32), v);
                        assert!(old.is_none_or(|old| old == v), "two partial results for one slot");
                    }
                }
            }
            for (w, lanes) in warps.iter_mut().enumerate() {
                for (l, values) in lanes.iter_mut().enumerate() {
                    for (q, v) in values.iter_mut().enumerate() {
                        let slot = |s| scratch[&cross.gathered.element(q as u32 * cross.slots + s, l as u32, w as u32)];
                        *v = (0..cross.slots).fold(0u64, |sum, s| sum.wrapping_add(slot(s)));
                    }
                }
            }
        }
        for (w, lanes) in warps.iter().enumerate() {
            for (l, values) in lanes.iter().enumerate() {
                for (q, v) in values.iter().enumerate() {
                    let at = plan.result.coordinates(q as u32, l as u32, w as u32);
                    assert_eq!(*v, expected[&at], "{layout} dim {dim} at {at:?} in register {q} lane {l} warp {w}");
                }
            }
        }
    }

    #[test]
    fn usual_layouts() {
        for shape in [[32, 32], [16, 128], [64, 64]] {
            for warps in [1, 4] {
                for layout in family(shape, warps) {
                    check(&layout, 0);
                    check(&layout, 1);
                }
            }
        }
    }

    #[test]
    fn rows_of_an_accumulator_take_two_shuffles() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        let layout = mma.accumulator([64, 32], [4, 1]).unwrap();
        let plan = ReductionPlan::new(&layout, 1).unwrap();
        assert_eq!(plan.butterfly, [1, 2].map(|lane_xor| ButterflyStep { lane_xor, register_xor: 0 }));
        assert_eq!((plan.cross_warp.is_none(), plan.result.registers(), plan.shuffles()), (true, 2, 4));
        assert_eq!(plan.groups[1], [2, 3, 6, 7, 10, 11, 14, 15]);
        let columns = ReductionPlan::new(&layout, 0).unwrap();
        assert_eq!(columns.cross_warp.map(|c| (c.slots, c.partial.shape().to_vec())), Some((4, vec![4, 32])));
    }

    #[test]
    fn a_row_over_all_warps() {
        let layout = TileLayout::contiguous(&[1024], &[0], 4, 4).unwrap();
        let plan = ReductionPlan::new(&layout, 0).unwrap();
        assert_eq!((plan.groups.len(), plan.groups[0].len(), plan.butterfly.len()), (1, 8, 5));
        assert_eq!(plan.cross_warp.map(|c| c.slots), Some(4));
        assert_eq!(plan.result.shape(), [0u32; 0]);
    }

    proptest! {
        #[test]
        fn any_layout(seed in seeds()) {
            let layout = random_layout(seed);
            (0..layout.rank()).for_each(|dim| check(&layout, dim));
        }
    }

    #[test]
    fn no_such_dimension() {
        let layout = TileLayout::contiguous(&[64], &[0], 1, 1).unwrap();
        assert_eq!(ReductionPlan::new(&layout, 1).unwrap_err().code(), "E0486");
    }
}
