//! Barriers of a block, and the barrier of its cluster, which is the block alone.

use super::block::Block;
use super::warp::State;
use crate::execute::barrier::{Barrier, Kind};
use crate::execute::lanes::lanes_of;
use crate::fault::{FaultKind, Trap};
use crate::memory::shared::Clock;

pub(super) const BARRIERS: usize = 16;
/// Place of the cluster's barrier, after those of the block.
const CLUSTER: usize = BARRIERS;

#[derive(Default)]
pub(super) struct BarrierState {
    pub arrived: u32,
    /// Explicit thread count of the phase; `None` before the first arrival.
    pub expected: Option<Option<u32>>,
    /// Warp, path, lanes.
    pub waiting: Vec<(usize, usize, u32, Kind)>,
    released: Clock,
    count: u32,
    all: bool,
    any: bool,
}

/// Phases of the cluster's barrier.
#[derive(Default)]
pub(super) struct Cluster {
    phase: u64,
    /// What the last phase released.
    released: Clock,
    /// Per warp the lanes that arrived and did not wait yet, and in which phase.
    arrived: Vec<(u32, u64)>,
}

impl Block {
    pub(super) fn live_threads(&self) -> u32 {
        self.threads.iter().map(|t| t.warp.live.count_ones()).sum()
    }

    /// `barrier.cluster.arrive` and `.wait`.
    fn cluster_barrier(&mut self, op: &Barrier, warp: usize, path: usize, lanes: u32) -> Result<(), Box<Trap>> {
        let lane = lanes.trailing_zeros();
        let live = self.threads[warp].warp.live;
        if op.aligned && lanes != live {
            let detail =
                format!("lanes {lanes:#010x} execute the barrier, lanes {live:#010x} of the warp have not exited");
            return Err(Trap::new(FaultKind::BarrierDivergence, lane, detail));
        }
        self.cluster.arrived.resize(self.threads.len(), (0, 0));
        let (before, phase) = self.cluster.arrived[warp];
        if op.kind == Kind::ClusterArrive {
            if before & lanes != 0 {
                let detail = "the thread arrives at the cluster's barrier twice without waiting";
                return Err(Trap::new(FaultKind::InvalidOperand, lane, detail));
            }
            self.cluster.arrived[warp] = (before | lanes, self.cluster.phase);
            let released = self.shared.release(warp);
            let state = &mut self.barriers[CLUSTER];
            state.expected = Some(None);
            state.released.join(&released);
            state.arrived += lanes.count_ones();
            self.complete(CLUSTER);
            return Ok(());
        }
        if before & lanes != lanes {
            let detail = "the thread waits at the cluster's barrier and did not arrive";
            return Err(Trap::new(FaultKind::InvalidOperand, lane, detail));
        }
        self.cluster.arrived[warp].0 &= !lanes;
        if self.cluster.phase > phase {
            let released = self.cluster.released.clone();
            self.shared.acquire(warp, &released, lanes);
        } else {
            self.barriers[CLUSTER].waiting.push((warp, path, lanes, Kind::Sync));
            self.threads[warp].paths[path].state = State::Blocked;
        }
        Ok(())
    }

    pub(super) fn barrier(&mut self, op: &Barrier, warp: usize, path: usize, lanes: u32) -> Result<(), Box<Trap>> {
        self.suspended.progress();
        if matches!(op.kind, Kind::ClusterArrive | Kind::ClusterWait) {
            return self.cluster_barrier(op, warp, path, lanes);
        }
        let lane = lanes.trailing_zeros() as usize;
        let registers = &self.threads[warp].warp.registers;
        let number = registers.get(op.number)[lane];
        let threads = op.threads.map(|s| registers.get(s)[lane]);
        let live = self.threads[warp].warp.live;
        let fail = |kind, detail: String| Err(Trap::new(kind, lane as u32, detail));
        let uniform = lanes_of(lanes).all(|i| {
            registers.get(op.number)[i] == number && op.threads.is_none_or(|s| Some(registers.get(s)[i]) == threads)
        });
        if !uniform {
            return fail(FaultKind::BarrierDivergence, "lanes name different barriers or thread counts".into());
        }
        if number as usize >= BARRIERS {
            return fail(FaultKind::InvalidOperand, format!("barrier {number} does not exist, there are {BARRIERS}"));
        }
        if threads.is_some_and(|n| n == 0 || n % 32 != 0 || n > 32 * self.threads.len() as u32) {
            return fail(
                FaultKind::InvalidOperand,
                format!("{} is no thread count: a multiple of 32 up to the block's threads", threads.unwrap_or(0)),
            );
        }
        if op.aligned && lanes != live {
            return fail(
                FaultKind::BarrierDivergence,
                format!("lanes {lanes:#010x} execute the barrier, lanes {live:#010x} of the warp have not exited"),
            );
        }
        let holds = match op.kind {
            Kind::Sync | Kind::Arrive | Kind::ClusterArrive | Kind::ClusterWait => 0,
            Kind::Popc { p: (p, negated), .. }
            | Kind::And { p: (p, negated), .. }
            | Kind::Or { p: (p, negated), .. } => {
                let v = registers.predicate(p);
                (if negated { !v } else { v }) & lanes
            }
        };
        let released = self.shared.release(warp);
        let state = &mut self.barriers[number as usize];
        match state.expected {
            None => {
                state.expected = Some(threads);
                state.released = Clock::default();
                (state.arrived, state.count, state.all, state.any) = (0, 0, true, false);
            }
            Some(expected) if expected == threads => {}
            Some(expected) => {
                let name = |n: Option<u32>| n.map_or("all threads".to_owned(), |n| format!("{n} threads"));
                return fail(
                    FaultKind::BarrierDivergence,
                    format!("barrier {number} is waited for with {}, here with {}", name(expected), name(threads)),
                );
            }
        }
        state.released.join(&released);
        // With an explicit count a whole warp counts as 32 threads, also the block's last one.
        state.arrived += if threads.is_some() && lanes == live { 32 } else { lanes.count_ones() };
        state.count += holds.count_ones();
        state.all &= holds == lanes;
        state.any |= holds != 0;
        if op.kind != Kind::Arrive {
            state.waiting.push((warp, path, lanes, op.kind));
            self.threads[warp].paths[path].state = State::Blocked;
        }
        self.complete(number as usize);
        Ok(())
    }

    pub(super) fn recheck_barriers(&mut self) {
        for number in 0..=CLUSTER {
            if self.barriers[number].expected == Some(None) {
                self.complete(number);
            }
        }
    }

    fn complete(&mut self, number: usize) {
        let live = self.live_threads();
        let state = &mut self.barriers[number];
        let Some(expected) = state.expected else { return };
        if state.arrived < expected.unwrap_or(live) {
            return;
        }
        let mut state = std::mem::take(state);
        // Between arriving at the cluster's barrier and waiting a warp goes on.
        let waited = state.waiting.iter().filter(|_| number != CLUSTER);
        let whole = waited.filter(|(w, _, lanes, _)| *lanes == self.threads[*w].warp.live).map(|w| w.0);
        self.shared.complete(&mut state.released, whole);
        if number == CLUSTER {
            self.cluster.phase += 1;
            self.cluster.released = state.released.clone();
        }
        for (warp, path, lanes, kind) in state.waiting {
            let thread = &mut self.threads[warp];
            thread.paths[path].state = State::Ready;
            let r = &mut thread.warp.registers;
            let all = |v: bool| if v { u32::MAX } else { 0 };
            match kind {
                Kind::Sync | Kind::Arrive | Kind::ClusterArrive | Kind::ClusterWait => {}
                Kind::Popc { d, .. } => r.put(d, &[state.count; 32], lanes),
                Kind::And { d, .. } => r.put_predicate(d, all(state.all), lanes),
                Kind::Or { d, .. } => r.put_predicate(d, all(state.any), lanes),
            }
            self.shared.acquire(warp, &state.released, lanes);
        }
    }
}
