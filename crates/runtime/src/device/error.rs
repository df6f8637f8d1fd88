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
    /// There is not enough memory for something of the driver's own.
    #[error("{device} has not enough memory for {call}")]
    NoMemoryFor {
        /// Name of the device.
        device: String,
        /// The driver's function.
        call: String,
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
    /// There is no driver, or none that can be used.
    #[error("{device}: {message}")]
    NoDriver {
        /// Kind of device, `cuda`.
        device: String,
        /// What was looked for, or why it cannot be used.
        message: String,
    },
    /// The driver has no device of that number.
    #[error("{device}: {message}")]
    NoDevice {
        /// The device asked for, `cuda:3`.
        device: String,
        /// Which there are.
        message: String,
    },
    /// A module made for an architecture that the device cannot run.
    #[error("the PTX is for {target}, which runs on {runs_on}; {device} has compute capability {capability}")]
    Target {
        /// Name of the device.
        device: String,
        /// Its compute capability.
        capability: String,
        /// Architecture of the module.
        target: String,
        /// What that architecture runs on.
        runs_on: String,
    },
    /// The driver does not take a module.
    #[error("{device} does not take the PTX: {message}{}", indented(log))]
    Module {
        /// Name of the device.
        device: String,
        /// The driver's error, or what is wrong with the text.
        message: String,
        /// What the driver's compiler wrote; may be empty.
        log: String,
    },
    /// A launch that the device cannot do; nothing ran.
    #[error("{device} cannot launch `{entry}`: {message}")]
    Launch {
        /// Name of the device.
        device: String,
        /// The entry.
        entry: String,
        /// Why.
        message: String,
    },
    /// A kernel failed while it ran, and the device refuses all further work of this process.
    #[error(
        "{device}: a kernel failed: {message}; since launches are asynchronous, it may be an earlier one than the call that reports it"
    )]
    Fault {
        /// Name of the device.
        device: String,
        /// The driver's error.
        message: String,
    },
    /// Any other failure of a call of the driver.
    #[error("{device}: {call} failed: {message}")]
    Driver {
        /// Name of the device.
        device: String,
        /// The driver's function.
        call: String,
        /// The driver's error.
        message: String,
    },
    /// The simulator refused a module or a launch, or a kernel did what it must not.
    #[error(transparent)]
    Simulator(#[from] tenon_ptx_sim::Error),
}

impl DeviceError {
    /// Stable code, `docs/errors/`.
    pub fn code(&self) -> &'static str {
        match self {
            DeviceError::OutOfMemory { .. } | DeviceError::NoMemoryFor { .. } => "E0720",
            DeviceError::Access { .. } => "E0721",
            DeviceError::Unsupported { .. } => "E0722",
            DeviceError::NoDriver { .. } => "E0730",
            DeviceError::NoDevice { .. } => "E0731",
            DeviceError::Target { .. } => "E0732",
            DeviceError::Module { .. } => "E0733",
            DeviceError::Launch { .. } => "E0734",
            DeviceError::Fault { .. } => "E0735",
            DeviceError::Driver { .. } => "E0736",
            DeviceError::Simulator(error) => error.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            DeviceError::OutOfMemory { .. } | DeviceError::NoMemoryFor { .. } => {
                "use smaller shapes, or a device with more free memory"
            }
            DeviceError::Access { .. } => "report this as an error of tenon, with the launch plan",
            DeviceError::Unsupported { .. } => "build the model for a target that the device can run",
            DeviceError::NoDriver { .. } => {
                "install the driver of the GPU, or leave out --device: the simulator runs the same PTX"
            }
            DeviceError::NoDevice { .. } => "name a device that there is: `nvidia-smi -L` lists them",
            DeviceError::Target { .. } => {
                "compile for the device's architecture with --target, or run on another device"
            }
            DeviceError::Module { .. } => {
                "update the driver if it is older than the PTX version; else report this as an error of tenon, with the PTX"
            }
            DeviceError::Launch { .. } => "compile for the device's architecture with --target",
            DeviceError::Fault { .. } => {
                "run again with CUDA_LAUNCH_BLOCKING=1 to see which step fails, or with --device sim, which checks every access"
            }
            DeviceError::Driver { .. } => {
                "see what the driver says of the error; `nvidia-smi` shows the state of the device"
            }
            DeviceError::Simulator(error) => return error.help(),
        };
        Some(text.to_owned())
    }
}

/// A log below a message, each line indented; nothing for an empty one.
fn indented(log: &str) -> String {
    log.lines()
        .map(|line| line.trim_end())
        .filter(|line| !line.is_empty())
        .map(|line| format!("\n    {line}"))
        .collect()
}
