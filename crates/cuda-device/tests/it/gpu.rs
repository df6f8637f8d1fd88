//! The driver of this machine, where there is one.

use std::sync::Arc;

use tenon_cuda_device::CudaDevice;
use tenon_runtime::{Device, DeviceError};

use crate::plans::run_and_check;

#[test]
fn a_kernel_runs_on_the_gpu_of_this_machine() {
    match CudaDevice::open(0) {
        Err(DeviceError::NoDriver { message, .. }) => println!("skipped: no CUDA driver ({message})"),
        Err(DeviceError::NoDevice { message, .. }) => println!("skipped: no CUDA device ({message})"),
        Err(error) => panic!("{error}"),
        Ok(device) => {
            let device = Arc::new(device);
            if device.check_target("sm_80").is_err() {
                println!("skipped: {:?} does not run sm_80", device.capability());
                return;
            }
            run_and_check(device.clone(), 128).unwrap();
            run_and_check(device, 64 << 10).unwrap();
        }
    }
}
