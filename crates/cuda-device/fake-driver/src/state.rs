//! What exists in the process, and the checks.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tenon_ptx_sim::{
    Argument, Device, DevicePointer, Error, FaultKind, LaunchConfig, Module, TENSOR_MAP_BYTES, TensorElement,
    TensorFill, TensorMap, TensorMapConfig, TensorSwizzle,
};

use crate::settings::{LOG, Settings};

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
const NOT_INITIALIZED: u32 = 3;
pub(crate) const INVALID_DEVICE: u32 = 101;
const INVALID_CONTEXT: u32 = 201;
const NO_BINARY_FOR_GPU: u32 = 209;
const INVALID_PTX: u32 = 218;
const UNSUPPORTED_PTX_VERSION: u32 = 222;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
const ILLEGAL_ADDRESS: u32 = 700;
const LAUNCH_OUT_OF_RESOURCES: u32 = 701;
const MISALIGNED_ADDRESS: u32 = 716;
const LAUNCH_FAILED: u32 = 719;

/// Shared memory that a block may have without the kernel being allowed more.
const SHARED_WITHOUT_OPT_IN: u32 = 48 << 10;
/// Distance of the addresses of pinned memory on the host from those on the device: beyond what a process has.
const HOST_MEMORY: usize = 0x7000_0000_0000_0000;
/// Handle of the one context.
pub(crate) const CONTEXT: usize = 0x0c00;

thread_local! {
    /// Handle of the context that is current on the thread.
    pub(crate) static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// A kernel that was asked for.
struct Function {
    module: usize,
    name: String,
    /// Dynamic shared memory that it is allowed.
    dynamic_shared: u32,
}

/// A launch with everything that C has given.
pub(crate) struct Launch {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) stream: usize,
    pub(crate) parameters: Vec<u8>,
}

/// Everything.
pub(crate) struct Fake {
    pub(crate) settings: Settings,
    pub(crate) initialised: bool,
    /// How often the context is retained.
    pub(crate) retained: u32,
    device: Device,
    allocations: BTreeMap<u64, (DevicePointer, u64)>,
    /// Pinned memory of the host by the address that it is said to have, with that on the device, where it lies.
    pinned: BTreeMap<usize, (u64, u64)>,
    modules: HashMap<usize, Arc<Module>>,
    functions: HashMap<usize, Function>,
    streams: HashMap<usize, ()>,
    /// Events, and whether they were recorded.
    events: HashMap<usize, bool>,
    next: usize,
    /// How often each function was called.
    counts: HashMap<&'static str, u32>,
    /// The result that every call gives once a kernel has failed.
    fault: Option<u32>,
    log: Option<File>,
}

static FAKE: LazyLock<Mutex<Fake>> = LazyLock::new(|| {
    let settings = Settings::read();
    let log = std::env::var_os(LOG).and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
    Mutex::new(Fake {
        device: Device::with_memory(settings.memory),
        settings,
        initialised: false,
        retained: 0,
        allocations: BTreeMap::new(),
        pinned: BTreeMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        streams: HashMap::new(),
        events: HashMap::new(),
        next: 0x1000,
        counts: HashMap::new(),
        fault: None,
        log,
    })
});

fn fake() -> MutexGuard<'static, Fake> {
    FAKE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call: written down, failed where a setting or an earlier fault says so, and otherwise done. `context`: whether it needs a current context.
pub(crate) fn call(
    name: &'static str,
    context: bool,
    arguments: &str,
    work: impl FnOnce(&mut Fake) -> Result<(), u32>,
) -> u32 {
    let mut fake = fake();
    let count = fake.counts.entry(name).or_insert(0);
    *count += 1;
    let count = *count;
    let injected = fake.settings.failures.iter().find(|one| one.call == name && [0, count].contains(&one.number));
    let result = if let Some(injected) = injected {
        injected.result
    } else if name != "cuInit" && !fake.initialised {
        NOT_INITIALIZED
    } else if context && (CURRENT.get() != CONTEXT || fake.retained == 0) {
        fake.wrong(name, "no context is current");
        INVALID_CONTEXT
    } else if let (true, Some(fault)) = (context, fake.fault) {
        fault
    } else {
        work(&mut fake).err().unwrap_or(SUCCESS)
    };
    fake.write(&format!("{name} {arguments} -> {result}"));
    result
}

impl Fake {
    fn write(&mut self, line: &str) {
        if let Some(log) = &mut self.log {
            // A log that cannot be written makes the test fail that reads it.
            let _ = writeln!(log, "{line}");
        }
    }

    /// Notes a call that a driver might not have survived.
    pub(crate) fn wrong(&mut self, call: &str, what: &str) {
        self.write(&format!("WRONG {call}: {what}"));
    }

    fn refuse<T>(&mut self, call: &str, what: &str, result: u32) -> Result<T, u32> {
        self.wrong(call, what);
        Err(result)
    }

    fn handle(&mut self) -> usize {
        self.next += 0x10;
        self.next
    }

    /// Notes what is left when the context goes.
    pub(crate) fn release(&mut self, call: &str) -> Result<(), u32> {
        if self.retained == 0 {
            return self.refuse(call, "the context is not retained", INVALID_CONTEXT);
        }
        self.retained -= 1;
        let left = [self.allocations.len(), self.modules.len(), self.streams.len(), self.events.len()];
        // A context that a kernel has spoilt gives nothing back one by one.
        if self.retained == 0 && self.fault.is_none() && left != [0; 4] {
            let [memory, modules, streams, events] = left;
            self.wrong(
                call,
                &format!("left: {memory} allocations, {modules} modules, {streams} streams, {events} events"),
            );
        }
        Ok(())
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64, u32> {
        if bytes == 0 {
            return self.refuse("cuMemAlloc_v2", "no bytes", INVALID_VALUE);
        }
        let allocation = self.device.allocate(bytes).map_err(|_| OUT_OF_MEMORY)?;
        self.allocations.insert(allocation.address(), (allocation, bytes));
        Ok(allocation.address())
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), u32> {
        let Some((allocation, _)) = self.allocations.remove(&address) else {
            return self.refuse("cuMemFree_v2", "no allocation", INVALID_VALUE);
        };
        if self.pinned.values().any(|(pinned, _)| *pinned == address) {
            return self.refuse("cuMemFree_v2", "pinned memory of the host", INVALID_VALUE);
        }
        self.device.free(allocation).map_err(|_| INVALID_VALUE)
    }

    /// Pinned memory lies on the device, as all memory here. Its address on the host is none that a program may use: it is there to be given back.
    pub(crate) fn allocate_host(&mut self, bytes: usize, flags: u32) -> Result<usize, u32> {
        // CU_MEMHOSTALLOC_DEVICEMAP: without it there is no address on the device.
        if flags & 2 == 0 {
            return self.refuse("cuMemHostAlloc", "no address on the device is asked for", INVALID_VALUE);
        }
        let address = self.allocate(bytes as u64)?;
        let host = HOST_MEMORY + address as usize;
        self.pinned.insert(host, (address, bytes as u64));
        Ok(host)
    }

    pub(crate) fn device_address(&mut self, call: &str, host: usize) -> Result<u64, u32> {
        match self.pinned.get(&host) {
            Some((address, _)) => Ok(*address),
            None => self.refuse(call, "no pinned memory", INVALID_VALUE),
        }
    }

    pub(crate) fn free_host(&mut self, host: usize) -> Result<(), u32> {
        match self.pinned.remove(&host) {
            Some((address, _)) => self.free(address),
            None => self.refuse("cuMemFreeHost", "no pinned memory", INVALID_VALUE),
        }
    }

    /// Where an address of pinned memory lies on the device; nothing for other memory of the host.
    pub(crate) fn pinned(&self, host: usize) -> Option<u64> {
        let (base, (address, bytes)) = self.pinned.range(..=host).next_back()?;
        let offset = (host - base) as u64;
        (offset < *bytes).then_some(address + offset)
    }

    /// Free and all bytes.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let used: u64 = self.allocations.values().map(|(_, bytes)| bytes).sum();
        (self.settings.memory - used, self.settings.memory)
    }

    fn find(&mut self, call: &str, address: u64, bytes: u64) -> Result<(DevicePointer, u64), u32> {
        let found = self.allocations.range(..=address).next_back();
        match found {
            Some((base, (allocation, size))) if address - base + bytes <= *size => Ok((*allocation, address - base)),
            _ => self.refuse(call, &format!("{bytes} bytes at {address:#x} are in no allocation"), INVALID_VALUE),
        }
    }

    pub(crate) fn write_memory(&mut self, call: &str, address: u64, data: &[u8]) -> Result<(), u32> {
        let (allocation, offset) = self.find(call, address, data.len() as u64)?;
        self.device.write(allocation, offset, data).map_err(|_| INVALID_VALUE)
    }

    pub(crate) fn read_memory(&mut self, call: &str, address: u64, bytes: u64) -> Result<Vec<u8>, u32> {
        let (allocation, offset) = self.find(call, address, bytes)?;
        self.device.read(allocation, offset, bytes).map_err(|_| INVALID_VALUE)
    }

    pub(crate) fn check_stream(&mut self, call: &str, stream: usize) -> Result<(), u32> {
        if self.streams.contains_key(&stream) { Ok(()) } else { self.refuse(call, "no stream", INVALID_HANDLE) }
    }

    pub(crate) fn make_stream(&mut self) -> usize {
        let handle = self.handle();
        self.streams.insert(handle, ());
        handle
    }

    pub(crate) fn destroy_stream(&mut self, call: &str, stream: usize) -> Result<(), u32> {
        self.check_stream(call, stream)?;
        self.streams.remove(&stream);
        Ok(())
    }

    pub(crate) fn make_event(&mut self) -> usize {
        let handle = self.handle();
        self.events.insert(handle, false);
        handle
    }

    pub(crate) fn destroy_event(&mut self, call: &str, event: usize) -> Result<(), u32> {
        if self.events.remove(&event).is_some() { Ok(()) } else { self.refuse(call, "no event", INVALID_HANDLE) }
    }

    pub(crate) fn record_event(&mut self, call: &str, event: usize, stream: usize) -> Result<(), u32> {
        self.check_stream(call, stream)?;
        match self.events.get_mut(&event) {
            Some(recorded) => *recorded = true,
            None => return self.refuse(call, "no event", INVALID_HANDLE),
        }
        Ok(())
    }

    pub(crate) fn wait_event(&mut self, call: &str, event: usize, stream: usize) -> Result<(), u32> {
        self.check_stream(call, stream)?;
        match self.events.get(&event) {
            Some(true) => Ok(()),
            Some(false) => self.refuse(call, "the event was not recorded", INVALID_HANDLE),
            None => self.refuse(call, "no event", INVALID_HANDLE),
        }
    }

    /// Loads PTX; the error has what the compiler's log says.
    pub(crate) fn load_module(&mut self, text: &str) -> Result<usize, (u32, String)> {
        let module = Module::parse(text).map_err(|error| (INVALID_PTX, format!("ptxas fatal   : {error}")))?;
        let (major, minor) = self.settings.capability;
        let target = module.target().trim_start_matches("sm_").to_owned();
        let digits = target.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let own = major * 10 + minor;
        let number: u32 = digits.parse().map_err(|_| (INVALID_PTX, format!("ptxas fatal   : {target}")))?;
        if number > own || (digits != target && number != own) {
            return Err((NO_BINARY_FOR_GPU, String::new()));
        }
        if module.version() > self.settings.ptx {
            let (major, minor) = module.version();
            return Err((UNSUPPORTED_PTX_VERSION, format!("ptxas fatal   : Unsupported .version {major}.{minor}")));
        }
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(module));
        Ok(handle)
    }

    pub(crate) fn unload_module(&mut self, call: &str, module: usize) -> Result<(), u32> {
        if self.modules.remove(&module).is_none() {
            return self.refuse(call, "no module", INVALID_HANDLE);
        }
        self.functions.retain(|_, function| function.module != module);
        Ok(())
    }

    pub(crate) fn find_function(&mut self, call: &str, module: usize, name: &str) -> Result<usize, u32> {
        let Some(loaded) = self.modules.get(&module) else { return self.refuse(call, "no module", INVALID_HANDLE) };
        if loaded.entry(name).is_none() {
            return Err(NOT_FOUND);
        }
        let handle = self.handle();
        self.functions.insert(handle, Function { module, name: name.to_owned(), dynamic_shared: 0 });
        Ok(handle)
    }

    fn function(&mut self, call: &str, function: usize) -> Result<(Arc<Module>, String, u32), u32> {
        let found = self.functions.get(&function);
        let found = found.and_then(|known| {
            Some((Arc::clone(self.modules.get(&known.module)?), known.name.clone(), known.dynamic_shared))
        });
        match found {
            Some(found) => Ok(found),
            None => self.refuse(call, "no function", INVALID_HANDLE),
        }
    }

    /// Shared memory that a function declares.
    pub(crate) fn static_shared(&mut self, call: &str, function: usize) -> Result<u32, u32> {
        let (module, name, _) = self.function(call, function)?;
        Ok(module.entry(&name).map_or(0, tenon_ptx_sim::Entry::static_shared_bytes))
    }

    pub(crate) fn allow_dynamic_shared(&mut self, call: &str, function: usize, bytes: u32) -> Result<(), u32> {
        let declared = self.static_shared(call, function)?;
        if declared.saturating_add(bytes) > self.settings.shared {
            return self.refuse(call, "more shared memory than a block can have", INVALID_VALUE);
        }
        if let Some(known) = self.functions.get_mut(&function) {
            known.dynamic_shared = bytes;
        }
        Ok(())
    }

    /// A tensor map as kernels on the simulator take it. `CUtensorMapDataType` and `CUtensorMapSwizzle` by their numbers.
    pub(crate) fn encode_tensor_map(
        &mut self,
        element: u32,
        address: u64,
        [sizes, strides]: [&[u64]; 2],
        [tile, steps]: [&[u32]; 2],
        swizzle: u32,
    ) -> Result<[u8; TENSOR_MAP_BYTES], u32> {
        use TensorElement::*;
        let call = "cuTensorMapEncodeTiled";
        let element = [U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16].get(element as usize).copied();
        let swizzles = [TensorSwizzle::None, TensorSwizzle::Bytes32, TensorSwizzle::Bytes64, TensorSwizzle::Bytes128];
        let (Some(element), Some(swizzle)) = (element, swizzles.get(swizzle as usize).copied()) else {
            return self.refuse(call, "an element type or swizzle that is none", INVALID_VALUE);
        };
        let encoded = TensorMap::encode(&TensorMapConfig {
            element,
            address,
            sizes: sizes.iter().map(|size| u32::try_from(*size).unwrap_or(0)).collect(),
            strides: strides.to_vec(),
            box_sizes: tile.to_vec(),
            element_strides: steps.to_vec(),
            swizzle,
            fill: TensorFill::Zero,
        });
        match encoded {
            Ok(map) => Ok(*map.bytes()),
            Err(error) => self.refuse(call, &error.to_string(), INVALID_VALUE),
        }
    }

    /// Launches. The kernel runs at once; that it failed is known to later calls only, as on a GPU.
    pub(crate) fn launch(&mut self, launch: &Launch) -> Result<(), u32> {
        let call = "cuLaunchKernel";
        let (module, name, allowed) = self.function(call, launch.function)?;
        self.check_stream(call, launch.stream)?;
        let Some(entry) = module.entry(&name) else { return self.refuse(call, "no function", INVALID_HANDLE) };
        let threads: u64 = launch.block.iter().map(|size| u64::from(*size)).product();
        if launch.grid.contains(&0) || launch.block.contains(&0) || threads > 1024 {
            return self.refuse(call, "grid or block", INVALID_VALUE);
        }
        if threads > u64::from(self.settings.threads) {
            return self.refuse(call, "more threads than registers allow", LAUNCH_OUT_OF_RESOURCES);
        }
        let shared = entry.static_shared_bytes() + launch.dynamic_shared;
        if shared > SHARED_WITHOUT_OPT_IN && launch.dynamic_shared > allowed {
            return self.refuse(call, "more shared memory than the function is allowed", INVALID_VALUE);
        }
        let declared = entry.parameters();
        let needed = declared.last().map_or(0, |last| last.offset + last.size) as usize;
        if launch.parameters.len() != needed {
            let what = format!("{} bytes of parameters, {needed} are declared", launch.parameters.len());
            return self.refuse(call, &what, INVALID_VALUE);
        }
        let bytes = |parameter: &tenon_ptx_sim::Parameter| {
            let start = parameter.offset as usize;
            Argument::Bytes(launch.parameters[start..start + parameter.size as usize].to_vec())
        };
        let arguments: Vec<Argument> = declared.iter().map(bytes).collect();
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared,
            ..LaunchConfig::default()
        };
        match self.device.launch(&module, &name, &config, &arguments) {
            Ok(_) => Ok(()),
            Err(Error::Fault(fault)) => {
                self.write(&format!("FAULT {fault:?}"));
                self.fault = Some(match fault.kind {
                    FaultKind::OutOfBoundsGlobal | FaultKind::UseAfterFree => ILLEGAL_ADDRESS,
                    FaultKind::Misaligned => MISALIGNED_ADDRESS,
                    _ => LAUNCH_FAILED,
                });
                Ok(())
            }
            Err(error) => self.refuse(call, &error.to_string(), INVALID_VALUE),
        }
    }
}
