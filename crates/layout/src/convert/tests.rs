//! Conversions carried out on values and compared with what coordinates say.

use super::*;
use crate::testing::{Random, family, random_layout_of, seeds};
use crate::{LANES, MmaShape};
use proptest::prelude::*;

/// Values by warp, lane and register; an element's value is its index.
type Values = Vec<Vec<Vec<Option<u32>>>>;

fn values(layout: &TileLayout) -> Values {
    let lane = |w, l| (0..layout.registers()).map(|r| Some(layout.element(r, l, w))).collect();
    (0..layout.warps()).map(|w| (0..LANES).map(|l| lane(w, l)).collect()).collect()
}

/// Runs a shuffle plan as a code generator would: exchanges, shuffles of fixed registers, exchanges.
fn shuffle(
    plan: &ShufflePlan,
    source: &[Vec<Option<u32>>],
    warp: u32,
    registers: u32,
    element_bytes: u32,
) -> Vec<Vec<Option<u32>>> {
    let exchange = |function: &crate::ThreadFunction, lane: u32, mut values: Vec<Option<u32>>| {
        for step in function.exchanges() {
            if ((lane & step.lanes).count_ones() + (warp & step.warps).count_ones()) % 2 == 1 {
                values = (0..values.len()).map(|i| values[i ^ step.register_xor as usize]).collect();
            }
        }
        values
    };
    let ordered: Vec<_> = source.iter().zip(0..).map(|(v, lane)| exchange(&plan.send, lane, v.clone())).collect();
    (0..LANES)
        .map(|lane| {
            let mut received = vec![None; registers as usize];
            for shuffle in &plan.shuffles {
                assert!(shuffle.parts.len() as u32 * element_bytes <= element_bytes.max(4));
                let from = plan.source.value(lane, warp) ^ shuffle.source_xor;
                assert!(!shuffle.local || from == lane);
                for part in &shuffle.parts {
                    // The select form and the exchange form are the same.
                    let register = plan.send.value(from, warp) ^ part.send_xor;
                    let value = ordered[from as usize][part.send_xor as usize];
                    assert_eq!(value, source[from as usize][register as usize]);
                    assert_eq!(received[part.receive_xor as usize].replace(value), None);
                }
            }
            let received = received.into_iter().map(Option::flatten).collect();
            let mut filled = exchange(&plan.receive, lane, received);
            for &(register, other) in &plan.copies {
                assert_eq!(filled[register as usize], None);
                filled[register as usize] = filled[other as usize];
            }
            filled
        })
        .collect()
}

fn round_trip(trip: &SharedRoundTrip, source: &TileLayout, target: &TileLayout, values: &Values) -> Values {
    let mut memory = vec![None; trip.layout.elements() as usize];
    let (stored, loaded) = (trip.layout.offsets(source).unwrap(), trip.layout.offsets(target).unwrap());
    for (w, lanes) in values.iter().enumerate().filter(|(w, _)| *w as u32 & trip.store_warp_mask == 0) {
        for (l, registers) in lanes.iter().enumerate().filter(|(l, _)| *l as u32 & trip.store_lane_mask == 0) {
            for group in &trip.store.groups {
                let start = stored.offset(group[0], l as u32, w as u32);
                assert_eq!(start % trip.store.width, 0);
                for (i, &r) in group.iter().enumerate() {
                    let old = memory[start as usize + i].replace((w, registers[r as usize]));
                    assert_eq!(old, None, "two threads store one element");
                }
            }
        }
    }
    assert_eq!(trip.store.groups.len() as u32, trip.store_wavefronts.requests);
    assert_eq!(trip.load.groups.len() as u32, trip.load_wavefronts.requests);
    (0..target.warps())
        .map(|w| {
            let lane = |l| {
                let mut registers = vec![None; target.registers() as usize];
                for group in &trip.load.groups {
                    let start = loaded.offset(group[0], l, w);
                    assert_eq!(start % trip.load.width, 0);
                    for (i, &r) in group.iter().enumerate() {
                        let (writer, value) = memory[start as usize + i].unwrap();
                        assert!(!trip.within_warp || writer as u32 == w);
                        registers[r as usize] = value;
                    }
                }
                trip.load.copies.iter().for_each(|&(r, other)| registers[r as usize] = registers[other as usize]);
                registers
            };
            (0..LANES).map(lane).collect()
        })
        .collect()
}

fn apply(conversion: &Conversion, source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Values {
    let values = values(source);
    match conversion {
        Conversion::Identity => values,
        Conversion::PermuteRegisters { registers } => {
            let lane = |v: &Vec<Option<u32>>| registers.iter().map(|&r| v[r as usize]).collect();
            values.iter().map(|lanes| lanes.iter().map(lane).collect()).collect()
        }
        Conversion::Shuffle(plan) => {
            let warp = |(w, lanes): (usize, &Vec<Vec<Option<u32>>>)| {
                shuffle(plan, lanes, w as u32, target.registers(), element_bytes)
            };
            values.iter().enumerate().map(warp).collect()
        }
        Conversion::SharedRoundTrip(trip) => round_trip(trip, source, target, &values),
    }
}

/// Carries out every way of converting and compares it with the target's coordinates; gives the one chosen.
fn check(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Conversion {
    let expected = values(target);
    let chosen = Conversion::between(source, target, element_bytes).unwrap();
    assert!(apply(&chosen, source, target, element_bytes) == expected, "{chosen:?}\n{source}\n{target}");
    if let Some(plan) = ShufflePlan::new(source, target, element_bytes) {
        let plan = Conversion::Shuffle(plan);
        assert!(apply(&plan, source, target, element_bytes) == expected, "{plan:?}\n{source}\n{target}");
    }
    let trip = Conversion::SharedRoundTrip(SharedRoundTrip::new(source, target, element_bytes).unwrap());
    assert!(apply(&trip, source, target, element_bytes) == expected, "{trip:?}\n{source}\n{target}");
    let cost = |c: &Conversion| c.cost(source, target, element_bytes).cycles();
    assert!(cost(&chosen) <= cost(&trip));
    let moves_nothing = matches!(chosen, Conversion::Identity | Conversion::PermuteRegisters { .. });
    let same_threads = (0..source.warps()).all(|w| {
        (0..LANES).all(|l| {
            (0..target.registers())
                .all(|r| (0..source.registers()).any(|s| source.element(s, l, w) == target.element(r, l, w)))
        })
    });
    assert!(!moves_nothing || same_threads);
    chosen
}

#[test]
fn all_pairs_of_usual_layouts() {
    let mut kinds = [0; 4];
    for (shape, warps) in [([16, 32], 1), ([32, 32], 2), ([16, 64], 4)] {
        let all = family(shape, warps);
        for (i, source) in all.iter().enumerate() {
            for (j, target) in all.iter().enumerate() {
                let kind = match check(source, target, [1, 2, 4, 8][(i + j) % 4]) {
                    Conversion::Identity => 0,
                    Conversion::PermuteRegisters { .. } => 1,
                    Conversion::Shuffle(_) => 2,
                    Conversion::SharedRoundTrip(_) => 3,
                };
                kinds[kind] += 1;
                assert_eq!(kind == 0, source == target);
            }
        }
    }
    assert!(kinds.iter().all(|&n| n > 5), "{kinds:?}");
}

/// Every layout of a tile of eight elements whose vectors are unit vectors or zero, over one warp: each of the three bits in one of
/// seven index bits (two of registers).
#[test]
fn exhaustive_on_a_small_tile() {
    let mut all = Vec::new();
    for places in 0..7u32 * 7 * 7 {
        let places = [places % 7, places / 7 % 7, places / 49];
        if places[0] == places[1] || places[1] == places[2] || places[0] == places[2] {
            continue;
        }
        let mut bases = vec![vec![0]; 7];
        places.iter().enumerate().for_each(|(bit, &p)| bases[p as usize] = vec![1 << bit]);
        all.push(TileLayout::new(vec![8], bases[..2].to_vec(), bases[2..].to_vec(), vec![]).unwrap());
    }
    assert_eq!(all.len(), 210);
    for source in &all {
        for target in &all {
            check(source, target, 4);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn any_two_layouts(seed in seeds(), element_bytes in prop::sample::select(vec![1u32, 2, 4, 8, 16])) {
        let mut random = Random(seed);
        let shape: Vec<u32> = (0..random.below(4)).map(|_| 1 << random.below(4)).collect();
        let warp_bits = random.below(3) as usize;
        let source = random_layout_of(&shape, warp_bits, &mut random);
        let target = random_layout_of(&shape, warp_bits, &mut random);
        check(&source, &target, element_bytes);
    }

    /// Layouts that differ within warps alone: a bijective source can always be shuffled.
    #[test]
    fn bijections_within_warps_shuffle(seed in seeds()) {
        let mut random = Random(seed);
        let shape = [8, 64];
        let mut bijection = || loop {
            let layout = random_layout_of(&shape, 0, &mut random);
            if layout.replication().is_none() {
                break layout;
            }
        };
        let (mixed, other) = (bijection(), bijection());
        prop_assert!(ShufflePlan::new(&mixed, &other, 4).is_some());
        check(&mixed, &other, 4);
    }
}

#[test]
fn broadcast_operands_are_renamed_registers() {
    // The operand of a broadcast along dimension 1, register for register.
    let result = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 }.accumulator([32, 32], [2, 1]).unwrap();
    let operand = result.keep_dim(1).unwrap();
    let projected = result.project(&[32, 1]).unwrap();
    let conversion = Conversion::between(&operand, &projected, 4).unwrap();
    let Conversion::PermuteRegisters { registers } = &conversion else { panic!("{conversion:?}") };
    assert_eq!(registers[..8], [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn an_accumulator_becomes_an_operand_without_moving() {
    // C of one product as A of the next, the step of fused attention.
    let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
    let c = mma.accumulator([64, 64], [4, 1]).unwrap();
    let a = mma.operand_a([64, 64], [4, 1]).unwrap();
    assert_eq!(check(&c, &a, 2), Conversion::Identity);
}

#[test]
fn a_small_transposition_is_shuffled() {
    let rows = TileLayout::contiguous(&[8, 16], &[1, 0], 4, 1).unwrap();
    let columns = TileLayout::contiguous(&[8, 16], &[0, 1], 4, 1).unwrap();
    let conversion = check(&rows, &columns, 4);
    let cost = conversion.cost(&rows, &columns, 4);
    assert!(matches!(conversion, Conversion::Shuffle(_)));
    assert!(cost.shuffles <= 4 && cost.shared_bytes == 0, "{cost:?}");
    let halves = check(&rows, &columns, 2).cost(&rows, &columns, 2);
    assert!(halves.shuffles <= cost.shuffles);
}

#[test]
fn replicas_do_not_store() {
    let source = TileLayout::blocked(&[16, 16], &[1, 1], &[4, 8], &[4, 2], &[1, 0]).unwrap();
    let target = TileLayout::blocked(&[16, 16], &[1, 1], &[8, 4], &[1, 8], &[0, 1]).unwrap();
    let Conversion::SharedRoundTrip(trip) = check(&source, &target, 4) else { panic!("warps exchange") };
    assert_eq!((trip.store_lane_mask, trip.store_warp_mask, trip.bytes), (0, source.replication().warps, 1024));
    assert_eq!(trip.conflicts(), (0, 0));
}

#[test]
fn refusals() {
    let layout = |shape: &[u32], warps| TileLayout::contiguous(shape, &[0], 1, warps).unwrap();
    let code = |a: &TileLayout, b: &TileLayout, bytes| Conversion::between(a, b, bytes).unwrap_err().code();
    assert_eq!(code(&layout(&[64], 1), &layout(&[128], 1), 4), "E0485");
    assert_eq!(code(&layout(&[64], 1), &layout(&[64], 2), 4), "E0485");
    assert_eq!(code(&layout(&[64], 1), &layout(&[64], 1), 3), "E0486");
}
