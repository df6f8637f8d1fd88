//! A block: its warps, its barriers, and the loop that executes instructions.

use super::Random;
use super::barriers::{BARRIERS, BarrierState, Cluster};
use super::waits::{Next, Suspended};
use super::warp::{State, Thread};
use crate::decode::{LaneMask, NONE, Special};
use crate::execute::Operation;
use crate::execute::bulk_copy::BulkReads;
use crate::execute::control::Control;
use crate::execute::lanes::{Lanes32, Lanes64, Registers};
use crate::execute::machine::{Launch, Machine, Tally, Warp};
use crate::execute::wgmma_registers::RegisterState;
use crate::fault::{FaultKind, Trap};
use crate::memory::shared::{SharedChecks, SharedMemory};

/// Faults that may be why bytes were read before they were written.
const UNORDERED: [FaultKind; 7] = [
    FaultKind::RaceShared,
    FaultKind::AsyncCopyNotWaited,
    FaultKind::AsyncCopyOverwritten,
    FaultKind::AsyncReadOverwritten,
    FaultKind::ProxyFenceMissing,
    FaultKind::MbarrierUninitialised,
    FaultKind::MbarrierTransaction,
];

/// A fault before it is described: the trap, where, and in which warp.
pub(super) struct Stop {
    pub trap: Box<Trap>,
    pub pc: usize,
    pub warp: usize,
}

pub(super) enum Outcome {
    Finished,
    /// The slice is used up.
    Paused,
}

pub(super) struct Block {
    pub index: [u32; 3],
    pub number: u32,
    /// Place in the launch's order.
    pub order: u64,
    pub executed: u64,
    pub lines: Vec<u64>,
    pub(super) threads: Vec<Thread>,
    pub(super) shared: SharedMemory,
    pub(super) barriers: Vec<BarrierState>,
    pub(super) cluster: Cluster,
    pub(super) suspended: Suspended,
    random: Random,
    /// A read of shared bytes that nothing had written: raised when the block ends without a race.
    unwritten: Option<Stop>,
}

impl Block {
    pub(super) fn new(launch: &Launch<'_>, checks: SharedChecks) -> Block {
        let count = launch.block.iter().map(|&n| n as usize).product::<usize>();
        let program = launch.program;
        let threads = (0..count.div_ceil(32))
            .map(|index| {
                let mut registers = Registers {
                    r32: vec![Lanes32([0; 32]); program.slots32 as usize],
                    r64: vec![Lanes64([0; 32]); program.slots64 as usize],
                    predicates: vec![0; program.predicates as usize],
                };
                for &(slot, v) in &program.constants32 {
                    registers.r32[slot as usize].0 = [v; 32];
                }
                for &(slot, v) in &program.constants64 {
                    registers.r64[slot as usize].0 = [v; 32];
                }
                for &(slot, symbol, offset) in &program.globals {
                    let base = launch.symbols.get(symbol).copied().unwrap_or(0);
                    registers.r64[slot as usize].0 = [base.wrapping_add(offset as u64); 32];
                }
                for &(slot, special) in &program.specials {
                    let lanes = &mut registers.r32[slot as usize].0;
                    for (lane, v) in (0..).zip(lanes) {
                        *v = value(special, launch, [0; 3], index as u32 * 32 + lane, lane, count.div_ceil(32) as u32);
                    }
                }
                for &(slot, v) in &program.constant_predicates {
                    registers.predicates[slot as usize] = if v { u32::MAX } else { 0 };
                }
                Thread {
                    warp: Warp {
                        index,
                        registers,
                        local: vec![0; program.local_bytes as usize * 32],
                        live: 0,
                        copies: Vec::new(),
                        committed: [0; 32],
                        bulk: BulkReads::default(),
                        wgmma: RegisterState::default(),
                    },
                    paths: Vec::new(),
                    current: 0,
                }
            })
            .collect();
        Block {
            index: [0; 3],
            number: 0,
            order: 0,
            executed: 0,
            lines: Vec::new(),
            threads,
            shared: SharedMemory::new(checks),
            barriers: (0..=BARRIERS).map(|_| BarrierState::default()).collect(),
            cluster: Cluster::default(),
            suspended: Suspended::default(),
            random: Random::new(0, 0),
            unwritten: None,
        }
    }

    /// Makes it the block at `index`.
    pub(super) fn start(&mut self, launch: &Launch<'_>, index: [u32; 3], number: u32, order: u64, seed: u64) {
        self.index = index;
        self.number = number;
        self.order = order;
        self.executed = 0;
        self.lines.clear();
        self.unwritten = None;
        self.random = Random::new(seed, u64::from(number));
        self.shared.reset(launch.shared_bytes as usize, self.threads.len());
        self.shared.device.start(number, self.threads.len(), launch.global.causality.kept());
        for b in &mut self.barriers {
            *b = BarrierState::default();
        }
        self.cluster = Cluster::default();
        self.suspended = Suspended::default();
        let total = launch.block.iter().product::<u32>();
        let warps = self.threads.len() as u32;
        for thread in &mut self.threads {
            let first = thread.warp.index as u32 * 32;
            let live = if total - first >= 32 { u32::MAX } else { (1 << (total - first)) - 1 };
            thread.start(live);
            if live != u32::MAX {
                self.shared.lanes_absent(thread.warp.index, !live);
            }
            thread.warp.copies.clear();
            thread.warp.committed = [0; 32];
            thread.warp.bulk.clear();
            thread.warp.wgmma.clear();
            thread.warp.local.fill(0);
            let program = launch.program;
            // The other special registers are the same in every block: nothing writes their slots.
            for &(slot, special) in program.specials.iter().filter(|s| matches!(s.1, Special::Ctaid(_))) {
                let out = &mut thread.warp.registers.r32[slot as usize].0;
                for (lane, v) in out.iter_mut().enumerate() {
                    *v = value(special, launch, index, first + lane as u32, lane as u32, warps);
                }
            }
            for &slot in &program.undefined32 {
                thread.warp.registers.r32[slot as usize].0 = [0; 32];
            }
            for &slot in &program.undefined64 {
                thread.warp.registers.r64[slot as usize].0 = [0; 32];
            }
            for &slot in &program.undefined_predicates {
                thread.warp.registers.predicates[slot as usize] = 0;
            }
        }
    }

    /// Runs up to `slice` warp instructions.
    pub(super) fn run(&mut self, launch: &Launch<'_>, tally: &mut Tally, slice: u64) -> Result<Outcome, Stop> {
        let end = self.executed + slice;
        std::mem::swap(&mut tally.lines, &mut self.lines);
        let result = self.run_until(launch, tally, end);
        std::mem::swap(&mut tally.lines, &mut self.lines);
        let race = matches!(&result, Err(stop) if UNORDERED.contains(&stop.trap.kind));
        match (self.unwritten.take(), &result) {
            (Some(stop), Ok(Outcome::Finished) | Err(_)) if !race => return Err(stop),
            (stop, _) => self.unwritten = stop,
        }
        result
    }

    fn run_until(&mut self, launch: &Launch<'_>, tally: &mut Tally, end: u64) -> Result<Outcome, Stop> {
        loop {
            if self.executed >= end {
                return Ok(Outcome::Paused);
            }
            let n = self.threads.len();
            let start = self.random.below(n);
            let ready = (0..n).map(|i| (start + i) % n).find_map(|w| {
                let t = &self.threads[w];
                if t.is_done() { None } else { t.pick(0).map(|p| (w, p)) }
            });
            let Some((warp, path)) = ready else {
                if self.threads.iter().all(Thread::is_done) {
                    return self.check_end().map(|()| Outcome::Finished);
                }
                self.expire()?;
                continue;
            };
            // A random slice: long enough to keep the warp's registers near, short enough that spinning warps give way.
            let slice = (64u64 << self.random.below(6)).min(end - self.executed);
            self.run_warp(launch, tally, warp, path, slice)?;
        }
    }

    fn run_warp(
        &mut self,
        launch: &Launch<'_>,
        tally: &mut Tally,
        warp: usize,
        path: usize,
        slice: u64,
    ) -> Result<(), Stop> {
        let code = &launch.program.code[..];
        let mut path = path;
        let thread = &mut self.threads[warp];
        let mut pc = thread.paths[path].pc;
        let mut mask = thread.paths[path].mask;
        let mut meet = thread.paths[path].meet;
        let mut left = slice;
        macro_rules! switch {
            ($to:expr) => {{
                path = $to;
                if self.threads[warp].paths[path].state != State::Ready {
                    self.threads[warp].current = path;
                    self.executed += slice - left;
                    return Ok(());
                }
                let p = &self.threads[warp].paths[path];
                (pc, mask, meet) = (p.pc, p.mask, p.meet);
            }};
        }
        loop {
            if pc == meet && meet != NONE {
                self.threads[warp].paths[path].pc = pc;
                let to = self.threads[warp].arrive(path);
                switch!(to);
                continue;
            }
            if left == 0 {
                let thread = &mut self.threads[warp];
                thread.paths[path].pc = pc;
                // The next turn is another path's, if there is one.
                thread.current = (path + 1) % thread.paths.len();
                self.executed += slice;
                return Ok(());
            }
            left -= 1;
            let at = pc as usize;
            let ins = &code[at];
            let mut active = mask;
            if ins.guard != NONE {
                let p = self.threads[warp].warp.registers.predicate(ins.guard);
                active &= if ins.negated { !p } else { p };
            }
            let t = &mut tally.instructions[at];
            t.issued += 1;
            t.lanes += u64::from(active.count_ones());
            match &ins.op {
                Operation::Control(control) => match *control {
                    Control::Branch { target, meet: point } => {
                        if active == mask {
                            pc = target;
                        } else if active == 0 {
                            pc += 1;
                        } else {
                            let first = self.random.next() & 1 == 0;
                            let thread = &mut self.threads[warp];
                            thread.paths[path].pc = pc;
                            let to = thread.part(path, active, target, pc + 1, point, first);
                            switch!(to);
                        }
                    }
                    Control::Exit => {
                        if active == 0 {
                            pc += 1;
                            continue;
                        }
                        let thread = &mut self.threads[warp];
                        thread.paths[path].pc = pc + 1;
                        thread.exit(path, active);
                        self.shared.lanes_exited(warp, active);
                        self.suspended.progress();
                        self.recheck_barriers();
                        if active == mask {
                            let thread = &mut self.threads[warp];
                            let Some(to) = thread.pick(0) else {
                                self.executed += slice - left;
                                return Ok(());
                            };
                            switch!(to);
                        } else {
                            mask &= !active;
                            pc += 1;
                        }
                    }
                    Control::Trap => {
                        if active != 0 {
                            let lane = active.trailing_zeros();
                            return Err(Stop {
                                trap: Trap::new(FaultKind::Trap, lane, "the kernel stopped itself"),
                                pc: at,
                                warp,
                            });
                        }
                        pc += 1;
                    }
                },
                Operation::Barrier(barrier) => {
                    pc += 1;
                    if active == 0 {
                        continue;
                    }
                    if active != mask {
                        let trap = Trap::new(
                            FaultKind::BarrierDivergence,
                            active.trailing_zeros(),
                            "the guard of a barrier holds for some lanes only",
                        );
                        return Err(Stop { trap, pc: at, warp });
                    }
                    tally.barrier_waits += 1;
                    self.threads[warp].paths[path].pc = pc;
                    self.barrier(barrier, warp, path, active).map_err(|trap| Stop { trap, pc: at, warp })?;
                    if self.threads[warp].paths[path].state != State::Ready {
                        let thread = &mut self.threads[warp];
                        thread.current = path;
                        self.executed += slice - left;
                        return Ok(());
                    }
                }
                op @ (Operation::Mbarrier(_) | Operation::BulkCopy(_)) => {
                    if active == 0 {
                        pc += 1;
                        continue;
                    }
                    self.threads[warp].paths[path].pc = pc;
                    self.before_wait(warp, path);
                    self.step(launch, tally, op, (at, warp), active, self.executed + slice - left)?;
                    let next = self.after_wait(warp, path, at)?;
                    if next != Next::Again {
                        pc += 1;
                    }
                    if next != Next::Go {
                        let thread = &mut self.threads[warp];
                        thread.paths[path].pc = pc;
                        thread.current = (path + 1) % thread.paths.len();
                        self.executed += slice - left;
                        return Ok(());
                    }
                }
                op => {
                    pc += 1;
                    if active != 0 {
                        self.step(launch, tally, op, (at, warp), active, self.executed + slice - left)?;
                    }
                }
            }
        }
    }

    /// Executes one instruction that neither branches nor waits.
    #[inline(always)]
    fn step(
        &mut self,
        launch: &Launch<'_>,
        tally: &mut Tally,
        op: &Operation,
        (pc, warp): (usize, usize),
        active: u32,
        clock: u64,
    ) -> Result<(), Stop> {
        let mut m = Machine {
            launch,
            warp: &mut self.threads[warp].warp,
            shared: &mut self.shared,
            tally,
            pc,
            block: self.number,
            clock,
        };
        op.execute(&mut m, active).map_err(|trap| Stop { trap, pc, warp })?;
        if let Some((lane, detail)) = self.shared.unwritten.take()
            && self.unwritten.is_none()
        {
            let trap = Trap::new(FaultKind::UninitialisedShared, lane, detail);
            self.unwritten = Some(Stop { trap, pc, warp });
        }
        Ok(())
    }

    /// A place where a thread of the block is.
    pub(super) fn somewhere(&self) -> (usize, usize) {
        let at = self.threads.iter().find_map(|t| t.pick(0).map(|p| (t.paths[p].pc as usize, t.warp.index)));
        at.unwrap_or((0, 0))
    }
}

fn value(special: Special, launch: &Launch<'_>, index: [u32; 3], thread: u32, lane: u32, warps: u32) -> u32 {
    let [nx, ny, _] = launch.block;
    match special {
        Special::Tid(0) => thread % nx,
        Special::Tid(1) => thread / nx % ny,
        Special::Tid(_) => thread / nx / ny,
        Special::Ntid(axis) => launch.block[usize::from(axis)],
        Special::Ctaid(axis) => index[usize::from(axis)],
        Special::Nctaid(axis) => launch.grid[usize::from(axis)],
        Special::Lane => lane,
        Special::Warp => thread / 32,
        Special::Warps => warps,
        Special::LaneMask(LaneMask::Eq) => 1 << lane,
        Special::LaneMask(LaneMask::Lt) => (1 << lane) - 1,
        Special::LaneMask(LaneMask::Le) => u32::MAX >> (31 - lane),
        Special::LaneMask(LaneMask::Gt) => !(u32::MAX >> (31 - lane)),
        Special::LaneMask(LaneMask::Ge) => !((1 << lane) - 1),
        Special::Constant(v) => v,
        Special::DynamicShared => launch.dynamic_shared,
        Special::TotalShared => launch.shared_bytes,
    }
}
