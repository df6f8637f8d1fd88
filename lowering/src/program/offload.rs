//! Intermediate values that wait in host memory: a plan that needs less of the device's memory, and copies instead.
//!
//! A value that the most crowded step neither makes nor reads is copied to pinned host memory after its last use before that step, and back
//! before its next use. What is largest goes first, and of equals what is not needed for longest. Copies there and copies back have a stream each, so
//! that they run beside the kernels and beside each other: a kernel waits for the copy of a value that it reads, or whose memory it takes. As far as
//! the budget allows, the memory of a value is taken by others some steps after its copy has begun, and a copy back begins some steps before its use
//! (`moves.rs`).
//!
//! A value of a padded bucket is copied by its capacity, whatever its extents are.

mod moves;

use tenon_runtime::LaunchPlan;
use tenon_runtime::plan::{Argument, Buffer, Copy, EventMark, MemoryKind, Operation, Place, Step};

use crate::program::ALIGNMENT;
use moves::{Move, Values};

/// The stream of copies to host memory.
const OUT: u32 = 1;
/// The stream of copies from host memory.
const BACK: u32 = 2;

/// Why a plan cannot be brought under a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadError {
    /// The plan has steps of a kind that values cannot be moved around, by its name.
    Step(&'static str),
    /// What the most crowded step itself makes and reads is more than the budget.
    Crowded {
        /// The step.
        step: usize,
        /// Bytes that it needs at once.
        bytes: u64,
    },
}

impl std::fmt::Display for OffloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OffloadError::Step(name) => write!(f, "values are not moved around steps `{name}`"),
            OffloadError::Crowded { step, bytes } => {
                write!(f, "what step {step} itself makes and reads takes {bytes} bytes, wherever the rest waits")
            }
        }
    }
}

/// A plan that computes the same with an arena of at most `budget` bytes.
///
/// # Errors
/// Why there is none.
pub fn offload(plan: &LaunchPlan, budget: u64) -> Result<LaunchPlan, OffloadError> {
    let moved = |operation: &Operation| {
        use Operation::{Copy, Launch, Memset, ReadExtent};
        matches!(operation, Launch(_) | Copy(_) | Memset(_) | ReadExtent(_))
    };
    if let Some(step) = plan.steps.iter().find(|step| !moved(&step.operation) || step.stream != 0) {
        return Err(OffloadError::Step(step.operation.name()));
    }
    let values = Values::of(plan);
    let mut moves = values.choose(budget)?;
    values.widen(&mut moves, budget);
    Emitter::new(plan, &values, moves).emit().ok_or(OffloadError::Crowded { step: 0, bytes: u64::MAX })
}

/// Memory that a step uses.
fn places(operation: &Operation) -> Vec<Place> {
    match operation {
        Operation::Launch(launch) => launch.arguments.iter().filter_map(Argument::place).collect(),
        Operation::Copy(copy) => vec![copy.source, copy.target],
        Operation::Memset(memset) => vec![memset.target],
        Operation::ReadExtent(read) => vec![read.source],
        _ => Vec::new(),
    }
}

/// Replaces buffers of a step.
fn rename(operation: &mut Operation, to: &[u32]) {
    let number = |index: &mut u32| *index = to.get(*index as usize).copied().unwrap_or(*index);
    let place = |place: &mut Place| {
        if let Place::Buffer(index) = place {
            number(index);
        }
    };
    match operation {
        Operation::Launch(launch) => {
            for argument in &mut launch.arguments {
                match argument {
                    Argument::Buffer(index) => number(index),
                    Argument::TensorMap(map) => place(&mut map.place),
                    _ => {}
                }
            }
        }
        Operation::Copy(copy) => {
            place(&mut copy.source);
            place(&mut copy.target);
        }
        Operation::Memset(memset) => place(&mut memset.target),
        Operation::ReadExtent(read) => place(&mut read.source),
        _ => {}
    }
}

/// Writes the plan with its copies.
struct Emitter<'p> {
    source: &'p LaunchPlan,
    values: &'p Values,
    moves: Vec<Move>,
    plan: LaunchPlan,
    /// The buffer that each value lies in.
    current: Vec<u32>,
    /// The event behind the copy of each move, there and back.
    copied: Vec<[u32; 2]>,
    events: u32,
    /// The latest event of each copy stream that the kernels have waited for.
    waited: [Option<u32>; 2],
}

impl<'p> Emitter<'p> {
    fn new(source: &'p LaunchPlan, values: &'p Values, moves: Vec<Move>) -> Self {
        let mut plan = source.clone();
        plan.steps.clear();
        for one in &moves {
            let buffer = &source.buffers[one.value];
            plan.buffers.push(Buffer { memory: MemoryKind::Pinned, ..buffer.clone() });
            plan.buffers.push(buffer.clone());
        }
        Emitter {
            source,
            values,
            copied: vec![[0; 2]; moves.len()],
            moves,
            plan,
            current: (0..source.buffers.len() as u32).collect(),
            events: 0,
            waited: [None; 2],
        }
    }

    /// The buffer in host memory of a move, and the one that it is copied back to.
    fn buffers(&self, index: usize) -> [u32; 2] {
        let first = (self.source.buffers.len() + 2 * index) as u32;
        [first, first + 1]
    }

    /// The moves for which something holds.
    fn of(&self, holds: impl Fn(&Move) -> bool) -> Vec<usize> {
        (0..self.moves.len()).filter(|index| holds(&self.moves[*index])).collect()
    }

    fn push(&mut self, stream: u32, operation: Operation, nodes: &[String]) -> u32 {
        self.plan.steps.push(Step { stream, source_nodes: nodes.to_vec(), operation });
        self.plan.steps.len() as u32 - 1
    }

    /// Marks a stream.
    fn record(&mut self, stream: u32) -> u32 {
        let event = self.events;
        self.events += 1;
        self.push(stream, Operation::Event(EventMark { event }), &[]);
        event
    }

    /// Lets a copy stream wait for the kernels so far.
    fn follow(&mut self, stream: u32) {
        let event = self.record(0);
        self.push(stream, Operation::Wait(EventMark { event }), &[]);
    }

    /// Lets the kernels wait for a copy; a later one of the same stream that they have waited for is enough.
    fn wait(&mut self, stream: u32, event: u32) {
        let waited = &mut self.waited[stream as usize - 1];
        if waited.is_none_or(|latest| latest < event) {
            *waited = Some(event);
            self.push(0, Operation::Wait(EventMark { event }), &[]);
        }
    }

    fn copy(&mut self, stream: u32, source: u32, target: u32, nodes: &[String]) -> (u32, u32) {
        let bytes = self.plan.buffers[source as usize].bytes.into();
        let copy = Copy { source: Place::Buffer(source), target: Place::Buffer(target), bytes };
        let step = self.push(stream, Operation::Copy(copy), nodes);
        (step, self.record(stream))
    }

    fn last_step(&self) -> u32 {
        (self.plan.steps.len() as u32).saturating_sub(1)
    }

    /// `None` when sizes overflow.
    fn emit(mut self) -> Option<LaunchPlan> {
        let source = self.source;
        let mut position = Vec::with_capacity(source.steps.len());
        for (index, step) in source.steps.iter().enumerate() {
            self.copy_out(index);
            for one in self.of(|one| one.release + 1 == index) {
                self.wait(OUT, self.copied[one][0]);
            }
            for one in self.of(|one| one.release + 1 == index) {
                let held = self.current[self.moves[one].value];
                self.plan.buffers[held as usize].last = self.last_step();
            }
            self.copy_back(index);
            for one in self.of(|one| one.after == index) {
                self.wait(BACK, self.copied[one][1]);
                let [host, back] = self.buffers(one);
                self.plan.buffers[host as usize].last = self.last_step();
                self.current[self.moves[one].value] = back;
            }
            let mut step = step.clone();
            rename(&mut step.operation, &self.current);
            position.push(self.plan.steps.len() as u32);
            self.plan.steps.push(step);
        }
        self.finish(&position)
    }

    /// Copies of the values whose last use before a move was the step before this one.
    fn copy_out(&mut self, index: usize) {
        let leaving = self.of(|one| one.before + 1 == index);
        if leaving.is_empty() {
            return;
        }
        self.follow(OUT);
        for one in leaving {
            let [host, _] = self.buffers(one);
            let held = self.current[self.moves[one].value];
            let nodes = self.source.steps[self.moves[one].before].source_nodes.clone();
            let (step, event) = self.copy(OUT, held, host, &nodes);
            self.plan.buffers[host as usize].first = step;
            self.copied[one][0] = event;
        }
    }

    /// Copies of the values whose memory is taken again from this step on.
    fn copy_back(&mut self, index: usize) {
        let coming = self.of(|one| one.fetch == index);
        if coming.is_empty() {
            return;
        }
        self.follow(BACK);
        for one in coming {
            let [host, back] = self.buffers(one);
            let nodes = self.source.steps[self.moves[one].after].source_nodes.clone();
            let (step, event) = self.copy(BACK, host, back, &nodes);
            self.plan.buffers[back as usize].first = step;
            self.copied[one][1] = event;
        }
    }

    /// Lifetimes in the steps of the new plan where no copy ends them, and offsets.
    fn finish(mut self, position: &[u32]) -> Option<LaunchPlan> {
        let layout = self.values.layout(&self.moves)?;
        for (value, uses) in self.values.uses.iter().enumerate() {
            let (Some(first), Some(last)) = (uses.first(), uses.last()) else { continue };
            self.plan.buffers[value].first = position[*first];
            self.plan.buffers[self.current[value] as usize].last = position[*last];
        }
        for (value, offset) in layout.first.into_iter().enumerate() {
            self.plan.buffers[value].offset = offset;
        }
        for (index, offsets) in layout.moved.into_iter().enumerate() {
            for (buffer, offset) in self.buffers(index).into_iter().zip(offsets) {
                self.plan.buffers[buffer as usize].offset = offset;
            }
        }
        for buffer in &mut self.plan.buffers {
            buffer.alignment = ALIGNMENT;
        }
        self.plan.arena_bytes = layout.arena_bytes;
        self.plan.pinned_arena_bytes = layout.pinned_bytes;
        Some(self.plan)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
