//! The asynchronous proxy (PTX ISA 8.3 and 9.7.9.27): `wgmma` and bulk copies reach shared memory by a path of their own.
//!
//! - A write by other instructions is visible to it only past a `fence.proxy.async` that the writer, or a thread that the write is ordered
//!   before, executed since. That a write of a bulk copy is waited for makes it visible to everything.
//! - Bytes that it reads are not to be written until the operation was waited for; then they are reads of the thread that waited.
//! - It touches units of 16 bytes. A write of the asynchronous proxy after a read of other instructions needs order, but no fence.

use std::collections::HashMap;

use super::order::join_lanes;
use super::{ASYNC, ATOMIC, BULK, Conflict, MBARRIER, SPLIT, SharedMemory, UNWRITTEN};
use crate::execute::lanes::lanes_of;
use crate::fault::FaultKind;

/// Bytes of a unit.
pub(crate) const UNIT: usize = 16;

#[derive(Default)]
pub(super) struct Proxy {
    /// Per unit how many operations read it.
    reading: Vec<u16>,
    in_flight: usize,
    /// Per warp, for each thread the time up to which its writes are visible to what the warp starts; empty before the first fence.
    fenced: Vec<Vec<[u32; 32]>>,
    /// Per warp the least of those.
    threshold: Vec<u32>,
}

impl Proxy {
    pub(super) fn clear(&mut self) {
        self.reading.clear();
        self.in_flight = 0;
        self.fenced.clear();
        self.threshold.clear();
    }

    pub(super) fn forget(&mut self) {
        self.fenced.iter_mut().flatten().flatten().for_each(|t| *t = 1);
        self.threshold.fill(1);
    }

    /// Whether an operation that is not waited for reads some of the bytes.
    #[inline(always)]
    pub(super) fn reads_any(&self, at: usize, bytes: usize) -> bool {
        self.in_flight != 0 && (at / UNIT..=(at + bytes - 1) / UNIT).any(|unit| self.reads(unit * UNIT))
    }

    pub(super) fn reads(&self, byte: usize) -> bool {
        self.in_flight != 0 && self.reading.get(byte / UNIT).is_some_and(|&n| n != 0)
    }

    pub(super) fn known(&self, warp: usize) -> Vec<[u32; 32]> {
        self.fenced.get(warp).cloned().unwrap_or_default()
    }

    pub(super) fn learn(&mut self, warp: usize, fenced: &[[u32; 32]]) {
        if fenced.is_empty() {
            return;
        }
        if let Some(mine) = self.fenced.get_mut(warp) {
            join_lanes(mine, fenced);
            self.threshold[warp] = mine.iter().flatten().copied().min().unwrap_or(0);
        }
    }

    fn visible(&self, warp: usize, time: u32, thread: u16) -> bool {
        let Some(fenced) = self.fenced.get(warp) else { return time == 0 };
        if thread == ATOMIC {
            return fenced.iter().flatten().all(|&t| time <= t);
        }
        fenced.get(usize::from(thread >> 5)).is_some_and(|lanes| time <= lanes[usize::from(thread & 31)])
    }
}

/// Tensor maps in global memory that the block wrote or fenced: when, by which warp and lanes a fence made the map visible to bulk copies;
/// `None` since it was written.
#[derive(Default)]
pub(crate) struct MapFences(HashMap<u64, Option<(u32, usize, u32)>>);

impl MapFences {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn written(&mut self, address: u64) {
        self.0.insert(address, None);
    }
}

impl SharedMemory {
    /// Lanes executed `fence.proxy.tensormap::generic.acquire` on a tensor map.
    pub(crate) fn map_acquired(&mut self, warp: usize, lanes: u32, address: u64) {
        let now = self.stamp();
        self.map_fences.0.insert(address, Some((now, warp, lanes)));
    }

    /// Whether a lane may use a tensor map: `None` when the block neither wrote nor fenced it by instructions made for that.
    pub(crate) fn map_visible(&self, warp: usize, lane: u32, address: u64) -> Option<bool> {
        let fenced = self.map_fences.0.get(&address)?;
        Some(fenced.is_some_and(|(time, by, lanes)| {
            by == warp && lanes >> lane & 1 == 1
                || lanes_of(lanes).any(|l| self.ordered(warp, lane, time, (by << 5) as u16 | l as u16))
        }))
    }

    /// Lanes of a warp executed `fence.proxy.async`.
    pub(crate) fn proxy_fence(&mut self, warp: usize, mask: u32) {
        if self.proxy.fenced.is_empty() {
            self.proxy.fenced = vec![vec![[0; 32]; self.warps]; self.warps];
            self.proxy.threshold = vec![0; self.warps];
        }
        self.dirty = true;
        let at = self.tick();
        let own = self.lane_sync[warp];
        let reach = (0..32).filter(|&lane| mask >> lane & 1 == 1).map(|lane| own[lane]).max().unwrap_or(0);
        for (other, lanes) in self.proxy.fenced[warp].iter_mut().enumerate() {
            for (lane, t) in lanes.iter_mut().enumerate() {
                let until = if other != warp {
                    self.seen[warp][other]
                } else if mask >> lane & 1 == 1 {
                    at
                } else {
                    own[lane].min(reach)
                };
                *t = (*t).max(until);
            }
        }
        self.proxy.learn(warp, &[[0; 32]]);
    }

    /// Checks that a word's writes are there for what `lane` of `warp` starts in the asynchronous proxy.
    fn check_visible(&mut self, warp: usize, lane: u32, word: usize, reads: bool) -> Result<(), Conflict> {
        let conflict = |kind, detail| Err(Conflict { kind, detail });
        let byte = 4 * word;
        for part in 0..4 {
            let (time, thread) = match self.write_time[word] {
                SPLIT => (self.byte_time[word][part], self.byte_thread[word][part]),
                t => (t, self.write_thread[word]),
            };
            match time {
                UNWRITTEN if reads && self.checks.uninitialised && self.unwritten.is_none() => {
                    let detail = format!("shared byte {:#x} is read before it is written", byte + part);
                    self.unwritten = Some((lane, detail));
                }
                UNWRITTEN => {}
                MBARRIER => return Err(self.in_mbarrier(byte)),
                ASYNC if reads => {
                    let detail = format!("shared byte {byte:#x} is read while a copy to it is not waited for");
                    return conflict(FaultKind::AsyncCopyNotWaited, detail);
                }
                ASYNC => {
                    let detail = format!("shared byte {byte:#x} is written while a copy to it is not waited for");
                    return conflict(FaultKind::AsyncCopyOverwritten, detail);
                }
                _ if !self.checks.races => {}
                BULK if self.bulk_ordered(warp, word) => {}
                BULK if reads => return Err(self.not_waited(byte, thread)),
                BULK => {
                    let who = self.who(thread);
                    let detail = format!("shared byte {byte:#x} is written, {who} wrote it: wait on it first");
                    return conflict(FaultKind::AsyncCopyOverwritten, detail);
                }
                _ if !self.ordered(warp, lane, time, thread) => {
                    let verb = if reads { "read" } else { "written" };
                    let who = self.who(thread);
                    let detail =
                        format!("shared byte {:#x} is {verb}, {who} wrote it, nothing orders the two", byte + part);
                    return conflict(FaultKind::RaceShared, detail);
                }
                _ if !self.proxy.visible(warp, time, thread) => {
                    let who = self.who(thread);
                    let verb = if reads { "reads" } else { "writes" };
                    let detail = format!(
                        "the asynchronous proxy {verb} shared byte {:#x}, {who} wrote it, no fence.proxy.async is between the two",
                        byte + part
                    );
                    return conflict(FaultKind::ProxyFenceMissing, detail);
                }
                _ => {}
            }
            if self.write_time[word] != SPLIT {
                break;
            }
        }
        Ok(())
    }

    fn check_units(
        &mut self,
        warp: usize,
        lane: u32,
        units: impl Iterator<Item = usize>,
        reads: bool,
    ) -> Result<(), Conflict> {
        let threshold = self.proxy.threshold.get(warp).copied().unwrap_or(0).min(self.threshold[warp]);
        for unit in units {
            let words = 4 * unit..4 * unit + 4;
            if self.write_time[words.clone()].iter().any(|&t| t > threshold) {
                for word in words {
                    self.check_visible(warp, lane, word, reads)?;
                }
            }
        }
        Ok(())
    }

    /// The asynchronous proxy begins to read units, which lie inside.
    pub(crate) fn async_read(&mut self, warp: usize, lane: u32, units: &[u32]) -> Result<(), Conflict> {
        self.check_units(warp, lane, units.iter().map(|&u| u as usize), true)?;
        if self.proxy.reading.is_empty() {
            self.proxy.reading = vec![0; self.data.len().div_ceil(UNIT)];
        }
        for &unit in units {
            let n = &mut self.proxy.reading[unit as usize];
            *n = n.saturating_add(1);
        }
        self.proxy.in_flight += units.len();
        Ok(())
    }

    /// The reads are waited for: they are those of a lane, made now.
    pub(crate) fn async_read_end(&mut self, warp: usize, lane: u32, units: &[u32]) {
        let mark = self.now << 5 | lane;
        for &unit in units {
            let unit = unit as usize;
            self.proxy.reading[unit] = self.proxy.reading[unit].saturating_sub(1);
            if self.checks.races {
                self.read_mark[warp][4 * unit..4 * unit + 4].fill(mark);
            }
        }
        self.dirty = true;
        self.proxy.in_flight = self.proxy.in_flight.saturating_sub(units.len());
    }

    /// A bulk copy that the mbarrier at `agent` tracks writes whole units, started by a lane; call [`SharedMemory::copied`] after the last.
    pub(crate) fn async_write(
        &mut self,
        warp: usize,
        lane: u32,
        agent: usize,
        at: usize,
        bytes: usize,
    ) -> Result<(), Conflict> {
        self.check_units(warp, lane, at / UNIT..(at + bytes) / UNIT, false)?;
        self.write(warp, lane, at, bytes, false, false)?;
        self.own_by_agent(agent, at, bytes);
        Ok(())
    }

    /// Words become writes of the copies that an mbarrier tracks, made now.
    pub(super) fn own_by_agent(&mut self, agent: usize, at: usize, bytes: usize) {
        if self.bulk_time.is_empty() {
            self.bulk_time = vec![0; self.write_time.len()];
        }
        let words = at >> 2..(at + bytes) >> 2;
        self.write_time[words.clone()].fill(BULK);
        self.write_thread[words.clone()].fill((agent << 5) as u16);
        self.bulk_time[words].fill(self.now);
        self.dirty = true;
    }

    /// Copies of a lane by `cp.async` are tracked by an mbarrier from here on.
    pub(crate) fn async_hand_over(&mut self, agent: usize, at: usize, bytes: usize) {
        for word in at >> 2..(at + bytes) >> 2 {
            if self.write_time[word] == ASYNC {
                self.own_by_agent(agent, 4 * word, 4);
            }
        }
    }

    /// A moment in the block's time.
    pub(super) fn stamp(&mut self) -> u32 {
        self.dirty = true;
        self.now
    }
}
