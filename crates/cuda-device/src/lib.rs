//! NVIDIA GPUs as devices of the runtime, through the CUDA driver API.
//!
//! The driver's library is looked for when a device is opened, not when the program starts: where there is none, [`CudaDevice::open`] says so
//! with a code, and nothing else is affected.
//!
//! - [`CudaDevice`]: the device.
//! - `driver`: safe functions over the driver's C functions. **The only `unsafe` outside `crates/ir`**, each block with its reason.
//! - `ptx`: what the text of a module declares. `compatibility`: which devices an architecture runs on. `arguments`: parameters of a kernel as
//!   bytes. `limits`: launches that the device cannot do. `failure`: what an error of the driver means. All five are pure.
//!
//! Invariants:
//! - no call of the driver is made with memory or a handle that is not live: ranges are looked up in the table of allocations, handles live
//!   as long as what they stand for, and what they stand for outlives all that was made from it;
//! - the parameters of a launch have the sizes and offsets that the text of the module declares;
//! - every error of the driver ends in a coded error. One that spoils the context is remembered: the device refuses all further work.
//!
//! What a kernel does to memory is not checked by a GPU. PTX that is loaded is trusted as any code is; the simulator is there to check it.

mod arguments;
mod compatibility;
mod device;
mod driver;
mod failure;
mod limits;
mod ptx;

pub use device::CudaDevice;
