//! Layouts to test with: random linear ones of every kind.

use tenon_layout::{LANE_BITS, SharedLayout, Span, TileLayout};

/// A small deterministic generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn coordinates(shape: &[u32], mut index: u64) -> Vec<u32> {
    let mut result = vec![0; shape.len()];
    for (c, size) in result.iter_mut().zip(shape).rev() {
        *c = (index % u64::from(*size)) as u32;
        index /= u64::from(*size);
    }
    result
}

/// Independent vectors, `bits` of them: units or dense sums.
fn independent(bits: u32, random: &mut Random) -> Vec<u64> {
    let dense = random.below(2) == 1;
    let (mut columns, mut span) = (Vec::new(), Span::new());
    while columns.len() < bits as usize {
        let candidate = if dense { random.below(1 << bits) } else { 1 << random.below(u64::from(bits)) };
        if span.push(candidate, 0).is_none() {
            columns.push(candidate);
        }
    }
    columns
}

/// A random layout: permuted or dense bits, with repetition over registers, lanes and warps.
pub fn tile(shape: &[u32], warps: u32, random: &mut Random) -> TileLayout {
    let elements: u32 = shape.iter().product();
    let bits = elements.trailing_zeros();
    let mut columns = independent(bits, random);
    let threads = LANE_BITS + warps.trailing_zeros() as usize;
    let wanted = threads.max(bits as usize + random.below(3) as usize);
    while columns.len() < wanted {
        let column = if random.below(2) == 1 { random.below(u64::from(elements)) } else { 0 };
        let at = random.below(columns.len() as u64 + 1) as usize;
        columns.insert(at, column);
    }
    let vectors = |columns: &[u64]| columns.iter().map(|&c| coordinates(shape, c)).collect::<Vec<_>>();
    TileLayout::new(
        shape.to_vec(),
        vectors(&columns[threads..]),
        vectors(&columns[..LANE_BITS]),
        vectors(&columns[LANE_BITS..threads]),
    )
    .unwrap()
}

/// A random layout in shared memory.
pub fn shared(shape: &[u32], random: &mut Random) -> SharedLayout {
    let bits = shape.iter().product::<u32>().trailing_zeros();
    let bases = independent(bits, random).iter().map(|&c| coordinates(shape, c)).collect();
    SharedLayout::new(shape.to_vec(), bases).unwrap()
}
