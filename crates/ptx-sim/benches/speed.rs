//! How fast kernels run on one host thread with every check on: lane instructions and multiply-accumulates per second.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tenon_ptx_sim::{Argument, Counters, Device, LaunchConfig, Module};

const NULL: Argument = Argument::Pointer(0);

fn outside(name: &str) -> Option<String> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let root = std::env::var_os("TENON_SHARED").map_or_else(|| root.join("shared"), PathBuf::from);
    std::fs::read_to_string(root.join("ptx").join(name)).ok()
}

struct Case {
    module: Module,
    device: Device,
    entry: String,
    config: LaunchConfig,
    args: Vec<Argument>,
}

impl Case {
    fn new(source: &str, grid: [u32; 3], shared: u32, buffers: &[u64], rest: Vec<Argument>) -> Case {
        let module = Module::parse(source).unwrap();
        let mut device = Device::new();
        let mut args: Vec<Argument> = buffers
            .iter()
            .map(|&bytes| {
                let p = device.allocate(bytes).unwrap();
                // Small positive numbers in either width.
                device.write(p, 0, &vec![0x2c; bytes as usize]).unwrap();
                Argument::from(p)
            })
            .collect();
        args.extend(rest);
        let entry = module.entries().next().unwrap().name().to_owned();
        let config = LaunchConfig {
            grid,
            block: [128, 1, 1],
            dynamic_shared_bytes: shared,
            threads: 1,
            ..LaunchConfig::default()
        };
        Case { module, device, entry, config, args }
    }
    fn run(&mut self) -> Counters {
        self.device.launch(&self.module, &self.entry, &self.config, &self.args).unwrap()
    }
}

fn measure(c: &mut Criterion, name: &str, mut case: Case, work: fn(&Counters) -> u64) {
    let counters = case.run();
    let mut group = c.benchmark_group(name);
    group.sample_size(10).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(work(&counters)));
    group.bench_function("all checks", |b| b.iter(|| case.run()));
    group.finish();
}

fn speed(c: &mut Criterion) {
    let int = |v: i32| Argument::I32(v);
    if let Some(source) = outside("softmax_f32_1024.sm80.ptx") {
        let case = Case::new(&source, [512, 1, 1], 16, &[512 * 4096; 2], vec![int(1024), int(1024), NULL, NULL]);
        measure(c, "softmax, lane instructions", case, |c| c.lane_instructions);
    }
    if let Some(source) = outside("matmul_f32_ieee_64x64x32.sm80.ptx") {
        let n = 256i32;
        let rest = vec![int(n), int(n), int(n), int(n), int(n), int(n), NULL, NULL];
        let mut case = Case::new(&source, [16, 1, 1], 32768, &[256 * 256 * 4; 4], rest);
        case.args.swap(2, 3);
        measure(c, "f32 matmul, lane instructions", case, |c| c.lane_instructions);
    }
    let source = include_str!("../../../testdata/ptx/nvvm_gemm_f16_128x128x32.ptx");
    let n = 256i32;
    let rest = vec![NULL, int(n), int(n), int(n), int(n), int(n), int(n)];
    let case = Case::new(source, [2, 2, 1], 49152, &[256 * 256 * 2; 3], rest);
    measure(c, "mma.sync, multiply-accumulates", case, |c| c.mma_macs);
}

criterion_group!(benches, speed);
criterion_main!(benches);
