//! mbarriers (PTX ISA 9.7.13.15): 8 bytes of shared memory that count arrivals of threads and bytes of asynchronous copies.
//!
//! - A phase completes when no arrival is pending and as many bytes were copied as were expected; the next one begins at once.
//! - Copies complete when they are started, as far as counts go; that their bytes are there is known to those alone that waited for
//!   the phase, or are ordered after one that did, so that what is found does not depend on how long a copy takes.
//! - Arrivals release what the warp did before them, and a successful wait acquires what arrivals of the phase and of earlier ones released.

use std::sync::Arc;

use super::{Clock, Conflict, MBARRIER, SharedMemory};
use crate::fault::FaultKind;

/// Bytes of an mbarrier, and its alignment.
pub(crate) const BYTES: usize = 8;
/// Largest count of arrivals and of bytes.
pub(crate) const LIMIT: i64 = (1 << 20) - 1;
/// Places of shared memory that may hold mbarriers, over the life of a block.
const AGENT_LIMIT: usize = 1024;

pub(crate) struct Mbarrier {
    expected: u32,
    pending: u32,
    /// Bytes expected and not yet copied; below zero when copies come first.
    bytes: i64,
    phase: u32,
    agent: usize,
    /// Who made it, and when.
    made: (u32, u16),
    /// Place in the program where it was made.
    pc: usize,
    /// Per warp the time of its last use.
    uses: Vec<u32>,
    clock: Clock,
    /// What the last phase that completed released.
    completed: Arc<Clock>,
}

/// An arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub count: u32,
    /// Bytes that the phase expects from now on, too.
    pub bytes: u32,
    /// Later phases expect so many arrivals less.
    pub drop: bool,
    /// The phase must not complete by it.
    pub no_complete: bool,
    /// Nothing before it is released.
    pub relaxed: bool,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// The latest phase of that parity.
    Parity(u32),
    /// The phase that an arrival returned.
    State(u64),
}

/// A wait that did not succeed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspension {
    pub at: u32,
    /// `try_wait`: it gives way until a phase completes.
    pub suspends: bool,
}

fn conflict<T>(kind: FaultKind, detail: String) -> Result<T, Conflict> {
    Err(Conflict { kind, detail })
}

impl Mbarrier {
    fn describe(&self, at: u32) -> String {
        format!(
            "the mbarrier at {at:#x} is in phase {}, {} of {} arrivals are pending, {} bytes expected and not copied",
            self.phase, self.pending, self.expected, self.bytes
        )
    }

    fn expect(&mut self, at: u32, bytes: i64) -> Result<(), Conflict> {
        self.bytes += bytes;
        if self.bytes.abs() > LIMIT {
            return conflict(
                FaultKind::MbarrierCount,
                format!("{}; at most {LIMIT} can be counted", self.describe(at)),
            );
        }
        Ok(())
    }

    /// Completes the phase if it is complete.
    fn settle(&mut self, at: u32) -> Result<bool, Conflict> {
        if self.pending != 0 {
            return Ok(false);
        }
        if self.bytes < 0 {
            return conflict(
                FaultKind::MbarrierTransaction,
                format!("{}: all arrived, and copies brought more bytes than were expected", self.describe(at)),
            );
        }
        if self.bytes > 0 || self.expected == 0 {
            return Ok(false);
        }
        self.phase = self.phase.wrapping_add(1);
        self.pending = self.expected;
        self.completed = Arc::new(self.clock.clone());
        Ok(true)
    }
}

impl SharedMemory {
    pub(super) fn forget_mbarriers(&mut self) {
        for m in self.mbarriers.values_mut() {
            m.made.0 = 0;
            m.uses.fill(0);
            m.clock = Clock::default();
            m.completed = Arc::default();
        }
    }

    /// Makes an mbarrier of eight aligned bytes inside.
    pub(crate) fn mbarrier_init(
        &mut self,
        (warp, lane, pc): (usize, u32, usize),
        at: u32,
        count: u32,
    ) -> Result<(), Conflict> {
        if self.mbarriers.contains_key(&at) {
            return conflict(
                FaultKind::MbarrierMisuse,
                format!("the mbarrier at {at:#x} is initialised a second time without mbarrier.inval"),
            );
        }
        if count == 0 || i64::from(count) > LIMIT {
            return conflict(FaultKind::MbarrierCount, format!("{count} arrivals: it must be 1 to {LIMIT}"));
        }
        self.write(warp, lane, at as usize, BYTES, false, false)?;
        let agent = match self.agents.get(&at) {
            Some(&agent) => agent,
            None if self.agents.len() >= AGENT_LIMIT => {
                return conflict(
                    FaultKind::InvalidOperand,
                    format!("mbarriers at more than {AGENT_LIMIT} addresses are not supported"),
                );
            }
            None => {
                // Numbers above those of all warps, so that thread numbers of both never meet.
                let agent = self.warps.max(32) + self.agents.len();
                self.agents.insert(at, agent);
                for seen in &mut self.seen {
                    seen.resize(agent + 1, 0);
                }
                agent
            }
        };
        let made = (self.now, (warp << 5) as u16 | lane as u16);
        let words = at as usize >> 2..(at as usize + BYTES) >> 2;
        self.write_time[words].fill(MBARRIER);
        self.data[at as usize..at as usize + BYTES].fill(0);
        self.events += 1;
        let m = Mbarrier {
            expected: count,
            pending: count,
            bytes: 0,
            phase: 0,
            agent,
            made,
            pc,
            uses: vec![0; self.warps],
            clock: Clock::default(),
            completed: Arc::default(),
        };
        self.mbarriers.insert(at, m);
        Ok(())
    }

    /// Checks that a lane may use an mbarrier, and records the use.
    fn mbarrier_use(&mut self, warp: usize, lane: u32, at: u32) -> Result<(), Conflict> {
        let Some(made) = self.mbarriers.get(&at).map(|m| m.made) else {
            return conflict(
                FaultKind::MbarrierUninitialised,
                format!("shared byte {at:#x} is used as an mbarrier, no mbarrier.init made it one"),
            );
        };
        if self.checks.races && !self.ordered(warp, lane, made.0, made.1) {
            let who = self.who(made.1);
            return conflict(
                FaultKind::RaceShared,
                format!("the mbarrier at {at:#x} is used, {who} initialised it, nothing orders the two"),
            );
        }
        let now = self.stamp();
        if let Some(m) = self.mbarriers.get_mut(&at) {
            m.uses[warp] = now;
        }
        Ok(())
    }

    /// Place in clocks of the copies that an mbarrier tracks.
    pub(crate) fn mbarrier_agent(&mut self, warp: usize, lane: u32, at: u32) -> Result<usize, Conflict> {
        self.mbarrier_use(warp, lane, at)?;
        Ok(self.mbarriers.get(&at).map_or(0, |m| m.agent))
    }

    pub(crate) fn mbarrier_invalidate(&mut self, warp: usize, lane: u32, at: u32) -> Result<(), Conflict> {
        self.mbarrier_use(warp, lane, at)?;
        let Some(m) = self.mbarriers.get(&at) else { return Ok(()) };
        if m.bytes != 0 {
            return conflict(FaultKind::MbarrierTransaction, format!("{}, and it is invalidated", m.describe(at)));
        }
        let early = m.uses.iter().enumerate().find(|&(w, &t)| w != warp && t > self.seen[warp][w]);
        if let Some((other, _)) = early.filter(|_| self.checks.races) {
            return conflict(
                FaultKind::RaceShared,
                format!("the mbarrier at {at:#x} is invalidated, warp {other} uses it, nothing orders the two"),
            );
        }
        self.mbarriers.remove(&at);
        let words = at as usize >> 2..(at as usize + BYTES) >> 2;
        self.write_time[words.clone()].fill(self.now);
        self.write_thread[words].fill((warp << 5) as u16 | lane as u16);
        self.dirty = true;
        self.events += 1;
        Ok(())
    }

    /// A lane arrives; returns the state before, as `mbarrier.arrive` gives it.
    pub(crate) fn mbarrier_arrive(&mut self, warp: usize, lane: u32, at: u32, a: Arrival) -> Result<u64, Conflict> {
        self.mbarrier_use(warp, lane, at)?;
        let released = if a.relaxed { Clock::default() } else { self.release(warp) };
        self.events += 1;
        let Some(m) = self.mbarriers.get_mut(&at) else { return Ok(0) };
        m.expect(at, i64::from(a.bytes))?;
        let state = u64::from(m.phase) << 32 | u64::from(m.pending);
        if a.count == 0 || a.count > m.pending {
            return conflict(FaultKind::MbarrierCount, format!("{}, {} more arrive", m.describe(at), a.count));
        }
        m.clock.join(&released);
        m.pending -= a.count;
        if a.drop {
            m.expected -= a.count.min(m.expected);
        }
        if a.no_complete && m.pending == 0 {
            return conflict(
                FaultKind::MbarrierCount,
                format!("{}: an arrival with .noComplete completes the phase", m.describe(at)),
            );
        }
        if m.settle(at)? {
            self.completions += 1;
        }
        Ok(state)
    }

    /// The phase expects more bytes.
    pub(crate) fn mbarrier_expect(&mut self, warp: usize, lane: u32, at: u32, bytes: u32) -> Result<(), Conflict> {
        self.mbarrier_use(warp, lane, at)?;
        self.events += 1;
        match self.mbarriers.get_mut(&at) {
            Some(m) => m.expect(at, i64::from(bytes)),
            None => Ok(()),
        }
    }

    /// Bytes of an asynchronous copy were written: what they hold from now on is released by the mbarrier.
    pub(crate) fn copied(&mut self, at: u32, bytes: u32) -> Result<(), Conflict> {
        self.dirty = true;
        let now = self.tick();
        self.events += 1;
        let Some(m) = self.mbarriers.get_mut(&at) else { return Ok(()) };
        m.expect(at, -i64::from(bytes))?;
        if m.clock.seen.len() <= m.agent {
            m.clock.seen.resize(m.agent + 1, 0);
        }
        m.clock.seen[m.agent] = now;
        if m.settle(at)? {
            self.completions += 1;
        }
        Ok(())
    }

    /// Whether a phase completed; if so the lanes learn what it released.
    pub(crate) fn mbarrier_test(
        &mut self,
        warp: usize,
        lanes: u32,
        at: u32,
        phase: Phase,
        relaxed: bool,
    ) -> Result<bool, Conflict> {
        self.mbarrier_use(warp, lanes.trailing_zeros() & 31, at)?;
        let Some(m) = self.mbarriers.get(&at) else { return Ok(false) };
        let done = match phase {
            Phase::Parity(p) => m.phase & 1 != p,
            Phase::State(s) if (s >> 32) as u32 == m.phase => false,
            Phase::State(s) if (s >> 32) as u32 == m.phase.wrapping_sub(1) => true,
            Phase::State(s) => {
                return conflict(
                    FaultKind::MbarrierMisuse,
                    format!("{}, and the state waited for is of phase {}", m.describe(at), s >> 32),
                );
            }
        };
        if done && !relaxed {
            let clock = Arc::clone(&m.completed);
            self.acquire(warp, &clock, lanes);
        }
        Ok(done)
    }

    /// A byte that a copy wrote is read by a thread that did not wait for it: perhaps because the phase ended too early.
    #[cold]
    pub(super) fn not_waited(&self, byte: usize, thread: u16) -> Conflict {
        let agent = usize::from(thread >> 5);
        if let Some((&at, m)) = self.mbarriers.iter().find(|(_, m)| m.agent == agent && m.bytes < 0) {
            let detail =
                format!("shared byte {byte:#x} is read before its copy was waited for, and {}", m.describe(at));
            return Conflict { kind: FaultKind::MbarrierTransaction, detail };
        }
        let detail = format!("shared byte {byte:#x} is read, {} wrote it: wait on it first", self.who(thread));
        Conflict { kind: FaultKind::AsyncCopyNotWaited, detail }
    }

    /// Why a wait at an mbarrier does not end.
    pub(crate) fn mbarrier_deadlock(&self, at: u32) -> Conflict {
        match self.mbarriers.get(&at) {
            Some(m) if m.bytes < 0 || m.pending == 0 => Conflict {
                kind: FaultKind::MbarrierTransaction,
                detail: format!("{}; no thread of the block can go on", m.describe(at)),
            },
            Some(m) => Conflict {
                kind: FaultKind::Deadlock,
                detail: format!("{}; no thread of the block can go on", m.describe(at)),
            },
            None => Conflict {
                kind: FaultKind::MbarrierUninitialised,
                detail: format!("a thread waits at {at:#x}, where no mbarrier is any more"),
            },
        }
    }

    /// What is wrong with the mbarriers when the block has ended: counts that do not agree, or copies that nobody waited for; with thread
    /// and instruction that made the mbarrier.
    pub(crate) fn mbarriers_end(&self) -> Result<(), (Conflict, u16, usize)> {
        for (&at, m) in &self.mbarriers {
            let last = m.clock.seen.get(m.agent).copied().unwrap_or(0);
            let waited = self.seen.iter().any(|seen| seen.get(m.agent).is_some_and(|&t| t >= last));
            let (kind, detail) = if m.bytes != 0 {
                (FaultKind::MbarrierTransaction, format!("{} when the block ends", m.describe(at)))
            } else if self.checks.races && !waited {
                let detail =
                    format!("the block ends, nobody waited for the last copy that the mbarrier at {at:#x} tracks");
                (FaultKind::AsyncCopyNotWaited, detail)
            } else {
                continue;
            };
            return Err((Conflict { kind, detail }, m.made.1, m.pc));
        }
        Ok(())
    }
}
