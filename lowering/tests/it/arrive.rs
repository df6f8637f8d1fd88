//! Blocks that count each other: the last one to arrive reads what all wrote.

use tenon_ptx_sim::{Argument, Device, Error, FaultKind, LaunchConfig, Module};

use crate::kernels;
use crate::support::{Compiled, assemble, compile};

const BLOCKS: u32 = 6;

/// Two launches of [`kernels::arrive`] on one device, whose counter is set before the first alone; the sums.
fn run(compiled: &Compiled, ptx: &str, seed: u64, threads: usize) -> Result<Vec<Vec<u8>>, Error> {
    let module = Module::parse(ptx).unwrap();
    let mut device = Device::new();
    let elements = 128 * BLOCKS as usize;
    let [input, output, partial, counters] =
        [4 * elements, 512, 4 * elements, 4].map(|bytes| device.allocate(bytes as u64).unwrap());
    // Sums of these depend on their order.
    let values: Vec<u8> = (0..elements).flat_map(|i| (1.0e6f32 / (1 + i * i % 977) as f32).to_le_bytes()).collect();
    device.write(input, 0, &values).unwrap();
    device.write(counters, 0, &[0; 4]).unwrap();
    let config = LaunchConfig {
        grid: [BLOCKS, 1, 1],
        block: [compiled.info.threads, 1, 1],
        dynamic_shared_bytes: compiled.info.shared_bytes as u32,
        seed,
        threads,
        ..LaunchConfig::default()
    };
    let mut results = Vec::new();
    for _ in 0..2 {
        let arguments = [input, output, partial, counters].map(Argument::from);
        device.launch(&module, &compiled.info.name, &config, &arguments)?;
        assert_eq!(device.read(counters, 0, 4).unwrap(), [0; 4], "the counter is not back at 0");
        results.push(device.read(output, 0, 512).unwrap());
    }
    Ok(results)
}

#[test]
fn the_last_block_adds_in_the_order_of_blocks() {
    let compiled = compile(&kernels::arrive(BLOCKS));
    assemble("arrive", &compiled.ptx, "sm_80");
    let expected: Vec<u8> = (0..128)
        .map(|i| {
            (0..BLOCKS as usize)
                .fold(0.0, |sum, block| sum + 1.0e6f32 / (1 + (128 * block + i) * (128 * block + i) % 977) as f32)
        })
        .flat_map(f32::to_le_bytes)
        .collect();
    for seed in 0..8 {
        for threads in [1, 4] {
            for got in run(&compiled, &compiled.ptx, seed, threads).unwrap() {
                assert!(got == expected, "seed {seed}");
            }
        }
    }
}

/// What orders the blocks is all there: without any part of it, every schedule shows a race, in global memory or of the cell that hands the count on.
#[test]
fn nothing_of_the_order_can_be_left_out() {
    let compiled = compile(&kernels::arrive(BLOCKS));
    let ptx = &compiled.ptx;
    let barriers: Vec<_> = ptx.match_indices("bar.sync").map(|(at, _)| at).collect();
    let atomic = ptx.find("atom.acq_rel.gpu").unwrap();
    let before = barriers.iter().copied().rfind(|at| *at < atomic).unwrap();
    let after = barriers.iter().copied().find(|at| *at > atomic).unwrap();
    let without = |at: usize| format!("{}//{}", &ptx[..at], &ptx[at..]);
    let with = |semantics: &str| ptx.replace("atom.acq_rel.gpu", semantics);
    for (broken, kinds) in [
        (with("atom.relaxed.gpu"), &[FaultKind::RaceGlobal][..]),
        (with("atom.acquire.gpu"), &[FaultKind::RaceGlobal]),
        (with("atom.release.gpu"), &[FaultKind::RaceGlobal]),
        (with("atom.acq_rel.cta"), &[FaultKind::RaceGlobal]),
        (without(before), &[FaultKind::RaceGlobal]),
        (without(after), &[FaultKind::RaceShared, FaultKind::UninitialisedShared]),
    ] {
        for seed in 0..4 {
            match run(&compiled, &broken, seed, 1) {
                Err(Error::Fault(fault)) => assert!(kinds.contains(&fault.kind), "{fault}\n{broken}"),
                other => panic!("{other:?}\n{broken}"),
            }
        }
    }
}
