//! The device: memory and launches.

use std::collections::HashMap;

use crate::counters::Counters;
use crate::decode::render_location;
use crate::error::Error;
use crate::execute::lanes::Vectors;
use crate::execute::machine::Launch;
use crate::fault::Fault;
use crate::memory::global::GlobalMemory;
use crate::memory::shared::SharedChecks;
use crate::module::{Entry, Module};
use crate::parse::ast::{Initialiser, Space};
use crate::schedule::{self, Request};
use crate::tensor_map::TensorMap;

/// Most shared memory of a block, static and dynamic: 227 KiB.
pub const SHARED_LIMIT: u32 = 227 << 10;
/// Memory of a device made by [`Device::new`], in bytes of address space: 16 GiB.
pub const DEFAULT_MEMORY: u64 = 16 << 30;

/// An embedded device with its own memory.
pub struct Device {
    memory: GlobalMemory,
    /// Addresses of the data of modules launched before.
    modules: HashMap<u64, Vec<u64>>,
}

/// Address of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePointer(u64);

impl DevicePointer {
    /// The address as kernels see it; offsets inside the allocation may be added.
    pub fn address(self) -> u64 {
        self.0
    }
}

/// Which checks run beside those of bounds and alignment, which always do. All are on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Unordered accesses to shared memory.
    pub shared_races: bool,
    /// Reads of shared memory that nothing wrote.
    pub uninitialised_shared: bool,
    /// Unordered accesses of different blocks to global memory.
    pub global_races: bool,
    /// Reads of global memory that nothing wrote.
    pub uninitialised_global: bool,
    /// Feed the model of the second-level cache.
    pub cache_model: bool,
}

impl Default for Checks {
    fn default() -> Checks {
        Checks {
            shared_races: true,
            uninitialised_shared: true,
            global_races: true,
            uninitialised_global: true,
            cache_model: true,
        }
    }
}

/// How to launch a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Seed of the order of warps and blocks; 0 keeps blocks in their order.
    pub seed: u64,
    /// Host threads that run blocks; 0 takes all of the machine.
    pub threads: usize,
    /// Which checks run.
    pub checks: Checks,
    /// Most warp instructions of the launch.
    pub instruction_budget: u64,
}

impl Default for LaunchConfig {
    fn default() -> LaunchConfig {
        LaunchConfig {
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            seed: 0,
            threads: 0,
            checks: Checks::default(),
            instruction_budget: 2_000_000_000,
        }
    }
}

/// An argument of a kernel; its size must be the parameter's.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Argument {
    /// An address; null is 0.
    Pointer(u64),
    /// Bytes of an aggregate, little-endian.
    Bytes(Vec<u8>),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
    /// Bits of an f16 or bf16.
    F16Bits(u16),
    /// A tensor map, for a parameter of 128 bytes aligned to 64 (`__grid_constant__` in CUDA).
    TensorMap(Box<TensorMap>),
}

impl From<DevicePointer> for Argument {
    fn from(p: DevicePointer) -> Argument {
        Argument::Pointer(p.0)
    }
}

impl From<TensorMap> for Argument {
    fn from(map: TensorMap) -> Argument {
        Argument::TensorMap(Box::new(map))
    }
}

impl Argument {
    /// The bytes of the argument, little-endian.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Argument::Pointer(v) | Argument::U64(v) => v.to_le_bytes().to_vec(),
            Argument::Bytes(v) => v.clone(),
            Argument::TensorMap(map) => map.bytes().to_vec(),
            Argument::I8(v) => v.to_le_bytes().to_vec(),
            Argument::U8(v) => v.to_le_bytes().to_vec(),
            Argument::I16(v) => v.to_le_bytes().to_vec(),
            Argument::U16(v) | Argument::F16Bits(v) => v.to_le_bytes().to_vec(),
            Argument::I32(v) => v.to_le_bytes().to_vec(),
            Argument::U32(v) => v.to_le_bytes().to_vec(),
            Argument::I64(v) => v.to_le_bytes().to_vec(),
            Argument::F32(v) => v.to_le_bytes().to_vec(),
            Argument::F64(v) => v.to_le_bytes().to_vec(),
        }
    }
}

impl Default for Device {
    fn default() -> Device {
        Device::new()
    }
}

impl Device {
    /// A device with [`DEFAULT_MEMORY`].
    pub fn new() -> Device {
        Device::with_memory(DEFAULT_MEMORY)
    }

    /// A device whose live allocations may have so many bytes together. Host memory is taken when pages are touched.
    pub fn with_memory(bytes: u64) -> Device {
        Device { memory: GlobalMemory::new(bytes), modules: HashMap::new() }
    }

    /// Allocates global memory, aligned to 256 bytes or more, far from every other allocation. It reads as zero from the host
    /// and counts as unwritten for kernels.
    ///
    /// # Errors
    /// [`Error::Memory`] when the device has not that much left.
    pub fn allocate(&mut self, bytes: u64) -> Result<DevicePointer, Error> {
        self.memory.allocate(bytes).map(DevicePointer)
    }

    /// Frees an allocation.
    ///
    /// # Errors
    /// [`Error::Memory`] when it is none, or was freed before.
    pub fn free(&mut self, p: DevicePointer) -> Result<(), Error> {
        self.memory.free(p.0)
    }

    /// Copies bytes into an allocation.
    ///
    /// # Errors
    /// [`Error::Memory`] when they do not lie inside.
    pub fn write(&mut self, p: DevicePointer, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.memory.write(p.0, offset, data)
    }

    /// Copies bytes out of an allocation.
    ///
    /// # Errors
    /// [`Error::Memory`] when they do not lie inside.
    pub fn read(&self, p: DevicePointer, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.memory.read(p.0, offset, len)
    }

    /// Treats bytes as never written again, as in a new allocation: a kernel that reads them is at fault. A word of four bytes is forgotten
    /// where all of it lies inside. The host reads what was there.
    ///
    /// # Errors
    /// [`Error::Memory`] when they do not lie inside.
    pub fn forget(&mut self, p: DevicePointer, offset: u64, len: u64) -> Result<(), Error> {
        self.memory.forget(p.0, offset, len)
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// [`Error::UnknownEntry`], [`Error::Launch`] when configuration and arguments do not fit the entry, [`Error::Fault`] when the
    /// kernel does something wrong. After a fault, memory holds what had been written.
    pub fn launch(
        &mut self,
        m: &Module,
        entry: &str,
        cfg: &LaunchConfig,
        args: &[Argument],
    ) -> Result<Counters, Error> {
        let Some(entry) = m.entry(entry) else { return Err(Error::UnknownEntry(entry.to_owned())) };
        let params = check(entry, cfg, args)?;
        self.load(m)?;
        // Tensor maps that a kernel writes are known by who wrote them.
        let single_block = cfg.grid == [1; 3] && !entry.program.uses_tensor_maps;
        let threads: u32 = cfg.block.iter().product();
        let ordered = entry.program.orders_blocks && !single_block && cfg.checks.global_races;
        self.memory.begin_launch(if ordered { threads.div_ceil(32) as usize } else { 0 });
        let symbols = self.modules.get(&m.id).cloned().unwrap_or_default();
        let launch = Launch {
            program: &entry.program,
            global: &self.memory,
            params: &params,
            symbols: &symbols,
            grid: cfg.grid,
            block: cfg.block,
            shared_bytes: entry.program.static_shared + cfg.dynamic_shared_bytes,
            dynamic_shared: cfg.dynamic_shared_bytes,
            check_global_races: cfg.checks.global_races,
            check_uninitialised_global: cfg.checks.uninitialised_global,
            single_block,
            cache_lines: cfg.checks.cache_model,
            vectors: Vectors::detect(),
        };
        let threads = match cfg.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let done = schedule::run(&Request {
            launch: &launch,
            checks: SharedChecks { races: cfg.checks.shared_races, uninitialised: cfg.checks.uninitialised_shared },
            seed: cfg.seed,
            threads,
            budget: cfg.instruction_budget,
        });
        if let Some(fallen) = done.fault {
            let origin = &entry.program.origins[entry.program.origin[fallen.pc] as usize];
            let thread = fallen.warp as u32 * 32 + fallen.trap.lane;
            let [nx, ny, _] = cfg.block;
            return Err(Error::Fault(Box::new(Fault {
                kind: fallen.trap.kind,
                entry: entry.name().to_owned(),
                line: origin.line,
                instruction: origin.text.clone(),
                block: fallen.block,
                thread: [thread % nx, thread / nx % ny, thread / nx / ny],
                location: origin.location.map(|at| render_location(&m.ast.files, at)),
                detail: fallen.trap.detail,
            })));
        }
        Ok(Counters::collect(&entry.program, &done.tally, done.cache))
    }

    /// Places a module's global and constant data, once.
    fn load(&mut self, m: &Module) -> Result<(), Error> {
        if self.modules.contains_key(&m.id) {
            return Ok(());
        }
        let mut addresses = vec![0; m.ast.variables.len()];
        let data = |s: Space| s == Space::Global || s == Space::Const;
        for (address, v) in addresses.iter_mut().zip(&m.ast.variables) {
            if data(v.space) {
                *address = self.memory.allocate(v.size)?;
            }
        }
        for (i, v) in m.ast.variables.iter().enumerate().filter(|(_, v)| data(v.space)) {
            let no_memory = || Error::Memory(format!("no memory for the {} bytes of `{}`", v.size, v.name));
            let size = usize::try_from(v.size).map_err(|_| no_memory())?;
            let mut bytes: Box<[u8]> = bytemuck::allocation::try_zeroed_slice_box(size).map_err(|()| no_memory())?;
            for (chunk, value) in bytes.chunks_mut(v.element as usize).zip(&v.values) {
                let bits = match value {
                    Initialiser::Bits(bits) => *bits,
                    Initialiser::Symbol(name, offset) => {
                        let target = m.ast.variables.iter().position(|t| t.name == *name && data(t.space));
                        let Some(target) = target else {
                            return Err(Error::parse(
                                v.line,
                                format!("`{name}` in the initialiser of `{}` is not known", v.name),
                            ));
                        };
                        addresses[target].wrapping_add(*offset as u64)
                    }
                };
                let raw = bits.to_le_bytes();
                let n = chunk.len().min(8);
                chunk[..n].copy_from_slice(&raw[..n]);
            }
            self.memory.write(addresses[i], 0, &bytes)?;
            if v.space == Space::Const {
                self.memory.set_read_only(addresses[i]);
            }
        }
        self.modules.insert(m.id, addresses);
        Ok(())
    }
}

/// Checks a launch and lays out its parameters.
fn check(entry: &Entry, cfg: &LaunchConfig, args: &[Argument]) -> Result<Vec<u8>, Error> {
    let fail = |message: String| Err(Error::Launch { entry: entry.name().to_owned(), message });
    let [x, y, z] = cfg.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65535 || z > 65535 {
        return fail(format!("grid {x} × {y} × {z}: each must be at least 1, at most 2147483647 × 65535 × 65535"));
    }
    if u64::from(x) * u64::from(y) * u64::from(z) >= 1 << 28 {
        return fail(format!("grid {x} × {y} × {z} has 2^28 blocks or more"));
    }
    let [bx, by, bz] = cfg.block;
    if bx == 0 || by == 0 || bz == 0 || bx > 1024 || by > 1024 || bz > 64 || bx * by * bz > 1024 {
        return fail(format!(
            "block {bx} × {by} × {bz}: each must be at least 1, at most 1024 × 1024 × 64 and 1024 threads"
        ));
    }
    if let Some(cluster) = entry.cluster().filter(|c| *c != [1; 3]) {
        return fail(format!(
            "clusters of {cluster:?} blocks (.reqnctapercluster): the simulator runs clusters of one block"
        ));
    }
    if let Some(required) = entry.required_threads()
        && required != cfg.block
    {
        return fail(format!("block {:?}, the entry requires {required:?} (.reqntid)", cfg.block));
    }
    if let Some(most) = entry.maximum_threads
        && bx * by * bz > most.iter().fold(1, |a, &b| a.saturating_mul(b))
    {
        return fail(format!("block {:?}, the entry allows {most:?} (.maxntid)", cfg.block));
    }
    let shared = u64::from(entry.program.static_shared) + u64::from(cfg.dynamic_shared_bytes);
    if shared > u64::from(SHARED_LIMIT) {
        return fail(format!("{shared} bytes of shared memory, at most {SHARED_LIMIT}"));
    }
    if args.len() != entry.parameters().len() {
        return fail(format!("{} arguments for {} parameters", args.len(), entry.parameters().len()));
    }
    let mut params = vec![0u8; entry.program.param_bytes as usize];
    for (i, (p, a)) in entry.parameters().iter().zip(args).enumerate() {
        let bytes = a.bytes();
        if matches!(a, Argument::TensorMap(_)) && !p.align.is_multiple_of(64) {
            return fail(format!(
                "argument {i} is a tensor map, parameter `{}` is aligned to {} bytes, not 64",
                p.name, p.align
            ));
        }
        if bytes.len() != p.size as usize {
            return fail(format!("argument {i} has {} bytes, parameter `{}` has {}", bytes.len(), p.name, p.size));
        }
        params[p.offset as usize..(p.offset + p.size) as usize].copy_from_slice(&bytes);
    }
    Ok(params)
}
