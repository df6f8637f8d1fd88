//! Layouts to test with: a family of usual ones and random linear ones of every kind.

#![allow(clippy::unwrap_used)]

use crate::{LANE_BITS, MmaShape, Span, TileLayout};
use proptest::prelude::*;

/// Seeds of random layouts.
pub(crate) fn seeds() -> impl Strategy<Value = u64> {
    any::<u64>()
}

/// A small deterministic generator (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A random layout of a random shape of at most 2^9 elements, over up to four warps.
pub(crate) fn random_layout(seed: u64) -> TileLayout {
    let mut random = Random(seed);
    let shape: Vec<u32> = (0..random.below(4)).map(|_| 1 << random.below(4)).collect();
    let warp_bits = random.below(3) as usize;
    random_layout_of(&shape, warp_bits, &mut random)
}

/// A random layout of a tile: from plain permutations of bits to dense mixtures, with and without repetition.
pub(crate) fn random_layout_of(shape: &[u32], warp_bits: usize, random: &mut Random) -> TileLayout {
    let elements: u32 = shape.iter().product();
    let bits = elements.trailing_zeros() as usize;
    let dense = random.below(2) == 1;
    let mut columns: Vec<u64> = Vec::new();
    let mut span = Span::new();
    while columns.len() < bits {
        let candidate = if dense { random.below(u64::from(elements)) } else { 1 << random.below(bits as u64) };
        if span.push(candidate, 0).is_none() {
            columns.push(candidate);
        }
    }
    // Repetition: zero vectors, or (dense) arbitrary ones.
    let extra = random.below(4) as usize;
    let threads = LANE_BITS + warp_bits;
    while columns.len() < threads.max(bits + extra) {
        let column = if dense && random.below(2) == 1 { random.below(u64::from(elements)) } else { 0 };
        let at = random.below(columns.len() as u64 + 1) as usize;
        columns.insert(at, column);
    }
    let vectors =
        |columns: &[u64]| columns.iter().map(|&c| crate::layout::unflatten(shape, c as u32)).collect::<Vec<_>>();
    TileLayout::new(
        shape.to_vec(),
        vectors(&columns[threads..]),
        vectors(&columns[..LANE_BITS]),
        vectors(&columns[LANE_BITS..threads]),
    )
    .unwrap()
}

/// Usual layouts of one shape (two-dimensional) over `warps` warps.
pub(crate) fn family(shape: [u32; 2], warps: u32) -> Vec<TileLayout> {
    let mut all = Vec::new();
    for order in [[0, 1], [1, 0]] {
        for vector in [1, 2, 8] {
            all.push(TileLayout::contiguous(&shape, &order, vector, warps).unwrap());
        }
        for (size, threads) in [([1, 1], [32, 1]), ([1, 4], [8, 4]), ([4, 4], [4, 8]), ([2, 1], [1, 32])] {
            all.push(TileLayout::blocked(&shape, &size, &threads, &[warps, 1], &order).unwrap());
            all.push(TileLayout::blocked(&shape, &size, &threads, &[1, warps], &order).unwrap());
        }
    }
    for bits in [8, 16, 32] {
        let mma = MmaShape { m: 16, n: 8, k: 256 / bits, element_bits: bits };
        for grid in [[warps, 1], [1, warps]] {
            all.extend(mma.accumulator(shape, grid));
            all.extend(mma.operand_a(shape, grid));
            all.extend(mma.operand_b(shape, grid));
        }
    }
    all.dedup();
    all
}

/// A random layout in shared memory.
pub(crate) fn random_shared(shape: &[u32], random: &mut Random) -> crate::SharedLayout {
    let elements: u32 = shape.iter().product();
    let bits = elements.trailing_zeros() as usize;
    let dense = random.below(2) == 1;
    let mut columns: Vec<u64> = Vec::new();
    let mut span = Span::new();
    while columns.len() < bits {
        let candidate = if dense { random.below(u64::from(elements)) } else { 1 << random.below(bits as u64) };
        if span.push(candidate, 0).is_none() {
            columns.push(candidate);
        }
    }
    let bases = columns.iter().map(|&c| crate::layout::unflatten(shape, c as u32)).collect();
    crate::SharedLayout::new(shape.to_vec(), bases).unwrap()
}
