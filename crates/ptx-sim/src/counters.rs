//! What a launch did.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decode::Program;
use crate::execute::machine::Tally;

/// Counters of one launch, or of several added up by [`Counters::add`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Instructions issued, one per warp, by opcode with its modifiers.
    pub instructions: BTreeMap<String, u64>,
    /// Instructions issued, one per warp.
    pub warp_instructions: u64,
    /// Instructions executed, one per active lane.
    pub lane_instructions: u64,
    /// Warp accesses to global memory, asynchronous copies and atomics included.
    pub global_requests: u64,
    /// 32-byte sectors those touched.
    pub global_sectors: u64,
    /// Warp accesses to shared memory.
    pub shared_requests: u64,
    /// Wavefronts beyond those that the size of the accesses needs: the cost of bank conflicts.
    pub shared_extra_wavefronts: u64,
    /// Multiply-accumulates in `mma`.
    pub mma_macs: u64,
    /// Warps that arrived at a block barrier.
    pub barrier_waits: u64,
    /// Bytes that asynchronous copies wrote to shared memory.
    pub async_copy_bytes: u64,
    /// Line accesses that hit in the model of the second-level cache.
    pub l2_hits: u64,
    /// Line accesses that missed.
    pub l2_misses: u64,
    /// Per source instruction, in the order of the program; only those executed.
    pub lines: Vec<LineCounters>,
}

/// Counters of one instruction of the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LineCounters {
    /// Line of the PTX source, from 1.
    pub line: u32,
    /// The instruction.
    pub text: String,
    /// Times issued, one per warp.
    pub issued: u64,
    /// Times executed, one per active lane.
    pub lanes: u64,
    /// Global or shared requests.
    pub requests: u64,
    /// Global sectors.
    pub sectors: u64,
    /// Shared wavefronts lost to bank conflicts.
    pub extra_wavefronts: u64,
}

impl Counters {
    /// Sectors per global request: at best the bytes of the access times 32 lanes over 32.
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.global_sectors, self.global_requests)
    }

    /// Share of line accesses that hit in the cache model.
    pub fn l2_hit_rate(&self) -> f64 {
        ratio(self.l2_hits, self.l2_hits + self.l2_misses)
    }

    /// Adds the counters of another launch; `lines` are kept of `self` only, since they belong to one program.
    pub fn add(&mut self, other: &Counters) {
        for (k, v) in &other.instructions {
            *self.instructions.entry(k.clone()).or_default() += v;
        }
        self.warp_instructions += other.warp_instructions;
        self.lane_instructions += other.lane_instructions;
        self.global_requests += other.global_requests;
        self.global_sectors += other.global_sectors;
        self.shared_requests += other.shared_requests;
        self.shared_extra_wavefronts += other.shared_extra_wavefronts;
        self.mma_macs += other.mma_macs;
        self.barrier_waits += other.barrier_waits;
        self.async_copy_bytes += other.async_copy_bytes;
        self.l2_hits += other.l2_hits;
        self.l2_misses += other.l2_misses;
    }

    pub(crate) fn collect(program: &Program, tally: &Tally, (l2_hits, l2_misses): (u64, u64)) -> Counters {
        let mut out = Counters {
            mma_macs: tally.mma_macs,
            barrier_waits: tally.barrier_waits,
            async_copy_bytes: tally.async_copy_bytes,
            l2_hits,
            l2_misses,
            ..Counters::default()
        };
        let mut lines: BTreeMap<u32, LineCounters> = BTreeMap::new();
        for (at, t) in tally.instructions.iter().enumerate().filter(|(_, t)| t.issued > 0) {
            let index = program.origin[at];
            let Some(origin) = program.origins.get(index as usize) else { continue };
            out.warp_instructions += t.issued;
            out.lane_instructions += t.lanes;
            let opcode =
                origin.text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or("").trim_end_matches(';');
            *out.instructions.entry(opcode.to_owned()).or_default() += t.issued;
            let op = &program.code[at].op;
            if op.touches_global() {
                out.global_requests += t.requests;
                out.global_sectors += t.sectors;
            }
            if op.touches_shared() {
                out.shared_requests += t.requests;
                out.shared_extra_wavefronts += t.extra_wavefronts;
            }
            let line = lines.entry(index).or_insert_with(|| LineCounters {
                line: origin.line,
                text: origin.text.clone(),
                ..LineCounters::default()
            });
            line.issued += t.issued;
            line.lanes += t.lanes;
            line.requests += t.requests;
            line.sectors += t.sectors;
            line.extra_wavefronts += t.extra_wavefronts;
        }
        out.lines = lines.into_values().collect();
        out
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
