//! Device memory that frees itself.

use std::sync::Arc;

use crate::device::{Device, DeviceError, DevicePointer};

/// An allocation; freed when dropped.
pub struct Allocation {
    device: Arc<dyn Device>,
    pointer: DevicePointer,
    bytes: u64,
}

impl Allocation {
    /// Allocates on a device.
    pub fn new(device: &Arc<dyn Device>, bytes: u64) -> Result<Self, DeviceError> {
        let pointer = device.allocate(bytes)?;
        Ok(Allocation { device: Arc::clone(device), pointer, bytes })
    }

    /// Allocates pinned memory of the host, by its address on the device.
    pub fn of_host(device: &Arc<dyn Device>, bytes: u64) -> Result<Self, DeviceError> {
        let pointer = device.allocate_host(bytes)?;
        Ok(Allocation { device: Arc::clone(device), pointer, bytes })
    }

    /// Where it begins.
    pub fn pointer(&self) -> DevicePointer {
        self.pointer
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // A device that refuses to free has lost the memory already; there is nobody to tell.
        let _ = self.device.free(self.pointer);
    }
}
