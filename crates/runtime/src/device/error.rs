//! Errors of devices.

/// A device that refuses or fails.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// There is not enough memory.
    #[error("{device} has no {wanted} bytes left: {in_use} of {capacity} are in use")]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// Size of the allocation.
        wanted: u64,
        /// Bytes in use.
        in_use: u64,
        /// Bytes that it has.
        capacity: u64,
    },
    /// Memory outside every allocation, or a handle that is none.
    #[error("{device}: {message}")]
    Access {
        /// Name of the device.
        device: String,
        /// What was accessed.
        message: String,
    },
    /// A feature that the device lacks.
    #[error("{device} does not support {feature}")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// What it lacks.
        feature: String,
    },
    /// The simulator refused a module or a launch, or a kernel did what it must not.
    #[error(transparent)]
    Simulator(#[from] tenon_ptx_sim::Error),
}

impl DeviceError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            DeviceError::OutOfMemory { .. } => "E0720",
            DeviceError::Access { .. } => "E0721",
            DeviceError::Unsupported { .. } => "E0722",
            DeviceError::Simulator(error) => error.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        match self {
            DeviceError::OutOfMemory { .. } => Some("use smaller shapes, or a device with more memory".to_owned()),
            DeviceError::Access { .. } => Some("report this as an error of tenon, with the launch plan".to_owned()),
            DeviceError::Unsupported { .. } => Some("build the model for a target that the device can run".to_owned()),
            DeviceError::Simulator(error) => error.help(),
        }
    }
}
