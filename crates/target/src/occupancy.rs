//! How many blocks an SM holds at once, as NVIDIA's occupancy calculator computes it.

use std::fmt;

use crate::{Architecture, TargetError};

/// Threads of a warp, on every architecture.
const WARP: u32 = 32;

/// What a block takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockResources {
    /// Threads, at least 1.
    pub threads: u32,
    /// Registers of a thread, as ptxas states them.
    pub registers_per_thread: u32,
    /// Static and dynamic shared memory in bytes.
    pub shared_memory: u32,
}

/// What keeps a further block off an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OccupancyLimit {
    Blocks,
    Warps,
    Registers,
    SharedMemory,
}

impl fmt::Display for OccupancyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OccupancyLimit::Blocks => "blocks",
            OccupancyLimit::Warps => "warps",
            OccupancyLimit::Registers => "registers",
            OccupancyLimit::SharedMemory => "shared memory",
        })
    }
}

/// How full an SM is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Blocks that are resident at once.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// `warps` as a part of what the SM could hold.
    pub fraction: f64,
    /// What keeps a further block off: of several that do, the first of blocks, warps, registers, shared memory.
    pub limit: OccupancyLimit,
}

impl Architecture {
    /// How many blocks an SM holds at once; E0614 if not even one.
    ///
    /// Registers are given out by warps in units, and warps are spread evenly over the SM's partitions; shared memory is given out by
    /// blocks in units, after what the system keeps for each.
    pub fn occupancy(&self, block: &BlockResources) -> Result<Occupancy, TargetError> {
        let limits = &self.limits;
        let too_large = |what, requested: u32, least: u32, most: u32| TargetError::BlockDoesNotFit {
            architecture: self.name,
            what,
            requested,
            least,
            most,
        };
        if block.threads == 0 || block.threads > limits.threads_per_block {
            return Err(too_large("threads", block.threads, 1, limits.threads_per_block));
        }
        if block.registers_per_thread > limits.registers_per_thread {
            return Err(too_large("registers per thread", block.registers_per_thread, 0, limits.registers_per_thread));
        }
        if block.shared_memory > limits.shared_memory_per_block {
            return Err(too_large("bytes of shared memory", block.shared_memory, 0, limits.shared_memory_per_block));
        }
        let warps = block.threads.div_ceil(WARP);
        let registers_per_warp =
            (block.registers_per_thread.max(1) * WARP).next_multiple_of(limits.register_allocation_unit);
        let partitioned = |warps: u32| warps / limits.warp_allocation_unit * limits.warp_allocation_unit;
        let registers_of_block = registers_per_warp * warps.next_multiple_of(limits.warp_allocation_unit);
        let by_registers = if registers_of_block > limits.registers_per_block {
            0
        } else {
            partitioned(limits.registers_per_sm / registers_per_warp) / warps
        };
        if by_registers == 0 {
            let warps = warps.next_multiple_of(limits.warp_allocation_unit);
            let per_warp = limits.registers_per_block / warps;
            let most = per_warp / limits.register_allocation_unit * limits.register_allocation_unit / WARP;
            return Err(too_large("registers per thread", block.registers_per_thread, 0, most));
        }
        let shared_memory = u64::from(block.shared_memory) + u64::from(limits.reserved_shared_memory_per_block);
        let shared_memory = shared_memory.next_multiple_of(u64::from(limits.shared_memory_allocation_unit));
        let by_shared_memory = match shared_memory {
            0 => u32::MAX,
            bytes => u32::try_from(u64::from(limits.shared_memory_per_sm) / bytes).unwrap_or(u32::MAX),
        };
        let bounds = [
            (limits.blocks_per_sm, OccupancyLimit::Blocks),
            (limits.warps_per_sm / warps, OccupancyLimit::Warps),
            (by_registers, OccupancyLimit::Registers),
            (by_shared_memory, OccupancyLimit::SharedMemory),
        ];
        let (blocks, limit) = bounds.into_iter().min_by_key(|(blocks, _)| *blocks).expect("there are four bounds");
        let resident = blocks * warps;
        let fraction = f64::from(resident) / f64::from(limits.warps_per_sm);
        Ok(Occupancy { blocks, warps: resident, fraction, limit })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn occupancy(
        architecture: &str,
        threads: u32,
        registers_per_thread: u32,
        shared_memory: u32,
    ) -> Result<Occupancy, TargetError> {
        let block = BlockResources { threads, registers_per_thread, shared_memory };
        Architecture::find(architecture).unwrap().occupancy(&block)
    }

    /// CUDA C++ Best Practices Guide, "Occupancy": on compute capability 7.0 with 37 registers, blocks of 128 threads reach 75 % with 12
    /// blocks, blocks of 320 threads 63 % with four.
    #[test]
    fn the_example_of_the_best_practices_guide() {
        let small = occupancy("sm_70", 128, 37, 0).unwrap();
        assert_eq!((small.blocks, small.fraction, small.limit), (12, 0.75, OccupancyLimit::Registers));
        let large = occupancy("sm_70", 320, 37, 0).unwrap();
        assert_eq!((large.blocks, large.fraction), (4, 0.625));
        assert_eq!(occupancy("sm_70", 128, 32, 0).unwrap().fraction, 1.0);
    }

    /// Values of NVIDIA's occupancy calculator: architecture, threads, registers, shared memory; blocks, warps, limit.
    #[test]
    fn values_of_the_occupancy_calculator() {
        use OccupancyLimit::*;
        let cases = [
            ("sm_80", 256, 32, 4096, 8, 64, Warps),
            ("sm_80", 256, 64, 4096, 4, 32, Registers),
            ("sm_80", 1024, 64, 0, 1, 32, Registers),
            ("sm_80", 1024, 32, 0, 2, 64, Warps),
            ("sm_80", 32, 16, 0, 32, 32, Blocks),
            ("sm_80", 128, 252, 32768, 2, 8, Registers),
            // 163 KiB and the kibibyte that the system keeps fill the SM.
            ("sm_80", 128, 32, 166912, 1, 4, SharedMemory),
            ("sm_80", 128, 32, 48 * 1024, 3, 12, SharedMemory),
            ("sm_70", 128, 32, 48 * 1024, 2, 8, SharedMemory),
            ("sm_75", 256, 64, 16 * 1024, 4, 32, Warps),
            ("sm_75", 32, 16, 0, 16, 16, Blocks),
            ("sm_89", 256, 40, 0, 6, 48, Warps),
            ("sm_89", 128, 128, 49 * 1024, 2, 8, SharedMemory),
            ("sm_90a", 384, 168, 200 * 1024, 1, 12, Registers),
            ("sm_90a", 128, 90, 112 * 1024, 2, 8, SharedMemory),
            ("sm_100a", 128, 255, 0, 2, 8, Registers),
            ("sm_120a", 1024, 40, 0, 1, 32, Warps),
        ];
        for (name, threads, registers, shared_memory, blocks, warps, limit) in cases {
            let found = occupancy(name, threads, registers, shared_memory).unwrap();
            let expected = (blocks, warps, limit);
            assert_eq!(
                (found.blocks, found.warps, found.limit),
                expected,
                "{name} {threads} {registers} {shared_memory}"
            );
        }
    }

    #[test]
    fn blocks_that_do_not_fit_are_refused() {
        let refused = |architecture, threads, registers, shared_memory, text: &str| {
            let error = occupancy(architecture, threads, registers, shared_memory).unwrap_err();
            assert_eq!(error.code(), "E0614");
            assert!(error.to_string().contains(text) && error.help().is_some(), "{error}");
        };
        refused("sm_80", 0, 32, 0, "0 threads");
        refused("sm_80", 1025, 32, 0, "takes 1 to 1024");
        refused("sm_80", 32, 256, 0, "takes 0 to 255");
        refused("sm_80", 1024, 65, 0, "takes 0 to 64");
        refused("sm_75", 32, 32, 64 * 1024 + 1, "takes 0 to 65536");
        refused("sm_75", u32::MAX, u32::MAX, u32::MAX, "threads");
    }

    /// More of anything never makes room for more blocks.
    #[test]
    fn occupancy_falls_with_resources() {
        for architecture in Architecture::all() {
            for threads in (32..=1024).step_by(96) {
                let blocks = |registers_per_thread, shared_memory| {
                    let block = BlockResources { threads, registers_per_thread, shared_memory };
                    architecture.occupancy(&block).map_or(0, |occupancy| occupancy.blocks)
                };
                let by_registers: Vec<u32> = (1..=255).map(|registers| blocks(registers, 0)).collect();
                let by_memory: Vec<u32> = (0..=228).map(|kibibytes| blocks(32, kibibytes * 1024)).collect();
                assert!(by_registers.is_sorted_by(|a, b| a >= b), "{}", architecture.name);
                assert!(by_memory.is_sorted_by(|a, b| a >= b), "{}", architecture.name);
            }
        }
    }
}
