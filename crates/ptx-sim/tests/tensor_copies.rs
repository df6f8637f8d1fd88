//! Bulk copies and tensor copies against plain loops over coordinates.

use tenon_ptx_sim::{
    Argument, Device, Error, FaultKind, LaunchConfig, TensorElement, TensorFill, TensorMap, TensorMapConfig,
    TensorSwizzle,
};

use crate::support::{Bench, Numbers};

const BYTES: usize = 16 << 10;

fn head(parameters: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 s[{BYTES}];\n.shared .align 8 .b64 bar;\n\
         .visible .entry k({parameters}) {{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\nmov.u32 %r1, %tid.x;\n\
         setp.eq.u32 %p1, %r1, 0;\n"
    )
}

/// Thread 0 copies a box of `bytes` bytes in; 32 threads copy all of shared memory out, behind a fill of 0xee.
fn load_kernel(copy: &str, bytes: usize) -> String {
    format!(
        "{}ld.param.u64 %rd1, [out];\n@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\n\
         add.u32 %r2, %r2, %r3;\nmov.u32 %r4, 0;\n\
         $fill: st.shared.b32 [%r2], 0xeeeeeeee;\nadd.u32 %r2, %r2, 128;\nadd.u32 %r4, %r4, 128;\nsetp.lt.u32 %p2, %r4, {BYTES};\n\
         @%p2 bra $fill;\nfence.proxy.async;\nbar.sync 0;\n@!%p1 bra $wait;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};\n{copy}\n\
         $wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra $wait;\n\
         mov.u32 %r2, s;\nadd.u32 %r2, %r2, %r3;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\nmov.u32 %r4, 0;\n\
         $out: ld.shared.b32 %r5, [%r2];\nst.global.b32 [%rd1], %r5;\nadd.u32 %r2, %r2, 128;\nadd.s64 %rd1, %rd1, 128;\n\
         add.u32 %r4, %r4, 128;\nsetp.lt.u32 %p2, %r4, {BYTES};\n@%p2 bra $out;\nret;\n}}\n",
        head(".param .align 64 .b8 map[128], .param .u64 out, .param .u64 input")
    )
}

/// The threads fill shared memory from global memory; thread 0 copies out of it.
fn store_kernel(copy: &str) -> String {
    format!(
        "{}ld.param.u64 %rd1, [input];\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 2;\nadd.u32 %r2, %r2, %r3;\nmul.wide.u32 %rd2, %r1, 4;\n\
         add.s64 %rd1, %rd1, %rd2;\nmov.u32 %r4, 0;\n\
         $in: ld.global.b32 %r5, [%rd1];\nst.shared.b32 [%r2], %r5;\nadd.u32 %r2, %r2, 128;\nadd.s64 %rd1, %rd1, 128;\n\
         add.u32 %r4, %r4, 128;\nsetp.lt.u32 %p2, %r4, {BYTES};\n@%p2 bra $in;\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%p1 bra $end;\n{copy}\ncp.async.bulk.commit_group;\n\
         cp.async.bulk.wait_group.read 0;\n$end: ret;\n}}\n",
        head(".param .align 64 .b8 map[128], .param .u64 input")
    )
}

fn config(seed: u64) -> LaunchConfig {
    LaunchConfig { block: [32, 1, 1], seed, ..LaunchConfig::default() }
}

/// A tensor, a box in it, and where the box is taken.
struct Case {
    element: TensorElement,
    sizes: &'static [u32],
    boxed: &'static [u32],
    steps: &'static [u32],
    at: &'static [i32],
    swizzle: TensorSwizzle,
    fill: TensorFill,
}

impl Case {
    fn width(&self) -> usize {
        self.element.bytes() as usize
    }
    /// Bytes between elements of each dimension: rows are padded to multiples of 16.
    fn strides(&self) -> Vec<usize> {
        let mut strides = vec![self.width()];
        let mut next = (self.sizes[0] as usize * self.width()).next_multiple_of(16) + 16;
        for &size in &self.sizes[1..] {
            strides.push(next);
            next *= size as usize;
        }
        strides.push(next);
        strides
    }
    fn config(&self, address: u64) -> TensorMapConfig {
        TensorMapConfig {
            element: self.element,
            address,
            sizes: self.sizes.to_vec(),
            strides: self.strides()[1..self.sizes.len()].iter().map(|&s| s as u64).collect(),
            box_sizes: self.boxed.to_vec(),
            element_strides: self.steps.to_vec(),
            swizzle: self.swizzle,
            fill: self.fill,
        }
    }
    fn counts(&self) -> Vec<usize> {
        self.boxed.iter().zip(self.steps).map(|(&b, &s)| b.div_ceil(s) as usize).collect()
    }
    fn box_bytes(&self) -> usize {
        self.counts().iter().product::<usize>() * self.width()
    }
    /// For each element of the box its offset in shared memory, and that in the tensor if it lies inside.
    fn places(&self) -> Vec<(usize, Option<usize>)> {
        let counts = self.counts();
        let strides = self.strides();
        (0..counts.iter().product::<usize>())
            .map(|number| {
                let (mut rest, mut global) = (number, Some(0));
                for d in 0..counts.len() {
                    let coordinate = self.at[d] + (rest % counts[d]) as i32 * self.steps[d] as i32;
                    rest /= counts[d];
                    let inside = coordinate >= 0 && (coordinate as u32) < self.sizes[d];
                    global = global.filter(|_| inside).map(|g| g + coordinate as usize * strides[d]);
                }
                let linear = number * self.width();
                let pieces = match self.swizzle {
                    TensorSwizzle::None => 1,
                    TensorSwizzle::Bytes32 => 2,
                    TensorSwizzle::Bytes64 => 4,
                    TensorSwizzle::Bytes128 => 8,
                };
                (linear ^ linear / 128 % pieces * 16, global)
            })
            .collect()
    }
    fn coordinates(&self) -> String {
        let names: Vec<String> = (0..self.at.len()).map(|d| format!("%r{}", 10 + d)).collect();
        names.join(", ")
    }
    fn moves(&self) -> String {
        self.at.iter().enumerate().map(|(d, c)| format!("mov.b32 %r{}, {c};\n", 10 + d)).collect::<String>()
            + "mov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\n"
    }

    fn check(&self, seed: u64) {
        let total = *self.strides().last().unwrap();
        let mut numbers = Numbers::new(seed + 3);
        let tensor: Vec<u8> = (0..total).map(|_| numbers.bits() as u8).collect();
        let rank = self.sizes.len();
        // Load.
        let space = if seed & 1 == 0 { "shared::cta" } else { "shared::cluster" };
        let copy = format!(
            "{}cp.async.bulk.tensor.{rank}d.{space}.global.mbarrier::complete_tx::bytes [s], [%rd5, {{{}}}], [bar];",
            self.moves(),
            self.coordinates()
        );
        let mut b = Bench::new(&load_kernel(&copy, self.box_bytes()));
        let p = b.buffer(&tensor);
        let out = b.empty(BYTES);
        let map = TensorMap::encode(&self.config(p.address())).unwrap();
        b.launch("k", &config(seed), &[map.into(), out.into(), p.into()]).unwrap();
        let got = b.read(out, BYTES);
        let mut expected = vec![0xee; BYTES];
        let w = self.width();
        for (shared, global) in self.places() {
            let outside: &[u8] = match (self.fill, self.element) {
                (TensorFill::Zero, _) => &[0; 8],
                (_, TensorElement::F16 | TensorElement::Bf16) => &[0xff, 0x7f],
                _ => &[0xff, 0xff, 0xff, 0x7f],
            };
            let value = global.map_or(&outside[..w], |g| &tensor[g..g + w]);
            expected[shared..shared + w].copy_from_slice(value);
        }
        assert_eq!(got, expected);
        // Store.
        let copy = format!(
            "{}cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%rd5, {{{}}}], [s];",
            self.moves(),
            self.coordinates()
        );
        let mut b = Bench::new(&store_kernel(&copy));
        let image: Vec<u8> = (0..BYTES).map(|_| numbers.bits() as u8).collect();
        let (p, input) = (b.buffer(&tensor), b.buffer(&image));
        let map = TensorMap::encode(&self.config(p.address())).unwrap();
        b.launch("k", &config(seed), &[map.into(), input.into()]).unwrap();
        let mut expected = tensor;
        for (shared, global) in self.places() {
            if let Some(g) = global {
                expected[g..g + w].copy_from_slice(&image[shared..shared + w]);
            }
        }
        assert_eq!(b.read(p, expected.len()), expected);
    }
}

#[test]
fn boxes_of_every_rank() {
    use TensorElement as E;
    use TensorFill::{NotANumber, Zero};
    use TensorSwizzle as S;
    let cases = [
        Case { element: E::U8, sizes: &[100], boxed: &[64], steps: &[1], at: &[20], swizzle: S::None, fill: Zero },
        Case { element: E::U8, sizes: &[100], boxed: &[64], steps: &[1], at: &[70], swizzle: S::None, fill: Zero },
        Case {
            element: E::F16,
            sizes: &[64, 40],
            boxed: &[64, 40],
            steps: &[1; 2],
            at: &[0, 0],
            swizzle: S::Bytes128,
            fill: Zero,
        },
        Case {
            element: E::F16,
            sizes: &[70, 40],
            boxed: &[64, 16],
            steps: &[1; 2],
            at: &[-3, 30],
            swizzle: S::Bytes128,
            fill: NotANumber,
        },
        Case {
            element: E::Bf16,
            sizes: &[33, 9],
            boxed: &[32, 12],
            steps: &[1; 2],
            at: &[7, -2],
            swizzle: S::Bytes64,
            fill: NotANumber,
        },
        Case {
            element: E::F32,
            sizes: &[5, 9],
            boxed: &[8, 7],
            steps: &[1; 2],
            at: &[1, 1],
            swizzle: S::Bytes32,
            fill: NotANumber,
        },
        Case {
            element: E::U64,
            sizes: &[6, 5, 4],
            boxed: &[4, 3, 2],
            steps: &[1; 3],
            at: &[3, 3, 3],
            swizzle: S::None,
            fill: Zero,
        },
        Case {
            element: E::S32,
            sizes: &[8, 9, 10],
            boxed: &[8, 7, 5],
            steps: &[1, 3, 2],
            at: &[0, 1, 2],
            swizzle: S::None,
            fill: Zero,
        },
        Case {
            element: E::F16,
            sizes: &[16, 3, 4, 5],
            boxed: &[16, 2, 3, 4],
            steps: &[1; 4],
            at: &[0, 2, -1, 2],
            swizzle: S::Bytes32,
            fill: Zero,
        },
        Case {
            element: E::U16,
            sizes: &[8, 3, 3, 3, 3],
            boxed: &[8, 2, 2, 2, 2],
            steps: &[1; 5],
            at: &[-5, 1, 1, 2, 0],
            swizzle: S::None,
            fill: Zero,
        },
        Case {
            element: E::F64,
            sizes: &[4, 4],
            boxed: &[2, 2],
            steps: &[1; 2],
            at: &[100, -100],
            swizzle: S::None,
            fill: Zero,
        },
    ];
    for (number, case) in cases.iter().enumerate() {
        for seed in 0..2 {
            case.check(seed + 2 * number as u64);
        }
    }
}

#[test]
fn runs_of_bytes() {
    let copy = "ld.param.u64 %rd6, [input];\nmov.b32 %r9, 4096;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s+16], [%rd6+32], 4064, [bar];\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s+8192], [%rd6], %r9, [bar];";
    let data: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 251) as u8).collect();
    for seed in 0..4 {
        let mut b = Bench::new(&load_kernel(copy, 8160));
        let p = b.buffer(&data);
        let out = b.empty(BYTES);
        let unused = Argument::Bytes(vec![0; 128]);
        let counters = b.launch("k", &config(seed), &[unused, out.into(), p.into()]).unwrap();
        assert_eq!(counters.async_copy_bytes, 8160);
        let mut expected = vec![0xee; BYTES];
        expected[16..16 + 4064].copy_from_slice(&data[32..]);
        expected[8192..8192 + 4096].copy_from_slice(&data);
        assert_eq!(b.read(out, BYTES), expected);
    }
    let copy = "ld.param.u64 %rd6, [map];\ncp.async.bulk.global.shared::cta.bulk_group [%rd6+16], [s+64], 1024;";
    let mut b = Bench::new(&store_kernel(copy));
    let image: Vec<u8> = (0..BYTES).map(|i| (i * 13 % 255) as u8).collect();
    let (to, input) = (b.buffer(&[1; 1056]), b.buffer(&image));
    let mut address = vec![0; 128];
    address[..8].copy_from_slice(&to.address().to_le_bytes());
    b.launch("k", &config(0), &[Argument::Bytes(address), input.into()]).unwrap();
    let got = b.read(to, 1056);
    assert!(got[..16] == [1; 16] && got[16..1040] == image[64..1088] && got[1040..] == [1; 16]);
}

fn plain(address: u64) -> TensorMapConfig {
    TensorMapConfig {
        element: TensorElement::F16,
        address,
        sizes: vec![64, 64],
        strides: vec![128],
        box_sizes: vec![64, 8],
        element_strides: vec![1, 1],
        swizzle: TensorSwizzle::Bytes128,
        fill: TensorFill::Zero,
    }
}

#[test]
fn tensor_maps_that_do_not_fit_are_refused() {
    let good = plain(1 << 20);
    TensorMap::encode(&good).unwrap();
    let wrong = [
        TensorMapConfig { sizes: vec![], ..good.clone() },
        TensorMapConfig {
            sizes: vec![64; 6],
            strides: vec![128; 5],
            box_sizes: vec![1; 6],
            element_strides: vec![1; 6],
            ..good.clone()
        },
        TensorMapConfig { strides: vec![], ..good.clone() },
        TensorMapConfig { strides: vec![120], ..good.clone() },
        TensorMapConfig { strides: vec![1 << 40], ..good.clone() },
        TensorMapConfig { sizes: vec![64, 0], ..good.clone() },
        TensorMapConfig { address: 8, ..good.clone() },
        TensorMapConfig { address: 0, ..good.clone() },
        TensorMapConfig { box_sizes: vec![64, 257], ..good.clone() },
        TensorMapConfig { box_sizes: vec![64, 0], ..good.clone() },
        TensorMapConfig { box_sizes: vec![32, 8], ..good.clone() },
        TensorMapConfig { box_sizes: vec![65, 8], swizzle: TensorSwizzle::None, ..good.clone() },
        TensorMapConfig { element_strides: vec![1, 9], ..good.clone() },
        TensorMapConfig { element_strides: vec![2, 1], ..good.clone() },
        TensorMapConfig { element_strides: vec![1, 0], ..good.clone() },
        TensorMapConfig { element: TensorElement::U16, fill: TensorFill::NotANumber, ..good.clone() },
    ];
    for config in wrong {
        let error = TensorMap::encode(&config).unwrap_err();
        assert_eq!(error.code(), "E0806", "{config:?}");
        assert!(error.help().is_some());
    }
}

#[test]
fn copies_that_do_not_fit_are_faults() {
    let copy = |rank: u32, coordinates: &str, to: &str| {
        format!(
            "mov.b32 %r10, 0;\nmov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\n\
             cp.async.bulk.tensor.{rank}d.shared::cta.global.mbarrier::complete_tx::bytes [{to}], [%rd5, {{{coordinates}}}], [bar];"
        )
    };
    let fault = |source: &str, map: fn(u64) -> Argument| -> FaultKind {
        let mut b = Bench::new(source);
        let (p, out) = (b.buffer(&[0; 8192]), b.empty(BYTES));
        let error = b.launch("k", &config(1), &[map(p.address()), out.into(), p.into()]).unwrap_err();
        error.fault().unwrap_or_else(|| panic!("{error}")).kind
    };
    let map = |p: u64| -> Argument { TensorMap::encode(&plain(p)).unwrap().into() };
    let good = load_kernel(&copy(2, "%r10, %r10", "s"), 1024);
    let beyond = |p: u64| -> Argument {
        TensorMap::encode(&TensorMapConfig { sizes: vec![64, 128], ..plain(p) }).unwrap().into()
    };
    let late = copy(2, "%r10, %r11", "s").replace("mov.b32 %r10, 0;", "mov.b32 %r10, 0;\nmov.b32 %r11, 100;");
    assert_eq!(fault(&load_kernel(&late, 1024), beyond), FaultKind::OutOfBoundsGlobal);
    assert_eq!(fault(&load_kernel(&copy(1, "%r10", "s"), 1024), map), FaultKind::TensorMapInvalid);
    assert_eq!(fault(&good, |_| Argument::Bytes(vec![0; 128])), FaultKind::TensorMapInvalid);
    assert_eq!(fault(&load_kernel(&copy(2, "%r10, %r10", "s+64"), 1024), map), FaultKind::Misaligned);
    assert_eq!(fault(&load_kernel(&copy(2, "%r10, %r10", "s+16256"), 1024), map), FaultKind::OutOfBoundsShared);
    // More bytes than expected, and fewer.
    assert_eq!(fault(&load_kernel(&copy(2, "%r10, %r10", "s"), 1008), map), FaultKind::MbarrierTransaction);
    assert_eq!(fault(&load_kernel(&copy(2, "%r10, %r10", "s"), 1040), map), FaultKind::MbarrierTransaction);
    let bytes = |line: &str| load_kernel(&format!("ld.param.u64 %rd6, [input];\n{line}"), 1024);
    let line = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd6], 1024, [bar];";
    assert_eq!(fault(&bytes(&line.replace("1024", "1000")), map), FaultKind::InvalidOperand);
    assert_eq!(fault(&bytes(&line.replace("1024", "0")), map), FaultKind::InvalidOperand);
    assert_eq!(fault(&bytes(&line.replace("%rd6]", "%rd6+8]")), map), FaultKind::Misaligned);
    assert_eq!(fault(&bytes(&line.replace("%rd6]", "%rd6+8176]")), map), FaultKind::OutOfBoundsGlobal);
    assert_eq!(fault(&bytes(&line.replace("[bar]", "[s]")), map), FaultKind::MbarrierUninitialised);
}

/// A map that the kernel writes to global memory is visible to copies past a fence alone.
#[test]
fn maps_made_by_the_kernel_need_a_fence() {
    let source = format!(
        "{}ld.param.u64 %rd1, [scratch];\nld.param.u64 %rd2, [input];\nld.param.u64 %rd3, [out];\n\
         @%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nshl.b32 %r3, %r1, 2;\nmov.u32 %r2, s;\nadd.u32 %r2, %r2, %r3;\n\
         st.shared.b32 [%r2], 0;\nbar.warp.sync -1;\n@!%p1 bra $made;\n\
         tensormap.replace.tile.global_address.shared::cta.b1024.b64 [s], %rd2;\n\
         tensormap.replace.tile.rank.shared::cta.b1024.b32 [s], 0;\n\
         tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [s], 0, 32;\n\
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [s], 0, 24;\n\
         tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [s], 0, 1;\n\
         tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [s], 2;\n\
         tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [s], 0;\n\
         tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [s], 0;\n\
         $made: bar.warp.sync -1;\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [s], 128;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128; // map\n\
         fence.proxy.async;\nbar.warp.sync -1;\n@!%p1 bra $wait;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\nmov.b32 %r10, 0;\n\
         cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [s], [%rd1, {{%r10}}], [bar];\n\
         $wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@!%p3 bra $wait;\n\
         ld.shared.b32 %r5, [%r2];\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd3, %rd3, %rd4;\nst.global.b32 [%rd3], %r5;\nret;\n}}\n",
        head(".param .u64 scratch, .param .u64 input, .param .u64 out")
    );
    let run = |source: &str, seed: u64| -> Result<Vec<u8>, Error> {
        let mut b = Bench::new(source);
        let data: Vec<u8> = (1..=32u32).flat_map(u32::to_le_bytes).collect();
        let (scratch, p, out) = (b.empty(128), b.buffer(&data), b.empty(128));
        b.launch("k", &config(seed), &[scratch.into(), p.into(), out.into()])?;
        Ok(b.read(out, 128))
    };
    let expected: Vec<u8> = (1..=32u32).map(|v| if v <= 24 { v } else { 0 }).flat_map(u32::to_le_bytes).collect();
    for seed in 0..4 {
        assert_eq!(run(&source, seed).unwrap(), expected);
        let open: String = source.lines().filter(|l| !l.ends_with("// map")).map(|l| format!("{l}\n")).collect();
        assert_eq!(run(&open, seed).unwrap_err().fault().unwrap().kind, FaultKind::TensorMapFenceMissing);
    }
}

#[test]
fn tensor_maps_are_aligned_parameters() {
    let mut b = Bench::new(&store_kernel("").replace(".align 64 .b8 map", ".align 8 .b8 map"));
    let p = b.buffer(&vec![0; BYTES]);
    let map = TensorMap::encode(&plain(p.address())).unwrap();
    assert_eq!(b.launch("k", &config(0), &[map.clone().into(), p.into()]).unwrap_err().code(), "E0804");
    let mut b = Bench { module: tenon_ptx_sim::Module::parse(&store_kernel("")).unwrap(), device: Device::new() };
    let p = b.buffer(&vec![0; BYTES]);
    assert_eq!(b.module.entry("k").unwrap().parameters()[0].align, 64);
    b.launch("k", &config(0), &[map.into(), p.into()]).unwrap();
}
