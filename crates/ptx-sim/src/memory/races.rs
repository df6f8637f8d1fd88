//! Races of blocks on global memory: two on one byte, one of them writing, that nothing orders.
//!
//! Each written word remembers who wrote which of its bytes, and each read word who read it: by segments where the order of blocks is kept
//! ([`super::causality`]), by blocks where it is not. Strong accesses of the device's scope and atomics do not race with each other. What strong reads saw is not
//! remembered: a write that nothing orders behind one is found where it comes first.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::causality::{Known, MANY};
use super::global::{Allocation, GlobalMemory};

/// Marks a word whose bytes were written by several.
const MIXED: u32 = u32::MAX;
/// In the place of a writer: strong accesses.
const ATOMIC: u32 = 0x0fff_fffe;

/// Who accesses global memory.
#[derive(Clone, Debug)]
pub(crate) struct Accessor {
    /// Block number from 1.
    pub block: u32,
    /// The number of the warp's segment, or where none are kept the block's.
    pub segment: u32,
    /// What the warp knows; none where it is not kept.
    pub known: Option<Known>,
    /// An atomic or otherwise strong access.
    pub strong: bool,
    /// The launch has one block: nothing to record.
    pub single: bool,
}

/// What a word is called among places of strong accesses.
pub(crate) fn place(a: &Allocation, word: usize) -> usize {
    std::ptr::from_ref(&a.words[word]).addr()
}

impl GlobalMemory {
    /// Records and checks that someone reads words; `Err` holds the other block.
    #[inline(always)]
    pub(crate) fn note_read(
        &self,
        a: &Allocation,
        first: usize,
        count: usize,
        bytes: u32,
        me: &Accessor,
    ) -> Result<(), u32> {
        if a.read_only {
            return Ok(());
        }
        if let Some(writers) = a.writers.get() {
            for (i, w) in writers[first..first + count].iter().enumerate() {
                let v = w.load(Relaxed);
                if v != 0 && v >> 4 != me.segment {
                    self.read_conflict(a, first + i, v, bytes, me)?;
                }
            }
        }
        if me.single || me.strong {
            return Ok(());
        }
        let readers = a.readers.get_or_zeroed(a.words.len());
        let Some(readers) = readers.get(first..first + count) else { return Ok(()) };
        // Words side by side have mostly been read by the same.
        let mut last = (0, me.segment);
        for r in readers {
            let v = r.load(Relaxed);
            if v == me.segment || v == MANY {
                continue;
            }
            if v != last.0 {
                let next = match &me.known {
                    Some(known) => self.causality.read_too(v, me.segment, me.block, known),
                    None => MANY,
                };
                last = (v, next);
            }
            if last.1 != v {
                r.store(last.1, Relaxed);
            }
        }
        Ok(())
    }

    #[cold]
    fn read_conflict(&self, a: &Allocation, word: usize, v: u32, bytes: u32, me: &Accessor) -> Result<(), u32> {
        let owners = if v == MIXED {
            a.mixed.lock().unwrap_or_else(PoisonError::into_inner).get(&(word as u64)).copied().unwrap_or_default()
        } else {
            std::array::from_fn(|i| if v >> i & 1 == 1 { v >> 4 } else { 0 })
        };
        for (i, &owner) in owners.iter().enumerate() {
            if bytes >> i & 1 == 1 && owner != 0 {
                self.behind(a, word, owner, me)?;
            }
        }
        Ok(())
    }

    /// Whether an access is ordered behind a write, or need not be.
    fn behind(&self, a: &Allocation, word: usize, owner: u32, me: &Accessor) -> Result<(), u32> {
        if owner == ATOMIC {
            let ordered = me.strong || self.causality.strong_ordered(place(a, word), me.block, me.known.as_ref());
            return if ordered { Ok(()) } else { Err(0) };
        }
        let ordered = owner == me.segment || self.causality.ordered(owner, me.block, me.known.as_ref());
        if ordered { Ok(()) } else { Err(self.causality.block(owner)) }
    }

    /// Records and checks that someone writes bytes (one bit each) of words.
    #[inline(always)]
    pub(crate) fn note_write(
        &self,
        a: &Allocation,
        first: usize,
        count: usize,
        bytes: u32,
        me: &Accessor,
    ) -> Result<(), u32> {
        if me.single {
            return Ok(());
        }
        let owner = if me.strong { ATOMIC } else { me.segment };
        if let Some(readers) = a.readers.get().and_then(|r| r.get(first..first + count)) {
            let mut last = 0;
            for r in readers {
                let v = r.load(Relaxed);
                if v != 0 && v != me.segment && v != last {
                    if let Some(other) = self.causality.unordered_reader(v, me.block, me.known.as_ref()) {
                        return Err(other);
                    }
                    last = v;
                }
            }
        }
        let writers = a.writers.get_or_zeroed(a.words.len());
        let Some(writers) = writers.get(first..first + count) else { return Ok(()) };
        let mark = owner << 4 | bytes;
        for (i, w) in writers.iter().enumerate() {
            let v = w.load(Relaxed);
            if v == 0 || v >> 4 == owner {
                if v | mark != v {
                    w.store(v | mark, Relaxed);
                }
                continue;
            }
            self.write_conflict(a, w, first + i, v, owner, bytes, me)?;
        }
        Ok(())
    }

    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn write_conflict(
        &self,
        a: &Allocation,
        w: &AtomicU32,
        word: usize,
        v: u32,
        owner: u32,
        bytes: u32,
        me: &Accessor,
    ) -> Result<(), u32> {
        let mut mixed = a.mixed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut owners = match mixed.get(&(word as u64)) {
            Some(owners) => *owners,
            None => std::array::from_fn(|i| if v != MIXED && v >> i & 1 == 1 { v >> 4 } else { 0 }),
        };
        for (i, o) in owners.iter_mut().enumerate() {
            if bytes >> i & 1 == 1 {
                if *o != 0 && *o != owner {
                    self.behind(a, word, *o, me)?;
                }
                *o = owner;
            }
        }
        if owners == [owner; 4] {
            mixed.remove(&(word as u64));
            w.store(owner << 4 | 15, Relaxed);
        } else {
            mixed.insert(word as u64, owners);
            w.store(MIXED, Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_begins_with_no_record_of_the_last_one() {
        let mut memory = GlobalMemory::new(1 << 20);
        let at = memory.allocate(16).unwrap();
        let block = |block| Accessor { block, segment: block, known: None, strong: false, single: false };
        let write = |m: &GlobalMemory, by| {
            let (a, _) = m.find(at, 16).unwrap();
            m.note_write(a, 0, 4, 15, &block(by))
        };
        let read = |m: &GlobalMemory, by| {
            let (a, _) = m.find(at, 16).unwrap();
            m.note_read(a, 0, 4, 15, &block(by))
        };
        for _ in 0..3 {
            memory.begin_launch(0);
            assert_eq!(write(&memory, 1), Ok(()));
            assert_eq!(read(&memory, 2), Err(1));
            memory.begin_launch(0);
            assert_eq!(read(&memory, 2), Ok(()));
            assert_eq!(write(&memory, 1), Err(2));
            memory.begin_launch(0);
            assert_eq!(write(&memory, 2), Ok(()));
            memory.begin_launch(0);
            assert_eq!((read(&memory, 1), read(&memory, 2)), (Ok(()), Ok(())));
            assert_eq!(write(&memory, 1), Err(0));
        }
    }
}
