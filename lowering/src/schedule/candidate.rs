//! The schedules that are weighed for a kernel, for people to read.

use tenon_ir::Op;
use tenon_target::{BlockResources, Target};

use super::Schedule;
use super::body::Body;
use crate::LoweringError;

/// Bytes that the L2 cache gives a multiprocessor in a clock, as the models of time have it.
pub(super) const L2_BYTES: u64 = 64;

/// A schedule, with what the model of its family says of it. Sizes that are known at launch count with their capacities.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// How it computes: `mma.sync`, or `tma wgmma`.
    pub schedule: &'static str,
    /// Rows and columns that a block computes, and elements that it sums at a time; of attention queries, keys and elements of a head.
    pub tile: [u32; 3],
    /// Blocks that share the sums of a tile.
    pub splits: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Times that every multiprocessor computes a block.
    pub waves: u64,
    /// Warps that a multiprocessor holds by threads and shared memory, as a share of what it could hold; registers are known after ptxas alone.
    pub occupancy: f64,
    /// Tiles of each operand in shared memory: one is read while the others are on their way.
    pub stages: u32,
    /// Bytes of operands that all blocks read together, and of partial sums that they write and read.
    pub bytes: u64,
    /// Clocks of a multiprocessor that the model estimates.
    pub clocks: u64,
    /// Whether it is the one.
    pub chosen: bool,
}

impl Candidate {
    /// The share of warps by threads and shared memory; 0 where not even one block fits.
    pub(super) fn occupancy_of(target: &Target, warps: u32, shared_bytes: u64) -> f64 {
        let shared_memory = u32::try_from(shared_bytes).unwrap_or(u32::MAX);
        let block = BlockResources { threads: warps * 32, registers_per_thread: 1, shared_memory };
        target.architecture.occupancy(&block).map_or(0.0, |occupancy| occupancy.fraction)
    }
}

/// A schedule that a kernel cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuledOut {
    /// How it would compute.
    pub schedule: &'static str,
    /// Why it cannot.
    pub reason: String,
}

/// What was weighed for a kernel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weighed {
    /// The schedules that it can have, in the order in which the first of equals is taken.
    pub candidates: Vec<Candidate>,
    /// Those that it cannot.
    pub ruled_out: Vec<RuledOut>,
}

/// The schedules that were weighed for a `graph.kernel`: of a product for each shape of tile, of attention the first tile that shared memory holds
/// and those of warpgroups; none for families that have one schedule.
///
/// # Errors
/// What [`lower_kernel`](super::lower_kernel) refuses when it chooses.
pub fn candidates(kernel: Op<'_>, target: &Target) -> Result<Weighed, LoweringError> {
    let body = Body::read(kernel)?;
    let schedule = Schedule::choose(&body, target).map_err(|error| error.with_nodes(kernel.location().names()))?;
    Ok(match schedule {
        Schedule::Gemm(schedule) => schedule.weighed(target),
        Schedule::Attention(schedule) => schedule.weighed(target),
        _ => Weighed::default(),
    })
}
