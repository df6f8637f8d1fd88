//! What bulk copies read and write of global memory: runs of bytes of any length and alignment.

use std::sync::atomic::Ordering::Relaxed;

use super::access::global_race;
use super::machine::{Machine, Step};
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::resolve;
use crate::tensor_map::{Decoded, TENSOR_MAP_BYTES};

/// Words that hold `bytes` bytes from `at` on, in up to three parts with the bytes of each word that belong to the run.
fn parts(at: u64, bytes: u64) -> impl Iterator<Item = (usize, usize, u32)> {
    let end = at + bytes;
    let (first, last) = ((at >> 2) as usize, (end - 1 >> 2) as usize);
    let head = 15 << (at & 3) & 15;
    let tail = 15 >> (3 - (end - 1 & 3));
    let list = if first == last {
        [(first, 1, head & tail), (0, 0, 0), (0, 0, 0)]
    } else {
        [(first, 1, head), (first + 1, last - first - 1, 15), (last, 1, tail)]
    };
    list.into_iter().filter(|p| p.1 > 0)
}

/// Reads a run of global memory.
pub(super) fn read_global(m: &mut Machine<'_>, lane: usize, address: u64, out: &mut [u8]) -> Step {
    if out.is_empty() {
        return Ok(());
    }
    let len = out.len() as u64;
    let me = &m.accessor(false);
    let memory = m.launch.global;
    let trap = |kind| Trap::new(kind, lane as u32, memory.describe(address, len));
    let (a, at) = memory.find(address, len).map_err(trap)?;
    for (first, count, bytes) in parts(at, len) {
        if let Err(other) = memory.note_read(a, first, count, bytes, me) {
            return Err(global_race(lane, address, other, "is read", "written"));
        }
        if m.launch.check_uninitialised_global && !a.is_written(first, count) {
            return Err(trap(FaultKind::UninitialisedGlobal));
        }
    }
    let mut rest = &mut out[..];
    let mut at = at;
    while !rest.is_empty() {
        let word = a.words[(at >> 2) as usize].load(Relaxed).to_le_bytes();
        let from = (at & 3) as usize;
        let take = (4 - from).min(rest.len());
        rest[..take].copy_from_slice(&word[from..from + take]);
        rest = &mut rest[take..];
        at += take as u64;
    }
    m.count_bulk(address, len);
    Ok(())
}

/// Writes a run of global memory.
pub(super) fn write_global(m: &mut Machine<'_>, lane: usize, address: u64, data: &[u8]) -> Step {
    if data.is_empty() {
        return Ok(());
    }
    let len = data.len() as u64;
    let me = &m.accessor(false);
    let memory = m.launch.global;
    let trap = |kind| Trap::new(kind, lane as u32, memory.describe(address, len));
    let (a, at) = memory.find(address, len).map_err(trap)?;
    if a.read_only {
        return Err(trap(FaultKind::ReadOnlyWrite));
    }
    for (first, count, bytes) in parts(at, len) {
        if let Err(other) = memory.note_write(a, first, count, bytes, me) {
            return Err(global_race(lane, address, other, "is written", "used"));
        }
        a.mark_run(first, count);
    }
    let mut rest = data;
    let mut at = at;
    while !rest.is_empty() {
        if at & 3 == 0
            && let Some(word) = rest.first_chunk::<4>()
        {
            a.words[(at >> 2) as usize].store(u32::from_le_bytes(*word), Relaxed);
            rest = &rest[4..];
            at += 4;
        } else {
            a.store_bytes(at, u64::from(rest[0]), 1);
            rest = &rest[1..];
            at += 1;
        }
    }
    m.count_bulk(address, len);
    Ok(())
}

/// The tensor map at a generic address, as the asynchronous proxy sees it.
pub(super) fn tensor_map(m: &mut Machine<'_>, lane: usize, address: u64) -> Result<Decoded, Box<Trap>> {
    let trap = |kind, detail: String| Trap::new(kind, lane as u32, detail);
    if !address.is_multiple_of(64) {
        let detail = format!("address {address:#x} of a tensor map is no multiple of 64");
        return Err(trap(FaultKind::Misaligned, detail));
    }
    let mut map = [0u8; TENSOR_MAP_BYTES];
    match resolve(address) {
        Some((Space::Global, _)) => {
            let memory = m.launch.global;
            let (a, at) = memory
                .find(address, TENSOR_MAP_BYTES as u64)
                .map_err(|kind| trap(kind, memory.describe(address, TENSOR_MAP_BYTES as u64)))?;
            let written = a.written_in_launch((at >> 2) as usize, TENSOR_MAP_BYTES / 4);
            let visible = m.shared.map_visible(m.warp.index, lane as u32, address).unwrap_or(!written);
            if !visible {
                let detail = format!("the tensor map at {address:#x} was written in this launch");
                return Err(trap(FaultKind::TensorMapFenceMissing, detail));
            }
            read_global(m, lane, address, &mut map)?;
        }
        Some((Space::Param, at)) => {
            let at = at as usize;
            match m.launch.params.get(at..at + TENSOR_MAP_BYTES) {
                Some(bytes) => map.copy_from_slice(bytes),
                None => {
                    let detail =
                        format!("a tensor map at offset {at:#x}, the entry has {} bytes", m.launch.params.len());
                    return Err(trap(FaultKind::OutOfBoundsParam, detail));
                }
            }
        }
        _ => {
            let detail = format!("address {address:#x} of a tensor map is neither global nor a parameter's");
            return Err(trap(FaultKind::InvalidAddress, detail));
        }
    }
    Decoded::new(&map)
        .map_err(|why| trap(FaultKind::TensorMapInvalid, format!("the tensor map at {address:#x}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_into_words() {
        let list = |at, bytes| parts(at, bytes).collect::<Vec<_>>();
        assert_eq!(list(0, 4), [(0, 1, 15)]);
        assert_eq!(list(5, 2), [(1, 1, 0b0110)]);
        assert_eq!(list(2, 9), [(0, 1, 0b1100), (1, 1, 15), (2, 1, 0b0111)]);
        assert_eq!(list(0, 8), [(0, 1, 15), (1, 1, 15)]);
    }
}
