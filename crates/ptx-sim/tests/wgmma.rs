//! `wgmma` against the definition of its matrices: every type, layout and swizzle.

use tenon_ptx_sim::{FaultKind, LaunchConfig};

use crate::support::{Bench, Numbers, to_u32};

/// An operand in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of the swizzle; 0 for none.
    swizzle: usize,
    /// Rows (of M or N) are contiguous, not those of K.
    transposed: bool,
    start: usize,
    leading: usize,
    stride: usize,
    base: usize,
}

/// Offset of an index in a layout of shapes and strides, the first shape innermost.
fn strided(mut index: usize, parts: &[(usize, usize)]) -> usize {
    let mut offset = 0;
    for &(shape, stride) in parts {
        offset += index % shape * stride;
        index /= shape;
    }
    offset
}

impl Layout {
    fn new(swizzle: usize, transposed: bool, start: usize, rows: usize) -> Layout {
        let (leading, stride) = match (swizzle, transposed) {
            // Core matrices of 128 bytes: all of the first step of k, then all of the second.
            (0, _) => (rows * 16, 128),
            (s, false) => (16, 8 * s),
            // Atoms of S bytes by eight steps of k: the second eight steps come next.
            (s, true) => (16 * s, 8 * s),
        };
        Layout { swizzle, transposed, start, leading, stride, base: 0 }
    }

    fn descriptor(&self) -> u64 {
        let mode = match self.swizzle {
            0 => 0u64,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        let field = |bytes: usize| (bytes >> 4) as u64;
        mode << 62 | (self.base as u64) << 49 | field(self.stride) << 32 | field(self.leading) << 16 | field(self.start)
    }

    /// Where element (i, k) of `bytes` bytes lies: the canonical layouts, in units of an element, then the swizzle of the bytes' offset in
    /// its pattern.
    fn offset(&self, i: usize, k: usize, bytes: usize) -> usize {
        let t = 16 / bytes;
        let (s, lead, step) = (self.swizzle / bytes, self.leading / bytes, self.stride / bytes);
        let linear = match (self.swizzle, self.transposed) {
            (0, false) => strided(i, &[(8, t), (64, step)]) + strided(k, &[(t, 1), (2, lead)]),
            (_, false) => strided(i, &[(8, s), (64, step)]) + strided(k, &[(t, 1), (2, t)]),
            (0, true) => strided(i, &[(t, 1), (64, step)]) + strided(k, &[(8, t), (64, lead)]),
            (_, true) => strided(i, &[(s, 1), (64, lead)]) + strided(k, &[(8, s), (64, step)]),
        } * bytes;
        let pieces = (self.swizzle / 16).max(1);
        let row = linear / 128 % pieces;
        self.start + (linear ^ row * 16)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl Element {
    fn name(self) -> &'static str {
        match self {
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
            Element::Tf32 => "tf32",
            Element::E4m3 => "e4m3",
            Element::E5m2 => "e5m2",
            Element::S8 => "s8",
            Element::U8 => "u8",
        }
    }
    fn bytes(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::Tf32 => 4,
            _ => 1,
        }
    }
    /// A random element: bits and value; small enough that every sum is exact.
    fn random(self, numbers: &mut Numbers) -> (u32, f64) {
        let n = numbers.bits() % 17;
        let eighths = f64::from(n as i32 - 8) / 8.0;
        match self {
            Element::F16 => (u32::from(half::f16::from_f64(eighths).to_bits()), eighths),
            Element::Bf16 => (u32::from(half::bf16::from_f64(eighths).to_bits()), eighths),
            // The low 13 bits are ignored.
            Element::Tf32 => ((eighths as f32).to_bits() | numbers.bits() & 0x1fff, eighths),
            Element::S8 => (numbers.bits() & 0xff, 0.0),
            Element::U8 => (numbers.bits() & 0xff, 0.0),
            // Sign, exponents around the bias, fraction.
            Element::E4m3 => {
                let (sign, exponent, fraction) = (n & 1, 6 + n % 3, n % 8);
                let value = (1.0 + f64::from(fraction) / 8.0) * 2f64.powi(exponent as i32 - 7);
                (sign << 7 | exponent << 3 | fraction, if sign == 1 { -value } else { value })
            }
            Element::E5m2 => {
                let (sign, exponent, fraction) = (n & 1, 14 + n % 3, n % 4);
                let value = (1.0 + f64::from(fraction) / 4.0) * 2f64.powi(exponent as i32 - 15);
                (sign << 7 | exponent << 2 | fraction, if sign == 1 { -value } else { value })
            }
        }
    }
    fn value(self, raw: u32, value: f64) -> f64 {
        match self {
            Element::S8 => f64::from(raw as u8 as i8),
            Element::U8 => f64::from(raw as u8),
            _ => value,
        }
    }
}

struct Case {
    n: usize,
    d: &'static str,
    a: Element,
    b: Element,
    /// `None`: A comes from registers.
    a_layout: Option<Layout>,
    b_layout: Layout,
    accumulate: bool,
    scales: (i32, i32),
    saturate: bool,
}

const SHARED: usize = 96 << 10;

impl Case {
    fn k(&self) -> usize {
        32 / self.a.bytes()
    }
    fn registers(&self) -> usize {
        if self.d == "f16" { self.n / 4 } else { self.n / 2 }
    }

    /// Copies an image into shared memory, multiplies, and stores the registers of D.
    fn source(&self) -> String {
        let list =
            |from: usize, count: usize| (from..from + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
        let d = self.registers();
        let one = match self.d {
            "f16" => "0x3c003c00",
            "f32" => "0x3f800000",
            _ if self.saturate => "0x7fffff00",
            _ => "1",
        };
        let start: String = (0..d).map(|i| format!("mov.b32 %r{}, {one};\n", 100 + i)).collect();
        let end: String = (0..d).map(|i| format!("st.global.b32 [%rd3+{}], %r{};\n", 4 * 128 * i, 100 + i)).collect();
        let a = match self.a_layout {
            Some(layout) => format!("{:#x}", layout.descriptor()),
            None => format!("{{{}}}", list(20, 4)),
        };
        let scales = if self.d == "s32" { String::new() } else { format!(", {}, {}", self.scales.0, self.scales.1) };
        let mut flips = String::new();
        if self.a.bytes() == 2 {
            if let Some(layout) = self.a_layout {
                flips += &format!(", {}", u32::from(layout.transposed));
            }
            flips += &format!(", {}", u32::from(self.b_layout.transposed));
        }
        format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n\
             .visible .entry k(.param .u64 image, .param .u64 fragments, .param .u64 out) .reqntid 128\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<300>;\n.reg .b64 %rd<8>;\n\
             ld.param.u64 %rd1, [image];\nld.param.u64 %rd2, [fragments];\nld.param.u64 %rd3, [out];\n\
             mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd4, %r1, 4;\n\
             add.s64 %rd1, %rd1, %rd4;\nadd.s64 %rd2, %rd2, %rd4;\nadd.s64 %rd3, %rd3, %rd4;\n\
             shl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r2, %r2, %r3;\nmov.u32 %r4, 0;\n\
             $copy: ld.global.b32 %r5, [%rd1];\nst.shared.b32 [%r2], %r5;\nadd.s64 %rd1, %rd1, 512;\nadd.u32 %r2, %r2, 512;\n\
             add.u32 %r4, %r4, 512;\nsetp.lt.u32 %p1, %r4, {SHARED};\n@%p1 bra $copy;\n\
             ld.global.b32 %r20, [%rd2];\nld.global.b32 %r21, [%rd2+512];\n\
             ld.global.b32 %r22, [%rd2+1024];\nld.global.b32 %r23, [%rd2+1536];\n{start}\
             fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.eq.u32 %p2, 0, {};\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{} {{{}}}, {a}, {:#x}, %p2{scales}{flips};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{end}ret;\n}}\n",
            u32::from(!self.accumulate),
            self.n,
            self.k(),
            if self.saturate { ".satfinite" } else { "" },
            self.d,
            self.a.name(),
            self.b.name(),
            list(100, d),
            self.b_layout.descriptor(),
        )
    }

    fn check(&self, seed: u64) {
        let mut numbers = Numbers::new(seed + 1);
        let (n, k) = (self.n, self.k());
        // What the operands do not cover is not read, whatever it is.
        let mut image: Vec<u8> = (0..SHARED).map(|_| numbers.bits() as u8).collect();
        let mut fragments = vec![0u8; 4 * 128 * 4];
        let mut a = vec![0f64; 64 * k];
        for i in 0..64 {
            for p in 0..k {
                let (raw, value) = self.a.random(&mut numbers);
                a[i * k + p] = self.a.value(raw, value);
                let bytes = self.a.bytes();
                let at = match self.a_layout {
                    Some(layout) => layout.offset(i, p, bytes),
                    None => {
                        // Rows g and g + 8 of the warp's sixteen; 4 bytes of columns a thread, 16 bytes on the second half.
                        let (warp, row, column) = (i / 16, i % 16, p * bytes);
                        let thread = warp * 32 + row % 8 * 4 + column % 16 / 4;
                        let register = row / 8 + 2 * (column / 16);
                        (register * 128 + thread) * 4 + column % 4
                    }
                };
                let into = if self.a_layout.is_some() { &mut image } else { &mut fragments };
                into[at..at + bytes].copy_from_slice(&raw.to_le_bytes()[..bytes]);
            }
        }
        let mut b = vec![0f64; n * k];
        for j in 0..n {
            for p in 0..k {
                let (raw, value) = self.b.random(&mut numbers);
                b[j * k + p] = self.b.value(raw, value);
                let at = self.b_layout.offset(j, p, self.b.bytes());
                image[at..at + self.b.bytes()].copy_from_slice(&raw.to_le_bytes()[..self.b.bytes()]);
            }
        }
        let source = self.source();
        let mut bench = Bench::new(&source);
        assert!(bench.module.entry("k").unwrap().uses_dynamic_shared());
        let (pi, pf) = (bench.buffer(&image), bench.buffer(&fragments));
        let out = bench.empty(self.registers() * 512);
        let config =
            LaunchConfig { block: [128, 1, 1], dynamic_shared_bytes: SHARED as u32, seed, ..LaunchConfig::default() };
        let counters = bench.launch("k", &config, &[pi.into(), pf.into(), out.into()]).unwrap();
        assert_eq!(counters.mma_macs, (64 * n * k) as u64);
        let d = to_u32(&bench.read(out, self.registers() * 512));
        for row in 0..64 {
            for column in 0..n {
                let products = (0..k).map(|p| a[row * k + p] * b[column * k + p]).sum::<f64>();
                let sign = f64::from(self.scales.0 * self.scales.1);
                let start = if self.saturate { f64::from(0x7fff_ff00) } else { 1.0 };
                let exact = if self.accumulate { start } else { 0.0 } + sign * products;
                let exact = match self.d {
                    "f16" => half::f16::from_f64(exact).to_f64(),
                    "s32" => exact.min(f64::from(i32::MAX)),
                    _ => exact,
                };
                let thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
                let element = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
                let got = match self.d {
                    "f16" => {
                        let pair = d[element / 2 * 128 + thread] >> (16 * (element % 2));
                        half::f16::from_bits(pair as u16).to_f64()
                    }
                    "f32" => f64::from(f32::from_bits(d[element * 128 + thread])),
                    _ => f64::from(d[element * 128 + thread] as i32),
                };
                assert_eq!(
                    got,
                    exact,
                    "row {row}, column {column}\n{}",
                    source.lines().find(|l| l.contains("mma_async")).unwrap()
                );
            }
        }
    }
}

fn case(n: usize, d: &'static str, t: Element, a_layout: Option<Layout>, b_layout: Layout) -> Case {
    Case { n, d, a: t, b: t, a_layout, b_layout, accumulate: true, scales: (1, 1), saturate: false }
}

const B_START: usize = 32 << 10;

#[test]
fn every_layout_of_sixteen_bits() {
    for (seed, a_swizzle) in [0, 32, 64, 128].into_iter().enumerate() {
        for b_swizzle in [0, 32, 64, 128] {
            for (a_flip, b_flip) in [(false, false), (false, true), (true, false), (true, true)] {
                let t = if b_swizzle == 64 { Element::Bf16 } else { Element::F16 };
                let a = Layout::new(a_swizzle, a_flip, 0, 64);
                case(64, "f32", t, Some(a), Layout::new(b_swizzle, b_flip, B_START, 64)).check(seed as u64);
            }
        }
    }
}

#[test]
fn operands_need_not_lie_at_the_start_of_a_pattern() {
    // Later steps of k within rows of 128 and 64 bytes.
    for (swizzle, step) in [(128, 32), (128, 96), (64, 32)] {
        let mut a = Layout::new(swizzle, false, 0, 64);
        a.start = step;
        let stride = a.stride;
        // Advancing the start moves every piece by the swizzle of the whole address.
        let linear = |i: usize, k: usize| {
            let at = i % 8 * swizzle + i / 8 * stride + k * 2 + step;
            at ^ at / 128 % (swizzle / 16) * 16
        };
        check_advanced(a, linear);
    }
    // A pattern that starts at 256 bytes from a multiple of 1024.
    let mut a = Layout::new(128, false, 256, 64);
    a.base = 2;
    case(8, "f32", Element::F16, Some(a), Layout::new(32, false, B_START, 8)).check(5);
}

/// As [`Case::check`] for an operand A whose elements lie where `place` says.
fn check_advanced(a: Layout, place: impl Fn(usize, usize) -> usize) {
    let b_layout = Layout::new(0, false, B_START, 8);
    let case = case(8, "f32", Element::F16, Some(a), b_layout);
    let mut numbers = Numbers::new(77);
    let mut image = vec![0u8; SHARED];
    let mut exact = vec![0f64; 64 * 8];
    for k in 0..16 {
        let column: Vec<f64> = (0..8)
            .map(|j| {
                let (raw, value) = Element::F16.random(&mut numbers);
                let at = b_layout.offset(j, k, 2);
                image[at..at + 2].copy_from_slice(&raw.to_le_bytes()[..2]);
                value
            })
            .collect();
        for i in 0..64 {
            let (raw, value) = Element::F16.random(&mut numbers);
            image[place(i, k)..place(i, k) + 2].copy_from_slice(&raw.to_le_bytes()[..2]);
            for j in 0..8 {
                exact[i * 8 + j] += value * column[j];
            }
        }
    }
    let mut bench = Bench::new(&case.source());
    let (pi, pf) = (bench.buffer(&image), bench.buffer(&[0; 2048]));
    let out = bench.empty(4 * 512);
    let config = LaunchConfig { block: [128, 1, 1], dynamic_shared_bytes: SHARED as u32, ..LaunchConfig::default() };
    bench.launch("k", &config, &[pi.into(), pf.into(), out.into()]).unwrap();
    let d = to_u32(&bench.read(out, 4 * 512));
    for row in 0..64 {
        for column in 0..8 {
            let thread = row / 16 * 32 + row % 8 * 4 + column / 2;
            let got = f32::from_bits(d[(row % 16 / 8 * 2 + column % 2) * 128 + thread]);
            assert_eq!(f64::from(got), 1.0 + exact[row * 8 + column]);
        }
    }
}

#[test]
fn every_type_and_width() {
    let b = |swizzle, n| Layout::new(swizzle, false, B_START, n);
    let a = Some(Layout::new(128, false, 0, 64));
    for (n, d, t) in [
        (8, "f32", Element::F16),
        (256, "f32", Element::F16),
        (40, "f16", Element::F16),
        (256, "f16", Element::F16),
        (96, "f32", Element::Bf16),
        (16, "f32", Element::Tf32),
        (200, "f32", Element::Tf32),
        (64, "f32", Element::E4m3),
        (24, "f16", Element::E5m2),
        (128, "s32", Element::S8),
        (24, "s32", Element::U8),
    ] {
        for swizzle in [0, 128] {
            case(n, d, t, a, b(swizzle, n)).check(n as u64);
            case(n, d, t, None, b(swizzle, n)).check(n as u64 + 1);
        }
    }
    Case { b: Element::E5m2, ..case(32, "f32", Element::E4m3, a, b(64, 32)) }.check(1);
    Case { b: Element::U8, ..case(32, "s32", Element::S8, None, b(32, 32)) }.check(2);
    Case { accumulate: false, ..case(32, "f32", Element::F16, None, Layout::new(64, true, B_START, 32)) }.check(3);
    Case { accumulate: false, ..case(32, "s32", Element::U8, a, b(0, 32)) }.check(4);
    Case { scales: (-1, 1), ..case(16, "f32", Element::F16, a, b(0, 16)) }.check(5);
    Case { scales: (1, -1), ..case(16, "f32", Element::Tf32, None, b(0, 16)) }.check(6);
    Case { scales: (-1, -1), ..case(16, "f16", Element::E4m3, a, b(0, 16)) }.check(7);
    Case { saturate: true, ..case(16, "s32", Element::S8, a, b(0, 16)) }.check(8);
}

#[test]
fn wrong_forms_and_descriptors_are_refused() {
    let a = Some(Layout::new(128, false, 0, 64));
    let good = case(64, "f32", Element::F16, a, Layout::new(128, false, B_START, 64)).source();
    for (from, to) in [
        ("m64n64k16", "m64n64k8"),
        ("m64n64k16", "m64n60k16"),
        (".f32.f16.f16", ".f32.f16.bf16"),
        (".f32.f16.f16", ".f16.bf16.bf16"),
        (", 1, 1, 0, 0;", ", 1, 1, 0;"),
        (", 1, 1, 0, 0;", ", 2, 1, 0, 0;"),
        ("mma_async.sync.aligned", "mma_async.sp.sync.aligned"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned -1"),
    ] {
        assert!(good.contains(from));
        let error = tenon_ptx_sim::Module::parse(&good.replace(from, to)).map(drop).unwrap_err();
        assert_eq!(error.code(), "E0802", "{to}");
    }
    let descriptor = format!("{:#x}", Layout::new(128, false, B_START, 64).descriptor());
    for (bits, kind) in [(1u64 << 14, FaultKind::InvalidOperand), (0x3ff0, FaultKind::OutOfBoundsShared)] {
        let wrong = format!("{:#x}", Layout::new(128, false, 0, 64).descriptor() | bits);
        let mut bench = Bench::new(&good.replace(&descriptor, &wrong));
        let (pi, pf, out) = (bench.buffer(&vec![0; SHARED]), bench.buffer(&[0; 2048]), bench.empty(32 * 512));
        let config =
            LaunchConfig { block: [128, 1, 1], dynamic_shared_bytes: SHARED as u32, ..LaunchConfig::default() };
        let error = bench.launch("k", &config, &[pi.into(), pf.into(), out.into()]).unwrap_err();
        assert_eq!(error.fault().unwrap().kind, kind);
    }
}
