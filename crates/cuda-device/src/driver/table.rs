//! The driver's functions that are used, by name and C type.
//!
//! cudarc finds and opens the library. Its own functions are not called: they panic where a symbol is missing, and give the result as a Rust
//! enum of one CUDA version, so that an error code of a newer driver would be undefined behaviour. Here a result is a number.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream};

macro_rules! entry_points {
    (always { $($name:ident($($argument:ty),* $(,)?);)* } since_cuda_12 { $($extra:ident($($parameter:ty),* $(,)?);)* }) => {
        /// The functions, all there.
        #[allow(non_snake_case)]
        pub(super) struct Table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_uint,)*
            $(pub(super) $extra: Option<unsafe extern "C" fn($($parameter),*) -> c_uint>,)*
        }

        impl Table {
            fn read() -> Result<Table, String> {
                // SAFETY: opening a library runs its initialisers, and those of a driver of this name are trusted as the driver is. `culib`
                // panics where the library is not there, which was just found not to be the case.
                let library = unsafe {
                    if !sys::is_culib_present() {
                        return Err("no NVIDIA driver is installed: its library, libcuda.so.1, cannot be loaded".to_owned());
                    }
                    sys::culib()
                };
                Ok(Table {
                    $($name: {
                        let name = stringify!($name);
                        // SAFETY: the type is that of the CUDA driver API's header for this name; the library is never closed.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> c_uint>(name.as_bytes()) };
                        *symbol.map_err(|_| format!("the library of the driver has no `{name}`; it is too old, or not NVIDIA's"))?
                    },)*
                    $($extra: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($parameter),*) -> c_uint>(stringify!($extra).as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)*
                })
            }
        }
    };
}

entry_points! {
    always {
        cuInit(c_uint);
        cuGetErrorName(c_uint, *mut *const c_char);
        cuGetErrorString(c_uint, *mut *const c_char);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut CUdevice, c_int);
        cuDeviceGetName(*mut c_char, c_int, CUdevice);
        cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
        cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        cuDevicePrimaryCtxRelease_v2(CUdevice);
        cuCtxSetCurrent(CUcontext);
        cuCtxSynchronize();
        cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
        cuModuleUnload(CUmodule);
        cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        cuFuncGetAttribute(*mut c_int, c_uint, CUfunction);
        cuFuncSetAttribute(CUfunction, c_uint, c_int);
        cuMemAlloc_v2(*mut CUdeviceptr, usize);
        cuMemFree_v2(CUdeviceptr);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
        cuMemFreeHost(*mut c_void);
        cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
        cuStreamCreate(*mut CUstream, c_uint);
        cuStreamDestroy_v2(CUstream);
        cuStreamSynchronize(CUstream);
        cuStreamWaitEvent(CUstream, CUevent, c_uint);
        cuEventCreate(*mut CUevent, c_uint);
        cuEventDestroy_v2(CUevent);
        cuEventRecord(CUevent, CUstream);
        cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void,
        );
    }
    since_cuda_12 {
        cuTensorMapEncodeTiled(
            *mut super::tensor_map::EncodedMap, c_uint, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint,
            c_uint, c_uint, c_uint, c_uint,
        );
    }
}

/// The functions of the driver of this machine, looked for once.
pub(super) fn table() -> Result<&'static Table, String> {
    static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();
    TABLE.get_or_init(Table::read).as_ref().map_err(Clone::clone)
}
