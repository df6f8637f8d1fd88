//! What an error of the driver means (CUDA driver API, `CUresult`).

/// A call of the driver that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The driver's function.
    pub(crate) call: &'static str,
    /// Its result, not 0.
    pub(crate) code: u32,
    /// Name and description of the result by the driver: `CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)`.
    pub(crate) text: String,
}

/// Kinds of failures that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The driver cannot be used at all.
    Driver,
    /// No such device.
    Device,
    /// No memory.
    Memory,
    /// The module is not taken.
    Module,
    /// The launch is not possible.
    Launch,
    /// A kernel failed and spoilt the context: every later call fails too.
    Fault,
    /// Anything else.
    Other,
}

/// The kind of a failure.
pub(crate) fn kind(failure: &Failure) -> Kind {
    match (failure.call, failure.code) {
        // CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE.
        (_, 100 | 101) => Kind::Device,
        // CUDA_ERROR_OUT_OF_MEMORY.
        (_, 2) => Kind::Memory,
        // Whatever keeps the driver from starting: a stub, another version than the kernel's module, no permission.
        ("cuInit", _) => Kind::Driver,
        // CUDA_ERROR_ECC_UNCORRECTABLE, _NVLINK_UNCORRECTABLE, _CONTAINED; _ILLEGAL_ADDRESS, _LAUNCH_TIMEOUT, _CONTEXT_IS_DESTROYED, _ASSERT;
        // from _HARDWARE_STACK_ERROR to _LAUNCH_FAILED; _TENSOR_MEMORY_LEAK.
        (_, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721) => Kind::Fault,
        // CUDA_ERROR_INVALID_IMAGE, _NO_BINARY_FOR_GPU, from _INVALID_PTX to _JIT_COMPILATION_DISABLED, _UNSUPPORTED_DEVSIDE_SYNC,
        // _INVALID_SOURCE; also CUDA_ERROR_INVALID_VALUE and whatever else loading gives.
        (_, 200 | 209 | 218 | 221..=223 | 225 | 300) | ("cuModuleLoadDataEx" | "cuModuleGetFunction", _) => {
            Kind::Module
        }
        // CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, _COOPERATIVE_LAUNCH_TOO_LARGE, _INVALID_CLUSTER_SIZE; CUDA_ERROR_INVALID_VALUE of a launch.
        (_, 701 | 720 | 912) | ("cuLaunchKernel" | "cuFuncSetAttribute", _) => Kind::Launch,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        let kind = |call, code| kind(&Failure { call, code, text: String::new() });
        for call in ["cuInit", "cuDeviceGet"] {
            assert_eq!(kind(call, 100), Kind::Device);
        }
        assert_eq!(kind("cuInit", 803), Kind::Driver);
        assert_eq!(kind("cuInit", 34), Kind::Driver);
        assert_eq!(kind("cuMemAlloc_v2", 2), Kind::Memory);
        assert_eq!(kind("cuDevicePrimaryCtxRetain", 2), Kind::Memory);
        for fault in [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721] {
            for call in ["cuLaunchKernel", "cuStreamSynchronize", "cuModuleLoadDataEx", "cuMemAlloc_v2"] {
                assert_eq!(kind(call, fault), Kind::Fault, "{fault}");
            }
        }
        for code in [1, 200, 209, 218, 222, 999] {
            assert_eq!(kind("cuModuleLoadDataEx", code), Kind::Module);
        }
        // Under lazy loading the compiler may run when a function is asked for.
        assert_eq!(kind("cuModuleGetFunction", 218), Kind::Module);
        assert_eq!(kind("cuLaunchKernel", 209), Kind::Module);
        for code in [1, 701, 720, 912] {
            assert_eq!(kind("cuLaunchKernel", code), Kind::Launch);
        }
        assert_eq!(kind("cuMemcpyHtoDAsync_v2", 1), Kind::Other);
        assert_eq!(kind("cuStreamCreate", 999), Kind::Other);
        assert_eq!(kind("cuMemFree_v2", 4), Kind::Other);
    }
}
