//! Plans with copies: budgets, order, and that every kernel reads what it read before.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;
use tenon_runtime::plan::{Expr, Launch, TensorSlot};
use tenon_tensor::DType;

use super::*;

/// Kernels by the buffers that each uses, of the bytes given, in an arena without reuse. Each writes the last of its buffers.
fn plan(bytes: &[u64], kernels: &[Vec<u32>]) -> LaunchPlan {
    let mut plan = LaunchPlan::new("p");
    plan.outputs = vec![TensorSlot::new("y", DType::U8, &[1])];
    for (index, kernel) in kernels.iter().enumerate() {
        let mut arguments: Vec<Argument> = kernel.iter().map(|buffer| Argument::Buffer(*buffer)).collect();
        if index + 1 == kernels.len() {
            arguments.push(Argument::Output(0));
        }
        plan.steps.push(Step::new(Operation::Launch(Launch {
            entry: format!("k{index}"),
            grid: [1.into(), 1.into(), 1.into()],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            cluster: None,
            arguments,
        })));
    }
    for (index, bytes) in bytes.iter().enumerate() {
        let uses: Vec<usize> = (0..kernels.len()).filter(|step| kernels[*step].contains(&(index as u32))).collect();
        plan.buffers.push(Buffer {
            name: format!("b{index}"),
            dtype: DType::U8,
            shape: vec![*bytes],
            offset: 0,
            bytes: *bytes,
            alignment: ALIGNMENT,
            first: uses.first().map_or(0, |step| *step as u32),
            last: uses.last().map_or(0, |step| *step as u32),
            memory: MemoryKind::Device,
            zeroed: false,
        });
    }
    let values = Values::of(&plan);
    let layout = values.layout(&[]).unwrap();
    plan.arena_bytes = layout.arena_bytes;
    for (buffer, offset) in plan.buffers.iter_mut().zip(layout.first) {
        buffer.offset = offset;
    }
    plan
}

fn names(plan: &LaunchPlan) -> Vec<String> {
    let name = |step: &Step| format!("{}{}", step.operation.name(), ["", "/out", "/back"][step.stream as usize]);
    plan.steps.iter().map(name).collect()
}

/// A chain in which the first value is read again at the end: b0 is made, b1 of it, b2 of b1, then both.
fn chain() -> LaunchPlan {
    plan(&[1024; 4], &[vec![0], vec![0, 1], vec![1, 2], vec![2, 3], vec![0, 3]])
}

#[test]
fn a_value_waits_in_host_memory() {
    let before = chain();
    before.validate().unwrap();
    assert_eq!(before.arena_bytes, 3072);
    assert_eq!(offload(&before, 3072).unwrap(), before);
    let after = offload(&before, 2048).unwrap();
    after.validate().unwrap();
    assert_eq!((after.arena_bytes, after.pinned_arena_bytes), (2048, 1024));
    // There is no room to keep the memory for longer than a kernel needs it.
    assert_eq!(
        names(&after),
        [
            "launch",
            "launch",
            "event",
            "wait/out",
            "copy/out",
            "event/out",
            "wait",
            "launch",
            "launch",
            "event",
            "wait/back",
            "copy/back",
            "event/back",
            "wait",
            "launch"
        ]
    );
    assert!(matches!(offload(&before, 2047), Err(OffloadError::Crowded { step: 1, bytes: 2048 })));
}

/// As [`chain`] with seven more kernels, of which that in the middle needs much memory of its own.
fn crowded_in_the_middle() -> LaunchPlan {
    let mut kernels: Vec<Vec<u32>> = vec![vec![0]];
    kernels.extend((0..8).map(|index| vec![index, index + 1]));
    kernels.push(vec![8, 0, 9]);
    kernels[5].push(10);
    plan(&[[1024; 10].as_slice(), &[2048]].concat(), &kernels)
}

#[test]
fn copies_run_beside_the_kernels_where_the_budget_has_room() {
    let before = crowded_in_the_middle();
    let after = offload(&before, 4096).unwrap();
    after.validate().unwrap();
    let expected = [
        ["launch"; 2].as_slice(),
        &["event", "wait/out", "copy/out", "event/out"],
        // Three kernels run while the value goes, and as many while it comes.
        &["launch"; 3],
        &["wait", "launch"],
        &["event", "wait/back", "copy/back", "event/back"],
        &["launch"; 3],
        &["wait", "launch"],
    ]
    .concat();
    assert_eq!(names(&after), expected);
    // With copies of three times a kernel they cost nothing; with four times, one kernel each.
    let time = |copy: f64| {
        let timeline = after.timeline(|_, step| if matches!(step.operation, Operation::Copy(_)) { copy } else { 1.0 });
        (timeline.end, timeline.sum)
    };
    assert_eq!((time(3.0), time(4.0)), ((10.0, 16.0), (12.0, 18.0)));
    // Without any of the events the copies race, and validation says so.
    for index in (0..after.steps.len()).filter(|index| matches!(after.steps[*index].operation, Operation::Wait(_))) {
        let mut racing = after.clone();
        racing.steps[index].operation = Operation::Event(EventMark { event: 100 });
        assert_eq!(racing.validate().unwrap_err().code(), "E0704", "without the wait at step {index}");
    }
}

#[test]
fn counters_stay_where_they_are() {
    // The first value is larger than all others, and not used for long.
    let mut before = plan(&[4096, 1024, 1024, 1024], &[vec![0], vec![0, 1], vec![1, 2], vec![2, 3], vec![0, 3]]);
    assert_eq!(offload(&before, 5120).unwrap().pinned_arena_bytes, 4096);
    before.buffers[0].zeroed = true;
    before.validate().unwrap();
    assert!(matches!(offload(&before, 5120), Err(OffloadError::Crowded { bytes: 6144, .. })));
    // A fourth value makes room for others; the counters are alive in all steps of the longer plan too.
    let kernels = [vec![0], vec![0, 1], vec![1, 2], vec![2, 3], vec![1, 3, 0], vec![3]];
    let mut before = plan(&[256, 1024, 1024, 1024], &kernels);
    before.buffers[0].zeroed = true;
    (before.buffers[0].first, before.buffers[0].last) = (0, 5);
    let layout = Values::of(&before).layout(&[]).unwrap();
    before.arena_bytes = layout.arena_bytes;
    before.buffers.iter_mut().zip(layout.first).for_each(|(buffer, offset)| buffer.offset = offset);
    before.validate().unwrap();
    let after = offload(&before, 2304).unwrap();
    after.validate().unwrap();
    assert_eq!(after.pinned_arena_bytes, 1024);
    let counters = &after.buffers[0];
    assert!(counters.zeroed && counters.first == 0 && counters.last as usize + 1 == after.steps.len(), "{counters:?}");
}

#[test]
fn values_of_padded_buckets_wait_too() {
    let mut padded = chain();
    padded.extents = vec!["n".into()];
    padded
        .inputs
        .push(TensorSlot { extents: Some(vec![Expr::Text("n".into())]), ..TensorSlot::new("x", DType::U8, &[1024]) });
    let after = offload(&padded, 2048).unwrap();
    after.validate().unwrap();
    let bytes: Vec<_> = after
        .steps
        .iter()
        .filter_map(|step| match &step.operation {
            Operation::Copy(copy) => Some(copy.bytes.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(bytes, [Expr::Number(1024), Expr::Number(1024)]);
}

#[test]
fn what_cannot_be_moved_is_said() {
    let mut marked = chain();
    marked.steps.push(Step::new(Operation::Event(EventMark { event: 0 })));
    assert_eq!(offload(&marked, 0), Err(OffloadError::Step("event")));
}

/// What each kernel reads, by a hash of what made it; memory is that of the arenas, in pieces of 256 bytes, and steps run in the plan's order.
fn reads(plan: &LaunchPlan) -> BTreeMap<String, Vec<u64>> {
    let mut memory: HashMap<(bool, u64), u64> = HashMap::new();
    let cells = |index: u32| {
        let buffer = &plan.buffers[index as usize];
        let first = buffer.offset / ALIGNMENT;
        (first..first + buffer.bytes.div_ceil(ALIGNMENT)).map(move |cell| (buffer.memory == MemoryKind::Pinned, cell))
    };
    let mut found = BTreeMap::new();
    for step in &plan.steps {
        match &step.operation {
            Operation::Launch(launch) => {
                let buffers: Vec<u32> = launch
                    .arguments
                    .iter()
                    .filter_map(|argument| match argument {
                        Argument::Buffer(index) => Some(*index),
                        _ => None,
                    })
                    .collect();
                let (written, read) = buffers.split_last().unwrap();
                let seen: Vec<u64> = read
                    .iter()
                    .flat_map(|index| cells(*index))
                    .map(|cell| memory.get(&cell).copied().unwrap_or(0))
                    .collect();
                let mut hasher = DefaultHasher::new();
                (&launch.entry, &seen).hash(&mut hasher);
                let made = hasher.finish();
                memory.extend(cells(*written).map(|cell| (cell, made)));
                found.insert(launch.entry.clone(), seen);
            }
            Operation::Copy(copy) => {
                let (Place::Buffer(source), Place::Buffer(target)) = (copy.source, copy.target) else {
                    panic!("a copy of no buffer")
                };
                let moved: Vec<_> = cells(source).zip(cells(target)).collect();
                for (source, target) in moved {
                    let content = memory.get(&source).copied().unwrap_or(0);
                    memory.insert(target, content);
                }
            }
            _ => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Kernel `n` makes value `n` of some values before it. Validation shows that no order that the events allow gives anything else than the plan's.
    #[test]
    fn kernels_read_what_they_read_without_copies(
        sizes in proptest::collection::vec(1u64..2000, 4..24),
        picks in proptest::collection::vec((0usize..64, 0usize..64), 24),
        share in 0u64..100,
    ) {
        let kernels: Vec<Vec<u32>> = (0..sizes.len())
            .map(|index| {
                let (a, b) = picks[index];
                let mut used: Vec<u32> = [a, b].iter().filter(|_| index > 0).map(|pick| (pick % index.max(1)) as u32).collect();
                used.dedup();
                used.push(index as u32);
                used
            })
            .collect();
        let before = plan(&sizes, &kernels);
        before.validate().unwrap();
        let budget = before.arena_bytes * (share + 1) / 100;
        match offload(&before, budget) {
            Ok(after) => {
                after.validate().unwrap();
                prop_assert!(after.arena_bytes <= budget);
                prop_assert_eq!(reads(&after), reads(&before));
            }
            Err(OffloadError::Crowded { step, bytes }) => {
                // No plan has less: the step's own values, in whole pieces.
                let own: u64 = kernels[step].iter().map(|buffer| sizes[*buffer as usize].next_multiple_of(ALIGNMENT)).sum();
                prop_assert!(bytes == own);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
