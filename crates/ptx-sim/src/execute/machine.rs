//! What an instruction sees: its warp, its block's shared memory, the launch, and the tally of its worker.

use super::bulk_copy::BulkReads;
use super::lanes::{Lanes, Registers, Vectors};
use super::wgmma_registers::RegisterState;
use crate::decode::Program;
use crate::fault::Trap;
use crate::memory::global::GlobalMemory;
use crate::memory::races::Accessor;
use crate::memory::shared::SharedMemory;

/// Constant during a launch.
pub(crate) struct Launch<'a> {
    pub program: &'a Program,
    pub global: &'a GlobalMemory,
    pub params: &'a [u8],
    /// Addresses of the module's global data, by variable index.
    pub symbols: &'a [u64],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub dynamic_shared: u32,
    pub check_global_races: bool,
    pub check_uninitialised_global: bool,
    pub single_block: bool,
    pub cache_lines: bool,
    pub vectors: Vectors,
}

/// An asynchronous copy that some lanes have not waited for.
pub(crate) struct Copy {
    pub addresses: Lanes<u32>,
    pub bytes: u32,
    pub mask: u32,
    /// Number of the group it was committed to; `None` before the commit.
    pub group: Option<u32>,
}

/// Architectural state of a warp.
pub(crate) struct Warp {
    pub index: usize,
    pub registers: Registers,
    pub local: Vec<u8>,
    /// Lanes that have not exited.
    pub live: u32,
    pub copies: Vec<Copy>,
    /// Groups committed by each lane.
    pub committed: Lanes<u32>,
    /// Bulk copies out of shared memory.
    pub bulk: BulkReads,
    pub wgmma: RegisterState,
}

/// Counts of one instruction.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InstructionTally {
    pub issued: u64,
    pub lanes: u64,
    pub requests: u64,
    pub sectors: u64,
    pub extra_wavefronts: u64,
}

/// How the addresses of an access fall, remembered because loops repeat it.
pub(crate) struct Pattern {
    pub mask: u32,
    pub phase: u32,
    pub deltas: Lanes<u32>,
    pub count: u32,
    /// Lines touched, relative to the line of the first lane.
    pub lines: Vec<i32>,
}

/// What one worker counts.
#[derive(Default)]
pub(crate) struct Tally {
    pub instructions: Vec<InstructionTally>,
    pub patterns: Vec<Option<Box<Pattern>>>,
    pub mma_macs: u64,
    pub barrier_waits: u64,
    pub async_copy_bytes: u64,
    /// Lines of the running block for the cache model.
    pub lines: Vec<u64>,
}

pub(crate) struct Machine<'a> {
    pub launch: &'a Launch<'a>,
    pub warp: &'a mut Warp,
    pub shared: &'a mut SharedMemory,
    pub tally: &'a mut Tally,
    pub pc: usize,
    /// Block number from 1.
    pub block: u32,
    /// Warp instructions executed by the block so far: the clock.
    pub clock: u64,
}

pub(crate) type Step = Result<(), Box<Trap>>;

/// Most lines remembered per block for the cache model.
const LINE_LIMIT: usize = 1 << 20;

impl Machine<'_> {
    pub(crate) fn accessor(&mut self, strong: bool) -> Accessor {
        let kept = self.launch.global.causality.segment(&mut self.shared.device, self.warp.index);
        let (segment, known) = kept.map_or((self.block, None), |(segment, known)| (segment, Some(known)));
        Accessor {
            block: self.block,
            segment,
            known,
            strong,
            single: self.launch.single_block || !self.launch.check_global_races,
        }
    }

    /// Counts a global access: one request, and the 32-byte sectors and lines it touches.
    #[inline(always)]
    pub(crate) fn count_global(&mut self, addresses: &Lanes<u64>, bytes: u32, mask: u32) {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut deltas = [0u32; 32];
        for i in 0..32 {
            deltas[i] = (addresses[i].wrapping_sub(first)) as u32 & (mask >> i & 1).wrapping_neg();
        }
        let phase = (first & 127) as u32 | bytes << 8;
        let slot = &mut self.tally.patterns[self.pc];
        let hit = slot.as_ref().is_some_and(|p| p.mask == mask && p.phase == phase && p.deltas == deltas);
        if !hit {
            let mut sectors: Vec<i64> = Vec::with_capacity(64);
            for lane in super::lanes::lanes_of(mask) {
                let at = i64::from(deltas[lane] as i32) + i64::from(phase & 127);
                for s in at >> 5..=(at + i64::from(bytes) - 1) >> 5 {
                    sectors.push(s);
                }
            }
            sectors.sort_unstable();
            sectors.dedup();
            let mut lines: Vec<i32> = sectors.iter().map(|s| (s >> 2) as i32).collect();
            lines.dedup();
            *slot = Some(Box::new(Pattern { mask, phase, deltas, count: sectors.len() as u32, lines }));
        }
        let t = &mut self.tally.instructions[self.pc];
        t.requests += 1;
        if let Some(p) = slot {
            t.sectors += u64::from(p.count);
            if self.launch.cache_lines && self.tally.lines.len() < LINE_LIMIT {
                let base = (first >> 7) as i64;
                self.tally.lines.extend(p.lines.iter().map(|&l| (base + i64::from(l)) as u64));
            }
        }
    }

    /// Counts a piece of a bulk copy: the sectors and lines of global memory that it touches.
    pub(crate) fn count_bulk(&mut self, address: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let last = address + bytes - 1;
        self.tally.instructions[self.pc].sectors += (last >> 5) - (address >> 5) + 1;
        if self.launch.cache_lines && self.tally.lines.len() < LINE_LIMIT {
            self.tally.lines.extend(address >> 7..=last >> 7);
        }
    }

    /// Counts a shared access: one request, and the wavefronts beyond those its size needs.
    #[inline(always)]
    pub(crate) fn count_shared(&mut self, addresses: &Lanes<u32>, bytes: u32, mask: u32) {
        let first = addresses[mask.trailing_zeros() as usize & 31];
        let mut deltas = [0u32; 32];
        for i in 0..32 {
            deltas[i] = addresses[i].wrapping_sub(first) & (mask >> i & 1).wrapping_neg();
        }
        let phase = first & 3 | bytes << 8;
        let slot = &mut self.tally.patterns[self.pc];
        let hit = slot.as_ref().is_some_and(|p| p.mask == mask && p.phase == phase && p.deltas == deltas);
        if !hit {
            let count = extra_wavefronts(&deltas, phase & 3, bytes, mask);
            *slot = Some(Box::new(Pattern { mask, phase, deltas, count, lines: Vec::new() }));
        }
        let t = &mut self.tally.instructions[self.pc];
        t.requests += 1;
        t.extra_wavefronts += u64::from(slot.as_ref().map_or(0, |p| p.count));
    }
}

/// Shared memory has 32 banks of four bytes; a wavefront serves one word per bank, and as many lanes as read 128 bytes together
/// (all lanes up to four bytes each, half of them for eight, a quarter for sixteen).
fn extra_wavefronts(deltas: &Lanes<u32>, phase: u32, bytes: u32, mask: u32) -> u32 {
    let group = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let mut extra = 0;
    for start in (0..32).step_by(group) {
        let mut banks: [Vec<u32>; 32] = Default::default();
        for lane in start..start + group {
            if mask >> lane & 1 == 1 {
                let at = deltas[lane].wrapping_add(phase);
                for word in (at >> 2)..=(at.wrapping_add(bytes - 1) >> 2) {
                    let bank = &mut banks[word as usize & 31];
                    if !bank.contains(&word) {
                        bank.push(word);
                    }
                }
            }
        }
        let depth = banks.iter().map(Vec::len).max().unwrap_or(0) as u32;
        extra += depth.saturating_sub(1);
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stride(bytes: u32) -> Lanes<u32> {
        std::array::from_fn(|i| i as u32 * bytes)
    }

    #[test]
    fn wavefronts() {
        assert_eq!(extra_wavefronts(&stride(4), 0, 4, u32::MAX), 0);
        assert_eq!(extra_wavefronts(&stride(0), 0, 4, u32::MAX), 0);
        assert_eq!(extra_wavefronts(&stride(8), 0, 4, u32::MAX), 1);
        assert_eq!(extra_wavefronts(&stride(128), 0, 4, u32::MAX), 31);
        assert_eq!(extra_wavefronts(&stride(16), 0, 16, u32::MAX), 0);
        // Eight rows of 64 bytes apart, 16 bytes each: four rows share their banks.
        assert_eq!(extra_wavefronts(&stride(64), 0, 16, u32::MAX), 4 * 3);
    }
}
