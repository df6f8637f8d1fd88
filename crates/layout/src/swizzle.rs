//! Choice of shared-memory layouts without bank conflicts.

use crate::access::check_element;
use crate::bits::{beyond, intersection};
use crate::layout::unflatten;
use crate::{LANE_BITS, LayoutError, Ldmatrix, MAX_ACCESS_BYTES, SharedLayout, Span, Swizzle, TileLayout, Wavefronts};

/// A reading or writing of a tile in shared memory, to choose a layout for.
#[derive(Debug, Clone, Copy)]
pub struct SharedAccess<'a> {
    /// The layout in registers (or, for an asynchronous copy, the one in which threads name addresses): of the whole tile or of the
    /// part at its origin.
    pub tile: &'a TileLayout,
    /// The widest access per lane, in bytes; what `cp.async` must have at least is `min_bytes`.
    pub max_bytes: u32,
    /// The narrowest access per lane that will do, in bytes.
    pub min_bytes: u32,
    /// Read by `ldmatrix` where that applies.
    pub ldmatrix: bool,
}

impl<'a> SharedAccess<'a> {
    /// Loads or stores of up to 16 bytes.
    pub fn vector(tile: &'a TileLayout) -> Self {
        Self { tile, max_bytes: MAX_ACCESS_BYTES, min_bytes: 1, ldmatrix: false }
    }

    /// Asynchronous copies of exactly `bytes` (4, 8 or 16) per lane.
    pub fn async_copy(tile: &'a TileLayout, bytes: u32) -> Self {
        Self { tile, max_bytes: bytes, min_bytes: bytes, ldmatrix: false }
    }

    /// `ldmatrix` where it applies, else loads of up to 16 bytes.
    pub fn matrix(tile: &'a TileLayout) -> Self {
        Self { tile, max_bytes: MAX_ACCESS_BYTES, min_bytes: 1, ldmatrix: true }
    }

    /// What it costs in a shared-memory layout; nothing if that makes accesses too narrow.
    fn cost(&self, shared: &SharedLayout, element_bytes: u32) -> Result<Option<Wavefronts>, LayoutError> {
        if self.ldmatrix
            && let Some(plan) = Ldmatrix::new(self.tile, shared, element_bytes)?
        {
            return Ok(Some(plan.wavefronts));
        }
        let cost = Wavefronts::of(self.tile, shared, element_bytes, self.max_bytes)?;
        let bytes = Span::of(&self.tile.register_columns()).rank();
        let width = (1u32 << bytes) / cost.requests;
        Ok((width * element_bytes >= self.min_bytes).then_some(cost))
    }
}

/// A chosen swizzle, and what each access costs with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenSwizzle {
    /// The layout.
    pub layout: SharedLayout,
    /// Its parameters.
    pub swizzle: Swizzle,
    /// The cost of each access, in the order given.
    pub costs: Vec<Wavefronts>,
}

impl SharedLayout {
    /// The swizzle of rows in `order` that costs these accesses the fewest wavefronts, then the fewest instructions, then the one whose runs are
    /// no longer than an access, with the fewest phases and the longest runs. An error only if no swizzle leaves an access its `min_bytes`.
    pub fn choose_swizzle(
        shape: &[u32],
        order: &[usize],
        element_bytes: u32,
        accesses: &[SharedAccess<'_>],
    ) -> Result<ChosenSwizzle, LayoutError> {
        const OPERATION: &str = "choice of a swizzle";
        check_element(OPERATION, element_bytes)?;
        // No swizzle is always among the candidates; this also checks shape and order.
        Self::row_major(shape, order)?;
        let mut candidates = vec![Swizzle::NONE];
        if let [columns, rows, ..] = *order {
            let powers = |most: u32| (0..=most.ilog2()).map(|bit| 1u32 << bit);
            let phases = || powers(shape[columns].min(shape[rows]).min(32)).skip(1);
            let access = (MAX_ACCESS_BYTES / element_bytes).max(1);
            let mut push = |vec: u32, max_phase: u32| {
                let per_phase = powers((shape[rows] / max_phase).min(16));
                candidates.extend(per_phase.map(|per_phase| Swizzle { vec, per_phase, max_phase }));
            };
            for max_phase in phases() {
                powers((shape[columns] / max_phase).min(access)).rev().for_each(|vec| push(vec, max_phase));
            }
            // Lanes that read eight words of each of four rows need the rows eight words apart.
            phases()
                .filter(|max_phase| 2 * access * max_phase <= shape[columns])
                .for_each(|phase| push(2 * access, phase));
        }
        let mut best: Option<((u32, u32), ChosenSwizzle)> = None;
        for swizzle in candidates {
            let layout = Self::swizzled(shape, order, swizzle)?;
            let mut costs = Vec::with_capacity(accesses.len());
            for access in accesses {
                costs.extend(access.cost(&layout, element_bytes)?);
            }
            let key = (costs.iter().map(Wavefronts::total).sum(), costs.iter().map(|c| c.requests).sum());
            if costs.len() == accesses.len() && best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, ChosenSwizzle { layout, swizzle, costs }));
            }
        }
        best.map(|(_, chosen)| chosen).ok_or_else(|| LayoutError::Argument {
            operation: OPERATION,
            reason: format!("no swizzle of {shape:?} in order {order:?} leaves every access its least width"),
        })
    }

    /// A layout to exchange a tile through: written in layout `source` and read in layout `target` with as few wavefronts as possible,
    /// then as few instructions. Without bank conflicts wherever that is possible.
    pub fn for_exchange(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Result<Self, LayoutError> {
        check_element("exchange", element_bytes)?;
        let order: Vec<usize> = (0..source.rank()).rev().collect();
        let mut candidates = vec![Self::row_major(source.shape(), &order)?];
        let mut exchange = Exchange::new(source, target, element_bytes);
        let most = exchange.common.len();
        for common in (0..=most).rev() {
            exchange.common.truncate(common);
            candidates.extend(
                [None, Some(true), Some(false)].into_iter().filter_map(|side| exchange.layout(source.shape(), side)),
            );
        }
        let mut best: Option<((u32, u32), Self)> = None;
        for layout in candidates {
            let store = Wavefronts::of(source, &layout, element_bytes, MAX_ACCESS_BYTES)?;
            let load = Wavefronts::of(target, &layout, element_bytes, MAX_ACCESS_BYTES)?;
            let key = (store.total() + load.total(), store.requests + load.requests);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, layout));
            }
        }
        best.map(|(_, layout)| layout).ok_or_else(|| LayoutError::Mismatch {
            operation: "exchange",
            reason: format!("{:?} and {:?}", source.shape(), target.shape()),
        })
    }
}

/// The vectors of an exchange, as row-major indices of elements.
struct Exchange {
    element_bits: u32,
    /// log2 of the elements of a vector of 16 bytes, of a word of 4 bytes, and of a line of all banks.
    vector_bits: usize,
    word_bits: usize,
    line_bits: usize,
    /// log2 of the words of an element wider than one.
    words_bits: usize,
    /// Registers, lanes, and lanes with warps of the source and of the target.
    registers: [Vec<u64>; 2],
    lanes: [Vec<u64>; 2],
    threads: [Vec<u64>; 2],
    /// Vectors that both sides hold in registers and that no thread's part touches: lowest bits of the offset for vectors of both.
    common: Vec<u64>,
}

impl Exchange {
    fn new(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Self {
        let sides = [source, target];
        let registers = sides.map(TileLayout::register_columns);
        let lanes = sides.map(TileLayout::lane_columns);
        let threads = sides.map(|s| [s.lane_columns(), s.warp_columns()].concat());
        let log = |bytes: u32| (bytes / element_bytes).max(1).ilog2() as usize;
        let mut common = intersection(&registers[0], &registers[1]);
        common.sort_unstable();
        let mut common = beyond(&threads.concat(), &common);
        common.truncate(log(MAX_ACCESS_BYTES));
        Self {
            element_bits: source.elements().trailing_zeros(),
            vector_bits: log(MAX_ACCESS_BYTES),
            word_bits: log(4),
            line_bits: log(128),
            words_bits: (element_bytes / 4).max(1).ilog2() as usize,
            registers,
            lanes,
            threads,
            common,
        }
    }

    /// A layout whose lowest offset bits are the common vectors, then such of one side's registers (`Some(true)`: the target's) as fill
    /// a vector of that side. Nothing if the parts do not fit together; whether it is any good, its cost will tell.
    fn layout(&self, shape: &[u32], target: Option<bool>) -> Option<SharedLayout> {
        let side = usize::from(target.unwrap_or(false));
        let mut vector = self.common.clone();
        if target.is_some() {
            let mut own = self.registers[side].clone();
            own.sort_unstable();
            let known = [self.threads[side].clone(), vector.clone()].concat();
            let wanted = self.vector_bits - vector.len();
            let extension: Vec<u64> = beyond(&known, &own).into_iter().take(wanted).collect();
            if extension.is_empty() {
                return None;
            }
            vector.extend(extension);
        }
        // The rest of the offset: a complement of the vector that holds the threads' parts of the vectorised side, hence never moves
        // an access off its alignment.
        let units: Vec<u64> = (0..self.element_bits).map(|bit| 1 << bit).collect();
        let order = [&self.threads[side][..], &self.threads[1 - side], &units].concat();
        let rest = beyond(&vector, &order);
        // The offset bits of a word: lanes that differ only there share a word.
        let word_fill: Vec<u64> = rest.iter().copied().take(self.word_bits.saturating_sub(vector.len())).collect();
        let word = [&vector[..vector.len().min(self.word_bits)], &word_fill].concat();
        // What each side wants at once; two of these elements must not differ by bits above the line alone.
        let wanted: Vec<Vec<u64>> = (0..2)
            .map(|s| {
                let width = if target.is_some_and(|t| usize::from(t) == s) { vector.len() } else { self.common.len() };
                let phase = LANE_BITS - (width + self.words_bits).saturating_sub(self.word_bits).min(2);
                let at_once = [&self.lanes[s][..phase], &vector[..width], &word].concat();
                intersection(&at_once, &rest)
            })
            .collect();
        let shared = intersection(&wanted[0], &wanted[1]);
        let only = [beyond(&shared, &wanted[0]), beyond(&shared, &wanted[1])];
        // Bits above the line: first what neither side wants at once, then sums of what only one and only the other wants: such a
        // sum is wanted by neither.
        let free = beyond(&[&wanted[0][..], &wanted[1]].concat(), &rest);
        let sums = only[0].iter().zip(&only[1]).map(|(a, b)| a ^ b);
        let above = (self.element_bits as usize).saturating_sub(self.line_bits);
        let mut high: Vec<u64> = free.into_iter().chain(sums).collect();
        // Where conflicts cannot be avoided, any will do.
        let low = [&vector[..], &word_fill].concat();
        high.extend(beyond(&[&low[..], &high].concat(), &rest));
        high.truncate(above);
        let middle = beyond(&[&low[..], &high].concat(), &units);
        let offset = low.iter().chain(&middle).chain(&high).map(|&v| unflatten(shape, v as u32)).collect();
        SharedLayout::new(shape.to_vec(), offset).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::MmaShape;
    use crate::testing::family;

    #[test]
    fn copies_and_ldmatrix_without_conflicts() {
        let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
        for columns in [32, 64, 128] {
            let copy = TileLayout::contiguous(&[64, columns], &[1, 0], 8, 4).unwrap();
            for tile in [mma.operand_a([64, columns], [2, 2]).unwrap(), mma.operand_b([64, columns], [2, 2]).unwrap()] {
                let accesses = [SharedAccess::async_copy(&copy, 16), SharedAccess::matrix(&tile)];
                let chosen = SharedLayout::choose_swizzle(&[64, columns], &[1, 0], 2, &accesses).unwrap();
                assert!(chosen.costs.iter().all(|c| c.conflicts() == 0), "{columns} {chosen:?}");
                assert_eq!(chosen.costs[1].minimum, 4, "ldmatrix.x4 applies");
                assert_eq!(chosen.swizzle.vec, 8);
            }
        }
    }

    #[test]
    fn transposition_of_f32_without_conflicts() {
        let rows = TileLayout::contiguous(&[32, 32], &[1, 0], 1, 1).unwrap();
        let columns = TileLayout::contiguous(&[32, 32], &[0, 1], 1, 1).unwrap();
        let accesses = [SharedAccess::vector(&rows), SharedAccess::vector(&columns)];
        let chosen = SharedLayout::choose_swizzle(&[32, 32], &[1, 0], 4, &accesses).unwrap();
        assert!(chosen.costs.iter().all(|c| c.conflicts() == 0));
        let none = SharedLayout::choose_swizzle(&[32, 32], &[1, 0], 4, &accesses[..1]).unwrap();
        assert_eq!(none.swizzle, Swizzle::NONE);
    }

    /// Operands whose k does not lie together: of 32 bits, a fragment is four rows of k and eight words of each.
    #[test]
    fn fragments_of_tf32_across_k_without_conflicts() {
        for k in [8, 16] {
            let mma = MmaShape { m: 16, n: 8, k: 8, element_bits: 32 };
            for (tile, shape, order) in [
                (mma.operand_b([k, 128], [2, 2]).unwrap(), [k, 128], [1, 0]),
                (mma.operand_a([128, k], [2, 2]).unwrap(), [128, k], [0, 1]),
                (mma.operand_a([128, k], [2, 2]).unwrap(), [128, k], [1, 0]),
            ] {
                let copy = TileLayout::contiguous(&shape, &order, 4, 4).unwrap();
                let accesses = [SharedAccess::async_copy(&copy, 16), SharedAccess::matrix(&tile)];
                let chosen = SharedLayout::choose_swizzle(&shape, &order, 4, &accesses).unwrap();
                assert!(chosen.costs.iter().all(|c| c.conflicts() == 0), "{k} {order:?} {chosen:?}");
            }
        }
    }

    #[test]
    fn an_impossible_width_is_an_error() {
        let columns = TileLayout::contiguous(&[32, 32], &[0, 1], 4, 1).unwrap();
        let accesses = [SharedAccess::async_copy(&columns, 16)];
        let error = SharedLayout::choose_swizzle(&[32, 32], &[1, 0], 4, &accesses).unwrap_err();
        assert_eq!(error.code(), "E0486");
    }

    #[test]
    fn exchanges_have_no_conflicts() {
        for warps in [1, 2] {
            let all = family([64, 32 * warps], warps);
            for (source, target) in all.iter().flat_map(|s| all.iter().map(move |t| (s, t))) {
                for element_bytes in [1, 2, 4, 8] {
                    let shared = SharedLayout::for_exchange(source, target, element_bytes).unwrap();
                    for tile in [source, target] {
                        let cost = Wavefronts::of(tile, &shared, element_bytes, 16).unwrap();
                        assert_eq!(cost.conflicts(), 0, "{element_bytes}: {source} -> {target} through {shared}");
                    }
                }
            }
        }
    }
}
