//! Description of a compute architecture, `data/architectures/NAME.toml`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::{TargetError, Version, registry};

/// Name of an architecture as LLVM and ptxas spell it: `sm_80`, `sm_90a`. Ordered by number, then suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ArchitectureName {
    /// Compute capability times ten: 80, 90, 120.
    pub number: u32,
    /// `a`: runs on that chip alone; `f`: on its family alone; none: on later ones too.
    pub suffix: Option<char>,
}

impl fmt::Display for ArchitectureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

impl FromStr for ArchitectureName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is no name of an architecture of the form sm_80 or sm_90a");
        let rest = text.strip_prefix("sm_").ok_or_else(error)?;
        let digits = rest.trim_end_matches(['a', 'f']);
        let mut suffix = rest[digits.len()..].chars();
        let number = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|digits| digits.parse().ok()).ok_or_else(error)?;
        let name = ArchitectureName { number, suffix: suffix.next() };
        if suffix.next().is_some() { Err(error()) } else { Ok(name) }
    }
}

impl TryFrom<String> for ArchitectureName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A compute architecture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// `sm_80`.
    pub name: ArchitectureName,
    /// `Ampere`.
    pub generation: String,
    /// Name of the GPU that is meant where only the architecture is named.
    pub default_gpu: String,
    /// What LLVM's NVPTX target is told.
    pub llvm: Llvm,
    /// PTX that is emitted.
    ptx: Ptx,
    /// Releases of ptxas that take it.
    pub ptxas: PtxasReleases,
    /// Releases of nvdisasm that read its cubins.
    #[serde(default)]
    pub nvdisasm: NvdisasmReleases,
    /// Sizes of a block, of an SM, of a grid.
    pub limits: Limits,
    /// Throughput of an SM.
    pub rates: Rates,
    /// Throughput of an SM's tensor cores.
    tensor_rates: TensorRates,
    /// Instructions that decide between schedules; the instruction table has the same, finer.
    pub features: Features,
}

/// What LLVM's NVPTX target is told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llvm {
    /// `-mcpu`.
    pub processor: String,
    /// `-mattr`: the PTX version.
    pub features: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ptx {
    version: Version,
}

/// Releases of ptxas by CUDA version.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtxasReleases {
    /// The oldest that takes this architecture with the emitted PTX version.
    pub floor: Version,
    /// The newest that still knows the architecture, if newer ones do not.
    pub ceiling: Option<Version>,
}

/// Releases of nvdisasm by CUDA version.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvdisasmReleases {
    /// The newest that reads cubins of the architecture, if newer ones do not.
    pub ceiling: Option<Version>,
}

/// Sizes, from "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide. Memory is in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Limits {
    pub threads_per_block: u32,
    pub block_dimensions: [u32; 3],
    pub grid_dimensions: [u32; 3],
    /// Blocks of a portable cluster; 1 without clusters.
    pub blocks_per_cluster: u32,
    pub registers_per_thread: u32,
    pub registers_per_block: u32,
    pub registers_per_sm: u32,
    /// Registers of a warp are a multiple of this.
    pub register_allocation_unit: u32,
    pub warps_per_sm: u32,
    /// Warps of a block are placed in multiples of this.
    pub warp_allocation_unit: u32,
    pub blocks_per_sm: u32,
    /// Without opting in.
    pub static_shared_memory_per_block: u32,
    /// With opting in.
    pub shared_memory_per_block: u32,
    pub shared_memory_per_sm: u32,
    /// Kept by the system for each block, beyond what the block asks for.
    pub reserved_shared_memory_per_block: u32,
    pub shared_memory_allocation_unit: u32,
    pub kernel_parameter_bytes: u32,
}

/// Results per clock per SM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Multiply-adds in f32.
    pub fma_f32: u32,
    /// Multiply-adds in f64.
    pub fma_f64: u32,
    /// Multiply-adds in f16, two to an instruction.
    pub fma_f16: u32,
    /// Multiply-adds of 32-bit integers.
    pub fma_i32: u32,
    /// Special functions: `ex2.approx`, `rcp.approx`, ….
    pub sfu: u32,
    /// Lanes of load and store instructions.
    pub load_store: u32,
    /// Bytes of shared memory.
    pub shared_memory_bytes: u32,
}

/// Type of the operands of tensor cores, as their rates go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TensorType {
    F16,
    BF16,
    /// f32 operands with a mantissa of ten bits.
    Tf32,
    F64,
    /// e4m3 and e5m2.
    F8,
    I8,
    I4,
    F4,
}

impl TensorType {
    /// Every type.
    pub const ALL: [TensorType; 8] = {
        use TensorType::*;
        [F16, BF16, Tf32, F64, F8, I8, I4, F4]
    };

    /// `f16`, `tf32`, ….
    pub fn name(self) -> &'static str {
        match self {
            TensorType::F16 => "f16",
            TensorType::BF16 => "bf16",
            TensorType::Tf32 => "tf32",
            TensorType::F64 => "f64",
            TensorType::F8 => "f8",
            TensorType::I8 => "i8",
            TensorType::I4 => "i4",
            TensorType::F4 => "f4",
        }
    }
}

/// Dense multiply-accumulates per clock per SM.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorRates {
    f16: Option<u32>,
    bf16: Option<u32>,
    tf32: Option<u32>,
    f64: Option<u32>,
    f8: Option<u32>,
    i8: Option<u32>,
    i4: Option<u32>,
    f4: Option<u32>,
}

impl TensorRates {
    pub(crate) fn of(&self, operands: TensorType) -> Option<u32> {
        match operands {
            TensorType::F16 => self.f16,
            TensorType::BF16 => self.bf16,
            TensorType::Tf32 => self.tf32,
            TensorType::F64 => self.f64,
            TensorType::F8 => self.f8,
            TensorType::I8 => self.i8,
            TensorType::I4 => self.i4,
            TensorType::F4 => self.f4,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        match TensorType::ALL.into_iter().find(|operands| self.of(*operands) == Some(0)) {
            Some(operands) => Err(format!("`tensor_rates.{}` is 0: leave it out", operands.name())),
            None => Ok(()),
        }
    }
}

/// Instructions that decide between schedules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Features {
    pub ldmatrix: bool,
    pub cp_async: bool,
    /// Barriers in shared memory that count arrivals.
    pub mbarrier: bool,
    /// Bulk copies of tensors described by a tensor map.
    pub tma: bool,
    pub wgmma: bool,
    /// Reduction of 32-bit integers over a warp.
    pub redux: bool,
    /// `max.NaN.f32` and `min.NaN.f32`.
    pub max_nan: bool,
    /// `fma.rn.bf16x2`.
    pub bf16_arithmetic: bool,
    /// Conversions from and to e4m3 and e5m2.
    pub fp8_conversion: bool,
}

impl Architecture {
    /// Every architecture, from the oldest to the newest.
    pub fn all() -> &'static [Architecture] {
        registry::architectures()
    }

    /// The architecture called `name`.
    pub fn find(name: &str) -> Result<&'static Architecture, TargetError> {
        let found = Self::all().iter().find(|architecture| architecture.llvm.processor == name);
        found.ok_or_else(|| {
            TargetError::unknown_target(name, Self::all().iter().map(|each| each.llvm.processor.as_str()))
        })
    }

    /// The PTX version that is emitted.
    pub fn ptx_version(&self) -> Version {
        self.ptx.version
    }

    /// Dense multiply-accumulates per clock per SM of tensor cores with these operands, accumulating in f32, s32 or f64; `None` where
    /// they do not exist. A GPU may have less: [`crate::Target::tensor_rate`].
    pub fn tensor_rate(&self, operands: TensorType) -> Option<u32> {
        self.tensor_rates.of(operands)
    }

    /// What the types do not say.
    pub(crate) fn check(&self, file: &str) -> Result<(), String> {
        let ensure = |holds: bool, reason: String| if holds { Ok(()) } else { Err(reason) };
        let name = self.name.to_string();
        ensure(name == file, format!("`name` is `{name}`, which is not the file's"))?;
        let processor = &self.llvm.processor;
        ensure(*processor == name, format!("`llvm.processor` is `{processor}`, which is not `name`"))?;
        let Version { major, minor } = self.ptx.version;
        let features = format!("+ptx{major}{minor}");
        ensure(self.llvm.features == features, format!("`llvm.features` is not `{features}`, as `ptx.version` says"))?;
        let ordered = self.ptxas.ceiling.is_none_or(|ceiling| ceiling >= self.ptxas.floor);
        ensure(ordered, "`ptxas.ceiling` is older than `ptxas.floor`".to_owned())?;
        let gpu = registry::gpus().iter().find(|gpu| gpu.name == self.default_gpu);
        let known = gpu.is_some_and(|gpu| gpu.architecture == self.name);
        ensure(known, format!("`default_gpu` is `{}`, which is no GPU of this architecture", self.default_gpu))?;
        for (field, value) in self.positive() {
            ensure(value > 0, format!("`{field}` is 0"))?;
        }
        self.tensor_rates.check()
    }

    /// The numbers that divide something or bound it from above.
    fn positive(&self) -> [(&'static str, u32); 21] {
        let Limits { block_dimensions: block, grid_dimensions: grid, .. } = self.limits;
        let (limits, rates) = (&self.limits, &self.rates);
        [
            ("limits.threads_per_block", limits.threads_per_block),
            ("limits.block_dimensions", block[0].min(block[1]).min(block[2])),
            ("limits.grid_dimensions", grid[0].min(grid[1]).min(grid[2])),
            ("limits.blocks_per_cluster", limits.blocks_per_cluster),
            ("limits.registers_per_thread", limits.registers_per_thread),
            ("limits.registers_per_block", limits.registers_per_block),
            ("limits.registers_per_sm", limits.registers_per_sm),
            ("limits.register_allocation_unit", limits.register_allocation_unit),
            ("limits.warps_per_sm", limits.warps_per_sm),
            ("limits.warp_allocation_unit", limits.warp_allocation_unit),
            ("limits.blocks_per_sm", limits.blocks_per_sm),
            ("limits.shared_memory_per_block", limits.shared_memory_per_block),
            ("limits.shared_memory_per_sm", limits.shared_memory_per_sm),
            ("limits.shared_memory_allocation_unit", limits.shared_memory_allocation_unit),
            ("rates.fma_f32", rates.fma_f32),
            ("rates.fma_f64", rates.fma_f64),
            ("rates.fma_f16", rates.fma_f16),
            ("rates.fma_i32", rates.fma_i32),
            ("rates.sfu", rates.sfu),
            ("rates.load_store", rates.load_store),
            ("rates.shared_memory_bytes", rates.shared_memory_bytes),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_read_and_ordered() {
        let name = |text: &str| text.parse::<ArchitectureName>().unwrap();
        assert!(name("sm_89") < name("sm_90a") && name("sm_90a") < name("sm_100a") && name("sm_90") < name("sm_90a"));
        assert_eq!(name("sm_120a").to_string(), "sm_120a");
        for bad in ["", "80", "sm_", "sm_a", "sm_80b", "sm_90aa", "sm_ 80", "sm_-1", "sm_99999999999"] {
            assert!(bad.parse::<ArchitectureName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn architectures_are_listed_from_the_oldest() {
        let names: Vec<ArchitectureName> = Architecture::all().iter().map(|each| each.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(Architecture::find("sm_80").unwrap().name.number, 80);
        assert_eq!(Architecture::find("a100").unwrap_err().code(), "E0600");
    }

    /// The PTX ISA's table of releases: CUDA 11.x brought PTX 7.x, 12.0 to 12.4 brought 8.0 to 8.4, 12.7 8.6, 12.8 8.7, 12.9 8.8.
    #[test]
    fn the_oldest_ptxas_knows_the_emitted_version() {
        for architecture in Architecture::all() {
            let Version { major, minor } = architecture.ptx_version();
            let needed = match (major, minor) {
                (7, minor) => Version { major: 11, minor },
                (8, minor @ 0..=5) => Version { major: 12, minor },
                (8, minor) => Version { major: 12, minor: minor + 1 },
                other => panic!("{other:?} is not in this test's table"),
            };
            assert!(architecture.ptxas.floor >= needed, "{}", architecture.name);
            assert!(architecture.ptxas.ceiling.is_none_or(|ceiling| ceiling >= needed), "{}", architecture.name);
        }
    }

    #[test]
    fn limits_agree_with_each_other() {
        for architecture in Architecture::all() {
            let limits = &architecture.limits;
            let name = architecture.name;
            assert!(
                limits.shared_memory_per_block + limits.reserved_shared_memory_per_block <= limits.shared_memory_per_sm,
                "{name}"
            );
            assert!(limits.static_shared_memory_per_block <= limits.shared_memory_per_block, "{name}");
            assert!(limits.registers_per_block <= limits.registers_per_sm, "{name}");
            assert!(limits.threads_per_block <= limits.warps_per_sm * 32, "{name}");
        }
    }
}
