//! An embedded device that needs no GPU: it parses PTX, runs it warp by warp, checks every access and counts what it does.
//!
//! ```
//! use tenon_ptx_sim::{Argument, Device, LaunchConfig, Module};
//! let source = "
//!     .version 7.8
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry twice(.param .u64 p) {
//!         .reg .b32 %r<4>;
//!         .reg .b64 %rd<4>;
//!         ld.param.u64 %rd1, [p];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.u32 %r2, [%rd3];
//!         shl.b32 %r3, %r2, 1;
//!         st.global.u32 [%rd3], %r3;
//!         ret;
//!     }";
//! let module = Module::parse(source)?;
//! let mut device = Device::new();
//! let p = device.allocate(4 * 64)?;
//! let input: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
//! device.write(p, 0, &input)?;
//! let config = LaunchConfig { block: [64, 1, 1], ..LaunchConfig::default() };
//! let counters = device.launch(&module, "twice", &config, &[Argument::from(p)])?;
//! assert_eq!(device.read(p, 4 * 63, 4)?, 126u32.to_le_bytes());
//! assert_eq!(counters.global_sectors, 16);
//! # Ok::<(), tenon_ptx_sim::Error>(())
//! ```
//!
//! # What it promises
//!
//! - An instruction, modifier or type it does not know is an error when the module is parsed, never skipped.
//! - Bounds and alignment are exact. Shared and global memory that nothing wrote is not read. Data of an asynchronous copy is poison
//!   until waited for.
//! - Two accesses to a byte of shared memory, one of them writing, that no barrier or warp barrier orders, are a fault, whether or not
//!   this run shows it; so are those of two blocks to a byte of global memory that no release and acquire orders (PTX ISA, "Memory Consistency Model").
//! - What `wgmma` and bulk copies do asynchronously is found wanting whatever the schedule: registers touched before `wgmma.wait_group`, a
//!   missing `wgmma.fence`, `fence.proxy.async` or fence of a tensor map, bytes read before the mbarrier that tracks their copy was waited
//!   for or overwritten while they are read, byte counts of an mbarrier that do not agree with its copies. Waits that nothing ends are a
//!   fault, not an endless loop.
//! - Every schedule drawn from a seed is one that a GPU might choose; endless loops end in a fault.
//! - Arithmetic is the hardware's bit for bit, but for the approximate functions and the order in which tensor cores add, both with
//!   a declared error.
//!
//! # What it does not
//!
//! - Lanes of a warp meet again at the immediate post-dominator of a branch; `bar.warp.sync` and the like between lanes that sit at
//!   different instructions is refused as `warp-sync-mask`.
//! - Global races between threads of one block are not looked for, those of bulk copies included. Releases and acquires count for the whole warp; what a strong
//!   read saw before an unordered write is not kept.
//! - Clusters have one block; more are refused at the launch. Tensor copies are tiled ones; `im2col`, interleaving, reductions and copies
//!   between blocks are refused when the module is parsed.
//! - Arrivals at mbarriers and waits count for the whole warp, not for the lane that executes them. That an mbarrier is initialised needs
//!   order, not a proxy fence; a bulk copy may overwrite what other instructions read with order alone.
//! - No timing.

// Loops over lanes index several arrays at once; comparisons of floats must not be rewritten (not-a-number); shifts after products
// and sums read as in the ISA's formulas.
#![allow(
    clippy::needless_range_loop,
    clippy::double_comparisons,
    clippy::neg_cmp_op_on_partial_ord,
    clippy::manual_clamp,
    clippy::precedence
)]

mod counters;
mod decode;
mod device;
mod error;
mod execute;
mod fault;
mod memory;
mod module;
mod parse;
mod schedule;
mod tensor_map;

pub use counters::{Counters, LineCounters};
pub use device::{Argument, Checks, DEFAULT_MEMORY, Device, DevicePointer, LaunchConfig, SHARED_LIMIT};
pub use error::Error;
pub use execute::approximate::{DECLARED, DeclaredError};
pub use fault::{Fault, FaultKind};
pub use module::{Entry, Module, Parameter};
pub use tensor_map::{TENSOR_MAP_BYTES, TensorElement, TensorFill, TensorMap, TensorMapConfig, TensorSwizzle};
