//! Global memory: allocations with bounds exact to the byte, who wrote what during a launch, and what was ever written.
//!
//! - Every allocation has an address range of its own of [`SLOT`] bytes that is never used again, so that no stray address hits another one.
//! - Words are relaxed atomics: blocks run on several host threads.
//! - During a launch each written word remembers who wrote which of its bytes, and each read word who read it ([`super::races`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::causality::Causality;
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
    pub(super) writers: Record,
    pub(super) readers: Record,
    /// Words whose bytes were written by several: who wrote each byte.
    pub(super) mixed: Mutex<HashMap<u64, [u32; 4]>>,
}

/// One word of bookkeeping for each word of an allocation, there once a launch needs it. Its memory is kept for the next launch
/// when it is small: fresh pages cost more than zeros.
#[derive(Default)]
pub(super) struct Record {
    words: OnceLock<Words>,
    spare: Mutex<Words>,
}

/// Most words of a record that are kept between launches.
const SPARE_LIMIT: usize = 16 << 20;

impl Record {
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&Words> {
        self.words.get()
    }

    /// The record, all zero when this is its first use in the launch; empty when there is no memory for it.
    #[inline(always)]
    pub(super) fn get_or_zeroed(&self, len: usize) -> &Words {
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
    pub causality: Causality,
    /// Held by 64-bit atomics, which touch two words.
    wide_atomics: Mutex<()>,
}

impl GlobalMemory {
    pub(crate) fn new(limit: u64) -> GlobalMemory {
        GlobalMemory {
            allocations: Vec::new(),
            used: 0,
            limit,
            causality: Causality::default(),
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

    /// Forgets who touched what; called when a launch begins, with the warps of a block where the order of blocks is kept, else with 0.
    pub(crate) fn begin_launch(&mut self, warps: usize) {
        for a in &mut self.allocations {
            a.writers.clear();
            a.readers.clear();
            a.mixed.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.causality.begin(warps);
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

    /// Runs one 64-bit atomic at a time.
    pub(crate) fn exclusive<R>(&self, f: impl FnOnce() -> R) -> R {
        let _held = self.wide_atomics.lock().unwrap_or_else(PoisonError::into_inner);
        f()
    }
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
}
