//! Shared memory of one block, with the happens-before relation of its threads.
//!
//! - Time is a counter that moves on at every synchronisation. A record (who, when) of warp `w` is ordered before warp `v` when its time is
//!   at most `seen[v][w]`; barriers join these vectors. Within a warp, lanes are ordered by `.sync` instructions: both lanes must have
//!   taken part in one since the record (not necessarily the same one: with several partial masks a race may be missed, none is invented).
//! - A word's write time above every threshold ([`UNWRITTEN`], [`SPLIT`], [`ASYNC`]) sends the access to the slow path, so that the fast path is one compare.
//! - Writing the bytes that are there already is no race: the outcome does not depend on the order.
//! - Accesses through atomics and `.volatile`/`.relaxed`/`.acquire`/`.release` do not race with each other.
//! - Asynchronous copies that complete on an mbarrier are threads of their own, one an mbarrier ([`mbarrier`]); what `wgmma` and bulk
//!   copies read until they are waited for, and which writes the asynchronous proxy sees, is kept in [`proxy`].

pub(crate) mod mbarrier;
mod order;
pub(crate) mod proxy;
pub(crate) mod warpgroup;

use std::collections::{BTreeMap, HashMap};

use crate::fault::FaultKind;
use crate::memory::causality::Agents;
use mbarrier::Mbarrier;
pub(crate) use order::Clock;
use proxy::{MapFences, Proxy};
use warpgroup::Warpgroup;

const UNWRITTEN: u32 = u32::MAX;
/// The bytes of the word have records of their own.
const SPLIT: u32 = u32::MAX - 1;
/// An asynchronous copy to the word has not been waited for.
const ASYNC: u32 = u32::MAX - 2;
/// A bulk copy, or copies that an mbarrier tracks, wrote the word; the time is in `bulk_time`.
const BULK: u32 = u32::MAX - 3;
/// The word belongs to an mbarrier.
const MBARRIER: u32 = u32::MAX - 4;
/// All marks are at least this, all times below it.
const MARKS: u32 = MBARRIER;
/// Thread number standing for any atomic access.
const ATOMIC: u16 = u16::MAX;
/// Times are kept below this so that they fit read marks.
const TIME_LIMIT: u32 = 1 << 26;

/// Two accesses that nothing orders, or an access to bytes that hold nothing.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub kind: FaultKind,
    pub detail: String,
}

/// Which checks run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedChecks {
    pub races: bool,
    pub uninitialised: bool,
}

pub(crate) struct SharedMemory {
    pub data: Vec<u8>,
    checks: SharedChecks,
    warps: usize,
    now: u32,
    /// Whether anything was recorded since time moved on.
    dirty: bool,
    write_time: Vec<u32>,
    write_thread: Vec<u16>,
    /// Per warp and word: time of the last read times 32, plus the lane.
    read_mark: Vec<Vec<u32>>,
    byte_time: Vec<[u32; 4]>,
    byte_thread: Vec<[u16; 4]>,
    byte_read_mark: Vec<Vec<u32>>,
    /// Per word the time of the copy that wrote it, where the write time is [`BULK`].
    bulk_time: Vec<u32>,
    /// Per warp what it has seen of every warp, then of the copies of every mbarrier.
    seen: Vec<Vec<u32>>,
    lane_sync: Vec<[u32; 32]>,
    /// The first read of bytes that nothing had written. It is not raised at once: if a later write turns out to be unordered with it,
    /// the fault is that race, whichever came first in this schedule.
    pub unwritten: Option<(u32, String)>,
    /// Per warp: every record up to this time, by anyone, is ordered before all its lanes.
    threshold: Vec<u32>,
    proxy: Proxy,
    mbarriers: BTreeMap<u32, Mbarrier>,
    /// For each address that held an mbarrier its place in `seen`.
    agents: HashMap<u32, usize>,
    /// Counts changes of mbarriers, and phases that completed.
    pub events: u64,
    pub completions: u64,
    /// Set by a wait on an mbarrier that did not succeed and may suspend.
    pub suspended: Option<mbarrier::Suspension>,
    /// The waits of the running path have reached their time limit.
    pub expired: bool,
    pub warpgroups: Vec<Warpgroup>,
    pub map_fences: MapFences,
    /// What warps know of accesses to global memory.
    pub device: Agents,
}

impl SharedMemory {
    pub(crate) fn new(checks: SharedChecks) -> SharedMemory {
        SharedMemory {
            data: Vec::new(),
            checks,
            warps: 0,
            now: 1,
            dirty: false,
            write_time: Vec::new(),
            write_thread: Vec::new(),
            read_mark: Vec::new(),
            byte_time: Vec::new(),
            byte_thread: Vec::new(),
            byte_read_mark: Vec::new(),
            seen: Vec::new(),
            lane_sync: Vec::new(),
            unwritten: None,
            threshold: Vec::new(),
            bulk_time: Vec::new(),
            proxy: Proxy::default(),
            mbarriers: BTreeMap::new(),
            agents: HashMap::new(),
            events: 0,
            completions: 0,
            suspended: None,
            expired: false,
            warpgroups: Vec::new(),
            map_fences: MapFences::default(),
            device: Agents::default(),
        }
    }

    /// Makes it the memory of a new block.
    pub(crate) fn reset(&mut self, bytes: usize, warps: usize) {
        let words = bytes.div_ceil(4);
        self.data.clear();
        self.data.resize(words * 4, 0);
        self.data.truncate(bytes);
        self.write_time.clear();
        self.write_time.resize(words, if self.checks.uninitialised { UNWRITTEN } else { 0 });
        self.write_thread.resize(words, 0);
        self.byte_time.clear();
        self.byte_thread.clear();
        if self.now > TIME_LIMIT / 2
            || self.read_mark.len() != warps
            || self.read_mark.first().is_some_and(|m| m.len() != words)
        {
            self.now = 1;
            self.read_mark.clear();
            self.read_mark.resize_with(warps, || vec![0; words]);
        }
        self.byte_read_mark.clear();
        self.warps = warps;
        let start = self.now;
        self.now += 1;
        self.seen = vec![vec![start; warps]; warps];
        self.lane_sync = vec![[start; 32]; warps];
        self.threshold = vec![start; warps];
        self.dirty = false;
        self.unwritten = None;
        self.bulk_time.clear();
        self.proxy.clear();
        self.mbarriers.clear();
        self.agents.clear();
        (self.events, self.completions) = (0, 0);
        self.suspended = None;
        self.expired = false;
        self.warpgroups.clear();
        self.map_fences.clear();
    }

    pub(crate) fn size(&self) -> usize {
        self.data.len()
    }

    fn who(&self, thread: u16) -> String {
        let warp = usize::from(thread >> 5);
        match self.agents.iter().find(|(_, place)| **place == warp) {
            _ if thread == ATOMIC => "an atomic access".into(),
            Some((at, _)) => format!("a copy that the mbarrier at {at:#x} tracks"),
            None => format!("thread {thread} of the block"),
        }
    }

    #[cold]
    fn in_mbarrier(&self, byte: usize) -> Conflict {
        Conflict {
            kind: FaultKind::MbarrierMisuse,
            detail: format!("shared byte {byte:#x} belongs to an mbarrier: only mbarrier instructions may touch it"),
        }
    }

    /// Whether a warp waited for the copy that wrote a word.
    fn bulk_ordered(&self, warp: usize, word: usize) -> bool {
        let agent = usize::from(self.write_thread[word] >> 5);
        self.seen[warp].get(agent).is_some_and(|&t| self.bulk_time[word] <= t)
    }

    fn ordered(&self, warp: usize, lane: u32, time: u32, thread: u16) -> bool {
        if thread == ATOMIC {
            // Any warp may have done it: all must be ordered.
            return self.seen[warp].iter().take(self.warps).all(|&t| time <= t);
        }
        let other = usize::from(thread >> 5);
        if other != warp {
            return self.seen[warp].get(other).is_some_and(|&t| time <= t);
        }
        let other_lane = u32::from(thread & 31);
        other_lane == lane
            || time <= self.lane_sync[warp][lane as usize] && time <= self.lane_sync[warp][other_lane as usize]
    }

    /// Checks and records a read of `bytes` bytes at `at`, which lie inside.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        warp: usize,
        lane: u32,
        at: usize,
        bytes: usize,
        strong: bool,
    ) -> Result<(), Conflict> {
        let (first, last) = (at >> 2, (at + bytes - 1) >> 2);
        let threshold = self.threshold[warp];
        let mut late = false;
        for &t in &self.write_time[first..=last] {
            late |= t > threshold;
        }
        if late {
            self.read_late(warp, lane, at, bytes, strong)?;
        }
        if self.checks.races && !strong {
            self.dirty = true;
            let mark = self.now << 5 | lane;
            if bytes < 4 {
                self.read_bytes(warp, at, bytes, mark);
            } else {
                self.read_mark[warp][first..=last].fill(mark);
            }
        }
        Ok(())
    }

    /// As [`SharedMemory::read`] for lanes that read `bytes` each, one after the other, from `at`.
    #[inline(always)]
    pub(crate) fn read_run(&mut self, warp: usize, at: usize, bytes: usize, strong: bool) -> Result<(), Conflict> {
        let (first, words) = (at >> 2, bytes >> 2);
        let threshold = self.threshold[warp];
        let mut highest = 0;
        for &t in &self.write_time[first..first + 32 * words] {
            highest = highest.max(t);
        }
        if highest > threshold {
            for lane in 0..32 {
                self.read_late(warp, lane, at + lane as usize * bytes, bytes, strong)?;
            }
        }
        if self.checks.races && !strong {
            self.dirty = true;
            let now = self.now << 5;
            let marks = &mut self.read_mark[warp][first..first + 32 * words];
            for (lane, part) in marks.chunks_exact_mut(words).enumerate() {
                part.fill(now | lane as u32);
            }
        }
        Ok(())
    }

    #[cold]
    fn read_bytes(&mut self, warp: usize, at: usize, bytes: usize, mark: u32) {
        if self.byte_read_mark.is_empty() {
            self.byte_read_mark = vec![Vec::new(); self.warps];
        }
        let marks = &mut self.byte_read_mark[warp];
        if marks.is_empty() {
            marks.resize(self.write_time.len() * 4, 0);
        }
        marks[at..at + bytes].fill(mark);
    }

    #[inline(never)]
    fn read_late(&mut self, warp: usize, lane: u32, at: usize, bytes: usize, strong: bool) -> Result<(), Conflict> {
        for byte in at..at + bytes {
            let word = byte >> 2;
            let (time, thread) = match self.write_time[word] {
                SPLIT => (self.byte_time[word][byte & 3], self.byte_thread[word][byte & 3]),
                t => (t, self.write_thread[word]),
            };
            match time {
                UNWRITTEN if self.checks.uninitialised && self.unwritten.is_none() => {
                    self.unwritten = Some((lane, format!("shared byte {byte:#x} is read before it is written")));
                }
                UNWRITTEN => {}
                ASYNC => {
                    return Err(Conflict {
                        kind: FaultKind::AsyncCopyNotWaited,
                        detail: format!(
                            "shared byte {byte:#x} is read while a copy by thread {thread} is not waited for"
                        ),
                    });
                }
                MBARRIER => return Err(self.in_mbarrier(byte)),
                _ if !self.checks.races || strong && thread == ATOMIC => {}
                BULK if self.bulk_ordered(warp, word) => {}
                BULK => return Err(self.not_waited(byte, thread)),
                _ if !self.ordered(warp, lane, time, thread) => {
                    return Err(Conflict {
                        kind: FaultKind::RaceShared,
                        detail: format!(
                            "shared byte {byte:#x} is read, {} wrote it, nothing orders the two",
                            self.who(thread)
                        ),
                    });
                }
                _ => {}
            }
            if byte & 3 == 3 || byte + 1 == at + bytes {
                self.heal(word);
            }
        }
        Ok(())
    }

    /// Gives a word one record again once all threads see its bytes.
    fn heal(&mut self, word: usize) {
        if self.write_time[word] == SPLIT {
            let latest = self.byte_time[word].iter().copied().max().unwrap_or(0);
            if self.threshold.iter().all(|&t| latest <= t) {
                self.write_time[word] = latest;
                self.write_thread[word] = self.byte_thread[word][0];
            }
        } else if self.write_time[word] == BULK {
            let (time, agent) = (self.bulk_time[word], usize::from(self.write_thread[word] >> 5));
            if self.seen.iter().all(|seen| seen.get(agent).is_some_and(|&t| time <= t)) {
                self.write_time[word] = time;
            }
        }
    }

    /// Checks and records a write; the bytes themselves are stored by the caller. `same`: the bytes do not change.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        warp: usize,
        lane: u32,
        at: usize,
        bytes: usize,
        strong: bool,
        same: bool,
    ) -> Result<(), Conflict> {
        let (first, last) = (at >> 2, (at + bytes - 1) >> 2);
        let threshold = self.threshold[warp];
        let mut late = false;
        for &t in &self.write_time[first..=last] {
            late |= t > threshold && t != UNWRITTEN;
        }
        if self.checks.races {
            let limit = threshold.saturating_mul(32).saturating_add(31);
            for marks in &self.read_mark {
                for &m in &marks[first..=last] {
                    late |= m > limit;
                }
            }
        }
        if late || bytes < 4 || self.proxy.reads_any(at, bytes) {
            self.write_late(warp, lane, at, bytes, strong, same)?;
        }
        self.dirty = true;
        let thread = if strong { ATOMIC } else { (warp << 5) as u16 | lane as u16 };
        if bytes < 4 {
            self.record_bytes(at, bytes, thread);
        } else {
            self.write_time[first..=last].fill(self.now);
            self.write_thread[first..=last].fill(thread);
        }
        Ok(())
    }

    #[inline(never)]
    fn write_late(
        &mut self,
        warp: usize,
        lane: u32,
        at: usize,
        bytes: usize,
        strong: bool,
        same: bool,
    ) -> Result<(), Conflict> {
        for byte in at..at + bytes {
            let word = byte >> 2;
            let (time, thread) = match self.write_time[word] {
                SPLIT => (self.byte_time[word][byte & 3], self.byte_thread[word][byte & 3]),
                t => (t, self.write_thread[word]),
            };
            if time == MBARRIER {
                return Err(self.in_mbarrier(byte));
            }
            if time == ASYNC {
                return Err(Conflict {
                    kind: FaultKind::AsyncCopyOverwritten,
                    detail: format!(
                        "shared byte {byte:#x} is written while a copy by {} is not waited for",
                        self.who(thread)
                    ),
                });
            }
            if !self.checks.races || same {
                continue;
            }
            if self.proxy.reads(byte) {
                return Err(Conflict {
                    kind: FaultKind::AsyncReadOverwritten,
                    detail: format!(
                        "shared byte {byte:#x} is written while wgmma or a bulk copy that reads it is not waited for"
                    ),
                });
            }
            if time == BULK && !self.bulk_ordered(warp, word) {
                return Err(Conflict {
                    kind: FaultKind::AsyncCopyOverwritten,
                    detail: format!(
                        "shared byte {byte:#x} is written, {} wrote it: wait on it first",
                        self.who(thread)
                    ),
                });
            }
            let excused = time == UNWRITTEN || time == BULK || strong && thread == ATOMIC;
            if !excused && !self.ordered(warp, lane, time, thread) {
                return Err(Conflict {
                    kind: FaultKind::RaceShared,
                    detail: format!(
                        "shared byte {byte:#x} is written, {} wrote it too, nothing orders the two",
                        self.who(thread)
                    ),
                });
            }
            for other in 0..self.warps {
                let whole = self.read_mark[other][word];
                let part = self.byte_read_mark.get(other).and_then(|m| m.get(byte)).copied().unwrap_or(0);
                for mark in [whole, part] {
                    let reader = (other << 5) as u16 | (mark & 31) as u16;
                    if mark != 0 && !self.ordered(warp, lane, mark >> 5, reader) {
                        return Err(Conflict {
                            kind: FaultKind::RaceShared,
                            detail: format!(
                                "shared byte {byte:#x} is written, {} reads it, nothing orders the two",
                                self.who(reader)
                            ),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn record_bytes(&mut self, at: usize, bytes: usize, thread: u16) {
        if self.byte_time.is_empty() {
            self.byte_time = vec![[0; 4]; self.write_time.len()];
            self.byte_thread = vec![[0; 4]; self.write_time.len()];
        }
        let word = at >> 2;
        if self.write_time[word] != SPLIT {
            self.byte_time[word] = [self.write_time[word]; 4];
            self.byte_thread[word] = [self.write_thread[word]; 4];
            self.write_time[word] = SPLIT;
        }
        for byte in at..at + bytes {
            self.byte_time[word][byte & 3] = self.now;
            self.byte_thread[word][byte & 3] = thread;
        }
    }

    /// An asynchronous copy to whole words begins.
    pub(crate) fn async_begin(&mut self, warp: usize, lane: u32, at: usize, bytes: usize) -> Result<(), Conflict> {
        self.write(warp, lane, at, bytes, false, false)?;
        self.write_time[at >> 2..(at + bytes) >> 2].fill(ASYNC);
        Ok(())
    }

    /// The copying thread has waited: the bytes are its writes, made now.
    pub(crate) fn async_end(&mut self, at: usize, bytes: usize) {
        self.dirty = true;
        for word in at >> 2..(at + bytes) >> 2 {
            if self.write_time[word] == ASYNC {
                self.write_time[word] = self.now;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
