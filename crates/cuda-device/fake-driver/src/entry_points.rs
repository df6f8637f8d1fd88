//! The functions of the driver's library, with the names and types of `cuda.h`.
//!
//! Handles are numbers, given out as pointers that nobody follows.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::slice;

use tenon_ptx_sim::TENSOR_MAP_BYTES;

use crate::names::describe;
use crate::state::{CONTEXT, CURRENT, INVALID_DEVICE, INVALID_VALUE, Launch, SUCCESS, call};

type Handle = *mut c_void;

/// Writes what a function gives.
///
/// # Safety
/// The pointer must be null or fit for a write of the type.
unsafe fn give<T>(place: *mut T, value: T) -> Result<(), u32> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so it is fit by this function's contract.
    unsafe { place.write(value) };
    Ok(())
}

fn handle(number: usize) -> Handle {
    number as Handle
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_uint {
    call("cuInit", false, &format!("flags={flags}"), |fake| {
        fake.initialised = true;
        if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(result: c_uint, text: *mut *const c_char) -> c_uint {
    let Some((name, _)) = describe(result) else { return INVALID_VALUE };
    // SAFETY: a place for a pointer, as in `cuda.h`.
    unsafe { give(text, name.as_ptr()) }.err().unwrap_or(SUCCESS)
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(result: c_uint, text: *mut *const c_char) -> c_uint {
    let Some((_, meaning)) = describe(result) else { return INVALID_VALUE };
    // SAFETY: a place for a pointer, as in `cuda.h`.
    unsafe { give(text, meaning.as_ptr()) }.err().unwrap_or(SUCCESS)
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_uint {
    // SAFETY: a place for a number, as in `cuda.h`.
    call("cuDeviceGetCount", false, "", |fake| unsafe { give(count, fake.settings.devices) })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_uint {
    call("cuDeviceGet", false, &format!("ordinal={ordinal}"), |fake| {
        if !(0..fake.settings.devices).contains(&ordinal) {
            fake.wrong("cuDeviceGet", "no device of that number");
            return Err(INVALID_DEVICE);
        }
        // SAFETY: a place for a number, as in `cuda.h`.
        unsafe { give(device, ordinal) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_uint {
    call("cuDeviceGetName", false, &format!("device={device}"), |_| {
        let text = c"Simulated GPU".to_bytes_with_nul();
        let room = usize::try_from(length).unwrap_or(0);
        if room < text.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: so many bytes may be written, as in `cuda.h`.
        unsafe { name.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
        Ok(())
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_uint, device: c_int) -> c_uint {
    call("cuDeviceGetAttribute", false, &format!("attribute={which} device={device}"), |fake| {
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR, _MAX_SHARED_MEMORY_PER_BLOCK_OPTIN.
        let found = match which {
            75 => fake.settings.capability.0,
            76 => fake.settings.capability.1,
            97 => fake.settings.shared,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: a place for a number, as in `cuda.h`.
        unsafe { give(value, found as c_int) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> c_uint {
    call("cuDevicePrimaryCtxRetain", false, &format!("device={device}"), |fake| {
        fake.retained += 1;
        // SAFETY: a place for a handle, as in `cuda.h`.
        unsafe { give(context, handle(CONTEXT)) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_uint {
    let name = "cuDevicePrimaryCtxRelease_v2";
    call(name, false, &format!("device={device}"), |fake| fake.release(name))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> c_uint {
    call("cuCtxSetCurrent", false, &format!("context={:#x}", context as usize), |fake| {
        if ![0, CONTEXT].contains(&(context as usize)) {
            fake.wrong("cuCtxSetCurrent", "no context");
            return Err(INVALID_VALUE);
        }
        CURRENT.set(context as usize);
        Ok(())
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> c_uint {
    call("cuCtxSynchronize", true, "", |_| Ok(()))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *mut c_uint,
    values: *mut *mut c_void,
) -> c_uint {
    let name = "cuModuleLoadDataEx";
    // SAFETY: a text that ends in NUL, and lists of the length given, as in `cuda.h` for PTX.
    let (text, options, values) = unsafe {
        (
            CStr::from_ptr(image.cast()).to_string_lossy(),
            slice::from_raw_parts(options, count as usize),
            slice::from_raw_parts(values, count as usize),
        )
    };
    let value = |which: c_uint| options.iter().position(|option| *option == which).map(|index| values[index] as usize);
    call(name, true, &format!("{} bytes, options {options:?}", text.len()), |fake| {
        let (result, log) = match fake.load_module(&text) {
            // SAFETY: a place for a handle, as in `cuda.h`.
            Ok(loaded) => return unsafe { give(module, handle(loaded)) },
            Err(refused) => refused,
        };
        // CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
        if let (Some(buffer), Some(room)) = (value(5), value(6)) {
            let count = log.len().min(room);
            // SAFETY: the caller has given a buffer of that size.
            unsafe { (buffer as *mut u8).copy_from_nonoverlapping(log.as_ptr(), count) };
        }
        Err(result)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: Handle) -> c_uint {
    let name = "cuModuleUnload";
    call(name, true, &format!("module={module:?}"), |fake| fake.unload_module(name, module as usize))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, entry: *const c_char) -> c_uint {
    let name = "cuModuleGetFunction";
    // SAFETY: a text that ends in NUL, as in `cuda.h`.
    let entry = unsafe { CStr::from_ptr(entry) }.to_string_lossy();
    call(name, true, &format!("module={module:?} name={entry}"), |fake| {
        let found = fake.find_function(name, module as usize, &entry)?;
        // SAFETY: a place for a handle, as in `cuda.h`.
        unsafe { give(function, handle(found)) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, which: c_uint, function: Handle) -> c_uint {
    let name = "cuFuncGetAttribute";
    call(name, true, &format!("attribute={which} function={function:?}"), |fake| {
        let shared = fake.static_shared(name, function as usize)?;
        // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, _SHARED_SIZE_BYTES.
        let found = match which {
            0 => fake.settings.threads,
            1 => shared,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: a place for a number, as in `cuda.h`.
        unsafe { give(value, found as c_int) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(function: Handle, which: c_uint, value: c_int) -> c_uint {
    let name = "cuFuncSetAttribute";
    call(name, true, &format!("function={function:?} attribute={which} value={value}"), |fake| {
        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        match (which, u32::try_from(value)) {
            (8, Ok(bytes)) => fake.allow_dynamic_shared(name, function as usize, bytes),
            _ => Err(INVALID_VALUE),
        }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_uint {
    call("cuMemAlloc_v2", true, &format!("bytes={bytes}"), |fake| {
        let allocated = fake.allocate(bytes as u64)?;
        // SAFETY: a place for an address, as in `cuda.h`.
        unsafe { give(address, allocated) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: u64) -> c_uint {
    call("cuMemFree_v2", true, &format!("address={address:#x}"), |fake| fake.free(address))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(memory: *mut Handle, bytes: usize, flags: c_uint) -> c_uint {
    call("cuMemHostAlloc", true, &format!("bytes={bytes} flags={flags}"), |fake| {
        let allocated = fake.allocate_host(bytes, flags)?;
        // SAFETY: a place for an address, as in `cuda.h`.
        unsafe { give(memory, handle(allocated)) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: Handle, flags: c_uint) -> c_uint {
    let name = "cuMemHostGetDevicePointer_v2";
    call(name, true, &format!("flags={flags}"), |fake| {
        let found = fake.device_address(name, memory as usize)?;
        // SAFETY: a place for an address, as in `cuda.h`.
        unsafe { give(address, found) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(memory: Handle) -> c_uint {
    call("cuMemFreeHost", true, "", |fake| fake.free_host(memory as usize))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_uint {
    call("cuMemGetInfo_v2", true, "", |fake| {
        let (left, all) = fake.memory();
        // SAFETY: two places for numbers, as in `cuda.h`.
        unsafe {
            give(free, left as usize)?;
            give(total, all as usize)
        }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, bytes: usize, stream: Handle) -> c_uint {
    let name = "cuMemcpyHtoDAsync_v2";
    call(name, true, &format!("target={target:#x} bytes={bytes} stream={stream:?}"), |fake| {
        fake.check_stream(name, stream as usize)?;
        if let Some(pinned) = fake.pinned(source as usize) {
            let data = fake.read_memory(name, pinned, bytes as u64)?;
            return fake.write_memory(name, target, &data);
        }
        // SAFETY: so many bytes may be read, as in `cuda.h`.
        let data = unsafe { slice::from_raw_parts(source.cast::<u8>(), bytes) };
        fake.write_memory(name, target, data)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, bytes: usize, stream: Handle) -> c_uint {
    let name = "cuMemcpyDtoHAsync_v2";
    call(name, true, &format!("source={source:#x} bytes={bytes} stream={stream:?}"), |fake| {
        fake.check_stream(name, stream as usize)?;
        let data = fake.read_memory(name, source, bytes as u64)?;
        if let Some(pinned) = fake.pinned(target as usize) {
            return fake.write_memory(name, pinned, &data);
        }
        // SAFETY: so many bytes may be written, as in `cuda.h`.
        unsafe { target.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), bytes) };
        Ok(())
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: Handle) -> c_uint {
    let name = "cuMemcpyDtoDAsync_v2";
    call(name, true, &format!("target={target:#x} source={source:#x} bytes={bytes} stream={stream:?}"), |fake| {
        fake.check_stream(name, stream as usize)?;
        let data = fake.read_memory(name, source, bytes as u64)?;
        fake.write_memory(name, target, &data)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(target: u64, byte: u8, bytes: usize, stream: Handle) -> c_uint {
    let name = "cuMemsetD8Async";
    call(name, true, &format!("target={target:#x} byte={byte} bytes={bytes}"), |fake| {
        fake.check_stream(name, stream as usize)?;
        fake.write_memory(name, target, &vec![byte; bytes])
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> c_uint {
    call("cuStreamCreate", true, &format!("flags={flags}"), |fake| {
        let made = fake.make_stream();
        // SAFETY: a place for a handle, as in `cuda.h`.
        unsafe { give(stream, handle(made)) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> c_uint {
    let name = "cuStreamDestroy_v2";
    call(name, true, &format!("stream={stream:?}"), |fake| fake.destroy_stream(name, stream as usize))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> c_uint {
    let name = "cuStreamSynchronize";
    call(name, true, &format!("stream={stream:?}"), |fake| fake.check_stream(name, stream as usize))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> c_uint {
    let name = "cuStreamWaitEvent";
    call(name, true, &format!("stream={stream:?} event={event:?} flags={flags}"), |fake| {
        fake.wait_event(name, event as usize, stream as usize)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> c_uint {
    call("cuEventCreate", true, &format!("flags={flags}"), |fake| {
        let made = fake.make_event();
        // SAFETY: a place for a handle, as in `cuda.h`.
        unsafe { give(event, handle(made)) }
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> c_uint {
    let name = "cuEventDestroy_v2";
    call(name, true, &format!("event={event:?}"), |fake| fake.destroy_event(name, event as usize))
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> c_uint {
    let name = "cuEventRecord";
    call(name, true, &format!("event={event:?} stream={stream:?}"), |fake| {
        fake.record_event(name, event as usize, stream as usize)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_shared: c_uint,
    stream: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_uint {
    // SAFETY: null, or a list as in `cuda.h`.
    let bytes = unsafe { buffer(extra) };
    let launch = Launch {
        function: function as usize,
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared,
        stream: stream as usize,
        parameters: bytes.unwrap_or_default(),
    };
    let text = format!("grid={:?} block={:?} shared={dynamic_shared}", launch.grid, launch.block);
    call("cuLaunchKernel", true, &text, |fake| {
        if !parameters.is_null() {
            fake.wrong("cuLaunchKernel", "parameters are taken as one buffer only");
            return Err(INVALID_VALUE);
        }
        fake.launch(&launch)
    })
}

/// # Safety
/// As in `cuda.h`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut [u8; TENSOR_MAP_BYTES],
    element: c_uint,
    rank: c_uint,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    tile: *const c_uint,
    steps: *const c_uint,
    interleave: c_uint,
    swizzle: c_uint,
    promotion: c_uint,
    fill: c_uint,
) -> c_uint {
    let text = format!("type={element} rank={rank} swizzle={swizzle} promotion={promotion} fill={fill}");
    call("cuTensorMapEncodeTiled", true, &text, |fake| {
        if !(1..=5).contains(&rank) || interleave != 0 || promotion > 3 || fill != 0 || map as usize % 64 != 0 {
            return Err(INVALID_VALUE);
        }
        let rank = rank as usize;
        // SAFETY: lists of so many numbers, one less of strides, as in `cuda.h`.
        let (sizes, strides, tile, steps) = unsafe {
            (
                slice::from_raw_parts(sizes, rank),
                slice::from_raw_parts(strides, rank - 1),
                slice::from_raw_parts(tile, rank),
                slice::from_raw_parts(steps, rank),
            )
        };
        let encoded = fake.encode_tensor_map(element, address as u64, [sizes, strides], [tile, steps], swizzle)?;
        // SAFETY: a place for a map, as in `cuda.h`.
        unsafe { give(map, encoded) }
    })
}

/// The parameters that a list of `CU_LAUNCH_PARAM_…` describes.
///
/// # Safety
/// The list must be null or as in `cuda.h`.
unsafe fn buffer(extra: *mut *mut c_void) -> Option<Vec<u8>> {
    if extra.is_null() {
        return None;
    }
    let (mut data, mut size) = (None, None);
    for index in (0..).step_by(2) {
        // SAFETY: the list goes on until CU_LAUNCH_PARAM_END.
        let (key, value) = unsafe {
            let key = *extra.add(index) as usize;
            (key, if key == 0 { std::ptr::null_mut() } else { *extra.add(index + 1) })
        };
        match key {
            // CU_LAUNCH_PARAM_END, _BUFFER_POINTER, _BUFFER_SIZE.
            0 => break,
            1 => data = Some(value.cast::<u8>()),
            // SAFETY: the value points to a size.
            2 => size = Some(unsafe { *value.cast::<usize>() }),
            _ => return None,
        }
    }
    // SAFETY: the buffer has that size.
    Some(unsafe { slice::from_raw_parts(data?, size?) }.to_vec())
}
