//! Blocks over host threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use super::Random;
use super::block::{Block, Outcome, Stop};
use crate::execute::machine::{Launch, Tally};
use crate::fault::{FaultKind, Trap};
use crate::memory::cache::Cache;
use crate::memory::shared::SharedChecks;

/// Warp instructions after which a block gives way to others: blocks may wait for each other.
const SLICE: u64 = 1 << 20;
/// Blocks a host thread keeps at once.
const RESIDENT: usize = 256;

pub(crate) struct Request<'a> {
    pub launch: &'a Launch<'a>,
    pub checks: SharedChecks,
    pub seed: u64,
    pub threads: usize,
    pub budget: u64,
}

/// A fault with its block, before it is described.
pub(crate) struct Fallen {
    pub order: u64,
    pub block: [u32; 3],
    pub trap: Box<Trap>,
    pub pc: usize,
    pub warp: usize,
}

pub(crate) struct Done {
    pub tally: Tally,
    pub cache: (u64, u64),
    pub fault: Option<Fallen>,
}

struct Shared {
    next: AtomicU64,
    /// Blocks from this place of the order on need not run: an earlier one has a fault.
    stop: AtomicU64,
    executed: AtomicU64,
    fault: Mutex<Option<Fallen>>,
    replay: Mutex<Replay>,
}

struct Replay {
    cache: Cache,
    next: u64,
    pending: BTreeMap<u64, Vec<u64>>,
}

/// An order of all blocks drawn from the seed: `i ↦ (a i + c) mod n`.
#[derive(Clone, Copy)]
struct Order {
    n: u64,
    a: u64,
    c: u64,
}

impl Order {
    fn new(n: u64, seed: u64) -> Order {
        if seed == 0 || n < 2 {
            return Order { n, a: 1, c: 0 };
        }
        let gcd = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let mut random = Random::new(seed, 0x0b10c);
        let mut a = 1 + random.next() % (n - 1);
        while gcd(a, n) != 1 {
            a = a % (n - 1) + 1;
        }
        Order { n, a, c: random.next() % n }
    }
    fn at(self, i: u64) -> u64 {
        ((u128::from(i) * u128::from(self.a) + u128::from(self.c)) % u128::from(self.n)) as u64
    }
}

pub(crate) fn run(request: &Request<'_>) -> Done {
    let [x, y, z] = request.launch.grid.map(u64::from);
    let total = x * y * z;
    let shared = Shared {
        next: AtomicU64::new(0),
        stop: AtomicU64::new(u64::MAX),
        executed: AtomicU64::new(0),
        fault: Mutex::new(None),
        replay: Mutex::new(Replay { cache: Cache::new(), next: 0, pending: BTreeMap::new() }),
    };
    let order = Order::new(total, request.seed);
    let workers = request.threads.clamp(1, 256).min(usize::try_from(total).unwrap_or(usize::MAX).max(1));
    let tallies: Vec<Tally> = if workers == 1 {
        vec![work(request, &shared, order)]
    } else {
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(request, &shared, order))).collect();
            handles.into_iter().map(|h| h.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
        })
    };
    let mut tallies = tallies.into_iter();
    let mut tally = tallies.next().unwrap_or_default();
    for other in tallies {
        for (a, b) in tally.instructions.iter_mut().zip(&other.instructions) {
            a.issued += b.issued;
            a.lanes += b.lanes;
            a.requests += b.requests;
            a.sectors += b.sectors;
            a.extra_wavefronts += b.extra_wavefronts;
        }
        tally.mma_macs += other.mma_macs;
        tally.barrier_waits += other.barrier_waits;
        tally.async_copy_bytes += other.async_copy_bytes;
    }
    let mut replay = shared.replay.into_inner().unwrap_or_else(PoisonError::into_inner);
    for lines in std::mem::take(&mut replay.pending).into_values() {
        lines.iter().for_each(|&l| replay.cache.touch(l));
    }
    Done {
        tally,
        cache: (replay.cache.hits, replay.cache.misses),
        fault: shared.fault.into_inner().unwrap_or_else(PoisonError::into_inner),
    }
}

fn work(request: &Request<'_>, shared: &Shared, order: Order) -> Tally {
    let launch = request.launch;
    let code = launch.program.code.len();
    let mut tally = Tally {
        instructions: vec![Default::default(); code],
        patterns: (0..code).map(|_| None).collect(),
        ..Tally::default()
    };
    let mut idle: Vec<Box<Block>> = Vec::new();
    let mut resident: VecDeque<Box<Block>> = VecDeque::new();
    let [nx, ny, _] = launch.grid.map(u64::from);
    loop {
        let fresh = if resident.len() < RESIDENT { claim(shared, order.n) } else { None };
        let mut block = match fresh {
            Some(place) => {
                let mut block = idle.pop().unwrap_or_else(|| Box::new(Block::new(launch, request.checks)));
                let at = order.at(place);
                let index = [(at % nx) as u32, (at / nx % ny) as u32, (at / nx / ny) as u32];
                block.start(launch, index, at as u32 + 1, place, request.seed);
                block
            }
            None => match resident.pop_front() {
                Some(block) => block,
                None => return tally,
            },
        };
        if block.order >= shared.stop.load(SeqCst) {
            continue;
        }
        let before = block.executed;
        let budget = request.budget.saturating_sub(shared.executed.load(SeqCst));
        let outcome = block.run(launch, &mut tally, SLICE.min(budget.max(1)));
        let spent = block.executed - before;
        let total = shared.executed.fetch_add(spent, SeqCst) + spent;
        match outcome {
            Ok(Outcome::Finished) => {
                if launch.cache_lines {
                    replay(shared, block.order, &mut block.lines);
                }
                idle.push(block);
            }
            Ok(Outcome::Paused) if total >= request.budget => {
                let detail = format!("more than {} warp instructions", request.budget);
                let (pc, warp) = block.somewhere();
                fall(shared, &block, Stop { trap: Trap::new(FaultKind::InstructionBudget, 0, detail), pc, warp });
            }
            Ok(Outcome::Paused) => resident.push_back(block),
            Err(stop) => fall(shared, &block, stop),
        }
    }
}

fn claim(shared: &Shared, total: u64) -> Option<u64> {
    let place = shared.next.fetch_add(1, SeqCst);
    if place >= total || place >= shared.stop.load(SeqCst) {
        shared.next.fetch_sub(1, SeqCst);
        return None;
    }
    Some(place)
}

/// Of several faults the one earliest in the order counts, whatever the host threads do.
fn fall(shared: &Shared, block: &Block, stop: Stop) {
    shared.stop.fetch_min(block.order, SeqCst);
    let mut fault = shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
    if fault.as_ref().is_none_or(|f| f.order > block.order) {
        *fault = Some(Fallen { order: block.order, block: block.index, trap: stop.trap, pc: stop.pc, warp: stop.warp });
    }
}

fn replay(shared: &Shared, order: u64, lines: &mut Vec<u64>) {
    let mut replay = shared.replay.lock().unwrap_or_else(PoisonError::into_inner);
    if order != replay.next {
        let kept = std::mem::take(lines);
        replay.pending.insert(order, kept);
        return;
    }
    lines.iter().for_each(|&l| replay.cache.touch(l));
    replay.next += 1;
    loop {
        let next = replay.next;
        let Some(lines) = replay.pending.remove(&next) else { break };
        lines.iter().for_each(|&l| replay.cache.touch(l));
        replay.next += 1;
    }
}
