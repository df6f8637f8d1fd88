//! Waits on mbarriers: who is suspended, who polls, and whether anybody can still go on.
//!
//! A `try_wait` that does not succeed suspends its lanes until a phase completes. When no thread of the block can go on, its time limit
//! counts as reached, a few times over; if nothing comes of it, the block is stuck. So is one whose threads do nothing but poll.

use super::block::{Block, Stop};
use super::warp::State;
use crate::fault::{FaultKind, Trap};

/// Times that waits expire without progress before the block counts as stuck.
const ROUNDS: u32 = 16;
/// Polls without progress, by every thread that can run, after which the block counts as stuck.
const POLLS: u64 = 1 << 16;

#[derive(Default)]
pub(super) struct Suspended {
    /// Warp, path, and address of the mbarrier.
    waiting: Vec<(usize, usize, u32)>,
    expired: Vec<(usize, usize)>,
    rounds: u32,
    polls: u64,
    pollers: Vec<(usize, usize)>,
    events: u64,
    completions: u64,
}

impl Suspended {
    /// Something happened that another thread may wait for.
    pub(super) fn progress(&mut self) {
        self.rounds = 0;
        self.polls = 0;
        self.pollers.clear();
    }
}

/// How a path goes on after an instruction that may wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    Go,
    /// It is suspended and executes the instruction again.
    Again,
    /// Others run first.
    GiveWay,
}

impl Block {
    pub(super) fn before_wait(&mut self, warp: usize, path: usize) {
        let s = &mut self.suspended;
        let before = s.expired.len();
        s.expired.retain(|e| *e != (warp, path));
        self.shared.expired = s.expired.len() != before;
        (s.events, s.completions) = (self.shared.events, self.shared.completions);
    }

    pub(super) fn after_wait(&mut self, warp: usize, path: usize, pc: usize) -> Result<Next, Stop> {
        if self.shared.completions != self.suspended.completions {
            for (warp, path, _) in self.suspended.waiting.drain(..) {
                self.threads[warp].paths[path].state = State::Ready;
            }
        }
        if self.shared.events != self.suspended.events {
            self.suspended.progress();
        }
        let Some(suspension) = self.shared.suspended.take() else { return Ok(Next::Go) };
        if suspension.suspends {
            self.suspended.waiting.push((warp, path, suspension.at));
            self.threads[warp].paths[path].state = State::Blocked;
            return Ok(Next::Again);
        }
        let s = &mut self.suspended;
        s.polls += 1;
        if !s.pollers.contains(&(warp, path)) {
            s.pollers.push((warp, path));
        }
        if s.polls > POLLS {
            let busy = self.threads.iter().enumerate().any(|(w, t)| {
                t.paths.iter().enumerate().any(|(p, path)| path.state == State::Ready && !s.pollers.contains(&(w, p)))
            });
            if !busy {
                return Err(self.stuck(warp, pc, suspension.at));
            }
            s.polls = 0;
        }
        Ok(Next::GiveWay)
    }

    /// No thread can go on: lets waits expire.
    pub(super) fn expire(&mut self) -> Result<(), Stop> {
        let s = &mut self.suspended;
        s.rounds += 1;
        if s.waiting.is_empty() || s.rounds > ROUNDS {
            return Err(self.deadlock());
        }
        for (warp, path, _) in s.waiting.drain(..) {
            self.threads[warp].paths[path].state = State::Ready;
            s.expired.push((warp, path));
        }
        Ok(())
    }

    fn stuck(&self, warp: usize, pc: usize, at: u32) -> Stop {
        let why = self.shared.mbarrier_deadlock(at);
        let lane = self.threads[warp].warp.live.trailing_zeros() & 31;
        Stop { trap: Trap::new(why.kind, lane, why.detail), pc, warp }
    }

    fn deadlock(&self) -> Stop {
        if let Some(&(warp, path, at)) = self.suspended.waiting.first() {
            return self.stuck(warp, self.threads[warp].paths[path].pc as usize, at);
        }
        for (number, b) in self.barriers.iter().enumerate() {
            if let Some(&(warp, path, lanes, _)) = b.waiting.first() {
                let pc = self.threads[warp].paths[path].pc as usize;
                let live = self.live_threads();
                let expected = b.expected.flatten().unwrap_or(live);
                let detail = format!(
                    "barrier {number} has {} of {expected} threads; no thread of the block can go on ({live} have not exited)",
                    b.arrived
                );
                return Stop { trap: Trap::new(FaultKind::Deadlock, lanes.trailing_zeros(), detail), pc, warp };
            }
        }
        Stop { trap: Trap::new(FaultKind::Deadlock, 0, "no thread of the block can go on"), pc: 0, warp: 0 }
    }

    /// What must not be left open when all threads have exited.
    pub(super) fn check_end(&self) -> Result<(), Stop> {
        if let Err((why, thread, pc)) = self.shared.mbarriers_end() {
            let trap = Trap::new(why.kind, u32::from(thread & 31), why.detail);
            return Err(Stop { trap, pc, warp: usize::from(thread >> 5) });
        }
        for t in &self.threads {
            if let Some((lane, pc)) = t.warp.bulk.open() {
                let detail = "the thread exits while a bulk copy still reads the block's shared memory";
                return Err(Stop {
                    trap: Trap::new(FaultKind::AsyncCopyNotWaited, lane, detail),
                    pc,
                    warp: t.warp.index,
                });
            }
        }
        for (group, state) in self.shared.warpgroups.iter().enumerate() {
            if let Some((warp, started)) = state.behind() {
                let detail = "the warp ends without a wgmma that other warps of its warpgroup started";
                let trap = Trap::new(FaultKind::WarpgroupDivergence, 0, detail);
                return Err(Stop { trap, pc: started.pc, warp: 4 * group + warp });
            }
        }
        Ok(())
    }
}
