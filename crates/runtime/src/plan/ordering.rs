//! Whether steps of several streams are in order wherever they use the same memory, and when each could run.
//!
//! A vector clock a stream says how far the others are known to be. Every use of a buffer or an output counts as a write, since a kernel may write
//! whatever it has the address of; inputs and weights are never written. Marks inside bodies of conditionals give no order, since a body may not run.

use std::collections::{BTreeMap, HashMap};

use crate::plan::{Argument, LaunchPlan, MemoryKind, Operation, Place, PlanError, Step};

/// Streams that a plan may have, by numbers from 0.
pub const MAX_STREAMS: u32 = 16;

type Clock = [u64; MAX_STREAMS as usize];

/// A range of memory: which memory, which of it, where it begins.
type Start = (u8, u32, u64);

/// The last use of a range.
#[derive(Debug, Clone, Copy)]
struct Use {
    end: u64,
    stream: usize,
    /// How many steps of the stream are done with it, this one included.
    number: u64,
    step: usize,
}

/// When each step of a plan could run, in the unit of its costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// When each step begins and ends.
    pub steps: Vec<(f64, f64)>,
    /// When the last one ends.
    pub end: f64,
    /// What all steps take one after another.
    pub sum: f64,
}

impl LaunchPlan {
    /// Whether some step is on another stream than the default one.
    pub fn has_streams(&self) -> bool {
        self.steps.iter().any(|step| step.stream != 0)
    }

    /// When each step could run at the earliest, of what a step costs by its place in the plan: after the steps before it on its stream, and after what its
    /// stream waits for. Streams do not slow each other down.
    pub fn timeline(&self, cost: impl Fn(usize, &Step) -> f64) -> Timeline {
        let mut ready: HashMap<u32, f64> = HashMap::new();
        let mut marks: HashMap<u32, f64> = HashMap::new();
        let mut timeline = Timeline { steps: Vec::with_capacity(self.steps.len()), end: 0.0, sum: 0.0 };
        for (index, step) in self.steps.iter().enumerate() {
            let mut start = ready.get(&step.stream).copied().unwrap_or(0.0);
            let taken = match &step.operation {
                Operation::Event(_) | Operation::Wait(_) => 0.0,
                _ => cost(index, step),
            };
            match &step.operation {
                Operation::Wait(mark) => start = start.max(marks.get(&mark.event).copied().unwrap_or(0.0)),
                // The host waits for all streams.
                Operation::ReadExtent(_) => start = start.max(timeline.end),
                _ => {}
            }
            let end = start + taken;
            if let Operation::Event(mark) = &step.operation {
                marks.insert(mark.event, end);
            }
            ready.insert(step.stream, end);
            timeline.steps.push((start, end));
            timeline.end = timeline.end.max(end);
            timeline.sum += taken;
        }
        timeline
    }

    /// Refuses two steps of different streams that use the same memory with nothing that orders them.
    pub(crate) fn check_order(&self) -> Result<(), PlanError> {
        if !self.has_streams() {
            return Ok(());
        }
        let mut order = Order {
            plan: self,
            clocks: [Clock::default(); MAX_STREAMS as usize],
            marks: HashMap::new(),
            uses: BTreeMap::new(),
        };
        self.steps.iter().enumerate().try_for_each(|(index, step)| order.step(index, step))
    }
}

struct Order<'p> {
    plan: &'p LaunchPlan,
    /// For each stream, how many steps of each are done when its next step runs.
    clocks: [Clock; MAX_STREAMS as usize],
    marks: HashMap<u32, Clock>,
    /// Ranges that share no byte.
    uses: BTreeMap<Start, Use>,
}

impl Order<'_> {
    fn step(&mut self, index: usize, step: &Step) -> Result<(), PlanError> {
        let stream = step.stream as usize;
        if step.stream >= MAX_STREAMS {
            let message = format!("stream {}; a plan has streams 0 to {}", step.stream, MAX_STREAMS - 1);
            return Err(PlanError::structure(format!("step {index}"), message));
        }
        let number = self.clocks[stream][stream] + 1;
        match &step.operation {
            Operation::Wait(mark) => {
                if let Some(known) = self.marks.get(&mark.event) {
                    join(&mut self.clocks[stream], known);
                }
            }
            Operation::ReadExtent(_) => {
                let all: Clock = std::array::from_fn(|one| self.clocks[one][one]);
                self.clocks.iter_mut().for_each(|clock| join(clock, &all));
            }
            _ => {}
        }
        for inner in step.walk() {
            for place in places(&inner.operation) {
                self.access(index, stream, number, place)?;
            }
        }
        self.clocks[stream][stream] = number;
        if let Operation::Event(mark) = &step.operation {
            self.marks.insert(mark.event, self.clocks[stream]);
        }
        Ok(())
    }

    fn access(&mut self, step: usize, stream: usize, number: u64, place: Place) -> Result<(), PlanError> {
        let (start, end) = match place {
            Place::Buffer(index) => {
                let Some(buffer) = self.plan.buffers.get(index as usize) else { return Ok(()) };
                let memory = u8::from(buffer.memory == MemoryKind::Pinned);
                ((memory, 0, buffer.offset), buffer.offset.saturating_add(buffer.bytes))
            }
            Place::Output(index) => ((2, index, 0), 1),
            Place::Input(_) | Place::Parameter(_) => return Ok(()),
        };
        if start.2 >= end {
            return Ok(());
        }
        let before = self.uses.range(..start).next_back();
        let before = before.filter(|(at, one)| (at.0, at.1) == (start.0, start.1) && one.end > start.2);
        let inside = self.uses.range(start..(start.0, start.1, end));
        let met: Vec<(Start, Use)> = before.into_iter().chain(inside).map(|(at, one)| (*at, *one)).collect();
        for (at, one) in met {
            if one.stream != stream && self.clocks[stream][one.stream] < one.number {
                let name = match place {
                    Place::Buffer(index) => format!("buffer {index} (`{}`)", self.plan.buffers[index as usize].name),
                    other => format!("{other:?}"),
                };
                let message = format!(
                    "it uses memory of {name} on stream {stream}, and step {} on stream {} may still use it: no event stands between",
                    one.step, one.stream
                );
                return Err(PlanError::memory(format!("step {step}"), message));
            }
            self.uses.remove(&at);
            if at.2 < start.2 {
                self.uses.insert(at, Use { end: start.2, ..one });
            }
            if one.end > end {
                self.uses.insert((at.0, at.1, end), one);
            }
        }
        // What was used before is in order before this step, and so before whatever is in order behind it.
        self.uses.insert(start, Use { end, stream, number, step });
        Ok(())
    }
}

fn join(clock: &mut Clock, other: &Clock) {
    for (one, other) in clock.iter_mut().zip(other) {
        *one = (*one).max(*other);
    }
}

/// Memory that an operation uses itself.
fn places(operation: &Operation) -> Vec<Place> {
    match operation {
        Operation::Launch(launch) => launch.arguments.iter().filter_map(Argument::place).collect(),
        Operation::Copy(copy) => vec![copy.source, copy.target],
        Operation::Memset(memset) => vec![memset.target],
        Operation::If(conditional) => vec![conditional.predicate],
        Operation::While(repeat) => vec![repeat.predicate],
        Operation::HostCall(call) => call.reads.iter().chain(&call.writes).copied().collect(),
        Operation::StateRead(transfer) | Operation::StateWrite(transfer) => vec![transfer.place],
        Operation::ReadExtent(read) => vec![read.source],
        Operation::Event(_) | Operation::Wait(_) => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tenon_tensor::DType;

    use super::*;
    use crate::plan::{Buffer, Copy, EventMark, Memset};

    const BYTES: u64 = 64;

    /// Memory of `count` places of 64 bytes; buffer `2 * place` is the first half of one, `2 * place + 1` its whole.
    fn plan(count: u64, steps: Vec<Step>) -> LaunchPlan {
        let mut plan = LaunchPlan::new("p");
        plan.arena_bytes = count * BYTES;
        for place in 0..count {
            for bytes in [BYTES / 2, BYTES] {
                plan.buffers.push(Buffer {
                    name: format!("b{place}"),
                    dtype: DType::U8,
                    shape: vec![bytes],
                    offset: place * BYTES,
                    bytes,
                    alignment: 1,
                    first: 0,
                    last: 0,
                    memory: MemoryKind::Device,
                    zeroed: false,
                });
            }
        }
        plan.steps = steps;
        plan
    }

    fn on(stream: u32, operation: Operation) -> Step {
        Step { stream, ..Step::new(operation) }
    }

    fn fill(stream: u32, buffer: u32) -> Step {
        on(stream, Operation::Memset(Memset { target: Place::Buffer(buffer), byte: 0, bytes: BYTES.into() }))
    }

    fn record(stream: u32, event: u32) -> Step {
        on(stream, Operation::Event(EventMark { event }))
    }

    fn wait(stream: u32, event: u32) -> Step {
        on(stream, Operation::Wait(EventMark { event }))
    }

    #[test]
    fn events_put_streams_in_order() {
        let racing = plan(1, vec![fill(0, 0), fill(1, 1)]).check_order().unwrap_err();
        assert_eq!(racing.code(), "E0704");
        assert!(racing.to_string().contains("step 0 on stream 0 may still use it"), "{racing}");
        plan(1, vec![fill(0, 0), record(0, 0), wait(1, 0), fill(1, 1)]).check_order().unwrap();
        // A mark that is made too early, and one that another stream waits for.
        plan(1, vec![record(0, 0), fill(0, 0), wait(1, 0), fill(1, 1)]).check_order().unwrap_err();
        plan(1, vec![fill(0, 0), record(0, 0), wait(2, 0), fill(1, 1)]).check_order().unwrap_err();
        // By way of a third stream.
        let steps = vec![fill(0, 0), record(0, 0), wait(2, 0), record(2, 1), wait(1, 1), fill(1, 1)];
        plan(1, steps).check_order().unwrap();
        assert_eq!(plan(1, vec![fill(16, 0)]).check_order().unwrap_err().code(), "E0703");
    }

    #[test]
    fn streams_run_beside_each_other() {
        let copy = Operation::Copy(Copy { source: Place::Buffer(0), target: Place::Buffer(2), bytes: 32.into() });
        let steps = vec![
            fill(0, 4),
            record(0, 0),
            wait(1, 0),
            on(1, copy),
            record(1, 1),
            fill(0, 6),
            fill(0, 6),
            wait(0, 1),
            fill(0, 0),
        ];
        let timeline = plan(4, steps).timeline(|_, step| if step.stream == 0 { 1.0 } else { 2.5 });
        // The copy begins with the second fill, and the last one waits for it.
        assert_eq!((timeline.end, timeline.sum), (4.5, 6.5));
        assert_eq!((timeline.steps[3], timeline.steps[5], timeline.steps[8]), ((1.0, 3.5), (1.0, 2.0), (3.5, 4.5)));
    }

    /// Steps that are in order, by going through all of what each stands behind.
    fn in_order(steps: &[Step]) -> bool {
        let mut behind: Vec<BTreeSet<usize>> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let mut known = BTreeSet::new();
            let mut follow = |other: usize| {
                known.insert(other);
                known.extend(behind[other].iter().copied());
            };
            (0..index).filter(|other| steps[*other].stream == step.stream).for_each(&mut follow);
            if let Operation::Wait(mark) = &step.operation {
                let made = |other: &usize| steps[*other].operation == Operation::Event(EventMark { event: mark.event });
                (0..index).filter(made).for_each(&mut follow);
            }
            behind.push(known);
        }
        let place = |step: &Step| match &step.operation {
            Operation::Memset(memset) => match memset.target {
                Place::Buffer(index) => Some(index / 2),
                _ => None,
            },
            _ => None,
        };
        (0..steps.len()).all(|index| {
            (0..index).all(|other| {
                place(&steps[index]).is_none()
                    || place(&steps[index]) != place(&steps[other])
                    || behind[index].contains(&other)
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn races_are_found_where_nothing_orders_two_uses(list in proptest::collection::vec((0u32..3, 0u32..6, 0u8..4), 0..14)) {
            let mut made = Vec::new();
            let steps: Vec<Step> = list.into_iter().map(|(stream, number, kind)| match kind {
                0 => {
                    made.push(made.len() as u32);
                    record(stream, made.len() as u32 - 1)
                }
                1 if !made.is_empty() => wait(stream, number % made.len() as u32),
                _ => fill(stream, number),
            }).collect();
            let expected = in_order(&steps);
            prop_assert_eq!(plan(3, steps).check_order().is_ok(), expected);
        }
    }
}
