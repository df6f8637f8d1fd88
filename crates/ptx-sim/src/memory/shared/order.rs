//! Time, and what warps learn of each other.

use crate::memory::causality::Known;

use super::{MARKS, SharedMemory, TIME_LIMIT};
use crate::execute::lanes::lanes_of;

/// What a thread knows and hands on: per warp and copying mbarrier a time up to which everything is ordered before it, and per thread one
/// up to which its writes are visible to the asynchronous proxy (empty: none was made so).
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    pub(super) seen: Vec<u32>,
    pub(super) fenced: Vec<[u32; 32]>,
    /// Accesses to global memory that are ordered before.
    device: Known,
}

impl Clock {
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.seen.len() < other.seen.len() {
            self.seen.resize(other.seen.len(), 0);
        }
        for (mine, &theirs) in self.seen.iter_mut().zip(&other.seen) {
            *mine = (*mine).max(theirs);
        }
        join_lanes(&mut self.fenced, &other.fenced);
        self.device.join(&other.device);
    }
}

pub(super) fn join_lanes(into: &mut Vec<[u32; 32]>, from: &[[u32; 32]]) {
    if into.len() < from.len() {
        into.resize(from.len(), [0; 32]);
    }
    for (mine, theirs) in into.iter_mut().flatten().zip(from.iter().flatten()) {
        *mine = (*mine).max(*theirs);
    }
}

impl SharedMemory {
    /// A time that no earlier record is after and no later one at or before.
    pub(super) fn tick(&mut self) -> u32 {
        if !self.dirty {
            return self.now - 1;
        }
        let at = self.now;
        self.dirty = false;
        self.now += 1;
        if self.now >= TIME_LIMIT {
            self.forget();
            return self.now - 1;
        }
        at
    }

    /// Starts time anew; records before this moment count as ordered.
    fn forget(&mut self) {
        for t in self.write_time.iter_mut().chain(self.byte_time.iter_mut().flatten()) {
            if *t < MARKS {
                *t = 0;
            }
        }
        self.bulk_time.fill(0);
        self.read_mark.iter_mut().chain(&mut self.byte_read_mark).for_each(|m| m.fill(0));
        self.seen.iter_mut().for_each(|v| v.fill(1));
        self.lane_sync.iter_mut().for_each(|v| v.fill(1));
        self.threshold.fill(1);
        self.forget_mbarriers();
        self.proxy.forget();
        self.now = 2;
    }

    pub(super) fn update_threshold(&mut self, warp: usize) {
        let others =
            self.seen[warp].iter().take(self.warps).enumerate().filter(|(w, _)| *w != warp).map(|(_, &t)| t).min();
        let lanes = self.lane_sync[warp].iter().copied().min().unwrap_or(0);
        self.threshold[warp] = others.unwrap_or(u32::MAX).min(lanes);
    }

    /// Lanes of a warp met in a `.sync` instruction.
    #[inline]
    pub(crate) fn warp_sync(&mut self, warp: usize, mask: u32) {
        if !self.dirty && mask == u32::MAX && self.lane_sync[warp].iter().all(|&t| t >= self.now - 1) {
            return;
        }
        let at = self.tick();
        for lane in lanes_of(mask) {
            self.lane_sync[warp][lane] = at;
        }
        self.update_threshold(warp);
    }

    /// What a warp knows when it arrives at a barrier; its later accesses come after.
    pub(crate) fn release(&mut self, warp: usize) -> Clock {
        self.dirty = true;
        let at = self.tick();
        let mut seen = self.seen[warp].clone();
        if let Some(own) = seen.get_mut(warp) {
            *own = at;
        }
        Clock { seen, fenced: self.proxy.known(warp), device: self.device.release(warp) }
    }

    /// A barrier completes: time moves on. Warps that waited as a whole made no access since they arrived, so that what they released
    /// holds until now, which keeps all times of a phase below one threshold.
    pub(crate) fn complete(&mut self, released: &mut Clock, whole: impl Iterator<Item = usize>) {
        self.dirty = true;
        let at = self.tick();
        for warp in whole {
            if let Some(time) = released.seen.get_mut(warp) {
                *time = at;
            }
        }
    }

    /// A warp learns what others released.
    pub(crate) fn acquire(&mut self, warp: usize, released: &Clock, lanes: u32) {
        let own = released.seen.get(warp).copied().unwrap_or(0);
        for (mine, &theirs) in self.seen[warp].iter_mut().zip(&released.seen) {
            *mine = (*mine).max(theirs);
        }
        for lane in lanes_of(lanes) {
            self.lane_sync[warp][lane] = self.lane_sync[warp][lane].max(own);
        }
        self.proxy.learn(warp, &released.fenced);
        self.device.acquire(warp, &released.device);
        self.update_threshold(warp);
    }

    /// A warp or lane is gone: nobody needs to be ordered with its lanes' future.
    pub(crate) fn lanes_exited(&mut self, warp: usize, lanes: u32) {
        let now = self.now;
        for lane in lanes_of(lanes) {
            // Its records stay; only its lack of synchronisation must not hold the threshold down.
            self.lane_sync[warp][lane] = self.lane_sync[warp][lane].max(now.saturating_sub(1));
        }
    }

    /// Lanes that never were: they hold nobody's threshold down.
    pub(crate) fn lanes_absent(&mut self, warp: usize, lanes: u32) {
        for lane in lanes_of(lanes) {
            self.lane_sync[warp][lane] = u32::MAX;
        }
        self.update_threshold(warp);
    }
}
