//! A GPU as a device of the runtime.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenon_runtime::device::{
    Counters, Device, DeviceError, DevicePointer, KernelHandle, KernelLaunch, ModuleHandle as ModuleNumber, Stream,
    TiledTensor,
};
use tenon_target::ArchitectureName;

use crate::arguments::pack;
use crate::compatibility::{runs, runs_on};
use crate::driver::{
    Context, EventHandle, FunctionHandle, LoadError, MemoryError, ModuleHandle, OpenError, Properties, StreamHandle,
    tensor_map_type,
};
use crate::failure::{Failure, Kind, kind};
use crate::limits::{self, Limits};
use crate::ptx::{Declarations, Parameter, declarations};

/// What the Device trait promises of addresses.
const ALIGNMENT: u64 = 256;

/// An NVIDIA GPU. Work is asynchronous but for transfers to and from the host; nothing is counted.
///
/// It uses the primary context of the device, which other users of CUDA in the process share, and leaves it current on threads that call it.
pub struct CudaDevice {
    number: u32,
    properties: Properties,
    state: Mutex<State>,
    /// Dropped last.
    context: Arc<Context>,
}

struct State {
    streams: HashMap<u32, Arc<StreamHandle>>,
    events: HashMap<u32, Arc<EventHandle>>,
    modules: HashMap<u64, LoadedModule>,
    next_module: u64,
    /// The failure that spoilt the context.
    fault: Option<DeviceError>,
}

struct LoadedModule {
    module: Arc<ModuleHandle>,
    declarations: Declarations,
    /// Entries that were asked for; a handle's number is the index.
    functions: Vec<(String, Arc<Function>)>,
}

struct Function {
    handle: FunctionHandle,
    name: String,
    parameters: Vec<Parameter>,
    limits: Limits,
    /// Dynamic shared memory that launches may have beyond the 48 KiB of every kernel.
    allowed_shared: Mutex<u32>,
}

impl CudaDevice {
    /// Opens a device by the driver's number, from 0.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] where there is no driver, [`DeviceError::NoDevice`] where it has fewer devices, or what the driver refuses.
    pub fn open(number: u32) -> Result<Self, DeviceError> {
        let device = format!("cuda:{number}");
        let (context, properties) = Context::open(number).map_err(|error| match error {
            OpenError::NoDriver(message) => DeviceError::NoDriver { device: device.clone(), message },
            OpenError::NoDevice { count } => no_device(&device, count),
            OpenError::Failure(failure) => match kind(&failure) {
                Kind::Device => no_device(&device, 0),
                _ => device_error(&device, "", failure),
            },
        })?;
        let state = State {
            streams: HashMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            next_module: 0,
            fault: None,
        };
        let opened = CudaDevice { number, properties, state: Mutex::new(state), context };
        opened.stream(&mut opened.lock(), Stream::default())?;
        Ok(opened)
    }

    /// Compute capability, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.properties.capability
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between calls; a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a device that still works.
    fn working(&self) -> Result<MutexGuard<'_, State>, DeviceError> {
        let state = self.lock();
        match &state.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(state),
        }
    }

    fn access(&self, message: String) -> DeviceError {
        DeviceError::Access { device: self.name(), message }
    }

    /// Turns a failure into an error, and remembers it where it is for good.
    fn failed(&self, state: &mut State, entry: &str, failure: Failure) -> DeviceError {
        let error = device_error(&self.name(), entry, failure);
        if let DeviceError::Fault { .. } = error {
            state.fault = Some(error.clone());
        }
        error
    }

    fn memory_failed(&self, error: MemoryError) -> DeviceError {
        match error {
            MemoryError::Range(error) => self.access(error.to_string()),
            MemoryError::Failure(failure) => self.failed(&mut self.lock(), "", failure),
        }
    }

    /// The stream of a number, made at its first use.
    fn stream(&self, state: &mut State, stream: Stream) -> Result<Arc<StreamHandle>, DeviceError> {
        if let Some(known) = state.streams.get(&stream.0) {
            return Ok(Arc::clone(known));
        }
        let made = StreamHandle::new(&self.context).map_err(|failure| self.failed(state, "", failure))?;
        let made = Arc::new(made);
        state.streams.insert(stream.0, Arc::clone(&made));
        Ok(made)
    }

    /// The stream of a number on a device that still works, with nothing locked.
    fn ready(&self, stream: Stream) -> Result<Arc<StreamHandle>, DeviceError> {
        let mut state = self.working()?;
        self.stream(&mut state, stream)
    }

    fn function(&self, state: &State, kernel: KernelHandle) -> Result<Arc<Function>, DeviceError> {
        let unknown = || format!("entry {} of module {} is not known", kernel.entry, kernel.module.0);
        let loaded = state.modules.get(&kernel.module.0).ok_or_else(|| self.access(not_loaded(kernel.module)))?;
        let index = usize::try_from(kernel.entry).ok();
        let found = index.and_then(|index| loaded.functions.get(index));
        found.map(|(_, function)| Arc::clone(function)).ok_or_else(|| self.access(unknown()))
    }

    fn make_function(
        &self,
        module: &Arc<ModuleHandle>,
        declarations: &Declarations,
        entry: &str,
    ) -> Result<Option<Function>, Failure> {
        let Some(parameters) = declarations.entries.get(entry) else { return Ok(None) };
        let Some(handle) = FunctionHandle::find(module, entry)? else { return Ok(None) };
        let limits = Limits {
            static_shared: handle.static_shared()?,
            threads: handle.most_threads()?,
            shared_opt_in: self.properties.shared_opt_in,
        };
        let (name, parameters) = (entry.to_owned(), parameters.clone());
        Ok(Some(Function { handle, name, parameters, limits, allowed_shared: Mutex::new(0) }))
    }

    fn module_error(&self, message: impl Into<String>) -> DeviceError {
        DeviceError::Module { device: self.name(), message: message.into(), log: String::new() }
    }
}

fn not_loaded(module: ModuleNumber) -> String {
    format!("module {} is not loaded", module.0)
}

fn no_device(device: &str, count: u32) -> DeviceError {
    let message = match count {
        0 => "the driver has no device".to_owned(),
        1 => "the driver has one device, cuda:0".to_owned(),
        _ => format!("the driver has {count} devices, cuda:0 to cuda:{}", count - 1),
    };
    DeviceError::NoDevice { device: device.to_owned(), message }
}

/// The error for a failure; `entry` is the kernel that a launch was of.
fn device_error(device: &str, entry: &str, failure: Failure) -> DeviceError {
    let device = device.to_owned();
    match kind(&failure) {
        Kind::Driver => {
            DeviceError::NoDriver { device, message: format!("the driver does not start: {}", failure.text) }
        }
        Kind::Device => DeviceError::NoDevice { device, message: failure.text },
        Kind::Memory => DeviceError::NoMemoryFor { device, call: failure.call.to_owned() },
        Kind::Module => DeviceError::Module { device, message: failure.text, log: String::new() },
        Kind::Launch => DeviceError::Launch { device, entry: entry.to_owned(), message: failure.text },
        Kind::Fault => DeviceError::Fault { device, message: failure.text },
        Kind::Other => DeviceError::Driver { device, call: failure.call.to_owned(), message: failure.text },
    }
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        format!("cuda:{} ({})", self.number, self.properties.name)
    }

    fn check_target(&self, architecture: &str) -> Result<(), DeviceError> {
        let architecture: ArchitectureName =
            architecture.parse().map_err(|message: String| self.module_error(message))?;
        if runs(architecture, self.properties.capability) {
            return Ok(());
        }
        let (major, minor) = self.properties.capability;
        Err(DeviceError::Target {
            device: self.name(),
            capability: format!("{major}.{minor}"),
            target: architecture.to_string(),
            runs_on: runs_on(architecture),
        })
    }

    fn load_module(&self, ptx: &str) -> Result<ModuleNumber, DeviceError> {
        drop(self.working()?);
        let declarations = declarations(ptx).map_err(|message| self.module_error(message))?;
        self.check_target(&declarations.target)?;
        let text = CString::new(ptx).map_err(|_| self.module_error("the text holds a NUL"))?;
        let module = ModuleHandle::load(&self.context, &text).map_err(|LoadError { failure, log }| {
            match self.failed(&mut self.lock(), "", failure) {
                DeviceError::Module { device, message, .. } => DeviceError::Module { device, message, log },
                other => other,
            }
        })?;
        let mut state = self.lock();
        let number = state.next_module;
        state.next_module += 1;
        let loaded = LoadedModule { module: Arc::new(module), declarations, functions: Vec::new() };
        state.modules.insert(number, loaded);
        Ok(ModuleNumber(number))
    }

    fn kernel(&self, module: ModuleNumber, entry: &str) -> Result<Option<KernelHandle>, DeviceError> {
        let mut state = self.working()?;
        let loaded = state.modules.get(&module.0).ok_or_else(|| self.access(not_loaded(module)))?;
        if let Some(index) = loaded.functions.iter().position(|(known, _)| known == entry) {
            return Ok(Some(KernelHandle { module, entry: index as u64 }));
        }
        let function = match self.make_function(&loaded.module, &loaded.declarations, entry) {
            Ok(Some(function)) => function,
            Ok(None) => return Ok(None),
            Err(failure) => return Err(self.failed(&mut state, entry, failure)),
        };
        let loaded = state.modules.get_mut(&module.0).ok_or_else(|| self.access(not_loaded(module)))?;
        loaded.functions.push((entry.to_owned(), Arc::new(function)));
        Ok(Some(KernelHandle { module, entry: loaded.functions.len() as u64 - 1 }))
    }

    fn unload_module(&self, module: ModuleNumber) -> Result<(), DeviceError> {
        let removed = self.lock().modules.remove(&module.0);
        // Dropped here, with nothing locked: unloading waits for the module's kernels.
        removed.map(drop).ok_or_else(|| self.access(not_loaded(module)))
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePointer, DeviceError> {
        drop(self.working()?);
        match self.context.allocate(bytes) {
            Ok(address) if address % ALIGNMENT == 0 => Ok(DevicePointer(address)),
            Ok(address) => {
                self.context.free(address).map_err(|error| self.memory_failed(error))?;
                let message = format!("the address {address:#x} is not aligned to {ALIGNMENT} bytes");
                Err(DeviceError::Driver { device: self.name(), call: "cuMemAlloc_v2".to_owned(), message })
            }
            Err(failure) if kind(&failure) == Kind::Memory => {
                let (free, capacity) = self.context.memory().unwrap_or((0, 0));
                let in_use = capacity.saturating_sub(free);
                Err(DeviceError::OutOfMemory { device: self.name(), wanted: bytes, in_use, capacity })
            }
            Err(failure) => Err(self.failed(&mut self.lock(), "", failure)),
        }
    }

    fn allocate_host(&self, bytes: u64) -> Result<DevicePointer, DeviceError> {
        drop(self.working()?);
        let address = self.context.allocate_host(bytes);
        address.map(DevicePointer).map_err(|failure| self.failed(&mut self.lock(), "", failure))
    }

    fn free(&self, pointer: DevicePointer) -> Result<(), DeviceError> {
        self.context.free(pointer.0).map_err(|error| self.memory_failed(error))
    }

    fn upload(&self, target: DevicePointer, data: &[u8], stream: Stream) -> Result<(), DeviceError> {
        let stream = self.ready(stream)?;
        self.context.upload(target.0, data, &stream).map_err(|error| self.memory_failed(error))
    }

    fn download(&self, source: DevicePointer, target: &mut [u8], stream: Stream) -> Result<(), DeviceError> {
        let stream = self.ready(stream)?;
        self.context.download(source.0, target, &stream).map_err(|error| self.memory_failed(error))
    }

    fn copy(
        &self,
        source: DevicePointer,
        target: DevicePointer,
        bytes: u64,
        stream: Stream,
    ) -> Result<(), DeviceError> {
        let stream = self.ready(stream)?;
        self.context.copy(source.0, target.0, bytes, &stream).map_err(|error| self.memory_failed(error))
    }

    fn memset(&self, target: DevicePointer, byte: u8, bytes: u64, stream: Stream) -> Result<(), DeviceError> {
        let stream = self.ready(stream)?;
        self.context.memset(target.0, byte, bytes, &stream).map_err(|error| self.memory_failed(error))
    }

    fn record_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.working()?;
        let stream = self.stream(&mut state, stream)?;
        let handle = match state.events.get(&event) {
            Some(known) => Arc::clone(known),
            None => {
                let made = EventHandle::new(&self.context).map_err(|failure| self.failed(&mut state, "", failure))?;
                let made = Arc::new(made);
                state.events.insert(event, Arc::clone(&made));
                made
            }
        };
        handle.record(&stream).map_err(|failure| self.failed(&mut state, "", failure))
    }

    fn wait_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError> {
        let mut state = self.working()?;
        let stream = self.stream(&mut state, stream)?;
        let handle = state.events.get(&event).cloned();
        let handle = handle.ok_or_else(|| self.access(format!("event {event} was never recorded")))?;
        stream.wait(&handle).map_err(|failure| self.failed(&mut state, "", failure))
    }

    fn encode_tensor_map(&self, tensor: &TiledTensor<'_>) -> Result<[u64; 16], DeviceError> {
        drop(self.working()?);
        let unsupported = |feature: String| DeviceError::Unsupported { device: self.name(), feature };
        let element = tensor_map_type(tensor.dtype);
        let element = element.ok_or_else(|| unsupported(format!("tensor maps of {}", tensor.dtype)))?;
        match self.context.encode_tensor_map(tensor, element) {
            Some(encoded) => encoded.map_err(|error| self.memory_failed(error)),
            None => Err(unsupported("tensor maps: its driver is older than CUDA 12".to_owned())),
        }
    }

    fn launch(&self, launch: &KernelLaunch<'_>, stream: Stream) -> Result<Option<Counters>, DeviceError> {
        if launch.cluster.is_some_and(|cluster| cluster != [1; 3]) {
            return Err(DeviceError::Unsupported { device: self.name(), feature: "clusters".to_owned() });
        }
        let (function, stream) = {
            let mut state = self.working()?;
            (self.function(&state, launch.kernel)?, self.stream(&mut state, stream)?)
        };
        let refused =
            |message: String| DeviceError::Launch { device: self.name(), entry: function.name.clone(), message };
        let parameters = pack(&function.parameters, launch.arguments).map_err(refused)?;
        let opt_in = limits::check(&function.limits, launch.block, launch.dynamic_shared_bytes).map_err(refused)?;
        let failed = |failure: Failure| self.failed(&mut self.lock(), &function.name, failure);
        if let Some(bytes) = opt_in {
            let mut allowed = function.allowed_shared.lock().unwrap_or_else(PoisonError::into_inner);
            if *allowed < bytes {
                function.handle.allow_dynamic_shared(bytes).map_err(failed)?;
                *allowed = bytes;
            }
        }
        let shared = launch.dynamic_shared_bytes;
        function.handle.launch(launch.grid, launch.block, shared, &parameters, &stream).map_err(failed)?;
        Ok(None)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        drop(self.working()?);
        self.context.synchronize().map_err(|failure| self.failed(&mut self.lock(), "", failure))
    }
}
