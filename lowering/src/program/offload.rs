//! Intermediate values that wait in host memory: a plan that needs less of the device's memory, and copies instead.
//!
//! A value that the most crowded step neither makes nor reads is copied to pinned host memory after its last use before that step, and back
//! before its next use. What is largest goes first, and of equals what is not needed for longest. Copies are steps like any other, in order with
//! the launches; nothing overlaps with them.

use tenon_runtime::LaunchPlan;
use tenon_runtime::plan::{Argument, Buffer, Copy, MemoryKind, Operation, Place, Step};

use crate::program::{ALIGNMENT, Lifetime, plan_memory};

/// Why a plan cannot be brought under a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadError {
    /// Sizes of values follow from the request, so that what would be copied is not known.
    Extents,
    /// The plan has steps of a kind that values cannot be moved around, by its name.
    Step(&'static str),
    /// What the most crowded step itself makes and reads is more than the budget.
    Crowded {
        /// The step, in the plan with the copies made so far.
        step: u32,
        /// Bytes that it needs at once.
        bytes: u64,
    },
}

impl std::fmt::Display for OffloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OffloadError::Extents => f.write_str("sizes within a padded bucket are not known when copies are planned"),
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
    if !plan.extents.is_empty() {
        return Err(OffloadError::Extents);
    }
    let moved =
        |operation: &Operation| matches!(operation, Operation::Launch(_) | Operation::Copy(_) | Operation::Memset(_));
    if let Some(step) = plan.steps.iter().find(|step| !moved(&step.operation) || step.stream != 0) {
        return Err(OffloadError::Step(step.operation.name()));
    }
    let mut plan = plan.clone();
    loop {
        place(&mut plan).ok_or(OffloadError::Crowded { step: 0, bytes: u64::MAX })?;
        if plan.arena_bytes <= budget {
            return Ok(plan);
        }
        let Some(peak) = plan.peak() else { return Ok(plan) };
        let gap = |index: &usize| {
            let uses = uses(&plan, *index as u32);
            let before = uses.iter().copied().filter(|step| *step < peak.step as usize).max()?;
            let after = uses.iter().copied().filter(|step| *step > peak.step as usize).min()?;
            let is_used = uses.contains(&(peak.step as usize));
            let is_moved = is_transfer(&plan, before) || is_transfer(&plan, after);
            (!is_used && !is_moved).then_some((before, after))
        };
        let candidates = peak.buffers.iter().filter_map(|index| Some((*index, gap(index)?)));
        let best = candidates.max_by_key(|(index, (before, after))| {
            (plan.buffers[*index].bytes, after - before, std::cmp::Reverse(*index))
        });
        let Some((index, (before, after))) = best else {
            return Err(OffloadError::Crowded { step: peak.step, bytes: peak.bytes });
        };
        move_out(&mut plan, index, before, after);
    }
}

/// Steps that use a buffer, ascending.
fn uses(plan: &LaunchPlan, buffer: u32) -> Vec<usize> {
    let is_it = |place: Option<Place>| place == Some(Place::Buffer(buffer));
    let uses = |step: &Step| match &step.operation {
        Operation::Launch(launch) => launch.arguments.iter().any(|argument| is_it(argument.place())),
        Operation::Copy(copy) => is_it(Some(copy.source)) || is_it(Some(copy.target)),
        Operation::Memset(memset) => is_it(Some(memset.target)),
        _ => false,
    };
    (0..plan.steps.len()).filter(|index| uses(&plan.steps[*index])).collect()
}

/// Whether a step copies to or from host memory. What it brings or takes is moved once: that is what makes the search end.
fn is_transfer(plan: &LaunchPlan, step: usize) -> bool {
    let pinned = |place: Place| match place {
        Place::Buffer(index) => plan.buffers[index as usize].memory == MemoryKind::Pinned,
        _ => false,
    };
    match &plan.steps[step].operation {
        Operation::Copy(copy) => pinned(copy.source) || pinned(copy.target),
        _ => false,
    }
}

/// Copies a buffer out after one step and into a new one before another; later steps use the new one.
fn move_out(plan: &mut LaunchPlan, index: usize, before: usize, after: usize) {
    let buffer = plan.buffers[index].clone();
    let host = plan.buffers.len() as u32;
    let back = host + 1;
    plan.buffers.push(Buffer { memory: MemoryKind::Pinned, ..buffer.clone() });
    plan.buffers.push(buffer.clone());
    for step in &mut plan.steps[after..] {
        rename(&mut step.operation, index as u32, back);
    }
    let copy = |source: u32, target: u32, nodes: &[String]| Step {
        source_nodes: nodes.to_vec(),
        ..Step::new(Operation::Copy(Copy {
            source: Place::Buffer(source),
            target: Place::Buffer(target),
            bytes: buffer.bytes.into(),
        }))
    };
    let nodes = plan.steps[before].source_nodes.clone();
    // The later one first, so that the earlier place stays what it is.
    plan.steps.insert(after, copy(host, back, &nodes));
    plan.steps.insert(before + 1, copy(index as u32, host, &nodes));
}

fn rename(operation: &mut Operation, from: u32, to: u32) {
    let place = |place: &mut Place| {
        if *place == Place::Buffer(from) {
            *place = Place::Buffer(to);
        }
    };
    match operation {
        Operation::Launch(launch) => {
            for argument in &mut launch.arguments {
                if *argument == Argument::Buffer(from) {
                    *argument = Argument::Buffer(to);
                }
            }
        }
        Operation::Copy(copy) => {
            place(&mut copy.source);
            place(&mut copy.target);
        }
        Operation::Memset(memset) => place(&mut memset.target),
        _ => {}
    }
}

/// Lifetimes by use, and offsets in both arenas; `None` when sizes overflow.
fn place(plan: &mut LaunchPlan) -> Option<()> {
    for index in 0..plan.buffers.len() {
        let uses = uses(plan, index as u32);
        let (Some(first), Some(last)) = (uses.first(), uses.last()) else { continue };
        plan.buffers[index].first = u32::try_from(*first).ok()?;
        plan.buffers[index].last = u32::try_from(*last).ok()?;
    }
    for memory in [MemoryKind::Device, MemoryKind::Pinned] {
        let places: Vec<usize> =
            (0..plan.buffers.len()).filter(|index| plan.buffers[*index].memory == memory).collect();
        let lifetimes: Vec<_> = places
            .iter()
            .map(|index| {
                let Buffer { bytes, first, last, .. } = plan.buffers[*index];
                Lifetime { bytes, first, last }
            })
            .collect();
        let packed = plan_memory(&lifetimes)?;
        for (index, offset) in places.into_iter().zip(packed.offsets) {
            plan.buffers[index].offset = offset;
            plan.buffers[index].alignment = ALIGNMENT;
        }
        match memory {
            MemoryKind::Device => plan.arena_bytes = packed.arena_bytes,
            MemoryKind::Pinned => plan.pinned_arena_bytes = packed.arena_bytes,
        }
    }
    Some(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tenon_runtime::plan::{Launch, TensorSlot};
    use tenon_tensor::DType;

    use super::*;

    /// A chain in which the first value is read again at the end: b0 is made, b1 of it, b2 of b1, then both.
    fn plan() -> LaunchPlan {
        let buffer = |first, last| Buffer {
            name: "b".into(),
            dtype: DType::U8,
            shape: vec![1024],
            offset: 0,
            bytes: 1024,
            alignment: 256,
            first,
            last,
            memory: MemoryKind::Device,
        };
        let launch = |arguments: Vec<Argument>| {
            Step::new(Operation::Launch(Launch {
                entry: "k".into(),
                grid: [1.into(), 1.into(), 1.into()],
                block: [32, 1, 1],
                dynamic_shared_bytes: 0,
                cluster: None,
                arguments,
            }))
        };
        let mut plan = LaunchPlan::new("p");
        plan.inputs = vec![TensorSlot::new("x", DType::U8, &[1024])];
        plan.outputs = vec![TensorSlot::new("y", DType::U8, &[1024])];
        plan.buffers = vec![buffer(0, 4), buffer(1, 2), buffer(2, 3), buffer(3, 4)];
        plan.steps = vec![
            launch(vec![Argument::Input(0), Argument::Buffer(0)]),
            launch(vec![Argument::Buffer(0), Argument::Buffer(1)]),
            launch(vec![Argument::Buffer(1), Argument::Buffer(2)]),
            launch(vec![Argument::Buffer(2), Argument::Buffer(3)]),
            launch(vec![Argument::Buffer(0), Argument::Buffer(3), Argument::Output(0)]),
        ];
        place(&mut plan).unwrap();
        plan
    }

    #[test]
    fn a_value_waits_in_host_memory() {
        let before = plan();
        before.validate().unwrap();
        assert_eq!(before.arena_bytes, 3072);
        assert_eq!(offload(&before, 3072).unwrap(), before);
        let after = offload(&before, 2048).unwrap();
        after.validate().unwrap();
        assert_eq!((after.arena_bytes, after.pinned_arena_bytes), (2048, 1024));
        let names: Vec<_> = after.steps.iter().map(|step| step.operation.name()).collect();
        assert_eq!(names, ["launch", "launch", "copy", "launch", "launch", "copy", "launch"]);
        assert!(matches!(offload(&before, 2047), Err(OffloadError::Crowded { .. })));
    }

    #[test]
    fn what_cannot_be_moved_is_said() {
        let mut padded = plan();
        padded.extents = vec!["n".into()];
        assert_eq!(offload(&padded, 0), Err(OffloadError::Extents));
    }
}
