//! What Tenon knows of GPUs, as data, and the drivers of NVIDIA's assembler and disassembler.
//!
//! - [`Architecture`]: one file `data/architectures/NAME.toml` each: PTX version, limits, rates of an SM, features.
//! - [`Gpu`]: one file `data/gpus/NAME.toml` each: number of SMs, clocks, memory.
//! - [`Target`]: a GPU with its architecture; what the command calls `--target`. [`Target::find`] knows every name.
//! - [`Instructions`]: the table `data/instructions.toml` of what code generation selects, with the architectures that have it. LLVM
//!   aborts the process on an intrinsic that the processor lacks, so the table is asked before any is selected.
//! - [`Target::time_lower_bound`]: rooflines. [`Architecture::occupancy`]: how many blocks an SM holds.
//! - [`Ptxas`] and [`Nvdisasm`]: registers, spills and SASS of emitted PTX, when the tools are installed. Nothing here needs them.
//!
//! Invariants: every description is checked on reading (names, references, ranges) and a test reads them all; a fact is in one file;
//! no code outside the data names a GPU or an architecture.

mod architecture;
mod error;
mod gpu;
mod instructions;
mod nearest;
mod occupancy;
mod registry;
mod roofline;
mod target;
mod tools;
mod version;

pub use architecture::{
    Architecture, ArchitectureName, Features, Limits, Llvm, NvdisasmReleases, PtxasReleases, Rates, TensorType,
};
pub use error::{InstructionUnavailable, TargetError};
pub use gpu::{BandwidthSource, Gpu, L2, Links, Memory};
pub use instructions::{
    Emission, FragmentScheme, Instruction, Instructions, MatrixInstruction, Order, Probe, Requirements,
};
pub use occupancy::{BlockResources, Occupancy, OccupancyLimit};
pub use roofline::{LowerBound, Resource, Unit, Work};
pub use target::Target;
pub use tools::{
    Assembly, FunctionFigures, KernelFigures, Loop, Message, Nvdisasm, Ptxas, Sass, SassInstruction, Severity,
};
pub use version::Version;
