//! Every failure of the driver ends in a coded error, and nothing is left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_cuda_device::CudaDevice;
use tenon_fake_cuda_driver::settings::SETTINGS;
use tenon_runtime::plan::{Argument, Operation};
use tenon_runtime::*;

use crate::child::{Log, run};
use crate::plans::*;

/// Variable with what the child is to expect: a code, and texts that the message holds, divided by `|`.
const EXPECTED: &str = "TENON_CUDA_EXPECTED";

fn check(error: &RuntimeError) {
    let expected = std::env::var(EXPECTED).unwrap();
    let mut expected = expected.split('|');
    let message = error.to_string();
    assert_eq!(Some(error.code()), expected.next(), "{message}");
    for text in expected {
        assert!(message.contains(text), "`{message}` has no `{text}`");
    }
    assert!(error.help().is_some());
}

/// Runs `body` under the fake driver with some settings; it must check the error that it gets.
fn fails(test: &str, settings: &str, expected: &str, body: fn()) -> Option<Log> {
    let environment = [(SETTINGS, settings), (EXPECTED, expected)];
    run(test, &environment, body, |folder| tenon_fake_cuda_driver::install(folder).unwrap())
}

/// Opens the device and runs the plan with much shared memory.
fn open_and_run() {
    let error = match CudaDevice::open(0) {
        Err(error) => RuntimeError::from(error),
        Ok(device) => run_and_check(Arc::new(device), 100_000).unwrap_err(),
    };
    check(&error);
}

#[test]
fn each_call_that_fails_is_a_coded_error() {
    let name = "failures::each_call_that_fails_is_a_coded_error";
    let unknown = "CUDA_ERROR_UNKNOWN (unknown error)";
    for (call, number, code, text) in [
        ("cuInit", 1, "E0730", "the driver does not start"),
        ("cuDeviceGetCount", 1, "E0736", "cuDeviceGetCount failed"),
        ("cuDeviceGet", 1, "E0736", "cuDeviceGet failed"),
        ("cuDeviceGetName", 1, "E0736", "cuDeviceGetName failed"),
        ("cuDeviceGetAttribute", 3, "E0736", "cuDeviceGetAttribute failed"),
        ("cuDevicePrimaryCtxRetain", 1, "E0736", "cuDevicePrimaryCtxRetain failed"),
        ("cuCtxSetCurrent", 1, "E0736", "cuCtxSetCurrent failed"),
        ("cuStreamCreate", 1, "E0736", "cuda:0 (Simulated GPU): cuStreamCreate failed"),
        ("cuMemAlloc_v2", 1, "E0736", "cuMemAlloc_v2 failed"),
        ("cuMemAlloc_v2", 4, "E0736", "cuMemAlloc_v2 failed"),
        ("cuMemcpyHtoDAsync_v2", 1, "E0736", "cuMemcpyHtoDAsync_v2 failed"),
        ("cuStreamSynchronize", 1, "E0736", "cuStreamSynchronize failed"),
        ("cuModuleLoadDataEx", 1, "E0733", "does not take the PTX"),
        ("cuModuleGetFunction", 2, "E0733", "does not take the PTX"),
        ("cuFuncGetAttribute", 2, "E0736", "cuFuncGetAttribute failed"),
        ("cuFuncSetAttribute", 1, "E0734", "step 0 (transpose): cuda:0 (Simulated GPU) cannot launch `transpose`"),
        ("cuLaunchKernel", 2, "E0734", "step 4 (fill): cuda:0 (Simulated GPU) cannot launch `fill`"),
        ("cuEventCreate", 1, "E0736", "step 1 (event): cuda:0 (Simulated GPU): cuEventCreate failed"),
        ("cuEventRecord", 2, "E0736", "step 1 (event)"),
        ("cuStreamWaitEvent", 1, "E0736", "step 2 (wait)"),
        ("cuMemcpyDtoDAsync_v2", 1, "E0736", "step 3 (copy)"),
        ("cuMemsetD8Async", 2, "E0736", "step 5 (memset)"),
        ("cuCtxSynchronize", 1, "E0736", "cuCtxSynchronize failed"),
        ("cuMemcpyDtoHAsync_v2", 3, "E0736", "cuMemcpyDtoHAsync_v2 failed"),
    ] {
        let settings = format!("fail={call}:{number}:999");
        let Some(log) = fails(name, &settings, &format!("{code}|{text}|{unknown}"), open_and_run) else { return };
        log.assert_right();
        assert!(log.lines(call).any(|line| line.ends_with(" -> 999")), "{call} was not called: {}", log.text);
        let (retained, released) = (
            log.text.contains("cuDevicePrimaryCtxRetain device=0 -> 0"),
            log.count("cuDevicePrimaryCtxRelease_v2") == 1,
        );
        assert_eq!(retained, released, "{}", log.text);
    }
}

#[test]
fn each_call_for_streams_that_fails_is_a_coded_error() {
    fn body() {
        let ran = Instance::new(open(), executable(plan_with_streams(), PTX)).and_then(check_values);
        check(&ran.unwrap_err());
    }
    let name = "failures::each_call_for_streams_that_fails_is_a_coded_error";
    for (call, number, text) in [
        ("cuMemHostAlloc", 1, "cuMemHostAlloc failed"),
        ("cuMemHostGetDevicePointer_v2", 1, "cuMemHostGetDevicePointer_v2 failed"),
        ("cuStreamCreate", 2, "step 2 (wait): cuda:0 (Simulated GPU): cuStreamCreate failed"),
        ("cuStreamCreate", 3, "step 5 (wait): cuda:0 (Simulated GPU): cuStreamCreate failed"),
        ("cuEventRecord", 2, "step 4 (event)"),
        ("cuStreamWaitEvent", 3, "step 10 (wait)"),
        ("cuMemcpyDtoHAsync_v2", 1, "step 3 (copy)"),
        ("cuMemcpyHtoDAsync_v2", 3, "step 6 (copy)"),
    ] {
        let settings = format!("fail={call}:{number}:999");
        let Some(log) = fails(name, &settings, &format!("E0736|{text}|CUDA_ERROR_UNKNOWN"), body) else { return };
        log.assert_right();
        assert_eq!(log.count("cuDevicePrimaryCtxRelease_v2"), 1, "{}", log.text);
    }
    let expected = "E0720|cuda:0 (Simulated GPU) has not enough memory for cuMemHostAlloc";
    let Some(log) = fails(name, "fail=cuMemHostAlloc:1:2", expected, body) else { return };
    log.assert_right();
}

#[test]
fn failures_while_giving_back_change_nothing() {
    let name = "failures::failures_while_giving_back_change_nothing";
    let all = [
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuModuleUnload",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuDevicePrimaryCtxRelease_v2",
    ];
    for call in all {
        let environment = [(SETTINGS, format!("fail={call}:0:999"))];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        let body = || check_values(Instance::new(open(), executable(plan_with_streams(), PTX)).unwrap()).unwrap();
        let Some(log) = run(name, &environment, body, |folder| tenon_fake_cuda_driver::install(folder).unwrap()) else {
            return;
        };
        // What could not be given back is left, and nothing worse has happened.
        let wrong: Vec<_> = log.text.lines().filter(|line| line.starts_with("WRONG")).collect();
        assert!(wrong.iter().all(|line| line.contains("left: ")), "{}", log.text);
        assert!(log.lines(call).any(|line| line.ends_with(" -> 999")));
    }
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let name = "failures::devices_that_are_not_there_are_refused";
    let open = || check(&CudaDevice::open(3).map(drop).unwrap_err().into());
    for (settings, message) in [
        ("devices=0", "E0731|cuda:3: the driver has no device"),
        ("devices=1", "E0731|cuda:3: the driver has one device, cuda:0"),
        ("devices=3", "E0731|cuda:3: the driver has 3 devices, cuda:0 to cuda:2"),
        ("fail=cuInit:1:100", "E0731|cuda:3: the driver has no device"),
        (
            "devices=4;fail=cuInit:1:803",
            "E0730|the driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has",
        ),
        // A result that the driver has no name for.
        ("devices=4;fail=cuDevicePrimaryCtxRetain:1:12345", "E0736|cuDevicePrimaryCtxRetain failed: CUDA error 12345"),
        ("devices=4;fail=cuDevicePrimaryCtxRetain:1:46", "E0736|CUDA_ERROR_DEVICE_UNAVAILABLE"),
        (
            "devices=4;fail=cuDevicePrimaryCtxRetain:1:2",
            "E0720|cuda:3 has not enough memory for cuDevicePrimaryCtxRetain",
        ),
    ] {
        let Some(log) = fails(name, settings, message, open) else { return };
        log.assert_right();
    }
}

#[test]
fn a_library_that_is_no_driver_is_refused() {
    let name = "failures::a_library_that_is_no_driver_is_refused";
    let open = || check(&CudaDevice::open(0).map(drop).unwrap_err().into());
    let expected = [(EXPECTED, "E0730|cuda:0: the library of the driver has no `cuInit`")];
    let none = |folder: &Path| {
        std::fs::copy(some_library(), folder.join("libcuda.so")).unwrap();
    };
    run(name, &expected, open, none);
}

#[test]
fn without_a_driver_opening_a_device_is_refused() {
    let open = || match CudaDevice::open(0) {
        Err(error @ DeviceError::NoDriver { .. }) => check(&error.into()),
        // The loader goes on to the driver of this machine.
        _ => println!("skipped: this machine has a driver"),
    };
    let name = "failures::without_a_driver_opening_a_device_is_refused";
    let expected =
        [(EXPECTED, "E0730|cuda:0: no NVIDIA driver is installed: its library, libcuda.so.1, cannot be loaded")];
    // Files that are no libraries are passed over.
    run(name, &expected, open, |folder| {
        for name in ["libcuda.so", "libcuda.so.1"] {
            std::fs::write(folder.join(name), "no library").unwrap();
        }
    });
}

/// A shared library of this machine that is not the driver's.
fn some_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let found = paths.into_iter().find(|path| path.contains("libgcc_s") || path.contains("libm."));
    found.expect("the test program uses libgcc or libm").into()
}

#[test]
fn too_little_memory_is_refused_with_its_numbers() {
    let name = "failures::too_little_memory_is_refused_with_its_numbers";
    // The weight takes 4 bytes, the input 468; the first output wants as many.
    let expected = "E0720|cuda:0 (Simulated GPU) has no 468 bytes left: 472 of 939 are in use";
    let Some(log) = fails(name, "memory=939", expected, open_and_run) else { return };
    log.assert_right();
}

#[test]
fn ptx_of_another_architecture_is_refused_before_the_driver_sees_it() {
    let name = "failures::ptx_of_another_architecture_is_refused_before_the_driver_sees_it";
    fn body() {
        let device: Arc<dyn Device> = open();
        let target = std::env::var("TENON_CUDA_TARGET").unwrap();
        check(&device.load_module(&PTX.replace("sm_80", &target)).unwrap_err().into());
    }
    for (settings, target, expected) in [
        (
            "capability=8.0",
            "sm_90a",
            "E0732|the PTX is for sm_90a, which runs on compute capability 9.0 alone; cuda:0 (Simulated GPU) has compute capability 8.0",
        ),
        ("capability=12.0", "sm_90a", "E0732|alone"),
        ("capability=7.5", "sm_80", "E0732|sm_80, which runs on compute capability 8.0 and newer"),
        ("capability=12.1", "sm_120a", "E0732|sm_120a"),
        ("capability=9.0", "sm_120f", "E0732|12.0 and its family"),
        ("capability=9.0", "compute_90", "E0733|`compute_90` is no name of an architecture"),
        ("capability=9.0", "sm_90b", "E0733|`sm_90b` is no name of an architecture"),
    ] {
        let environment = [(SETTINGS, settings), (EXPECTED, expected), ("TENON_CUDA_TARGET", target)];
        let Some(log) = run(name, &environment, body, |folder| tenon_fake_cuda_driver::install(folder).unwrap()) else {
            return;
        };
        log.assert_right();
        assert_eq!(log.count("cuModuleLoadDataEx"), 0);
    }
}

#[test]
fn ptx_that_the_driver_refuses_comes_with_its_log() {
    let name = "failures::ptx_that_the_driver_refuses_comes_with_its_log";
    fn body() {
        let device: Arc<dyn Device> = open();
        let text = match std::env::var("TENON_CUDA_CHANGE").unwrap().as_str() {
            "none" => PTX.to_owned(),
            "nul" => format!("{PTX}\0"),
            "entry" => PTX.replace(".param .u64 n)", ".param .u64)"),
            _ => PTX.replace("st.shared", "st.shredded"),
        };
        check(&device.load_module(&text).unwrap_err().into());
    }
    for (settings, change, expected) in [
        (
            "",
            "instruction",
            "E0733|CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed)\n    ptxas fatal   : |st.shredded",
        ),
        ("ptx=6.9", "none", "E0733|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|\n    ptxas fatal   : Unsupported .version 7.0"),
        // The compiler of a real driver may be missing.
        ("fail=cuModuleLoadDataEx:1:221", "none", "E0733|CUDA error 221"),
        (
            "fail=cuModuleLoadDataEx:1:2",
            "none",
            "E0720|cuda:0 (Simulated GPU) has not enough memory for cuModuleLoadDataEx",
        ),
        ("", "nul", "E0733|the text holds a NUL"),
        ("", "entry", "E0733|entry `fill`: `)` in a parameter"),
    ] {
        let environment = [(SETTINGS, settings), (EXPECTED, expected), ("TENON_CUDA_CHANGE", change)];
        let Some(log) = run(name, &environment, body, |folder| tenon_fake_cuda_driver::install(folder).unwrap()) else {
            return;
        };
        log.assert_right();
        assert_eq!(log.count("cuModuleUnload"), 0);
    }
}

#[test]
fn launches_that_the_device_cannot_do_are_refused() {
    let name = "failures::launches_that_the_device_cannot_do_are_refused";
    for (settings, expected, calls) in [
        (
            "threads=31",
            "E0734|step 0 (transpose): |cannot launch `transpose`: a block of 32 threads; its registers allow 31",
            0,
        ),
        ("shared=99999", "E0734|100000 bytes of shared memory (0 declared, 100000 dynamic); a block can have 99999", 0),
        (
            "fail=cuLaunchKernel:1:701",
            "E0734|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources requested for launch)",
            1,
        ),
    ] {
        let Some(log) = fails(name, settings, expected, open_and_run) else { return };
        log.assert_right();
        assert_eq!(log.count("cuLaunchKernel"), calls);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let name = "failures::arguments_that_do_not_fit_are_refused";
    fn body() {
        let mut wrong = plan(128);
        if let Operation::Launch(launch) = &mut wrong.steps[4].operation {
            launch.arguments.push(Argument::Extent(1.into()));
        }
        let mut instance = Instance::new(open(), executable(wrong, PTX)).unwrap();
        check(&instance.run(&[x(2, 5)]).unwrap_err());
    }
    let expected = "E0734|step 4 (fill)|its parameters are 8, 8 bytes, the arguments are 8, 8, 8 bytes";
    let Some(log) = fails(name, "", expected, body) else { return };
    log.assert_right();
    assert_eq!(log.count("cuLaunchKernel"), 1);
}

#[test]
fn a_kernel_that_fails_stops_the_device_for_good() {
    let name = "failures::a_kernel_that_fails_stops_the_device_for_good";
    fn body() {
        let device = open();
        let mut wrong = plan(128);
        wrong.steps.push(launch("beyond", 1.into(), 1, 0, vec![Argument::Input(0), Argument::Output(0)]));
        let mut instance = Instance::new(device.clone(), executable(wrong, PTX)).unwrap();
        let error = instance.run(&[x(2, 5)]).unwrap_err();
        check(&error);
        assert!(error.help().unwrap().contains("CUDA_LAUNCH_BLOCKING=1"));
        // From now on nothing is asked of the driver.
        check(&instance.run(&[x(2, 5)]).unwrap_err());
        check(&run_and_check(device.clone(), 128).unwrap_err());
        check(&device.load_module(PTX).unwrap_err().into());
        check(&device.synchronize().unwrap_err().into());
    }
    let expected =
        "E0735|cuda:0 (Simulated GPU): a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access";
    let Some(log) = fails(name, "", expected, body) else { return };
    log.assert_right();
    assert_eq!(
        (log.count("FAULT"), log.count("cuModuleLoadDataEx"), log.count("cuCtxSynchronize")),
        (1, 1, 2),
        "{}",
        log.text
    );
}
