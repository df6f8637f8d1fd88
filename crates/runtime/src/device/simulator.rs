//! The embedded simulator as a device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_ptx_sim::{
    Argument, Checks, Counters, LaunchConfig, Module, TensorElement, TensorFill, TensorMap, TensorMapConfig,
    TensorSwizzle,
};
use tenon_tensor::DType;

use crate::device::late_streams::{LateStreams, Pending};
use crate::device::{
    AllocationTable, Device, DeviceError, DevicePointer, KernelArgument, KernelHandle, KernelLaunch, ModuleHandle,
    Placement, Stream, TiledTensor,
};

const NAME: &str = "simulator";

/// Bytes that a copy on the device takes through the host at once.
const CHUNK: u64 = 16 << 20;

/// How the simulator runs.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Memory of the device in bytes; host memory is taken as it is touched.
    pub memory_bytes: u64,
    /// Seed of the order of warps, blocks and streams; results must not depend on it. 0 keeps blocks and calls in their order; by any other, copies and
    /// fills of streams but the first are done as late as events allow.
    pub seed: u64,
    /// Host threads that run blocks; 0 takes all of the machine.
    pub threads: usize,
    /// Which checks run.
    pub checks: Checks,
    /// Most warp instructions of a launch.
    pub instruction_budget: u64,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        let launch = LaunchConfig::default();
        SimulatorOptions {
            memory_bytes: tenon_ptx_sim::DEFAULT_MEMORY,
            seed: launch.seed,
            threads: launch.threads,
            checks: launch.checks,
            instruction_budget: launch.instruction_budget,
        }
    }
}

/// The embedded simulator: every access checked, every launch counted, and done when its call returns; what streams but the first copy and fill may be
/// done later, see [`SimulatorOptions::seed`].
pub struct SimulatorDevice {
    options: SimulatorOptions,
    state: Mutex<State>,
}

struct State {
    device: tenon_ptx_sim::Device,
    allocations: AllocationTable<tenon_ptx_sim::DevicePointer>,
    modules: HashMap<u64, LoadedModule>,
    next_module: u64,
    streams: LateStreams,
}

/// How the simulator names an element type; narrow floats move as bytes.
fn tensor_element(dtype: DType) -> Option<TensorElement> {
    Some(match dtype {
        DType::F16 => TensorElement::F16,
        DType::BF16 => TensorElement::Bf16,
        DType::F32 => TensorElement::F32,
        DType::F64 => TensorElement::F64,
        DType::I16 | DType::U16 => TensorElement::U16,
        DType::I32 => TensorElement::S32,
        DType::U32 => TensorElement::U32,
        DType::I64 => TensorElement::S64,
        DType::U64 => TensorElement::U64,
        dtype if dtype.size() == 1 => TensorElement::U8,
        _ => return None,
    })
}

struct LoadedModule {
    module: Arc<Module>,
    /// Names of the entries that were asked for; a handle's number is the index.
    entries: Vec<String>,
}

impl Default for SimulatorDevice {
    fn default() -> Self {
        SimulatorDevice::new(SimulatorOptions::default())
    }
}

impl SimulatorDevice {
    /// A simulator with memory of its own.
    pub fn new(options: SimulatorOptions) -> Self {
        let state = State {
            device: tenon_ptx_sim::Device::with_memory(options.memory_bytes),
            allocations: AllocationTable::default(),
            modules: HashMap::new(),
            next_module: 0,
            streams: LateStreams::default(),
        };
        SimulatorDevice { options, state: Mutex::new(state) }
    }

    /// Bytes allocated now.
    pub fn bytes_in_use(&self) -> u64 {
        self.lock().allocations.in_use()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between calls; a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether work of a stream may be done later than its call.
    fn is_late(&self, stream: Stream) -> bool {
        self.options.seed != 0 && stream != Stream::default()
    }

    fn module<'a>(&self, state: &'a mut State, module: ModuleHandle) -> Result<&'a mut LoadedModule, DeviceError> {
        state.modules.get_mut(&module.0).ok_or_else(|| access(format!("module {} is not loaded", module.0)))
    }
}

impl State {
    fn copy_now(&mut self, source: DevicePointer, target: DevicePointer, bytes: u64) -> Result<(), DeviceError> {
        let found = self.allocations.find_copy(source.0, target.0, bytes);
        let ((from, from_offset), (to, to_offset)) = found.map_err(|error| access(error.to_string()))?;
        let (from, to) = (*from, *to);
        let mut done = 0;
        while done < bytes {
            let part = CHUNK.min(bytes - done);
            let data = self.device.read(from, from_offset + done, part)?;
            self.device.write(to, to_offset + done, &data)?;
            done += part;
        }
        Ok(())
    }

    fn memset_now(&mut self, target: DevicePointer, byte: u8, bytes: u64) -> Result<(), DeviceError> {
        let (to, offset) = self.find(target, bytes)?;
        let chunk = vec![byte; CHUNK.min(bytes) as usize];
        let mut done = 0;
        while done < bytes {
            let part = CHUNK.min(bytes - done);
            self.device.write(to, offset + done, &chunk[..part as usize])?;
            done += part;
        }
        Ok(())
    }

    fn find(&self, pointer: DevicePointer, bytes: u64) -> Result<(tenon_ptx_sim::DevicePointer, u64), DeviceError> {
        let (allocation, offset) =
            self.allocations.find(pointer.0, bytes).map_err(|error| access(error.to_string()))?;
        Ok((*allocation, offset))
    }

    /// Does what waits on a stream, up to a mark or all of it.
    fn drain(&mut self, stream: u32, mark: Option<(u32, u64)>) -> Result<(), DeviceError> {
        let mut streams = std::mem::take(&mut self.streams);
        let done = streams.drain(stream, mark, &mut |work| match work {
            Pending::Copy { source, target, bytes } => self.copy_now(source, target, bytes),
            Pending::Memset { target, byte, bytes } => self.memset_now(target, byte, bytes),
            Pending::Record(..) | Pending::Wait(..) => Ok(()),
        });
        self.streams = streams;
        done
    }

    /// Does what waits on any stream; gives the first error.
    fn drain_all(&mut self) -> Result<(), DeviceError> {
        let done: Vec<_> = self.streams.waiting().into_iter().map(|stream| self.drain(stream, None)).collect();
        done.into_iter().collect()
    }
}

fn access(message: String) -> DeviceError {
    DeviceError::Access { device: NAME.to_owned(), message }
}

impl Device for SimulatorDevice {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn placement(&self) -> Placement {
        Placement::Separate
    }

    fn runs_conditionals(&self) -> bool {
        true
    }

    fn load_module(&self, ptx: &str) -> Result<ModuleHandle, DeviceError> {
        let module = Arc::new(Module::parse(ptx)?);
        let mut state = self.lock();
        let handle = state.next_module;
        state.next_module += 1;
        state.modules.insert(handle, LoadedModule { module, entries: Vec::new() });
        Ok(ModuleHandle(handle))
    }

    fn kernel(&self, module: ModuleHandle, entry: &str) -> Result<Option<KernelHandle>, DeviceError> {
        let mut state = self.lock();
        let loaded = self.module(&mut state, module)?;
        if loaded.module.entry(entry).is_none() {
            return Ok(None);
        }
        let index = loaded.entries.iter().position(|known| known == entry).unwrap_or_else(|| {
            loaded.entries.push(entry.to_owned());
            loaded.entries.len() - 1
        });
        Ok(Some(KernelHandle { module, entry: index as u64 }))
    }

    fn unload_module(&self, module: ModuleHandle) -> Result<(), DeviceError> {
        match self.lock().modules.remove(&module.0) {
            Some(_) => Ok(()),
            None => Err(access(format!("module {} is not loaded", module.0))),
        }
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePointer, DeviceError> {
        let mut state = self.lock();
        let capacity = self.options.memory_bytes;
        let in_use = state.allocations.in_use();
        let full = DeviceError::OutOfMemory { device: self.name(), wanted: bytes, in_use, capacity };
        if bytes > capacity.saturating_sub(in_use) {
            return Err(full);
        }
        let allocation = state.device.allocate(bytes).map_err(|_| full)?;
        state.allocations.insert(allocation.address(), bytes, allocation);
        Ok(DevicePointer(allocation.address()))
    }

    /// Host memory is simulated too; it counts as the device's.
    fn allocate_host(&self, bytes: u64) -> Result<DevicePointer, DeviceError> {
        self.allocate(bytes)
    }

    fn free(&self, pointer: DevicePointer) -> Result<(), DeviceError> {
        let mut state = self.lock();
        // What is still to be done may use the memory; that it fails is said when the device is synchronised, where anybody asks.
        let _ = state.drain_all();
        let allocation = state.allocations.remove(pointer.0).map_err(|error| access(error.to_string()))?;
        Ok(state.device.free(allocation)?)
    }

    fn upload(&self, target: DevicePointer, data: &[u8], stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.lock();
        state.drain(stream.0, None)?;
        let (allocation, offset) = state.find(target, data.len() as u64)?;
        Ok(state.device.write(allocation, offset, data)?)
    }

    fn download(&self, source: DevicePointer, target: &mut [u8], stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.lock();
        state.drain(stream.0, None)?;
        let (allocation, offset) = state.find(source, target.len() as u64)?;
        let data = state.device.read(allocation, offset, target.len() as u64)?;
        target.copy_from_slice(&data);
        Ok(())
    }

    fn copy(
        &self,
        source: DevicePointer,
        target: DevicePointer,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if !self.is_late(stream) {
            return state.copy_now(source, target, bytes);
        }
        state.allocations.find_copy(source.0, target.0, bytes).map_err(|error| access(error.to_string()))?;
        state.streams.push(stream.0, Pending::Copy { source, target, bytes });
        Ok(())
    }

    fn memset(&self, target: DevicePointer, byte: u8, bytes: u64, stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.lock();
        if !self.is_late(stream) {
            return state.memset_now(target, byte, bytes);
        }
        state.find(target, bytes)?;
        state.streams.push(stream.0, Pending::Memset { target, byte, bytes });
        Ok(())
    }

    fn discard(&self, target: DevicePointer, bytes: u64) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let (allocation, offset) = state.find(target, bytes)?;
        Ok(state.device.forget(allocation, offset, bytes)?)
    }

    fn record_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError> {
        self.lock().streams.record(event, stream.0, self.is_late(stream));
        Ok(())
    }

    fn wait_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let (from, number) =
            state.streams.mark(event).ok_or_else(|| access(format!("event {event} was never recorded")))?;
        if self.is_late(stream) {
            state.streams.push(stream.0, Pending::Wait(event, number));
            return Ok(());
        }
        state.drain(from, Some((event, number)))
    }

    fn encode_tensor_map(&self, tensor: &TiledTensor<'_>) -> Result<[u64; 16], DeviceError> {
        let unsupported = |feature: String| DeviceError::Unsupported { device: self.name(), feature };
        let element = tensor_element(tensor.dtype);
        let element = element.ok_or_else(|| unsupported(format!("tensor maps of {}", tensor.dtype)))?;
        let swizzle = match tensor.swizzle {
            0 => TensorSwizzle::None,
            32 => TensorSwizzle::Bytes32,
            64 => TensorSwizzle::Bytes64,
            128 => TensorSwizzle::Bytes128,
            bytes => return Err(unsupported(format!("a swizzle of {bytes} bytes"))),
        };
        let map = TensorMap::encode(&TensorMapConfig {
            element,
            address: tensor.pointer.0,
            sizes: tensor.sizes.to_vec(),
            strides: tensor.strides.to_vec(),
            box_sizes: tensor.tile.to_vec(),
            element_strides: vec![1; tensor.sizes.len()],
            swizzle,
            fill: TensorFill::Zero,
        })?;
        let word = |index: usize| map.bytes()[8 * index..8 * index + 8].iter().rev();
        Ok(std::array::from_fn(|index| word(index).fold(0, |word, byte| word << 8 | u64::from(*byte))))
    }

    fn launch(&self, launch: &KernelLaunch<'_>, stream: Stream) -> Result<Option<Counters>, DeviceError> {
        if launch.cluster.is_some_and(|cluster| cluster != [1; 3]) {
            return Err(DeviceError::Unsupported { device: self.name(), feature: "clusters".to_owned() });
        }
        let mut state = self.lock();
        state.drain(stream.0, None)?;
        let loaded = self.module(&mut state, launch.kernel.module)?;
        let module = Arc::clone(&loaded.module);
        let Some(entry) = loaded.entries.get(launch.kernel.entry as usize).cloned() else {
            return Err(access(format!(
                "entry {} of module {} is not known",
                launch.kernel.entry, launch.kernel.module.0
            )));
        };
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            seed: self.options.seed,
            threads: self.options.threads,
            checks: self.options.checks,
            instruction_budget: self.options.instruction_budget,
        };
        let arguments: Vec<Argument> = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                KernelArgument::Pointer(pointer) => Argument::Pointer(pointer.0),
                KernelArgument::I64(value) => Argument::I64(*value),
                KernelArgument::TensorMap(words) => {
                    Argument::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
                }
            })
            .collect();
        Ok(Some(state.device.launch(&module, &entry, &config, &arguments)?))
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.lock().drain_all()
    }
}
