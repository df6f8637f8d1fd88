//! Vectors and bank conflicts of accesses to shared memory.
//!
//! The model: 32 banks of 4 bytes. A request of 4 bytes or less per lane is served for all lanes at once, of 8 bytes for half a warp at
//! a time, of 16 bytes for a quarter. Each such phase takes as many wavefronts as the most distinct words that any bank must give;
//! lanes that want the same word share it. Because layouts are linear, the phases of all requests of a tile are alike.

use std::collections::HashMap;

use crate::bits::combine32;
use crate::{LANE_BITS, LayoutError, OffsetMap, SharedLayout, Span, TileLayout};

/// The widest access of a lane, in bytes.
pub const MAX_ACCESS_BYTES: u32 = 16;

/// Which registers of a thread go to memory together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorAccess {
    /// Elements of each access, a power of two. Its address is a multiple of its size if the tile's own address is.
    pub width: u32,
    /// The registers of each access, in order of memory: `width` of them. The offset of an access is that of its first register.
    pub groups: Vec<Vec<u32>>,
    /// Registers that hold the same as another, `(register, other)`: not stored, and copied after loading.
    pub copies: Vec<(u32, u32)>,
}

/// The wavefronts of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Wavefronts {
    /// Requests: instructions per warp for the whole tile.
    pub requests: u32,
    /// Wavefronts of each request.
    pub per_request: u32,
    /// Wavefronts of each request without bank conflicts.
    pub minimum: u32,
}

impl Wavefronts {
    /// Wavefronts per warp for the whole tile.
    pub fn total(&self) -> u32 {
        self.requests * self.per_request
    }

    /// Wavefronts of each request beyond the minimum.
    pub fn conflicts(&self) -> u32 {
        self.per_request - self.minimum
    }
}

/// Checks an element's size; the sizes that memory knows.
pub(crate) fn check_element(operation: &'static str, element_bytes: u32) -> Result<(), LayoutError> {
    if !matches!(element_bytes, 1 | 2 | 4 | 8 | 16) {
        let reason = format!("elements of {element_bytes} bytes: 1, 2, 4, 8 or 16 are expected");
        return Err(LayoutError::Argument { operation, reason });
    }
    Ok(())
}

/// The most elements that accesses of up to `max_bytes` per lane can have, as a power of two: a thread's registers hold aligned runs
/// of so many elements. Registers may stand in any order.
fn width_bits(map: &OffsetMap, element_bytes: u32, max_bytes: u32) -> u32 {
    let span = Span::of(&map.registers.iter().map(|&o| u64::from(o)).collect::<Vec<_>>());
    let most = (max_bytes.min(MAX_ACCESS_BYTES) / element_bytes).max(1).ilog2();
    let thread_bits = map.thread_bits();
    (0..most).find(|&bit| thread_bits >> bit & 1 == 1 || !span.contains(1 << bit)).unwrap_or(most)
}

impl VectorAccess {
    /// The widest accesses, of at most `max_bytes` (and 16) per lane, of a tile with these offsets.
    pub fn new(map: &OffsetMap, element_bytes: u32, max_bytes: u32) -> Result<Self, LayoutError> {
        check_element("vector access", element_bytes)?;
        let bits = width_bits(map, element_bytes, max_bytes);
        let span = Span::of(&map.registers.iter().map(|&o| u64::from(o)).collect::<Vec<_>>());
        // The register index that moves an access's register on by one element, two elements, and so on.
        let steps: Vec<u32> = (0..bits).filter_map(|bit| span.express(1 << bit)).map(|tag| tag as u32).collect();
        let (width, registers) = (1u32 << bits, 1u32 << map.registers.len());
        let mut groups = Vec::new();
        let mut holders = HashMap::new();
        for register in 0..registers {
            let offset = combine32(&map.registers, register);
            if !offset.is_multiple_of(width) || holders.contains_key(&offset) {
                continue;
            }
            let group: Vec<u32> = (0..width).map(|i| register ^ combine32(&steps, i)).collect();
            holders.extend(group.iter().enumerate().map(|(i, &r)| (offset + i as u32, r)));
            groups.push(group);
        }
        let copies = (0..registers).filter_map(|register| {
            let holder = *holders.get(&combine32(&map.registers, register))?;
            (holder != register).then_some((register, holder))
        });
        Ok(Self { width, groups, copies: copies.collect() })
    }
}

/// What accesses of `width` elements (as of [`VectorAccess`]) cost.
pub(crate) fn wavefronts(map: &OffsetMap, element_bytes: u32, width: u32) -> Wavefronts {
    let registers: Vec<u64> = map.registers.iter().map(|&o| u64::from(o)).collect();
    let bytes = (element_bytes * width).max(1);
    let minimum = (bytes / 4).max(1);
    let phase_lanes = LANE_BITS - minimum.ilog2() as usize;
    let within = (0..minimum.ilog2()).map(|bit| 1u64 << bit);
    let words: Vec<u64> =
        map.lanes[..phase_lanes].iter().map(|&o| u64::from(o) * u64::from(element_bytes) / 4).chain(within).collect();
    let banks: Vec<u64> = words.iter().map(|w| w % 32).collect();
    // Words and banks are spans: each bank is wanted by equally many words.
    let per_phase = 1 << (Span::of(&words).rank() - Span::of(&banks).rank());
    Wavefronts { requests: (1 << Span::of(&registers).rank()) / width, per_request: minimum * per_phase, minimum }
}

impl Wavefronts {
    /// What reading or writing `tile` in `shared` costs with the widest accesses of at most `max_bytes` per lane.
    pub fn of(
        tile: &TileLayout,
        shared: &SharedLayout,
        element_bytes: u32,
        max_bytes: u32,
    ) -> Result<Self, LayoutError> {
        check_element("access", element_bytes)?;
        let map = shared.offsets(tile)?;
        Ok(wavefronts(&map, element_bytes, 1 << width_bits(&map, element_bytes, max_bytes)))
    }
}

/// Wavefronts of each request beyond the minimum, for accesses of `vector` elements whose registers are consecutive in memory.
pub fn bank_conflicts(
    tile: &TileLayout,
    shared: &SharedLayout,
    element_bytes: u32,
    vector: u32,
) -> Result<u32, LayoutError> {
    check_element("bank conflicts", element_bytes)?;
    let map = shared.offsets(tile)?;
    let most = 1 << width_bits(&map, element_bytes, MAX_ACCESS_BYTES);
    if !vector.is_power_of_two() || vector > most {
        let reason = format!("vectors of {vector} elements where accesses can have at most {most}");
        return Err(LayoutError::Argument { operation: "bank conflicts", reason });
    }
    Ok(wavefronts(&map, element_bytes, vector).conflicts())
}

/// The largest number of elements, at most 16 bytes, that consecutive registers of each thread hold consecutively and aligned in
/// shared memory.
pub fn vector_width(tile: &TileLayout, shared: &SharedLayout, element_bytes: u32) -> Result<u32, LayoutError> {
    check_element("vector width", element_bytes)?;
    let map = shared.offsets(tile)?;
    Ok(consecutive(&map.registers, map.thread_bits(), element_bytes))
}

impl TileLayout {
    /// The largest number of elements, at most 16 bytes, that consecutive registers of each thread hold consecutively along `dim`, the
    /// first at a multiple of that number: what a vector access of memory contiguous in `dim` can take, if rows and base are aligned to it.
    pub fn vector_width_along(&self, dim: usize, element_bytes: u32) -> Result<u32, LayoutError> {
        check_element("vector width", element_bytes)?;
        if dim >= self.rank() {
            let reason = format!("dimension {dim} of a tile of {} dimensions", self.rank());
            return Err(LayoutError::Argument { operation: "vector width", reason });
        }
        // A register bit counts only if it moves along `dim` alone: others leave bits above any vector.
        let alone = |b: &Vec<u32>| b.iter().enumerate().all(|(d, &c)| d == dim || c == 0);
        let registers: Vec<u32> =
            self.register_bases().iter().map(|b| b[dim] | if alone(b) { 0 } else { 1 << 31 }).collect();
        Ok(consecutive(&registers, self.thread_bits()[dim], element_bytes))
    }
}

/// The largest aligned run, in elements, of consecutive registers with these offsets per bit.
fn consecutive(registers: &[u32], thread_bits: u32, element_bytes: u32) -> u32 {
    let most = (MAX_ACCESS_BYTES / element_bytes).ilog2() as usize;
    let fits = |bits: usize| {
        let (low, high) = registers.split_at(bits);
        let mask = (1u32 << bits) - 1;
        low.iter().enumerate().all(|(i, &o)| o == 1 << i) && high.iter().fold(thread_bits, |b, o| b | o) & mask == 0
    };
    1 << (0..=most.min(registers.len())).rev().find(|&bits| fits(bits)).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{Random, family, random_layout_of, random_shared, seeds};
    use crate::{LANES, Swizzle};
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Wavefronts of one request, counted word by word.
    fn count(map: &OffsetMap, first: u32, warp: u32, element_bytes: u32, width: u32) -> u32 {
        let bytes = element_bytes * width;
        let phases = (bytes / 4).max(1);
        let lanes = LANES / phases;
        (0..phases)
            .map(|phase| {
                let mut words: Vec<HashSet<u32>> = vec![HashSet::new(); 32];
                for lane in phase * lanes..(phase + 1) * lanes {
                    let start = map.offset(first, lane, warp) * element_bytes;
                    for byte in start..start + bytes {
                        words[(byte / 4 % 32) as usize].insert(byte / 4);
                    }
                }
                words.iter().map(|w| w.len() as u32).max().unwrap()
            })
            .sum()
    }

    fn check(tile: &TileLayout, shared: &SharedLayout, element_bytes: u32, max_bytes: u32) {
        let map = shared.offsets(tile).unwrap();
        let access = VectorAccess::new(&map, element_bytes, max_bytes).unwrap();
        let cost = Wavefronts::of(tile, shared, element_bytes, max_bytes).unwrap();
        assert_eq!(cost.requests as usize, access.groups.len());
        assert_eq!(cost.conflicts(), bank_conflicts(tile, shared, element_bytes, access.width).unwrap());
        let mut seen = HashSet::new();
        for group in &access.groups {
            assert_eq!(group.len() as u32, access.width);
            for warp in 0..tile.warps() {
                for lane in 0..LANES {
                    let start = shared.offset(&tile.coordinates(group[0], lane, warp));
                    assert_eq!(start % access.width, 0);
                    for (i, &r) in group.iter().enumerate() {
                        assert_eq!(shared.offset(&tile.coordinates(r, lane, warp)), start + i as u32);
                    }
                }
                assert_eq!(count(&map, group[0], warp, element_bytes, access.width), cost.per_request);
            }
            assert!(group.iter().all(|r| seen.insert(*r)));
        }
        for &(register, other) in &access.copies {
            assert_eq!(tile.coordinates(register, 3, 0), tile.coordinates(other, 3, 0));
            assert!(seen.contains(&other) && seen.insert(register));
        }
        assert_eq!(seen.len() as u32, tile.registers());
    }

    /// The largest run of consecutive registers, by trying.
    fn longest_run(tile: &TileLayout, offset: impl Fn(&[u32]) -> u32, element_bytes: u32) -> u32 {
        let fits = |width: u32| {
            (0..tile.registers()).all(|r| {
                (0..tile.warps()).all(|w| {
                    (0..LANES).all(|l| {
                        let start = offset(&tile.coordinates(r - r % width, l, w));
                        start.is_multiple_of(width)
                            && offset(&tile.coordinates(r, l, w)) == start.wrapping_add(r % width)
                    })
                })
            })
        };
        [16, 8, 4, 2, 1].into_iter().find(|&w| w * element_bytes <= 16 && w <= tile.registers() && fits(w)).unwrap_or(1)
    }

    #[test]
    fn usual_layouts() {
        for tile in family([32, 64], 2) {
            for order in [[0, 1], [1, 0]] {
                for (vec, per_phase, max_phase) in [(1, 1, 1), (8, 1, 8), (4, 2, 4), (1, 1, 32)] {
                    if vec * max_phase > [32, 64][order[0]] {
                        continue;
                    }
                    let shared =
                        SharedLayout::swizzled(&[32, 64], &order, Swizzle { vec, per_phase, max_phase }).unwrap();
                    for element_bytes in [1, 2, 4, 8] {
                        check(&tile, &shared, element_bytes, 16);
                        let width = vector_width(&tile, &shared, element_bytes).unwrap();
                        assert_eq!(width, longest_run(&tile, |c| shared.offset(c), element_bytes));
                    }
                }
            }
            for (dim, stride) in [(0, [1, 1 << 12]), (1, [1 << 12, 1])] {
                let width = tile.vector_width_along(dim, 2).unwrap();
                assert_eq!(width, longest_run(&tile, |c| c[0] * stride[0] + c[1] * stride[1], 2));
            }
        }
    }

    proptest! {
        #[test]
        fn any_layout(seed in seeds(), element_bytes in prop::sample::select(vec![1u32, 2, 4, 8, 16]), max_bytes in 1u32..33) {
            let mut random = Random(seed);
            let shape = [1 << random.below(5), 1 << random.below(6)];
            let tile = random_layout_of(&shape, 1, &mut random);
            let shared = random_shared(&shape, &mut random);
            check(&tile, &shared, element_bytes, max_bytes);
            let width = vector_width(&tile, &shared, element_bytes).unwrap();
            prop_assert_eq!(width, longest_run(&tile, |c| shared.offset(c), element_bytes));
        }
    }

    #[test]
    fn known_conflicts() {
        // 32 rows of 32 f32, a lane per row: all lanes in one bank, until the rows are swizzled.
        let tile = TileLayout::blocked(&[32, 32], &[1, 1], &[32, 1], &[1, 1], &[0, 1]).unwrap();
        let plain = SharedLayout::row_major(&[32, 32], &[1, 0]).unwrap();
        let swizzle = Swizzle { vec: 1, per_phase: 1, max_phase: 32 };
        let swizzled = SharedLayout::swizzled(&[32, 32], &[1, 0], swizzle).unwrap();
        assert_eq!(bank_conflicts(&tile, &plain, 4, 1), Ok(31));
        assert_eq!(bank_conflicts(&tile, &swizzled, 4, 1), Ok(0));
        assert_eq!(bank_conflicts(&tile, &plain, 4, 4), Ok(4 * 7));
        assert_eq!(bank_conflicts(&tile, &swizzled, 4, 4).unwrap_err().code(), "E0486");
        assert_eq!(bank_conflicts(&tile, &plain, 3, 1).unwrap_err().code(), "E0486");
        assert_eq!(tile.vector_width_along(2, 4).unwrap_err().code(), "E0486");
    }
}
