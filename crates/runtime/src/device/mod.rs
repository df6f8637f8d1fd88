//! Devices: what executes launch plans.
//!
//! One trait for the embedded simulator and for drivers of real devices. A device is shared (`Arc<dyn Device>`) by all instances that run on
//! it, and may be used from several threads.
//!
//! Invariants that callers may rely on: memory of two allocations never overlaps; work of one stream runs in order; what a call refuses has
//! not been done.

mod allocations;
mod error;
mod late_streams;
mod memory;
mod simulator;

pub use allocations::{AllocationTable, RangeError};
pub use error::DeviceError;
pub use memory::Allocation;
pub use simulator::{SimulatorDevice, SimulatorOptions};
pub use tenon_ptx_sim::Counters;
use tenon_tensor::DType;

/// An address in device memory; inside an allocation, bytes may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePointer(pub u64);

impl DevicePointer {
    /// The address `bytes` further on.
    pub fn offset(self, bytes: u64) -> Self {
        DevicePointer(self.0.wrapping_add(bytes))
    }
}

/// A sequence of work by number; 0 is the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stream(pub u32);

/// A module that a device has loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleHandle(pub u64);

/// An entry of a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelHandle {
    /// The module.
    pub module: ModuleHandle,
    /// Which of its entries, by the device's own number.
    pub entry: u64,
}

/// A parameter of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelArgument {
    /// An address.
    Pointer(DevicePointer),
    /// A number.
    I64(i64),
    /// A tensor map by value.
    TensorMap([u64; 16]),
}

/// A tensor as a tensor map describes it ([`crate::plan::TensorMap`]), with everything known. Lists are innermost first.
#[derive(Debug, Clone, PartialEq)]
pub struct TiledTensor<'a> {
    /// The first element.
    pub pointer: DevicePointer,
    /// Element type.
    pub dtype: DType,
    /// Elements of each dimension; one at least.
    pub sizes: &'a [u32],
    /// Distances in bytes of neighbours along all dimensions but the innermost.
    pub strides: &'a [u64],
    /// Elements of a box along each dimension.
    pub tile: &'a [u32],
    /// Width in bytes of the swizzle in shared memory: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// A kernel launch with everything known.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelLaunch<'a> {
    /// The entry.
    pub kernel: KernelHandle,
    /// Blocks along x, y, z; one at least.
    pub grid: [u32; 3],
    /// Threads along x, y, z.
    pub block: [u32; 3],
    /// Shared memory beyond what the entry declares.
    pub dynamic_shared_bytes: u32,
    /// Blocks of a cluster, where the kernel uses clusters.
    pub cluster: Option<[u32; 3]>,
    /// The entry's parameters in order.
    pub arguments: &'a [KernelArgument],
}

/// How an instance lays out the buffers of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In one arena, at the plan's offsets.
    Arena,
    /// Each in an allocation of its own, so that a device that checks bounds sees a kernel leave its buffer.
    Separate,
}

/// Something that runs kernels on memory of its own.
pub trait Device: Send + Sync {
    /// What it is, for messages: `simulator`, `cuda:0 (NVIDIA A100-SXM4-80GB)`.
    fn name(&self) -> String;

    /// How buffers are best laid out on it.
    fn placement(&self) -> Placement {
        Placement::Arena
    }

    /// Checks that it runs modules for an architecture, by its name in PTX: `sm_80`. The simulator runs them all.
    fn check_target(&self, _architecture: &str) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Whether it executes conditional steps, whose predicates lie in its memory.
    fn runs_conditionals(&self) -> bool {
        false
    }

    /// Loads the text of a PTX module.
    fn load_module(&self, ptx: &str) -> Result<ModuleHandle, DeviceError>;

    /// An entry of a loaded module by name; `None` if it has none of that name.
    fn kernel(&self, module: ModuleHandle, entry: &str) -> Result<Option<KernelHandle>, DeviceError>;

    /// Unloads a module.
    fn unload_module(&self, module: ModuleHandle) -> Result<(), DeviceError>;

    /// Allocates memory, aligned to 256 bytes at least. No bytes are a valid allocation that nothing may be read from.
    fn allocate(&self, bytes: u64) -> Result<DevicePointer, DeviceError>;

    /// Allocates pinned memory of the host, by an address that the device copies from and to. A device that has none refuses.
    fn allocate_host(&self, _bytes: u64) -> Result<DevicePointer, DeviceError> {
        Err(DeviceError::Unsupported { device: self.name(), feature: "pinned host memory".to_owned() })
    }

    /// Frees an allocation, by the address that [`Device::allocate`] or [`Device::allocate_host`] gave.
    fn free(&self, pointer: DevicePointer) -> Result<(), DeviceError>;

    /// Copies host memory to the device; `data` may be reused when the call returns.
    fn upload(&self, target: DevicePointer, data: &[u8], stream: Stream) -> Result<(), DeviceError>;

    /// Copies device memory to the host, after all earlier work of the stream; complete when the call returns.
    fn download(&self, source: DevicePointer, target: &mut [u8], stream: Stream) -> Result<(), DeviceError>;

    /// Copies device memory to device memory; the two ranges must not overlap.
    fn copy(&self, source: DevicePointer, target: DevicePointer, bytes: u64, stream: Stream)
    -> Result<(), DeviceError>;

    /// Fills device memory with a byte.
    fn memset(&self, target: DevicePointer, byte: u8, bytes: u64, stream: Stream) -> Result<(), DeviceError>;

    /// Says that the contents of memory are of no use any more. A device that checks takes reads of them for errors until they are written
    /// again; others do nothing.
    fn discard(&self, _target: DevicePointer, _bytes: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Marks a point on a stream by a number; a mark of the same number is replaced.
    fn record_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError>;

    /// Lets later work of a stream wait for a mark that has been recorded.
    fn wait_event(&self, event: u32, stream: Stream) -> Result<(), DeviceError>;

    /// Encodes a tensor map, as kernels for the device take it. What copies find outside of the tensor is zero. A device without tensor maps
    /// refuses.
    fn encode_tensor_map(&self, _tensor: &TiledTensor<'_>) -> Result<[u64; 16], DeviceError> {
        Err(DeviceError::Unsupported { device: self.name(), feature: "tensor maps".to_owned() })
    }

    /// Launches a kernel. A device that counts gives the counters of the launch, and has then completed it.
    fn launch(&self, launch: &KernelLaunch<'_>, stream: Stream) -> Result<Option<Counters>, DeviceError>;

    /// Waits for all work of all streams; gives the first error of work that failed after its call had returned.
    fn synchronize(&self) -> Result<(), DeviceError>;
}
