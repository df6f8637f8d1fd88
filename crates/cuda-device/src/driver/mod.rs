//! Safe functions over the driver's C functions.
//!
//! Each object holds what it was made from, so that the driver is never given a handle of something that is gone; memory is looked up in the
//! table of allocations before the driver is given an address. The driver may be called from any thread; the context is made current on the
//! thread of each call, and stays so.

mod table;
mod tensor_map;

use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUfunction, CUmodule, CUstream};
use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags, CUfunction_attribute, CUjit_option, CUstream_flags};
use tenon_runtime::device::{AllocationTable, RangeError};

use crate::arguments::Packed;
use crate::compatibility::Capability;
use crate::failure::Failure;
use table::{Table, table};
pub(crate) use tensor_map::tensor_map_type;

/// Bytes of each log of the driver's compiler.
const LOG_BYTES: usize = 16 << 10;

// Options of a launch, macros of `cuda.h`.
const LAUNCH_PARAM_END: usize = 0;
const LAUNCH_PARAM_BUFFER_POINTER: usize = 1;
const LAUNCH_PARAM_BUFFER_SIZE: usize = 2;

/// The result of a function that did what it was asked.
const SUCCESS: c_uint = 0;
/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: c_uint = 500;

/// Flags of pinned memory, macros of `cuda.h`: pinned for every context, and at an address of the device.
const HOST_MEMORY_FLAGS: c_uint = 0x01 | 0x02;

/// What memory is, by the address that the device has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Memory of the device.
    Device,
    /// Pinned memory of the host, with the host's address.
    Host(usize),
}

/// Why a device cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// There is no driver, or not all of its functions.
    NoDriver(String),
    /// The driver has fewer devices.
    NoDevice {
        /// How many it has.
        count: u32,
    },
    /// A call failed.
    Failure(Failure),
}

/// Why memory cannot be used.
#[derive(Debug)]
pub(crate) enum MemoryError {
    /// It is not allocated.
    Range(RangeError),
    /// The driver's call failed.
    Failure(Failure),
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        OpenError::Failure(failure)
    }
}

impl From<Failure> for MemoryError {
    fn from(failure: Failure) -> Self {
        MemoryError::Failure(failure)
    }
}

impl From<RangeError> for MemoryError {
    fn from(error: RangeError) -> Self {
        MemoryError::Range(error)
    }
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) name: String,
    pub(crate) capability: Capability,
    /// Most shared memory of a block, with opting in.
    pub(crate) shared_opt_in: u32,
}

/// The primary context of a device, kept until dropped, and the memory allocated in it.
pub(crate) struct Context {
    table: &'static Table,
    device: CUdevice,
    raw: CUcontext,
    allocations: Mutex<AllocationTable<Kind>>,
}

// SAFETY: the driver's functions may be called from any thread with any handle (CUDA C++ Programming Guide, "Driver API": a context is current
// on a thread by `cuCtxSetCurrent`, which every call here does first). The handles are only given to the driver.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Table {
    fn check(&self, call: &'static str, code: c_uint) -> Result<(), Failure> {
        if code == SUCCESS { Ok(()) } else { Err(Failure { call, code, text: self.describe(code) }) }
    }

    /// `CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)`.
    fn describe(&self, code: c_uint) -> String {
        let text = |function: unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: the function writes one pointer, null or to a string that ends in NUL and lives as long as the library.
            unsafe {
                let known = function(code, &mut text) == SUCCESS && !text.is_null();
                known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (text(self.cuGetErrorName), text(self.cuGetErrorString)) {
            (Some(name), Some(meaning)) => format!("{name} ({meaning})"),
            (Some(name), None) => name,
            _ => format!("CUDA error {code}"),
        }
    }
}

impl Context {
    /// Opens a device by its number.
    pub(crate) fn open(number: u32) -> Result<(Arc<Context>, Properties), OpenError> {
        let table = table().map_err(OpenError::NoDriver)?;
        let (mut count, mut device) = (0, 0);
        // SAFETY: each function is called as the driver API says, with pointers to live locals of its types.
        unsafe {
            table.check("cuInit", (table.cuInit)(0))?;
            table.check("cuDeviceGetCount", (table.cuDeviceGetCount)(&mut count))?;
        }
        let count = u32::try_from(count).unwrap_or(0);
        let ordinal = i32::try_from(number).ok().filter(|_| number < count).ok_or(OpenError::NoDevice { count })?;
        // SAFETY: as above.
        table.check("cuDeviceGet", unsafe { (table.cuDeviceGet)(&mut device, ordinal) })?;
        let properties = properties(table, device)?;
        let mut raw = null_mut();
        // SAFETY: as above; the device is one that the driver gave.
        table.check("cuDevicePrimaryCtxRetain", unsafe { (table.cuDevicePrimaryCtxRetain)(&mut raw, device) })?;
        let context = Context { table, device, raw, allocations: Mutex::default() };
        Ok((Arc::new(context), properties))
    }

    /// The driver's functions, with the context current on this thread.
    fn enter(&self) -> Result<&'static Table, Failure> {
        // SAFETY: the context is live: it is released when this object is dropped.
        self.table.check("cuCtxSetCurrent", unsafe { (self.table.cuCtxSetCurrent)(self.raw) })?;
        Ok(self.table)
    }

    fn allocations(&self) -> MutexGuard<'_, AllocationTable<Kind>> {
        // The table is consistent between calls; a panic elsewhere does not spoil it.
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all work.
    pub(crate) fn synchronize(&self) -> Result<(), Failure> {
        let table = self.enter()?;
        // SAFETY: no arguments.
        table.check("cuCtxSynchronize", unsafe { (table.cuCtxSynchronize)() })
    }

    /// Free and all bytes of the device.
    pub(crate) fn memory(&self) -> Result<(u64, u64), Failure> {
        let table = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two pointers to live locals.
        table.check("cuMemGetInfo_v2", unsafe { (table.cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Allocates; no bytes are an allocation with an address of its own.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<u64, Failure> {
        let table = self.enter()?;
        let mut address = 0;
        // The driver refuses to allocate nothing.
        let size = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        // SAFETY: a pointer to a live local.
        table.check("cuMemAlloc_v2", unsafe { (table.cuMemAlloc_v2)(&mut address, size) })?;
        self.allocations().insert(address, bytes, Kind::Device);
        Ok(address)
    }

    /// Allocates pinned memory of the host; gives its address on the device. No bytes are an allocation with an address of its own.
    pub(crate) fn allocate_host(&self, bytes: u64) -> Result<u64, Failure> {
        let table = self.enter()?;
        let mut host = null_mut();
        let size = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        // SAFETY: a pointer to a live local.
        table.check("cuMemHostAlloc", unsafe { (table.cuMemHostAlloc)(&mut host, size, HOST_MEMORY_FLAGS) })?;
        let mut address = 0;
        // SAFETY: a pointer to a live local, and memory that the driver has just given with the flag for an address.
        let code = unsafe { (table.cuMemHostGetDevicePointer_v2)(&mut address, host, 0) };
        if let Err(failure) = table.check("cuMemHostGetDevicePointer_v2", code) {
            // SAFETY: the memory was given above and nothing uses it. The failure that is known matters more than one of this call.
            let _ = unsafe { (table.cuMemFreeHost)(host) };
            return Err(failure);
        }
        self.allocations().insert(address, bytes, Kind::Host(host as usize));
        Ok(address)
    }

    /// Frees an allocation.
    pub(crate) fn free(&self, address: u64) -> Result<(), MemoryError> {
        let table = self.enter()?;
        let kind = self.allocations().remove(address)?;
        Ok(match kind {
            // SAFETY: the address is one that the driver gave, and was not freed before. The driver waits for work that uses it.
            Kind::Device => table.check("cuMemFree_v2", unsafe { (table.cuMemFree_v2)(address) })?,
            Kind::Host(host) => {
                // The documentation does not say that freeing waits for copies.
                self.synchronize()?;
                // SAFETY: as above, and no work uses it.
                table.check("cuMemFreeHost", unsafe { (table.cuMemFreeHost)(host as *mut c_void) })?;
            }
        })
    }

    /// Copies host memory to the device, and waits until it is there.
    pub(crate) fn upload(&self, target: u64, data: &[u8], stream: &StreamHandle) -> Result<(), MemoryError> {
        let allocations = self.allocations();
        allocations.find(target, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let table = self.enter()?;
        // SAFETY: both ranges are live: the target lies in an allocation, which nobody frees while the table is locked; the source is borrowed
        // until the copy is done, since the stream is waited for before this function returns.
        let code = unsafe { (table.cuMemcpyHtoDAsync_v2)(target, data.as_ptr().cast(), data.len(), stream.raw) };
        drop(allocations);
        table.check("cuMemcpyHtoDAsync_v2", code)?;
        Ok(stream.synchronize()?)
    }

    /// Copies device memory to the host, after all earlier work of the stream, and waits until it is there.
    pub(crate) fn download(&self, source: u64, data: &mut [u8], stream: &StreamHandle) -> Result<(), MemoryError> {
        let allocations = self.allocations();
        allocations.find(source, data.len() as u64)?;
        if data.is_empty() {
            drop(allocations);
            return Ok(stream.synchronize()?);
        }
        let table = self.enter()?;
        // SAFETY: as for `upload`, with the directions exchanged.
        let code = unsafe { (table.cuMemcpyDtoHAsync_v2)(data.as_mut_ptr().cast(), source, data.len(), stream.raw) };
        drop(allocations);
        table.check("cuMemcpyDtoHAsync_v2", code)?;
        Ok(stream.synchronize()?)
    }

    /// Copies memory of the device or pinned memory of the host; does not wait.
    pub(crate) fn copy(&self, source: u64, target: u64, bytes: u64, stream: &StreamHandle) -> Result<(), MemoryError> {
        let allocations = self.allocations();
        let ((from, from_offset), (to, to_offset)) = allocations.find_copy(source, target, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let table = self.enter()?;
        let size = bytes as usize;
        let host = |address: usize, offset: u64| (address + offset as usize) as *mut c_void;
        // SAFETY: both ranges lie in allocations and share no byte; freeing one waits for the copy. Pinned memory has an address of the device as well,
        // so that a copy within it is one on the device.
        let (name, code) = unsafe {
            match (*from, *to) {
                (Kind::Device, Kind::Host(to)) => {
                    let target = host(to, to_offset);
                    ("cuMemcpyDtoHAsync_v2", (table.cuMemcpyDtoHAsync_v2)(target, source, size, stream.raw))
                }
                (Kind::Host(from), Kind::Device) => {
                    let source = host(from, from_offset);
                    ("cuMemcpyHtoDAsync_v2", (table.cuMemcpyHtoDAsync_v2)(target, source, size, stream.raw))
                }
                _ => ("cuMemcpyDtoDAsync_v2", (table.cuMemcpyDtoDAsync_v2)(target, source, size, stream.raw)),
            }
        };
        Ok(table.check(name, code)?)
    }

    /// Fills device memory; does not wait.
    pub(crate) fn memset(&self, target: u64, byte: u8, bytes: u64, stream: &StreamHandle) -> Result<(), MemoryError> {
        let allocations = self.allocations();
        allocations.find(target, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let table = self.enter()?;
        // SAFETY: the range lies in an allocation; freeing it waits for the fill.
        let code = unsafe { (table.cuMemsetD8Async)(target, byte, bytes as usize, stream.raw) };
        Ok(table.check("cuMemsetD8Async", code)?)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Ok(table) = self.enter() else { return };
        let left: Vec<(u64, Kind)> = {
            let allocations = self.allocations();
            let addresses = allocations.addresses();
            addresses.filter_map(|address| Some((address, *allocations.find(address, 0).ok()?.0))).collect()
        };
        if left.iter().any(|(_, kind)| *kind != Kind::Device) {
            let _ = self.synchronize();
        }
        // SAFETY: what is left was allocated here and not freed. Everything that was made from the context held it, so nothing is left but
        // memory. A refusal changes nothing any more.
        unsafe {
            for (address, kind) in left {
                let _ = match kind {
                    Kind::Device => (table.cuMemFree_v2)(address),
                    Kind::Host(host) => (table.cuMemFreeHost)(host as *mut c_void),
                };
            }
            let _ = (table.cuCtxSetCurrent)(null_mut());
            let _ = (table.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

fn properties(table: &Table, device: CUdevice) -> Result<Properties, Failure> {
    let attribute = |which: CUdevice_attribute| {
        let mut value = 0;
        // SAFETY: a pointer to a live local, and a device that the driver gave.
        table.check("cuDeviceGetAttribute", unsafe {
            (table.cuDeviceGetAttribute)(&mut value, which as c_uint, device)
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0 as c_char; 256];
    // SAFETY: the driver writes at most so many bytes, the last of them NUL.
    table.check("cuDeviceGetName", unsafe { (table.cuDeviceGetName)(name.as_mut_ptr(), 255, device) })?;
    Ok(Properties {
        name: text_of(&name.map(|c| c as u8)),
        capability: (
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        shared_opt_in: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}

/// The text before the first NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// A module that the driver has loaded; unloaded when dropped.
pub(crate) struct ModuleHandle {
    context: Arc<Context>,
    raw: CUmodule,
    /// What the compiler writes to. Under lazy loading it may run later than the call that was given the addresses.
    _logs: [Box<[u8]>; 2],
}

// SAFETY: as for `Context`. The logs are written by the driver alone.
unsafe impl Send for ModuleHandle {}
// SAFETY: as above.
unsafe impl Sync for ModuleHandle {}

/// A module that the driver refused.
#[derive(Debug)]
pub(crate) struct LoadError {
    pub(crate) failure: Failure,
    /// What the compiler wrote of errors.
    pub(crate) log: String,
}

impl ModuleHandle {
    /// Loads PTX, which the driver compiles.
    pub(crate) fn load(context: &Arc<Context>, ptx: &CStr) -> Result<ModuleHandle, LoadError> {
        let table = context.enter().map_err(|failure| LoadError { failure, log: String::new() })?;
        let mut logs = [vec![0u8; LOG_BYTES].into_boxed_slice(), vec![0u8; LOG_BYTES].into_boxed_slice()];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER as c_uint,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES as c_uint,
        ];
        // A size is the value itself, in place of a pointer; one byte is kept for the NUL.
        let size = (LOG_BYTES - 1) as *mut c_void;
        let mut values: [*mut c_void; 4] = [logs[0].as_mut_ptr().cast(), size, logs[1].as_mut_ptr().cast(), size];
        let mut raw = null_mut();
        // SAFETY: the text ends in NUL; options and values are lists of the length given; the logs have the sizes given and live as long as
        // the module.
        let code = unsafe {
            let count = options.len() as c_uint;
            (table.cuModuleLoadDataEx)(&mut raw, ptx.as_ptr().cast(), count, options.as_mut_ptr(), values.as_mut_ptr())
        };
        match table.check("cuModuleLoadDataEx", code) {
            Ok(()) => Ok(ModuleHandle { context: Arc::clone(context), raw, _logs: logs }),
            Err(failure) => Err(LoadError { failure, log: text_of(&logs[0]) }),
        }
    }
}

impl Drop for ModuleHandle {
    fn drop(&mut self) {
        // Kernels of the module may still run. A refusal changes nothing any more.
        let _ = self.context.synchronize();
        if let Ok(table) = self.context.enter() {
            // SAFETY: the module is loaded, and functions of it hold this object.
            let _ = unsafe { (table.cuModuleUnload)(self.raw) };
        }
    }
}

/// A kernel of a module.
pub(crate) struct FunctionHandle {
    module: Arc<ModuleHandle>,
    raw: CUfunction,
}

// SAFETY: as for `Context`.
unsafe impl Send for FunctionHandle {}
// SAFETY: as above.
unsafe impl Sync for FunctionHandle {}

impl FunctionHandle {
    /// The kernel of a name; `None` if the module has none.
    pub(crate) fn find(module: &Arc<ModuleHandle>, name: &str) -> Result<Option<FunctionHandle>, Failure> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let table = module.context.enter()?;
        let mut raw = null_mut();
        // SAFETY: the module is loaded; the name ends in NUL.
        match unsafe { (table.cuModuleGetFunction)(&mut raw, module.raw, name.as_ptr()) } {
            NOT_FOUND => Ok(None),
            code => {
                table.check("cuModuleGetFunction", code)?;
                Ok(Some(FunctionHandle { module: Arc::clone(module), raw }))
            }
        }
    }

    fn attribute(&self, which: CUfunction_attribute) -> Result<u32, Failure> {
        let table = self.module.context.enter()?;
        let mut value = 0;
        // SAFETY: a pointer to a live local; the function's module is loaded.
        table.check("cuFuncGetAttribute", unsafe {
            (table.cuFuncGetAttribute)(&mut value, which as c_uint, self.raw)
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Shared memory that it declares.
    pub(crate) fn static_shared(&self) -> Result<u32, Failure> {
        self.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    }

    /// Most threads of a block.
    pub(crate) fn most_threads(&self) -> Result<u32, Failure> {
        self.attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    }

    /// Lets launches have so much dynamic shared memory.
    pub(crate) fn allow_dynamic_shared(&self, bytes: u32) -> Result<(), Failure> {
        let table = self.module.context.enter()?;
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_uint;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded.
        table.check("cuFuncSetAttribute", unsafe { (table.cuFuncSetAttribute)(self.raw, which, bytes) })
    }

    /// Launches; does not wait. The parameters must be packed as the module's text declares those of this function.
    pub(crate) fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        parameters: &Packed,
        stream: &StreamHandle,
    ) -> Result<(), Failure> {
        let table = self.module.context.enter()?;
        let mut bytes = parameters.bytes;
        let mut extra: [*mut c_void; 5] = [
            LAUNCH_PARAM_BUFFER_POINTER as *mut c_void,
            parameters.words.as_ptr().cast_mut().cast(),
            LAUNCH_PARAM_BUFFER_SIZE as *mut c_void,
            (&raw mut bytes).cast(),
            LAUNCH_PARAM_END as *mut c_void,
        ];
        let extra = if bytes == 0 { null_mut() } else { extra.as_mut_ptr() };
        // SAFETY: the function's module is loaded and the stream is live, both of this context's driver. The driver copies the parameters, of
        // which it is told the size, before the call returns; it only reads them, though the type has no `const`. What the kernel does to
        // memory of the device is up to the PTX that was loaded (see the crate's documentation).
        let code = unsafe {
            (table.cuLaunchKernel)(
                self.raw,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                dynamic_shared,
                stream.raw,
                null_mut(),
                extra,
            )
        };
        table.check("cuLaunchKernel", code)
    }
}

/// A stream; destroyed when dropped, when its work is done.
pub(crate) struct StreamHandle {
    context: Arc<Context>,
    raw: CUstream,
}

// SAFETY: as for `Context`.
unsafe impl Send for StreamHandle {}
// SAFETY: as above.
unsafe impl Sync for StreamHandle {}

impl StreamHandle {
    /// A stream that does not wait for the context's default stream.
    pub(crate) fn new(context: &Arc<Context>) -> Result<StreamHandle, Failure> {
        let table = context.enter()?;
        let mut raw = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: a pointer to a live local.
        table.check("cuStreamCreate", unsafe { (table.cuStreamCreate)(&mut raw, flags) })?;
        Ok(StreamHandle { context: Arc::clone(context), raw })
    }

    /// Waits for its work.
    pub(crate) fn synchronize(&self) -> Result<(), Failure> {
        let table = self.context.enter()?;
        // SAFETY: the stream is live.
        table.check("cuStreamSynchronize", unsafe { (table.cuStreamSynchronize)(self.raw) })
    }

    /// Lets later work wait for a mark.
    pub(crate) fn wait(&self, event: &EventHandle) -> Result<(), Failure> {
        let table = self.context.enter()?;
        // SAFETY: stream and event are live.
        table.check("cuStreamWaitEvent", unsafe { (table.cuStreamWaitEvent)(self.raw, event.raw, 0) })
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        if let Ok(table) = self.context.enter() {
            // SAFETY: the stream is live; the driver lets its work finish. A refusal changes nothing any more.
            let _ = unsafe { (table.cuStreamDestroy_v2)(self.raw) };
        }
    }
}

/// A mark on a stream; destroyed when dropped.
pub(crate) struct EventHandle {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: as for `Context`.
unsafe impl Send for EventHandle {}
// SAFETY: as above.
unsafe impl Sync for EventHandle {}

impl EventHandle {
    /// An event that orders work and measures no time.
    pub(crate) fn new(context: &Arc<Context>) -> Result<EventHandle, Failure> {
        let table = context.enter()?;
        let mut raw = null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
        // SAFETY: a pointer to a live local.
        table.check("cuEventCreate", unsafe { (table.cuEventCreate)(&mut raw, flags) })?;
        Ok(EventHandle { context: Arc::clone(context), raw })
    }

    /// Marks the end of the stream's work so far.
    pub(crate) fn record(&self, stream: &StreamHandle) -> Result<(), Failure> {
        let table = self.context.enter()?;
        // SAFETY: event and stream are live.
        table.check("cuEventRecord", unsafe { (table.cuEventRecord)(self.raw, stream.raw) })
    }
}

impl Drop for EventHandle {
    fn drop(&mut self) {
        if let Ok(table) = self.context.enter() {
            // SAFETY: the event is live. A refusal changes nothing any more.
            let _ = unsafe { (table.cuEventDestroy_v2)(self.raw) };
        }
    }
}
