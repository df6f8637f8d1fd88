//! Global memory: allocations with bounds exact to the byte, who wrote what during a launch, and what was ever written.
//!
//! - Every allocation has an address range of its own of [`SLOT`] bytes that is never used again, so that no stray address hits another one.
//! - Words are relaxed atomics: blocks run on several host threads.
//! - During a launch each written word remembers the block that wrote which of its bytes, and each read word the block that read it;
//!   two blocks on one byte, one of them writing, is a race unless both went through atomics, or a device-wide fence of the writer
//!   happened before one of the reader.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Error;
use crate::fault::FaultKind;

/// Address of the first allocation.
pub(crate) const BASE: u64 = 0x1000_0000_0000;
/// Bytes of address space per allocation.
pub(crate) const SLOT: u64 = 1 << 36;
const SLOT_BITS: u32 = 36;
const ALLOCATION_LIMIT: usize = 1 << 20;

type Words = Box<[AtomicU32]>;

pub(crate) struct Allocation {
    pub bytes: u64,
    pub words: Words,
    pub read_only: bool,
    freed: bool,
    /// Everything was written once; no need to look at the map.
    complete: bool,
    /// One bit a word.
    written: Words,
    writers: Record,
    readers: Record,
    /// Words whose bytes were written by several blocks: the block of each byte.
    mixed: Mutex<HashMap<u64, [u32; 4]>>,
}

/// One word of bookkeeping for each word of an allocation, there once a launch needs it. Its memory is kept for the next launch
/// when it is small: fresh pages cost more than zeros.
#[derive(Default)]
struct Record {
    words: OnceLock<Words>,
    spare: Mutex<Words>,
}

/// Most words of a record that are kept between launches.
const SPARE_LIMIT: usize = 16 << 20;

impl Record {
    #[inline(always)]
    fn get(&self) -> Option<&Words> {
        self.words.get()
    }

    /// The record, all zero when this is its first use in the launch; empty when there is no memory for it.
    #[inline(always)]
    fn get_or_zeroed(&self, len: usize) -> &Words {
        self.words.get_or_init(|| {
            let mut spare = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
            if spare.len() != len {
                return zeroed(len as u64).unwrap_or_default();
            }
            for word in &mut spare {
                *word.get_mut() = 0;
            }
            spare
        })
    }

    fn clear(&mut self) {
        if let Some(words) = self.words.take().filter(|w| w.len() <= SPARE_LIMIT) {
            *self.spare.get_mut().unwrap_or_else(PoisonError::into_inner) = words;
        }
    }
}

fn zeroed(words: u64) -> Result<Words, Error> {
    let words = usize::try_from(words).map_err(|_| Error::Memory(format!("{words} words are too many")))?;
    bytemuck::allocation::try_zeroed_slice_box(words)
        .map_err(|()| Error::Memory(format!("no memory for {words} words")))
}

pub(crate) struct GlobalMemory {
    allocations: Vec<Allocation>,
    used: u64,
    limit: u64,
    /// Time of the last device-wide fence of a block, by block number.
    fences: Mutex<HashMap<u32, u64>>,
    fence_clock: AtomicU64,
    /// Held by 64-bit atomics, which touch two words.
    wide_atomics: Mutex<()>,
}

/// Marks a word read by several blocks, or written by atomics.
const MANY: u32 = u32::MAX;
const MIXED: u32 = u32::MAX;
const ATOMIC: u32 = 0x0fff_fffe;

impl GlobalMemory {
    pub(crate) fn new(limit: u64) -> GlobalMemory {
        GlobalMemory {
            allocations: Vec::new(),
            used: 0,
            limit,
            fences: Mutex::new(HashMap::new()),
            fence_clock: AtomicU64::new(1),
            wide_atomics: Mutex::new(()),
        }
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        if bytes >= SLOT || self.used.saturating_add(bytes) > self.limit {
            return Err(Error::Memory(format!(
                "allocation of {bytes} bytes: {} of {} bytes are in use",
                self.used, self.limit
            )));
        }
        if self.allocations.len() >= ALLOCATION_LIMIT {
            return Err(Error::Memory(format!("more than {ALLOCATION_LIMIT} allocations")));
        }
        let words = bytes.div_ceil(4);
        self.allocations.push(Allocation {
            bytes,
            words: zeroed(words)?,
            read_only: false,
            freed: false,
            complete: bytes == 0,
            written: zeroed(words.div_ceil(32))?,
            writers: Record::default(),
            readers: Record::default(),
            mixed: Mutex::new(HashMap::new()),
        });
        self.used += bytes;
        Ok(BASE + ((self.allocations.len() as u64 - 1) << SLOT_BITS))
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), Error> {
        let (index, offset) = split(address);
        match self.allocations.get_mut(index) {
            Some(a) if offset == 0 && !a.freed => {
                a.freed = true;
                self.used -= a.bytes;
                a.words = Box::default();
                a.written = Box::default();
                a.writers = Record::default();
                a.readers = Record::default();
                Ok(())
            }
            Some(a) if a.freed => Err(Error::Memory(format!("{address:#x} was freed before"))),
            _ => Err(Error::Memory(format!("{address:#x} is no allocation"))),
        }
    }

    pub(crate) fn set_read_only(&mut self, address: u64) {
        if let Some(a) = self.allocations.get_mut(split(address).0) {
            a.read_only = true;
        }
    }

    fn host(&self, address: u64, offset: u64, len: u64) -> Result<(&Allocation, u64), Error> {
        let at = address.wrapping_add(offset);
        let (index, start) = split(at);
        match self.allocations.get(index) {
            Some(a) if a.freed => Err(Error::Memory(format!("{address:#x} was freed"))),
            Some(a) if split(address).0 == index && start.checked_add(len).is_some_and(|end| end <= a.bytes) => {
                Ok((a, start))
            }
            Some(a) => {
                Err(Error::Memory(format!("bytes {offset}..{} of {} bytes", offset.saturating_add(len), a.bytes)))
            }
            None => Err(Error::Memory(format!("{address:#x} is no allocation"))),
        }
    }

    pub(crate) fn write(&mut self, address: u64, offset: u64, data: &[u8]) -> Result<(), Error> {
        let (a, start) = self.host(address, offset, data.len() as u64)?;
        let full = start == 0 && data.len() as u64 == a.bytes;
        let mut at = start;
        let mut rest = data;
        while !rest.is_empty() {
            if at & 3 == 0 && rest.len() >= 4 {
                let (words, tail) = rest.split_at(rest.len() & !3);
                let from = (at >> 2) as usize;
                let count = words.len() / 4;
                for (word, chunk) in a.words[from..from + count].iter().zip(words.chunks_exact(4)) {
                    word.store(u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]), Relaxed);
                }
                if !full && !a.complete {
                    for w in from..from + count {
                        a.mark(w);
                    }
                }
                at += words.len() as u64;
                rest = tail;
            } else {
                a.store_bytes(at, u64::from(rest[0]), 1);
                a.mark((at >> 2) as usize);
                at += 1;
                rest = &rest[1..];
            }
        }
        if full {
            let index = split(address).0;
            self.allocations[index].complete = true;
        }
        Ok(())
    }

    pub(crate) fn read(&self, address: u64, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        let (a, start) = self.host(address, offset, len)?;
        let mut out = Vec::with_capacity(len as usize);
        let mut at = start;
        let end = start + len;
        while at < end {
            let word = a.words[(at >> 2) as usize].load(Relaxed).to_le_bytes();
            let from = (at & 3) as usize;
            let take = (4 - from).min((end - at) as usize);
            out.extend_from_slice(&word[from..from + take]);
            at += take as u64;
        }
        Ok(out)
    }

    pub(crate) fn forget(&mut self, address: u64, offset: u64, len: u64) -> Result<(), Error> {
        let (a, start) = self.host(address, offset, len)?;
        let end = start + len;
        // The last word of an allocation may be cut short; it lies inside when the allocation's end does.
        let words = start.div_ceil(4)..if end == a.bytes { end.div_ceil(4) } else { end / 4 };
        if words.is_empty() {
            return Ok(());
        }
        let a = &mut self.allocations[split(address).0];
        if a.complete {
            a.complete = false;
            a.written.iter_mut().for_each(|cell| *cell.get_mut() = u32::MAX);
        }
        for word in words {
            *a.written[(word >> 5) as usize].get_mut() &= !(1 << (word & 31));
        }
        Ok(())
    }

    /// Forgets who touched what; called when a launch begins.
    pub(crate) fn begin_launch(&mut self) {
        for a in &mut self.allocations {
            a.writers.clear();
            a.readers.clear();
            a.mixed.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.fences.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Allocation and offset of `len` bytes at an address.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64, len: u64) -> Result<(&Allocation, u64), FaultKind> {
        let (index, offset) = split(address);
        match self.allocations.get(index) {
            Some(a) if offset + len <= a.bytes && !a.freed => Ok((a, offset)),
            other => {
                Err(if other.is_some_and(|a| a.freed) { FaultKind::UseAfterFree } else { FaultKind::OutOfBoundsGlobal })
            }
        }
    }

    /// Describes an address for a fault.
    pub(crate) fn describe(&self, address: u64, len: u64) -> String {
        let (index, offset) = split(address);
        match self.allocations.get(index) {
            Some(a) => {
                format!("{len} bytes at {address:#x}, offset {offset} in an allocation of {} bytes", a.bytes)
            }
            None => format!("{len} bytes at {address:#x}, in no allocation"),
        }
    }

    /// A thread of the block executed a device-wide fence.
    pub(crate) fn fence(&self, block: u32) -> u64 {
        let now = self.fence_clock.fetch_add(1, Relaxed) + 1;
        self.fences.lock().unwrap_or_else(PoisonError::into_inner).insert(block, now);
        now
    }

    /// Runs one 64-bit atomic at a time.
    pub(crate) fn exclusive<R>(&self, f: impl FnOnce() -> R) -> R {
        let _held = self.wide_atomics.lock().unwrap_or_else(PoisonError::into_inner);
        f()
    }

    /// Whether `writer` fenced before the reader's last fence.
    fn fenced(&self, writer: u32, readers_fence: u64) -> bool {
        let fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        fences.get(&writer).is_some_and(|&t| t < readers_fence)
    }

    /// Records and checks that `block` (from 1) reads words; `Err` holds the other block.
    #[inline(always)]
    pub(crate) fn note_read(
        &self,
        a: &Allocation,
        first: usize,
        count: usize,
        bytes: u32,
        me: Accessor,
    ) -> Result<(), u32> {
        if a.read_only {
            return Ok(());
        }
        if let Some(writers) = a.writers.get() {
            for (i, w) in writers[first..first + count].iter().enumerate() {
                let v = w.load(Relaxed);
                if v != 0 && v >> 4 != me.block {
                    self.read_conflict(a, first + i, v, bytes, me)?;
                }
            }
        }
        if me.single {
            return Ok(());
        }
        let readers = a.readers.get_or_zeroed(a.words.len());
        let Some(readers) = readers.get(first..first + count) else { return Ok(()) };
        for r in readers {
            let v = r.load(Relaxed);
            if v != me.block && v != MANY {
                r.store(if v == 0 { me.block } else { MANY }, Relaxed);
            }
        }
        Ok(())
    }

    #[cold]
    fn read_conflict(&self, a: &Allocation, word: usize, v: u32, bytes: u32, me: Accessor) -> Result<(), u32> {
        let owners = if v == MIXED {
            a.mixed.lock().unwrap_or_else(PoisonError::into_inner).get(&(word as u64)).copied().unwrap_or_default()
        } else {
            std::array::from_fn(|i| if v >> i & 1 == 1 { v >> 4 } else { 0 })
        };
        for (i, &owner) in owners.iter().enumerate() {
            if bytes >> i & 1 == 1 && owner != 0 && owner != me.block && !(owner == ATOMIC && me.strong) {
                let other = if owner == ATOMIC { 0 } else { owner };
                let after_atomics = owner == ATOMIC && me.fence != 0;
                if !after_atomics && (owner == ATOMIC || !self.fenced(owner, me.fence)) {
                    return Err(other);
                }
            }
        }
        Ok(())
    }

    /// Records and checks that a block writes bytes (one bit each) of words.
    #[inline(always)]
    pub(crate) fn note_write(
        &self,
        a: &Allocation,
        first: usize,
        count: usize,
        bytes: u32,
        me: Accessor,
    ) -> Result<(), u32> {
        if me.single {
            return Ok(());
        }
        let owner = if me.strong { ATOMIC } else { me.block };
        if let Some(readers) = a.readers.get().and_then(|r| r.get(first..first + count)) {
            for r in readers {
                let v = r.load(Relaxed);
                if v != 0 && v != me.block {
                    // Several blocks read it: one of them is another unless all of them fenced before.
                    let other = if v == MANY { 0 } else { v };
                    if me.fence == 0 && !me.strong || v != MANY && !me.strong && !self.fenced(v, me.fence) {
                        return Err(other);
                    }
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
                if v == 0 {
                    continue;
                }
                if v >> 4 == owner {
                    continue;
                }
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
        me: Accessor,
    ) -> Result<(), u32> {
        let mut mixed = a.mixed.lock().unwrap_or_else(PoisonError::into_inner);
        let owners = mixed
            .entry(word as u64)
            .or_insert_with(|| std::array::from_fn(|i| if v != MIXED && v >> i & 1 == 1 { v >> 4 } else { 0 }));
        for (i, o) in owners.iter_mut().enumerate() {
            if bytes >> i & 1 == 1 {
                let foreign = *o != 0 && *o != owner && *o != me.block;
                if foreign && (*o == ATOMIC && me.fence == 0 || *o != ATOMIC && !self.fenced(*o, me.fence)) {
                    return Err(if *o == ATOMIC { 0 } else { *o });
                }
                *o = owner;
            }
        }
        w.store(MIXED, Relaxed);
        Ok(())
    }
}

/// Who accesses global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessor {
    /// Block number from 1.
    pub block: u32,
    /// Time of the block's last device-wide fence; 0 for none.
    pub fence: u64,
    /// An atomic or otherwise strong access.
    pub strong: bool,
    /// The launch has one block: nothing to record.
    pub single: bool,
}

#[inline(always)]
fn split(address: u64) -> (usize, u64) {
    let at = address.wrapping_sub(BASE);
    ((at >> SLOT_BITS) as usize, at & (SLOT - 1))
}

impl Allocation {
    #[inline(always)]
    pub(crate) fn mark(&self, word: usize) {
        let (cell, bit) = (&self.written[word >> 5], 1 << (word & 31));
        if cell.load(Relaxed) & bit == 0 {
            cell.fetch_or(bit, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn mark_run(&self, first: usize, count: usize) {
        if self.complete {
            return;
        }
        let mut word = first;
        let end = first + count;
        while word < end {
            let take = (32 - (word & 31)).min(end - word);
            let bits = (u32::MAX >> (32 - take)) << (word & 31);
            let cell = &self.written[word >> 5];
            if cell.load(Relaxed) & bits != bits {
                cell.fetch_or(bits, Relaxed);
            }
            word += take;
        }
    }

    /// Whether some of the words were written during this launch, as far as that is recorded.
    pub(crate) fn written_in_launch(&self, first: usize, count: usize) -> bool {
        let words = self.writers.get().and_then(|w| w.get(first..first + count));
        words.is_some_and(|w| w.iter().any(|v| v.load(Relaxed) != 0))
    }

    /// Whether all of the words were ever written.
    #[inline(always)]
    pub(crate) fn is_written(&self, first: usize, count: usize) -> bool {
        if self.complete {
            return true;
        }
        (first..first + count).all(|w| self.written[w >> 5].load(Relaxed) >> (w & 31) & 1 == 1)
    }

    /// Up to eight bytes from a byte offset that lies inside.
    #[inline(always)]
    pub(crate) fn load_bytes(&self, at: u64, bytes: u32) -> u64 {
        let word = (at >> 2) as usize;
        match bytes {
            8 => u64::from(self.words[word].load(Relaxed)) | u64::from(self.words[word + 1].load(Relaxed)) << 32,
            4 => u64::from(self.words[word].load(Relaxed)),
            _ => u64::from(self.words[word].load(Relaxed)) >> (8 * (at & 3)) & ((1 << (8 * bytes)) - 1),
        }
    }

    #[inline(always)]
    pub(crate) fn store_bytes(&self, at: u64, value: u64, bytes: u32) {
        let word = (at >> 2) as usize;
        match bytes {
            8 => {
                self.words[word].store(value as u32, Relaxed);
                self.words[word + 1].store((value >> 32) as u32, Relaxed);
            }
            4 => self.words[word].store(value as u32, Relaxed),
            _ => {
                let shift = 8 * (at & 3);
                let field = (((1u64 << (8 * bytes)) - 1) << shift) as u32;
                let value = (value << shift) as u32 & field;
                // Neighbouring bytes may belong to a block on another host thread.
                let _ = self.words[word].fetch_update(Relaxed, Relaxed, |old| Some(old & !field | value));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_words_are_unwritten() {
        for (offset, len, expected) in [
            (0, 18, [false; 5]),
            (4, 14, [true, false, false, false, false]),
            (5, 4, [true; 5]),
            (3, 9, [true, false, false, true, true]),
            (8, 0, [true; 5]),
        ] {
            // 18 bytes: the fifth word is cut short. Written at once, and in two parts.
            for parts in [&[18][..], &[7, 11]] {
                let mut memory = GlobalMemory::new(1 << 20);
                let address = memory.allocate(18).unwrap();
                let mut at = 0;
                for part in parts {
                    memory.write(address, at, &vec![1; *part]).unwrap();
                    at += *part as u64;
                }
                memory.forget(address, offset, len).unwrap();
                let (a, _) = memory.find(address, 18).unwrap();
                assert_eq!([0, 1, 2, 3, 4].map(|word| a.is_written(word, 1)), expected, "{offset} {len}");
                assert_eq!(memory.read(address, 0, 18).unwrap(), [1; 18]);
                memory.write(address, 0, &[2; 18]).unwrap();
                assert!(memory.find(address, 18).unwrap().0.is_written(0, 5));
            }
        }
        let mut memory = GlobalMemory::new(1 << 20);
        let address = memory.allocate(8).unwrap();
        assert!(memory.forget(address, 4, 5).is_err());
    }

    #[test]
    fn a_launch_begins_with_no_record_of_the_last_one() {
        let mut memory = GlobalMemory::new(1 << 20);
        let at = memory.allocate(16).unwrap();
        let block = |block| Accessor { block, fence: 0, strong: false, single: false };
        let write = |m: &GlobalMemory, by| {
            let (a, _) = m.find(at, 16).unwrap();
            m.note_write(a, 0, 4, 15, block(by))
        };
        let read = |m: &GlobalMemory, by| {
            let (a, _) = m.find(at, 16).unwrap();
            m.note_read(a, 0, 4, 15, block(by))
        };
        for _ in 0..3 {
            memory.begin_launch();
            assert_eq!(write(&memory, 1), Ok(()));
            assert_eq!(read(&memory, 2), Err(1));
            memory.begin_launch();
            assert_eq!(read(&memory, 2), Ok(()));
            assert_eq!(write(&memory, 1), Err(2));
            memory.begin_launch();
            assert_eq!(write(&memory, 2), Ok(()));
        }
    }
}
