//! Causality order between blocks (PTX ISA, "Memory Consistency Model"): which accesses to global memory are ordered before which.
//!
//! - What a warp accesses between two points at which it synchronises is one segment. Segments have numbers, and a warp knows of each warp up to which of its
//!   epochs everything is ordered before it.
//! - Release patterns hand that on: a `.release` operation, or a fence and a strong write or atomic behind it. Acquire patterns take it over: an `.acquire`
//!   operation, or a strong read or atomic and a fence behind it. Atomics go on with what those before them at a place released; another strong write begins anew.
//! - Within a block, barriers and mbarriers hand it on too: what one thread acquires, all know behind the next barrier.
//! - It is kept for launches of several blocks whose program has strong accesses, atomics or fences; in others no two blocks are ever ordered.
//!
//! Lanes of a warp count as one. Beyond [`SEGMENT_LIMIT`] segments a warp's epochs do not advance, so that races may be missed and none is made up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Most segments that are told apart in a launch.
const SEGMENT_LIMIT: usize = 1 << 24;
/// Most sets of readers.
const SET_LIMIT: usize = 1 << 20;
/// Marks a set of readers, where a number below is a segment.
const SET: u32 = 1 << 31;

/// Up to which epoch the accesses of warps are ordered before something, by warp.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known(Arc<BTreeMap<u64, u32>>);

impl Known {
    /// Takes over what another knows; whether that was news.
    pub(crate) fn join(&mut self, other: &Known) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return false;
        }
        if self.0.is_empty() {
            self.0 = Arc::clone(&other.0);
            return true;
        }
        let mut news = false;
        for (&warp, &epoch) in other.0.iter() {
            if !self.covers(warp, epoch) {
                Arc::make_mut(&mut self.0).insert(warp, epoch);
                news = true;
            }
        }
        news
    }

    fn put(&mut self, warp: u64, epoch: u32) {
        if !self.covers(warp, epoch) {
            Arc::make_mut(&mut self.0).insert(warp, epoch);
        }
    }

    fn covers(&self, warp: u64, epoch: u32) -> bool {
        self.0.get(&warp).is_some_and(|known| *known >= epoch)
    }
}

/// What a strong access does besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub acquire: bool,
    pub release: bool,
}

/// A warp of a block.
#[derive(Clone, Debug)]
struct Agent {
    /// Its number in the launch.
    warp: u64,
    epoch: u32,
    /// Whether it accessed something in this epoch, and the number of the segment that this is; 0 before it has one.
    accessed: bool,
    segment: u32,
    /// The last segment that it had.
    last: u32,
    known: Known,
    /// What strong writes release since the last fence that releases.
    fenced: Known,
    /// What strong reads have seen, acquired by the next fence that acquires.
    observed: Known,
}

impl Agent {
    /// What is ordered before what follows a release; later accesses are of another epoch.
    fn release(&mut self) -> Known {
        let mut released = self.known.clone();
        let done = if self.accessed { self.epoch } else { self.epoch - 1 };
        if done > 0 {
            released.put(self.warp, done);
        }
        self.advance();
        released
    }

    fn acquire(&mut self, released: &Known) {
        if self.known.join(released) {
            // A segment stands for what was known in all of it.
            self.advance();
        }
    }

    fn advance(&mut self) {
        if self.accessed {
            self.epoch = self.epoch.saturating_add(1);
            (self.accessed, self.segment) = (false, 0);
        }
    }
}

/// The warps of a block; none where nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Agents(Vec<Agent>);

impl Agents {
    /// Those of the block with a number from 1.
    pub(crate) fn start(&mut self, block: u32, warps: usize, kept: bool) {
        self.0.clear();
        if kept {
            let first = u64::from(block - 1) * warps as u64;
            self.0.extend((0..warps as u64).map(|warp| Agent {
                warp: first + warp,
                epoch: 1,
                accessed: false,
                segment: 0,
                last: 0,
                known: Known::default(),
                fenced: Known::default(),
                observed: Known::default(),
            }));
        }
    }

    /// What a warp hands on by arriving at a barrier.
    pub(crate) fn release(&mut self, warp: usize) -> Known {
        self.0.get_mut(warp).map(Agent::release).unwrap_or_default()
    }

    /// A warp learns what others handed on.
    pub(crate) fn acquire(&mut self, warp: usize, released: &Known) {
        if let Some(agent) = self.0.get_mut(warp) {
            agent.acquire(released);
        }
    }

    /// A fence of the device's scope.
    pub(crate) fn fence(&mut self, warp: usize, order: Order) {
        let Some(agent) = self.0.get_mut(warp) else { return };
        if order.acquire {
            let observed = agent.observed.clone();
            agent.acquire(&observed);
        }
        if order.release {
            agent.fenced = agent.release();
        }
    }
}

/// What happened at a place by strong accesses.
#[derive(Default)]
struct Location {
    released: Known,
    /// The strong writes.
    written: Known,
}

/// Places of strong accesses, held while one of them is made.
pub(crate) struct Locations<'a>(MutexGuard<'a, HashMap<usize, Location>>);

impl Locations<'_> {
    /// A strong read of a place.
    pub(crate) fn read(&mut self, place: usize, agents: &mut Agents, warp: usize, order: Order) {
        let (Some(agent), Some(location)) = (agents.0.get_mut(warp), self.0.get(&place)) else { return };
        if order.acquire {
            agent.acquire(&location.released);
        } else {
            agent.observed.join(&location.released);
        }
    }

    /// A strong write of a place, or an atomic, which goes on with what was released there.
    pub(crate) fn write(&mut self, place: usize, agents: &mut Agents, warp: usize, order: Order, atomic: bool) {
        let Some(agent) = agents.0.get_mut(warp) else { return };
        let location = self.0.entry(place).or_default();
        agent.accessed = true;
        location.written.put(agent.warp, agent.epoch);
        if atomic && order.acquire {
            agent.acquire(&location.released);
        } else if atomic {
            agent.observed.join(&location.released);
        } else {
            location.released = Known::default();
        }
        location.released.join(&agent.fenced);
        if order.release {
            let released = agent.release();
            location.released.join(&released);
        }
    }
}

/// Sets of segments that read a place, none of them ordered before another.
#[derive(Default)]
struct Readers {
    sets: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
    /// Which set follows when a segment reads too.
    next: HashMap<(u32, u32), u32>,
}

/// What is known of a launch.
#[derive(Default)]
pub(crate) struct Causality {
    /// Warps of a block; 0 where nothing is kept.
    warps: u64,
    /// Warp and epoch of each segment, from number 1 on.
    segments: RwLock<Vec<(u64, u32)>>,
    locations: Mutex<HashMap<usize, Location>>,
    readers: Mutex<Readers>,
}

impl Causality {
    /// Forgets everything; `warps` of a block, 0 where nothing is to be kept.
    pub(crate) fn begin(&mut self, warps: usize) {
        *self = Causality { warps: warps as u64, ..Causality::default() };
    }

    /// Whether anything is kept.
    pub(crate) fn kept(&self) -> bool {
        self.warps > 0
    }

    /// The segment of a warp's next access, and what the warp knows.
    pub(crate) fn segment(&self, agents: &mut Agents, warp: usize) -> Option<(u32, Known)> {
        let agent = agents.0.get_mut(warp)?;
        agent.accessed = true;
        if agent.segment == 0 {
            let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
            if segments.len() < SEGMENT_LIMIT {
                segments.push((agent.warp, agent.epoch));
                agent.last = segments.len() as u32;
            }
            // Of a warp that never had one, a number that stands for no segment.
            agent.segment = if agent.last == 0 { SEGMENT_LIMIT as u32 + 1 } else { agent.last };
        }
        Some((agent.segment, agent.known.clone()))
    }

    fn of(&self, segment: u32) -> Option<(u64, u32)> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.get((segment as usize).checked_sub(1)?).copied()
    }

    /// The block, from 1, of a segment.
    pub(crate) fn block(&self, segment: u32) -> u32 {
        if !self.kept() {
            return segment;
        }
        self.of(segment).map_or(0, |(warp, _)| (warp / self.warps) as u32 + 1)
    }

    /// Whether a segment is of a block, or ordered before what is known.
    pub(crate) fn ordered(&self, segment: u32, block: u32, known: Option<&Known>) -> bool {
        if !self.kept() {
            return segment == block;
        }
        let Some((warp, epoch)) = self.of(segment) else { return true };
        warp / self.warps + 1 == u64::from(block) || known.is_some_and(|known| known.covers(warp, epoch))
    }

    /// Whether all strong writes of a place are by a block, or ordered before what is known.
    pub(crate) fn strong_ordered(&self, place: usize, block: u32, known: Option<&Known>) -> bool {
        let Some(known) = known else { return false };
        let locations = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(location) = locations.get(&place) else { return true };
        let own = |warp: u64| warp / self.warps.max(1) + 1 == u64::from(block);
        location.written.0.iter().all(|(warp, epoch)| own(*warp) || known.covers(*warp, *epoch))
    }

    /// The places of strong accesses, for one of them.
    pub(crate) fn locations(&self) -> Locations<'_> {
        Locations(self.locations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who has read a place that `before` says had been read, when a segment reads it too.
    pub(crate) fn read_too(&self, before: u32, segment: u32, block: u32, known: &Known) -> u32 {
        if before == 0 || before == segment {
            return segment;
        }
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = readers.next.get(&(before, segment)) {
            return *next;
        }
        let mut members = readers.members(before);
        // Whoever is behind this segment is behind what is ordered before it.
        let own = self.of(segment).map(|(warp, _)| warp);
        members.retain(|other| {
            let same = self.of(*other).map(|(warp, _)| warp) == own;
            let other_block = self.block(*other) != block;
            !same && !(other_block && self.ordered(*other, block, Some(known))) && *other != segment
        });
        members.push(segment);
        members.sort_unstable();
        let next = match (members.as_slice(), readers.numbers.get(&members)) {
            ([only], _) => *only,
            (_, Some(number)) => *number,
            _ if readers.sets.len() >= SET_LIMIT => return before,
            _ => {
                let number = SET | readers.sets.len() as u32;
                readers.sets.push(members.clone());
                readers.numbers.insert(members, number);
                number
            }
        };
        readers.next.insert((before, segment), next);
        next
    }

    /// A reader of a place that is not ordered before what is known, and of another block.
    pub(crate) fn unordered_reader(&self, readers: u32, block: u32, known: Option<&Known>) -> Option<u32> {
        if !self.kept() {
            return (readers != block).then_some(if readers == MANY { 0 } else { readers });
        }
        let members = self.readers.lock().unwrap_or_else(PoisonError::into_inner).members(readers);
        members.into_iter().find(|reader| !self.ordered(*reader, block, known)).map(|reader| self.block(reader))
    }
}

/// Several blocks have read a place, where nothing else is kept.
pub(crate) const MANY: u32 = u32::MAX;

impl Readers {
    fn members(&self, readers: u32) -> Vec<u32> {
        if readers & SET == 0 {
            return vec![readers];
        }
        self.sets.get((readers & !SET) as usize).cloned().unwrap_or_default()
    }
}
