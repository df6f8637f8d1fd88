//! What ptxas makes of a compiled program's kernels: registers, spills, occupancy, instructions.

use std::collections::HashMap;

use serde::Serialize;
use tenon_runtime::plan::{Operation, Step};
use tenon_target::{BlockResources, KernelFigures, Nvdisasm, Ptxas, Sass, TargetError};

use crate::driver::Program;
use crate::{Diagnostic, Failure};

/// A kernel as ptxas assembled it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelCode {
    /// Its name.
    pub name: String,
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of registers stored to memory and loaded back.
    pub spills: u32,
    /// Shared memory of a block in bytes, static and dynamic.
    pub smem: u32,
    /// Warps that a multiprocessor holds at once, as a share of what it could hold.
    pub occupancy: f64,
    /// Instructions of the hottest loop, without NOPs; none where there is no loop, or no listing for the architecture.
    pub loop_sass: Option<usize>,
    /// Matrix instructions of the hottest loop.
    pub loop_mma: Option<usize>,
    /// Instructions of the kernel, without NOPs.
    pub total_sass: Option<usize>,
}

/// The kernels of a program for one target.
#[derive(Debug, Clone)]
pub struct ProgramCode {
    /// The kernels, in the order of their first launches.
    pub kernels: Vec<KernelCode>,
    /// Why they are not acceptable: E0616 for spills, E0617 for warnings.
    pub fault: Option<Diagnostic>,
}

/// Assembles the kernels of a program, and disassembles them where `nvdisasm` reads the architecture.
///
/// # Errors
/// Of the tools: PTX that is refused, a release that does not fit.
pub fn assemble(program: &Program, ptxas: &Ptxas, nvdisasm: Option<&Nvdisasm>) -> Result<ProgramCode, Failure> {
    let target = program.target;
    if program.ptx.trim().is_empty() {
        return Ok(ProgramCode { kernels: Vec::new(), fault: None });
    }
    let assembly = ptxas.assemble(&program.ptx, target)?;
    let listings = match nvdisasm.map(|nvdisasm| nvdisasm.disassemble(&assembly.cubin, target)) {
        None | Some(Err(TargetError::NoListing { .. })) => Vec::new(),
        Some(listings) => listings?,
    };
    let listings: HashMap<&str, &Sass> = listings.iter().map(|listing| (listing.kernel.as_str(), listing)).collect();
    let mut kernels: Vec<KernelCode> = Vec::new();
    for step in program.plan.steps.iter().flat_map(Step::walk) {
        let Operation::Launch(launch) = &step.operation else { continue };
        if kernels.iter().any(|kernel| kernel.name == launch.entry) {
            continue;
        }
        let Some(figures) = assembly.kernel(&launch.entry) else { continue };
        let block = BlockResources {
            threads: launch.block.iter().product(),
            registers_per_thread: figures.registers,
            shared_memory: figures.shared_memory + launch.dynamic_shared_bytes,
        };
        let occupancy = target.architecture.occupancy(&block)?.fraction;
        kernels.push(kernel(figures, &block, occupancy, listings.get(launch.entry.as_str()).copied()));
    }
    let fault = assembly.check(target).err().map(Diagnostic::from);
    Ok(ProgramCode { kernels, fault })
}

fn kernel(figures: &KernelFigures, block: &BlockResources, occupancy: f64, listing: Option<&Sass>) -> KernelCode {
    let hottest = listing.and_then(|listing| Some((listing, listing.hottest_loop.as_ref()?)));
    KernelCode {
        name: figures.name.clone(),
        threads: block.threads,
        registers: figures.registers,
        spills: figures.spill_stores + figures.spill_loads,
        smem: block.shared_memory,
        occupancy,
        loop_sass: hottest.map(|(_, hottest)| hottest.instructions),
        loop_mma: hottest
            .map(|(listing, hottest)| listing.body(hottest).filter(|instruction| instruction.is_matrix()).count()),
        total_sass: listing.map(|listing| listing.instructions.len()),
    }
}
