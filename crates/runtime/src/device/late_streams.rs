//! Work of streams that is done as late as events allow.
//!
//! Copies and fills of all streams but the first wait in a queue until something asks for what they do: a wait for an event behind them, work of their own
//! stream that is done at once, a synchronisation. A plan whose streams nothing puts in order then gives other values than in the order of its calls.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::device::{DeviceError, DevicePointer};

/// Work that waits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pending {
    Copy {
        source: DevicePointer,
        target: DevicePointer,
        bytes: u64,
    },
    Memset {
        target: DevicePointer,
        byte: u8,
        bytes: u64,
    },
    /// A mark, by its number and which of this number it is.
    Record(u32, u64),
    /// A wait for such a mark.
    Wait(u32, u64),
}

/// The queues.
#[derive(Debug, Default)]
pub(super) struct LateStreams {
    queues: BTreeMap<u32, VecDeque<Pending>>,
    /// The stream on which each event was recorded last, and how many times it has been.
    recorded: HashMap<u32, (u32, u64)>,
    /// Which mark of each event is reached.
    reached: HashMap<u32, u64>,
}

impl LateStreams {
    /// Adds work to a queue.
    pub(super) fn push(&mut self, stream: u32, work: Pending) {
        self.queues.entry(stream).or_default().push_back(work);
    }

    /// Records an event; `late`: when the work before it is done, and else now.
    pub(super) fn record(&mut self, event: u32, stream: u32, late: bool) {
        let number = self.recorded.get(&event).map_or(0, |(_, number)| *number) + 1;
        self.recorded.insert(event, (stream, number));
        if late {
            self.push(stream, Pending::Record(event, number));
        } else {
            self.reached.insert(event, number);
        }
    }

    /// The mark that a wait for an event is for: its stream, and which it is. None where the event was never recorded.
    pub(super) fn mark(&self, event: u32) -> Option<(u32, u64)> {
        self.recorded.get(&event).copied()
    }

    /// Streams with work that waits.
    pub(super) fn waiting(&self) -> Vec<u32> {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(stream, _)| *stream).collect()
    }

    /// Does the work of a stream up to a mark, or all of it, and before that what it waits for on other streams. Of work that fails the rest of the queue is
    /// left out.
    ///
    /// A stream waits for marks that were made before the wait, so that no two streams wait for each other.
    pub(super) fn drain(
        &mut self,
        stream: u32,
        mark: Option<(u32, u64)>,
        work: &mut dyn FnMut(Pending) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        while !mark.is_some_and(|(event, number)| self.is_reached(event, number)) {
            let Some(next) = self.queues.get_mut(&stream).and_then(VecDeque::pop_front) else { break };
            let done = match next {
                Pending::Record(event, number) => {
                    let reached = self.reached.entry(event).or_default();
                    *reached = (*reached).max(number);
                    Ok(())
                }
                Pending::Wait(event, number) => match self.recorded.get(&event).map(|(other, _)| *other) {
                    Some(other) if other != stream && !self.is_reached(event, number) => {
                        self.drain(other, Some((event, number)), work)
                    }
                    _ => Ok(()),
                },
                next => work(next),
            };
            if done.is_err() {
                self.queues.remove(&stream);
                return done;
            }
        }
        Ok(())
    }

    fn is_reached(&self, event: u32, number: u64) -> bool {
        self.reached.get(&event).is_some_and(|reached| *reached >= number)
    }
}
