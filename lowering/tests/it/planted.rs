//! Faults planted in PTX that is right: the embedded device names each.

use tenon_layout::TileLayout;
use tenon_ptx_sim::{Device, Error, FaultKind, LaunchConfig, Module};
use tenon_tensor::DType;

use crate::kernels;
use crate::layouts::{self, Random};
use crate::support::{Compiled, compile};

/// The kinds of fault that the kernel ends in under several schedules, once `what` is struck out.
fn without(compiled: &Compiled, what: &str, input: usize, output: usize, extents: &[i64]) -> Vec<FaultKind> {
    let broken: String =
        compiled.ptx.lines().filter(|line| !line.trim_start().starts_with(what)).collect::<Vec<_>>().join("\n");
    assert_ne!(broken.lines().count(), compiled.ptx.lines().count(), "there is no {what}");
    let module = Module::parse(&broken).unwrap();
    let mut faults = Vec::new();
    for seed in 0..4 {
        let mut device = Device::new();
        let (p, q) = (device.allocate(input as u64).unwrap(), device.allocate(output as u64).unwrap());
        device.write(p, 0, &vec![1; input]).unwrap();
        let mut arguments = vec![p.into(), q.into()];
        arguments.extend(extents.iter().map(|extent| tenon_ptx_sim::Argument::I64(*extent)));
        let config = LaunchConfig {
            block: [compiled.info.threads, 1, 1],
            dynamic_shared_bytes: compiled.info.shared_bytes as u32,
            seed,
            ..LaunchConfig::default()
        };
        match device.launch(&module, &compiled.info.name, &config, &arguments) {
            Err(Error::Fault(fault)) => faults.push(fault.kind),
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
    }
    faults
}

#[test]
fn a_missing_barrier() {
    let mut random = Random(21);
    let (source, target) = (layouts::tile(&[16, 32], 4, &mut random), layouts::tile(&[16, 32], 4, &mut random));
    let shared = layouts::shared(&[16, 32], &mut random);
    let compiled = compile(&kernels::local(DType::F32, &source, &shared, &target));
    let faults = without(&compiled, "bar.sync", 2048, 2048, &[]);
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn a_missing_barrier_of_a_reduction() {
    let layout = TileLayout::contiguous(&[4, 256], &[1, 0], 4, 4).unwrap();
    let compiled = compile(&kernels::sum(DType::F32, &layout, 0));
    let faults = without(&compiled, "bar.sync", 4096, 1024, &[]);
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn a_missing_wait() {
    let compiled = compile(&kernels::async_copy(DType::F16, 8));
    let faults = without(&compiled, "cp.async.wait", 2048, 2048, &[1024]);
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn a_missing_mask() {
    // The extent says more than there is.
    let compiled = compile(&kernels::multiply_add(1));
    let module = Module::parse(&compiled.ptx).unwrap();
    let mut device = Device::new();
    let pointers = [0; 3].map(|_| device.allocate(400).unwrap());
    for p in pointers {
        device.write(p, 0, &[0; 400]).unwrap();
    }
    let mut arguments: Vec<tenon_ptx_sim::Argument> = pointers.map(Into::into).to_vec();
    arguments.push(tenon_ptx_sim::Argument::I64(101));
    let config = LaunchConfig { block: [128, 1, 1], ..LaunchConfig::default() };
    let error = device.launch(&module, "multiply_add", &config, &arguments).unwrap_err();
    assert!(matches!(error, Error::Fault(_)), "{error}");
}
