//! The memory plan: buffers with lifetimes packed into one arena.
//!
//! Invariants: no two buffers whose lifetimes meet share a byte; every offset is a multiple of [`ALIGNMENT`]; the result depends on nothing
//! but the list of lifetimes.

/// Every buffer begins at a multiple of this many bytes: what a device's own allocator gives, and a multiple of every vector access.
pub const ALIGNMENT: u64 = 256;

/// A buffer to be placed: alive from step `first` to step `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Its size.
    pub bytes: u64,
    /// First step that uses it.
    pub first: u32,
    /// Last step that uses it.
    pub last: u32,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Its size with what alignment of its neighbour costs.
    fn padded(&self) -> Option<u64> {
        self.bytes.checked_next_multiple_of(ALIGNMENT)
    }
}

/// Where each buffer lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Offset of each buffer, in order of the lifetimes; 0 for empty ones.
    pub offsets: Vec<u64>,
    /// Size of the arena.
    pub arena_bytes: u64,
    /// The most bytes alive at one step: no arena can be smaller.
    pub lower_bound: u64,
    /// Bytes of all buffers: the arena without reuse.
    pub sum: u64,
}

/// Bytes of all buffers; `None` when they overflow, which is the only reason that [`plan_memory`] has.
pub(super) fn total(lifetimes: &[Lifetime]) -> Option<u64> {
    lifetimes.iter().try_fold(0u64, |sum, lifetime| sum.checked_add(lifetime.padded()?))
}

/// Packs buffers; `None` when sizes overflow.
///
/// Greedy best fit, in three orders of which the smallest result is taken (the first of equals): by size, by size times length of life, by the
/// most crowded step that a buffer lives in. Sizes count as multiples of [`ALIGNMENT`].
pub fn plan_memory(lifetimes: &[Lifetime]) -> Option<MemoryPlan> {
    let padded = lifetimes.iter().map(Lifetime::padded).collect::<Option<Vec<_>>>()?;
    let sum = total(lifetimes)?;
    let live = live_bytes(lifetimes, &padded);
    let lower_bound = live.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);

    let mut filled: Vec<usize> = (0..lifetimes.len()).filter(|index| padded[*index] > 0).collect();
    let length = |index: usize| u128::from(lifetimes[index].last.saturating_sub(lifetimes[index].first)) + 1;
    let crowd = |index: usize| crowd_of(&live, &lifetimes[index]);
    let mut best: Option<(u64, Vec<u64>)> = None;
    for order in 0..3 {
        filled.sort_by_cached_key(|index| {
            let size = u128::from(padded[*index]);
            let key = match order {
                0 => (size, length(*index)),
                1 => (size * length(*index), size),
                _ => (u128::from(crowd(*index)), size),
            };
            (std::cmp::Reverse(key), lifetimes[*index].first, *index)
        });
        let (arena, offsets) = place(lifetimes, &padded, &filled)?;
        if best.as_ref().is_none_or(|(smallest, _)| arena < *smallest) {
            best = Some((arena, offsets));
        }
        if best.as_ref().is_some_and(|(smallest, _)| *smallest == lower_bound) {
            break;
        }
    }
    let (arena_bytes, offsets) = best?;
    Some(MemoryPlan { offsets, arena_bytes, lower_bound, sum })
}

/// Bytes alive from each step at which the number changes, in order of steps.
fn live_bytes(lifetimes: &[Lifetime], padded: &[u64]) -> Vec<(u32, u64)> {
    let mut changes: Vec<(u64, bool, u64)> = Vec::with_capacity(2 * lifetimes.len());
    for (lifetime, bytes) in lifetimes.iter().zip(padded) {
        changes.push((u64::from(lifetime.first), true, *bytes));
        changes.push((u64::from(lifetime.last) + 1, false, *bytes));
    }
    changes.sort_unstable();
    let mut live: Vec<(u32, u64)> = Vec::new();
    let mut now = 0u64;
    for (step, begins, bytes) in changes {
        // Ends sort before beginnings of the same step.
        now = if begins { now.saturating_add(bytes) } else { now.saturating_sub(bytes) };
        let Ok(step) = u32::try_from(step) else { break };
        match live.last_mut() {
            Some(entry) if entry.0 == step => entry.1 = now,
            _ => live.push((step, now)),
        }
    }
    live
}

/// The most bytes alive at one step of a lifetime.
fn crowd_of(live: &[(u32, u64)], lifetime: &Lifetime) -> u64 {
    let start = live.partition_point(|(step, _)| *step < lifetime.first);
    live[start..].iter().take_while(|(step, _)| *step <= lifetime.last).map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

/// Places buffers in the given order, each into the tightest gap among those placed that live at the same time.
fn place(lifetimes: &[Lifetime], padded: &[u64], order: &[usize]) -> Option<(u64, Vec<u64>)> {
    let mut offsets = vec![0u64; lifetimes.len()];
    let mut arena = 0u64;
    // Placed buffers by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &index in order {
        let bytes = padded[index];
        let mut end = 0u64;
        let mut tightest: Option<(u64, u64)> = None;
        for &other in placed.iter().filter(|other| lifetimes[**other].meets(&lifetimes[index])) {
            let gap = offsets[other].saturating_sub(end);
            if gap >= bytes && tightest.is_none_or(|(width, _)| gap < width) {
                tightest = Some((gap, end));
            }
            end = end.max(offsets[other] + padded[other]);
        }
        let offset = tightest.map_or(end, |(_, offset)| offset);
        offsets[index] = offset;
        arena = arena.max(offset.checked_add(bytes)?);
        let at = placed.partition_point(|other| (offsets[*other], *other) < (offset, index));
        placed.insert(at, index);
    }
    Some((arena, offsets))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lifetime((bytes, first, length): (u64, u32, u32)) -> Lifetime {
        Lifetime { bytes, first, last: first + length }
    }

    /// The bytes alive at each step, counted one by one.
    fn most_alive(lifetimes: &[Lifetime]) -> u64 {
        let last = lifetimes.iter().map(|l| l.last).max().unwrap_or(0);
        (0..=last)
            .map(|step| {
                let alive = lifetimes.iter().filter(|l| l.first <= step && step <= l.last);
                alive.map(|l| l.bytes.next_multiple_of(ALIGNMENT)).sum()
            })
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn buffers_that_live_together_lie_apart(list in proptest::collection::vec((0u64..5000, 0u32..30, 0u32..8), 0..40)) {
            let lifetimes: Vec<_> = list.into_iter().map(lifetime).collect();
            let plan = plan_memory(&lifetimes).unwrap();
            for (i, a) in lifetimes.iter().enumerate() {
                prop_assert_eq!(plan.offsets[i] % ALIGNMENT, 0);
                prop_assert!(a.bytes == 0 || plan.offsets[i] + a.bytes <= plan.arena_bytes);
                for (j, b) in lifetimes.iter().enumerate().take(i) {
                    let together = (a.first..=a.last).any(|step| (b.first..=b.last).contains(&step));
                    let start = plan.offsets[i].max(plan.offsets[j]);
                    let end = (plan.offsets[i] + a.bytes).min(plan.offsets[j] + b.bytes);
                    prop_assert!(!together || start >= end, "buffers {} and {} share bytes", i, j);
                }
            }
            prop_assert_eq!(plan.lower_bound, most_alive(&lifetimes));
            prop_assert!(plan.lower_bound <= plan.arena_bytes && plan.arena_bytes <= plan.sum);
            prop_assert_eq!(plan_memory(&lifetimes).unwrap(), plan);
        }
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<_> = (0..100).map(|step| lifetime((1000, step, 1))).collect();
        let plan = plan_memory(&chain).unwrap();
        assert_eq!((plan.arena_bytes, plan.lower_bound, plan.sum), (2048, 2048, 102_400));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert_eq!(plan_memory(&[lifetime((u64::MAX, 0, 0))]), None);
        assert_eq!(plan_memory(&[lifetime((1 << 63, 0, 0)), lifetime((1 << 63, 1, 0))]), None);
        assert_eq!(plan_memory(&[]).unwrap().arena_bytes, 0);
    }

    /// A net with residual branches: close to the lower bound, far below the sum.
    #[test]
    fn residual_blocks_pack_tightly() {
        let mut lifetimes = Vec::new();
        for block in 0..16u32 {
            let (step, size) = (4 * block, (1u64 << 20) >> (block / 4));
            lifetimes.extend(
                [(size, step, 4), (size / 4, step + 1, 1), (size / 4, step + 2, 1), (size, step + 3, 1)].map(lifetime),
            );
        }
        let plan = plan_memory(&lifetimes).unwrap();
        assert!(plan.arena_bytes * 10 <= plan.lower_bound * 11, "{} of {}", plan.arena_bytes, plan.lower_bound);
        assert!(plan.arena_bytes * 4 < plan.sum);
    }
}
