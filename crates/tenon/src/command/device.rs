//! Devices by the names that `--device` takes.

use std::sync::Arc;

use tenon_runtime::{Device, SimulatorDevice, SimulatorOptions};

use crate::{Diagnostic, Failure};

/// A device as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceName {
    /// `sim`.
    Simulator,
    /// `cuda` or `cuda:N`: a GPU by the driver's number.
    Cuda(u32),
}

impl DeviceName {
    /// Reads a name; `cuda` is `cuda:0`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match text.split_once(':') {
            None if text == "sim" => Ok(DeviceName::Simulator),
            None if text == "cuda" => Ok(DeviceName::Cuda(0)),
            Some(("cuda", text)) => number(text).map(DeviceName::Cuda).ok_or(()),
            _ => Err(()),
        }
        .map_err(|()| "expected sim or cuda[:N]".to_owned())
    }

    /// Refuses options that only the simulator has, each with whether it is given.
    pub(super) fn check_options(self, options: &[(&str, bool)]) -> Result<(), Failure> {
        match (self, options.iter().find(|(_, given)| *given)) {
            (DeviceName::Cuda(_), Some((option, _))) => {
                let message = format!("{option} is an option of the simulator; a GPU has none");
                Err(Diagnostic::new("E0039", message).with_help("leave it out, or run with --device sim").into())
            }
            _ => Ok(()),
        }
    }

    /// Opens the device.
    pub(super) fn open(self, options: SimulatorOptions) -> Result<Arc<dyn Device>, Failure> {
        match self {
            DeviceName::Simulator => Ok(Arc::new(SimulatorDevice::new(options))),
            DeviceName::Cuda(number) => open_cuda(number),
        }
    }

    /// The device for messages: `sim`, `cuda:0 (NVIDIA A100-SXM4-80GB)`.
    pub(super) fn describe(self, device: &dyn Device) -> String {
        match self {
            DeviceName::Simulator => "sim".to_owned(),
            DeviceName::Cuda(_) => device.name(),
        }
    }
}

#[cfg(feature = "cuda")]
fn open_cuda(number: u32) -> Result<Arc<dyn Device>, Failure> {
    Ok(Arc::new(tenon_cuda_device::CudaDevice::open(number).map_err(tenon_runtime::RuntimeError::from)?))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(number: u32) -> Result<Arc<dyn Device>, Failure> {
    let message = format!("cuda:{number}: this program was built without its feature `cuda`");
    let help = "build it with the feature, or leave out --device: the simulator runs the same PTX";
    Err(Diagnostic::new("E0035", message).with_help(help).into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        assert_eq!(DeviceName::parse("sim"), Ok(DeviceName::Simulator));
        assert_eq!(DeviceName::parse("cuda"), Ok(DeviceName::Cuda(0)));
        assert_eq!(DeviceName::parse("cuda:3"), Ok(DeviceName::Cuda(3)));
        for wrong in ["", "sim:0", "cuda:", "cuda:x", "cuda:+1", "cuda:4294967296", "CUDA", "tpu"] {
            assert!(DeviceName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
