//! Plans that run, and what the driver is asked for on the way.

use std::sync::Arc;

use tenon_runtime::*;

use crate::child::with_driver;
use crate::plans::*;

#[test]
fn a_plan_runs_and_everything_is_given_back() {
    let run = || run_and_check(open(), 128).unwrap();
    let Some(log) = with_driver("running::a_plan_runs_and_everything_is_given_back", "", run) else { return };
    log.assert_right();
    // Grids by extents: 9 * 13 elements are 4 blocks of 32, 2 * 5 are one.
    let launches: Vec<_> = log.lines("cuLaunchKernel").collect();
    assert_eq!(
        launches,
        [
            "cuLaunchKernel grid=[4, 1, 1] block=[32, 1, 1] shared=128 -> 0",
            "cuLaunchKernel grid=[1, 1, 1] block=[3, 1, 1] shared=0 -> 0",
            "cuLaunchKernel grid=[1, 1, 1] block=[32, 1, 1] shared=128 -> 0",
            "cuLaunchKernel grid=[1, 1, 1] block=[3, 1, 1] shared=0 -> 0",
        ]
    );
    // The weight once, and the input in each run, by its extents.
    let uploads: Vec<_> = log.lines("cuMemcpyHtoDAsync_v2").filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(uploads, ["bytes=4", "bytes=468", "bytes=40"]);
    let copies: Vec<_> = log.lines("cuMemcpyDtoDAsync_v2").filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(copies, ["bytes=468", "bytes=40"]);
    // Weight, input, three outputs and the arena.
    assert_eq!((log.count("cuMemAlloc_v2"), log.count("cuMemFree_v2")), (6, 6));
    assert_eq!((log.count("cuModuleLoadDataEx"), log.count("cuModuleUnload")), (1, 1));
    assert_eq!((log.count("cuStreamCreate"), log.count("cuStreamDestroy_v2")), (1, 1));
    assert_eq!((log.count("cuEventCreate"), log.count("cuEventRecord"), log.count("cuStreamWaitEvent")), (1, 2, 2));
    assert_eq!((log.count("cuFuncSetAttribute"), log.count("cuDevicePrimaryCtxRelease_v2")), (0, 1));
}

#[test]
fn more_than_48_kibibytes_of_shared_memory_are_asked_for_once() {
    let run = || run_and_check(open(), 100_000).unwrap();
    let name = "running::more_than_48_kibibytes_of_shared_memory_are_asked_for_once";
    let Some(log) = with_driver(name, "", run) else { return };
    log.assert_right();
    assert_eq!(log.count("cuFuncSetAttribute"), 1);
    assert!(log.text.contains(" attribute=8 value=100000 -> 0"), "{}", log.text);
}

#[test]
fn threads_share_a_device() {
    fn run() {
        let device = open();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let device: Arc<dyn Device> = device.clone();
                scope.spawn(move || run_and_check(device, 128).unwrap());
            }
        });
        // The last owner drops it on a thread that may never have called it.
        std::thread::spawn(move || drop(device)).join().unwrap();
    }
    let Some(log) = with_driver("running::threads_share_a_device", "", run) else { return };
    log.assert_right();
    assert_eq!(log.count("cuLaunchKernel"), 16);
}

#[test]
fn newer_devices_run_older_ptx() {
    let run = || {
        let device = open();
        assert_eq!((device.name().as_str(), device.capability()), ("cuda:0 (Simulated GPU)", (12, 1)));
        assert!(device.check_target("sm_120f").is_ok());
        run_and_check(device, 128).unwrap();
    };
    let Some(log) = with_driver("running::newer_devices_run_older_ptx", "capability=12.1", run) else { return };
    log.assert_right();
}

#[test]
fn streams_wait_for_each_other_by_events() {
    let run = || check_values(Instance::new(open(), executable(plan_with_streams(), PTX)).unwrap()).unwrap();
    let Some(log) = with_driver("running::streams_wait_for_each_other_by_events", "", run) else { return };
    log.assert_right();
    let field = |line: &str, name: &str| {
        let start = format!("{name}=");
        line.split(' ').find_map(|part| part.strip_prefix(start.as_str())).map(str::to_owned)
    };
    let streams = |call: &str, bytes: &str| -> Vec<String> {
        let lines = log.lines(call).filter(|line| field(line, "bytes").as_deref() == Some(bytes));
        lines.filter_map(|line| field(line, "stream")).collect()
    };
    // In both runs the buffer's 468 bytes go out and come back, each way on a stream of its own; the first run's input has as many.
    let (out, back) = (streams("cuMemcpyDtoHAsync_v2", "468"), streams("cuMemcpyHtoDAsync_v2", "468"));
    let first = &streams("cuMemcpyDtoDAsync_v2", "468")[0];
    let out: Vec<_> = out.iter().filter(|stream| *stream != first).collect();
    let back: Vec<_> = back.iter().filter(|stream| *stream != first).collect();
    assert_eq!((out.len(), back.len()), (2, 2), "{}", log.text);
    assert!(out[0] == out[1] && back[0] == back[1] && out[0] != back[0], "{}", log.text);
    // Each wait is for the event that was recorded before it on the other stream.
    let marks: Vec<_> = log
        .text
        .lines()
        .filter(|line| line.starts_with("cuEventRecord ") || line.starts_with("cuStreamWaitEvent "))
        .collect();
    let order: Vec<(Option<String>, Option<String>)> =
        marks.iter().take(6).map(|line| (field(line, "event"), field(line, "stream"))).collect();
    let expected_streams = [first, out[0], out[0], back[0], back[0], first];
    assert!(
        order.iter().zip(expected_streams).all(|((_, stream), expected)| stream.as_ref() == Some(expected)),
        "{marks:?}"
    );
    assert!(order[0].0 == order[1].0 && order[2].0 == order[3].0 && order[4].0 == order[5].0, "{marks:?}");
    assert_eq!((log.count("cuMemHostAlloc"), log.count("cuMemFreeHost")), (1, 1));
    assert_eq!((log.count("cuStreamCreate"), log.count("cuStreamDestroy_v2")), (3, 3));
    assert_eq!((log.count("cuEventCreate"), log.count("cuEventDestroy_v2")), (3, 3));
}
