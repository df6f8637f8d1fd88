//! The device trait, call by call.

use std::sync::Arc;

use tenon_runtime::device::{Allocation, Device, DeviceError, KernelArgument, KernelLaunch, ModuleHandle, Stream};

use crate::child::with_driver;
use crate::plans::{PTX, open};

#[test]
fn the_device_checks_what_it_is_given() {
    fn run() {
        let device: Arc<dyn Device> = open();
        let stream = Stream::default();
        let memory = Allocation::new(&device, 64).unwrap();
        let pointer = memory.pointer();
        let access = |result: Result<(), DeviceError>| assert_eq!(result.unwrap_err().code(), "E0721");
        access(device.upload(pointer.offset(57), &[1; 8], stream));
        access(device.download(pointer, &mut [0; 65], stream));
        access(device.memset(pointer, 0, 65, stream));
        access(device.copy(pointer, pointer.offset(4), 8, stream));
        access(device.copy(pointer, pointer.offset(60), 8, stream));
        access(device.free(pointer.offset(1)));
        access(device.unload_module(ModuleHandle(9)));
        access(device.wait_event(9, stream));
        let module = device.load_module(PTX).unwrap();
        assert_eq!(device.kernel(module, "gelu").unwrap(), None);
        assert_eq!(device.kernel(module, "no\0name").unwrap(), None);
        let kernel = device.kernel(module, "fill").unwrap().unwrap();
        assert_eq!(device.kernel(module, "fill").unwrap(), Some(kernel));
        let arguments = [KernelArgument::Pointer(pointer), KernelArgument::I64(-5)];
        let mut launch = KernelLaunch {
            kernel,
            grid: [1; 3],
            block: [2, 1, 1],
            dynamic_shared_bytes: 0,
            cluster: Some([1; 3]),
            arguments: &arguments,
        };
        device.memset(pointer, 1, 64, stream).unwrap();
        // Another stream waits for the fill.
        device.record_event(4, stream).unwrap();
        device.wait_event(4, Stream(2)).unwrap();
        assert!(device.launch(&launch, Stream(2)).unwrap().is_none());
        device.synchronize().unwrap();
        launch.cluster = Some([2, 1, 1]);
        assert_eq!(device.launch(&launch, stream).unwrap_err().code(), "E0722");
        launch.cluster = None;
        launch.kernel.entry = 7;
        access(device.launch(&launch, stream).map(drop));
        launch.kernel.entry = kernel.entry;
        device.unload_module(module).unwrap();
        access(device.launch(&launch, stream).map(drop));
        access(device.kernel(module, "fill").map(drop));
        let mut bytes = [0; 24];
        device.download(pointer, &mut bytes, stream).unwrap();
        assert_eq!(bytes[..16], [[0xfb, 255, 255, 255, 255, 255, 255, 255]; 2].concat());
        assert_eq!(bytes[16..], [1; 8]);
        // Nothing has an address, and nothing can be moved to and from it.
        let nothing = Allocation::new(&device, 0).unwrap();
        device.upload(nothing.pointer(), &[], stream).unwrap();
        device.download(nothing.pointer(), &mut [], stream).unwrap();
        device.copy(nothing.pointer(), pointer, 0, stream).unwrap();
        device.memset(nothing.pointer(), 0, 0, stream).unwrap();
        access(device.memset(nothing.pointer(), 0, 1, stream));
    }
    let Some(log) = with_driver("device::the_device_checks_what_it_is_given", "", run) else { return };
    log.assert_right();
    assert_eq!((log.count("cuMemAlloc_v2"), log.count("cuStreamCreate")), (2, 2));
}
