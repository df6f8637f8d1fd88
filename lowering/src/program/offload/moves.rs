//! Which values are moved, and how long before and after.
//!
//! Everything is in steps of the plan as it was: copies lie between them and take no step of their own.

use tenon_runtime::LaunchPlan;
use tenon_runtime::plan::{MemoryKind, Place};

use crate::program::offload::{OffloadError, places};
use crate::program::{Lifetime, MemoryPlan, plan_memory};

/// How much further each round of [`Values::widen`] reaches.
const FURTHER: usize = 4;

/// A value that waits in host memory between two uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    /// The value, by the plan's buffer.
    pub value: usize,
    /// The use behind which it is copied to host memory.
    pub before: usize,
    /// The next use.
    pub after: usize,
    /// The last step through which its memory is kept while it is copied; the copy is waited for behind it.
    pub release: usize,
    /// The first step from which it has memory again, before which the copy back begins.
    pub fetch: usize,
}

/// The buffers of a plan.
pub(super) struct Values {
    bytes: Vec<u64>,
    memory: Vec<MemoryKind>,
    /// Steps that use each, ascending.
    pub uses: Vec<Vec<usize>>,
    steps: usize,
}

/// Where everything lies.
pub(super) struct Layout {
    /// Each value up to its first move.
    pub first: Vec<u64>,
    /// Each move: in host memory, and behind it.
    pub moved: Vec<[u64; 2]>,
    pub arena_bytes: u64,
    pub pinned_bytes: u64,
}

impl Values {
    pub fn of(plan: &LaunchPlan) -> Self {
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); plan.buffers.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            for place in places(&step.operation) {
                if let Place::Buffer(buffer) = place
                    && let Some(uses) = uses.get_mut(buffer as usize)
                    && uses.last() != Some(&index)
                {
                    uses.push(index);
                }
            }
        }
        // What holds zeros between runs stays where it is, as if every step used it.
        for (uses, _) in uses.iter_mut().zip(&plan.buffers).filter(|(_, buffer)| buffer.zeroed) {
            *uses = (0..plan.steps.len()).collect();
        }
        let (bytes, memory) = plan.buffers.iter().map(|buffer| (buffer.bytes, buffer.memory)).unzip();
        Values { bytes, memory, uses, steps: plan.steps.len() }
    }

    /// The times in which a value has memory of the device, with the move that begins each.
    fn lives(&self, moves: &[Move], value: usize) -> Vec<(Option<usize>, usize, usize)> {
        let uses = &self.uses[value];
        let (Some(first), Some(last)) = (uses.first(), uses.last()) else { return Vec::new() };
        let mut own: Vec<usize> = (0..moves.len()).filter(|index| moves[*index].value == value).collect();
        own.sort_by_key(|index| moves[*index].before);
        let mut lives = Vec::with_capacity(own.len() + 1);
        let mut start = (None, *first);
        for index in own {
            lives.push((start.0, start.1, moves[index].release));
            start = (Some(index), moves[index].fetch);
        }
        lives.push((start.0, start.1, *last));
        lives
    }

    /// Bytes of the device that hold values at each step.
    fn live_bytes(&self, moves: &[Move]) -> Vec<u64> {
        let mut changes = vec![(0u64, 0u64); self.steps + 1];
        for value in (0..self.uses.len()).filter(|value| self.memory[*value] == MemoryKind::Device) {
            for (_, first, last) in self.lives(moves, value) {
                changes[first].0 = changes[first].0.saturating_add(self.size(value));
                changes[last + 1].1 = changes[last + 1].1.saturating_add(self.size(value));
            }
        }
        let mut alive = 0u64;
        changes.truncate(self.steps);
        changes
            .into_iter()
            .map(|(more, less)| {
                alive = alive.saturating_add(more).saturating_sub(less);
                alive
            })
            .collect()
    }

    /// What a value takes of an arena.
    fn size(&self, value: usize) -> u64 {
        self.bytes[value].checked_next_multiple_of(crate::program::ALIGNMENT).unwrap_or(u64::MAX)
    }

    /// Packs both arenas; `None` when sizes overflow.
    pub fn layout(&self, moves: &[Move]) -> Option<Layout> {
        let step = |step: usize| u32::try_from(step).ok();
        let (mut device, mut pinned): (Vec<Lifetime>, Vec<Lifetime>) = (Vec::new(), Vec::new());
        // Which value or move each lifetime is of.
        let (mut of_device, mut of_pinned) = (Vec::new(), Vec::new());
        for value in 0..self.uses.len() {
            for (index, first, last) in self.lives(moves, value) {
                let lifetime = Lifetime { bytes: self.bytes[value], first: step(first)?, last: step(last)? };
                let (list, owners) = match self.memory[value] {
                    MemoryKind::Device => (&mut device, &mut of_device),
                    MemoryKind::Pinned => (&mut pinned, &mut of_pinned),
                };
                list.push(lifetime);
                owners.push((value, index, 1));
            }
        }
        for (index, one) in moves.iter().enumerate() {
            pinned.push(Lifetime { bytes: self.bytes[one.value], first: step(one.before)?, last: step(one.after)? });
            of_pinned.push((one.value, Some(index), 0));
        }
        let (device, pinned): (MemoryPlan, MemoryPlan) = (plan_memory(&device)?, plan_memory(&pinned)?);
        let mut layout = Layout {
            first: vec![0; self.uses.len()],
            moved: vec![[0; 2]; moves.len()],
            arena_bytes: device.arena_bytes,
            pinned_bytes: pinned.arena_bytes,
        };
        let placed = of_device.into_iter().zip(device.offsets).chain(of_pinned.into_iter().zip(pinned.offsets));
        for ((value, index, side), offset) in placed {
            match index {
                Some(index) => layout.moved[index][side] = offset,
                None => layout.first[value] = offset,
            }
        }
        Some(layout)
    }

    fn fits(&self, moves: &[Move], budget: u64) -> bool {
        self.layout(moves).is_some_and(|layout| layout.arena_bytes <= budget)
    }

    /// Moves that bring the arena under a budget, none of which can be left out.
    pub fn choose(&self, budget: u64) -> Result<Vec<Move>, OffloadError> {
        let mut moves: Vec<Move> = Vec::new();
        while !self.fits(&moves, budget) {
            let live = self.live_bytes(&moves);
            let peak = (0..live.len()).max_by_key(|step| (live[*step], std::cmp::Reverse(*step))).unwrap_or(0);
            let candidate = |value: usize| {
                let uses = &self.uses[value];
                let has_memory =
                    self.lives(&moves, value).iter().any(|(_, first, last)| (*first..=*last).contains(&peak));
                let next = uses.partition_point(|step| *step < peak);
                let (before, after) = (*uses.get(next.checked_sub(1)?)?, *uses.get(next)?);
                let is_device = self.memory[value] == MemoryKind::Device;
                (is_device && has_memory && after != peak).then_some(Move {
                    value,
                    before,
                    after,
                    release: before,
                    fetch: after,
                })
            };
            let best = (0..self.uses.len())
                .filter_map(candidate)
                .max_by_key(|one| (self.bytes[one.value], one.after - one.before, std::cmp::Reverse(one.value)));
            let Some(best) = best else {
                let bytes = live.get(peak).copied().unwrap_or(0);
                return Err(OffloadError::Crowded { step: peak, bytes });
            };
            moves.push(best);
        }
        for index in (0..moves.len()).rev() {
            let mut without = moves.clone();
            without.remove(index);
            if self.fits(&without, budget) {
                moves = without;
            }
        }
        moves.sort_by_key(|one| (one.before, one.value));
        Ok(moves)
    }

    /// Lets copies begin earlier and end later where the budget has room, in rounds that reach further for all, so that no move takes all of the room.
    pub fn widen(&self, moves: &mut Vec<Move>, budget: u64) {
        let mut distance = 1;
        while !moves.is_empty() && distance <= self.steps {
            for index in 0..moves.len() {
                for back in [true, false] {
                    self.widen_one(moves, index, back, distance, budget);
                }
            }
            distance *= FURTHER;
        }
    }

    /// Widens one side of a move up to a distance, as far as values fit beside each other at every step, and if they can also be packed so.
    fn widen_one(&self, moves: &mut [Move], index: usize, back: bool, distance: usize, budget: u64) {
        let old = moves[index];
        let live = self.live_bytes(moves);
        let has_room = |step: usize| live[step].saturating_add(self.size(old.value)) <= budget;
        let mut reach = 0;
        if back {
            let furthest = distance.min(old.after - old.release - 1);
            let done = old.after - old.fetch;
            reach += done;
            while reach < furthest && has_room(old.after - reach - 1) {
                reach += 1;
            }
            while reach > done {
                moves[index].fetch = old.after - reach;
                if self.fits(moves, budget) {
                    return;
                }
                reach = done + (reach - done) / 2;
            }
        } else {
            let furthest = distance.min(old.fetch - old.before - 1);
            let done = old.release - old.before;
            reach += done;
            while reach < furthest && has_room(old.before + reach + 1) {
                reach += 1;
            }
            while reach > done {
                moves[index].release = old.before + reach;
                if self.fits(moves, budget) {
                    return;
                }
                reach = done + (reach - done) / 2;
            }
        }
        moves[index] = old;
    }
}
