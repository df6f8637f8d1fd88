//! Kernels made by other compilers give what plain formulas give.

use tenon_ptx_sim::{Argument, Counters, Error, LaunchConfig};

use crate::support::{Bench, Numbers, distance, f32_bytes, half_bytes, half_to_f32, halves, outside, to_f32};

const NULL: Argument = Argument::Pointer(0);

fn config(grid: [u32; 3], shared: u32, seed: u64) -> LaunchConfig {
    LaunchConfig { grid, block: [128, 1, 1], dynamic_shared_bytes: shared, seed, ..LaunchConfig::default() }
}

#[test]
fn softmax() {
    let Some(source) = outside("softmax_f32_1024.sm80.ptx") else { return };
    for (rows, n, stride) in [(3usize, 1024usize, 1024usize), (2, 512, 528), (5, 16, 16), (1, 784, 784)] {
        let mut b = Bench::new(&source);
        let x: Vec<f32> = Numbers::new(n as u64).units(rows * stride).iter().map(|v| v * 8.0).collect();
        let input = b.buffer(&f32_bytes(&x));
        let output = b.empty(rows * stride * 4);
        let args = [input.into(), output.into(), Argument::I32(stride as i32), Argument::I32(n as i32), NULL, NULL];
        b.launch("softmax", &config([rows as u32, 1, 1], 16, 7), &args).unwrap();
        let y = to_f32(&b.read(output, rows * stride * 4));
        for r in 0..rows {
            let row: Vec<f64> = x[r * stride..r * stride + n].iter().map(|&v| f64::from(v)).collect();
            let most = row.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = row.iter().map(|v| (v - most).exp()).sum();
            let expected: Vec<f64> = row.iter().map(|v| (v - most).exp() / sum).collect();
            assert!(distance(&y[r * stride..r * stride + n], &expected) < 1e-6);
        }
    }
}

#[test]
fn add_layernorm() {
    for name in ["add_layernorm_f32_1024.sm80.ptx", "add_layernorm_f32_1024.sm90.ptx"] {
        let Some(source) = outside(name) else { return };
        normalise(&source);
    }
}

fn normalise(source: &str) {
    for (rows, n) in [(4usize, 1024usize), (3, 512), (2, 48)] {
        let mut b = Bench::new(source);
        let mut numbers = Numbers::new(n as u64);
        let (x, res) = (numbers.units(rows * n), numbers.units(rows * n));
        let (w, bias) = (numbers.units(n), numbers.units(n));
        let eps = 1e-5f32;
        let [px, pr] = [&x, &res].map(|v| b.buffer(&f32_bytes(v)));
        let [pw, pb] = [&w, &bias].map(|v| b.buffer(&f32_bytes(v)));
        let out = b.empty(rows * n * 4);
        let args = [
            px.into(),
            pr.into(),
            pw.into(),
            pb.into(),
            out.into(),
            Argument::I32(n as i32),
            Argument::I32(n as i32),
            Argument::F32(eps),
            NULL,
            NULL,
        ];
        let entry = b.module.entries().next().unwrap().name().to_owned();
        b.launch(&entry, &config([rows as u32, 1, 1], 16, 3), &args).unwrap();
        let y = to_f32(&b.read(out, rows * n * 4));
        for r in 0..rows {
            let row: Vec<f64> = (0..n).map(|i| f64::from(x[r * n + i]) + f64::from(res[r * n + i])).collect();
            let mean = row.iter().sum::<f64>() / n as f64;
            let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
            let scale = 1.0 / (variance + f64::from(eps)).sqrt();
            let expected: Vec<f64> =
                (0..n).map(|i| (row[i] - mean) * scale * f64::from(w[i]) + f64::from(bias[i])).collect();
            assert!(distance(&y[r * n..(r + 1) * n], &expected) < 1e-5);
        }
    }
}

struct Matmul<'a> {
    source: &'a str,
    tile: usize,
    half: bool,
    m: usize,
    n: usize,
    k: usize,
    seed: u64,
    threads: u32,
    shared: u32,
}

impl Matmul<'_> {
    /// Runs `c = a·b` (with a bias argument); returns c and the exact a·b and the bias.
    fn run(&self) -> (Vec<f32>, Vec<f64>, Vec<f32>, Counters) {
        let mut b = Bench::new(self.source);
        let mut numbers = Numbers::new(self.k as u64);
        let (m, n, k) = (self.m, self.n, self.k);
        let round = |v: Vec<f32>| if self.half { halves(&v) } else { v };
        let (a, w, bias) = (round(numbers.units(m * k)), round(numbers.units(k * n)), round(numbers.units(n)));
        let bytes = |v: &[f32]| if self.half { half_bytes(v) } else { f32_bytes(v) };
        let [pa, pw, pb] = [&a, &w, &bias].map(|v| b.buffer(&bytes(v)));
        let size = if self.half { 2 } else { 4 };
        let c = b.empty(m * n * size);
        let int = |v: usize| Argument::I32(v as i32);
        let args =
            [pa.into(), pw.into(), c.into(), pb.into(), int(m), int(n), int(k), int(k), int(n), int(n), NULL, NULL];
        let grid = [(m.div_ceil(self.tile) * n.div_ceil(self.tile)) as u32, 1, 1];
        let entry = b.module.entries().next().unwrap().name().to_owned();
        let config = LaunchConfig { block: [self.threads, 1, 1], ..config(grid, self.shared, self.seed) };
        let counters = b.launch(&entry, &config, &args).unwrap();
        let raw = b.read(c, m * n * size);
        let got = if self.half { half_to_f32(&raw) } else { to_f32(&raw) };
        (got, multiply(&a, &w, [m, n, k]), bias, counters)
    }
}

fn multiply(a: &[f32], w: &[f32], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let mut exact = vec![0f64; m * n];
    for i in 0..m {
        for p in 0..k {
            for j in 0..n {
                exact[i * n + j] += f64::from(a[i * k + p]) * f64::from(w[p * n + j]);
            }
        }
    }
    exact
}

#[test]
fn matmul_f32() {
    let Some(source) = outside("matmul_f32_ieee_64x64x32.sm80.ptx") else { return };
    for (m, n, k) in [(64, 64, 64), (80, 144, 96), (16, 16, 32)] {
        let (got, exact, _, _) =
            Matmul { threads: 128, shared: 32768, source: &source, tile: 64, half: false, m, n, k, seed: 1 }.run();
        assert!(distance(&got, &exact) < 1e-5);
    }
}

#[test]
fn matmul_f16() {
    let Some(source) = outside("matmul_f16_128x128x32.sm80.ptx") else { return };
    for (m, n, k) in [(128, 128, 128), (144, 208, 96), (16, 32, 32)] {
        let (got, exact, _, counters) =
            Matmul { threads: 128, shared: 32768, source: &source, tile: 128, half: true, m, n, k, seed: 5 }.run();
        assert!(distance(&got, &exact) < 1e-3);
        let tiles = (m as u64).div_ceil(128) * (n as u64).div_ceil(128);
        assert_eq!(counters.mma_macs, tiles * 128 * 128 * (k as u64).div_ceil(32) * 32);
    }
}

/// By `wgmma` on tiles that `cp.async` brings; the kernel takes whole tiles of K.
#[test]
fn matmul_f16_warpgroups() {
    let Some(source) = outside("matmul_f16_128x128x64.sm90.ptx") else { return };
    for (m, n, k, seed) in [(128, 128, 128, 1), (144, 208, 192, 2), (16, 32, 64, 3), (256, 128, 320, 4)] {
        let matmul = Matmul { threads: 256, shared: 98304, source: &source, tile: 128, half: true, m, n, k, seed };
        let (got, exact, _, counters) = matmul.run();
        assert!(distance(&got, &exact) < 1e-3, "{m} {n} {k}: {}", distance(&got, &exact));
        let tiles = (m as u64).div_ceil(128) * (n as u64).div_ceil(128);
        assert_eq!(counters.mma_macs, tiles * 128 * 128 * (k as u64).div_ceil(64) * 64);
    }
}

/// By tensor maps that the kernel makes, bulk tensor copies and `wgmma`.
#[test]
fn matmul_f16_tensor_copies() {
    let Some(source) = outside("matmul_tma_128x128x64.sm90.ptx") else { return };
    for (m, n, k, seed) in
        [(128, 128, 64, 1), (144, 208, 96, 2), (16, 32, 32, 3), (128, 256, 320, 4), (128, 128, 64, 0)]
    {
        let (got, exact) = tensor_copies(&source, [m, n, k], seed).unwrap();
        assert!(distance(&got, &exact) < 1e-3, "{m} {n} {k}: {}", distance(&got, &exact));
    }
}

/// Runs the kernel that makes its tensor maps in scratch memory; returns its product and the exact one.
pub fn tensor_copies(source: &str, [m, n, k]: [usize; 3], seed: u64) -> Result<(Vec<f32>, Vec<f64>), Error> {
    let mut b = Bench::new(source);
    let mut numbers = Numbers::new(k as u64);
    let (a, w) = (halves(&numbers.units(m * k)), halves(&numbers.units(k * n)));
    let [pa, pw] = [&a, &w].map(|v| b.buffer(&half_bytes(v)));
    let c = b.empty(m * n * 2);
    let blocks = m.div_ceil(128) * n.div_ceil(128);
    let scratch = b.empty(blocks * 384);
    let int = |v: usize| Argument::I32(v as i32);
    let args = [pa.into(), pw.into(), c.into(), int(m), int(n), int(k), scratch.into(), NULL];
    b.launch("matmul_tma", &config([blocks as u32, 1, 1], 98328, seed), &args)?;
    Ok((half_to_f32(&b.read(c, m * n * 2)), multiply(&a, &w, [m, n, k])))
}

#[test]
fn matmul_f16_bias_gelu() {
    let Some(source) = outside("matmul_f16_bias_gelu_128x128x32.sm80.ptx") else { return };
    let (m, n, k) = (144, 144, 64);
    let (got, exact, bias, _) =
        Matmul { threads: 128, shared: 32768, source: &source, tile: 128, half: true, m, n, k, seed: 5 }.run();
    let expected: Vec<f64> = exact
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let x = v + f64::from(bias[i % n]);
            0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
        })
        .collect();
    assert!(distance(&got, &expected) < 1.5e-3);
}

/// Error function by its series and, for large arguments, its continued fraction.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let v = if a < 3.0 {
        let mut term = a;
        let mut sum = a;
        for i in 1..100 {
            term *= -a * a / f64::from(i);
            sum += term / f64::from(2 * i + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let mut tail = 0.0;
        for i in (1..60).rev() {
            tail = f64::from(i) / 2.0 / (a + tail);
        }
        1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / (a + tail)
    };
    v.copysign(x)
}

#[test]
fn attention() {
    for (name, shared) in [("flash_fwd_128x64_d64.sm80.ptx", 49152), ("flash_fwd_128x64_d64.sm90.ptx", 65536)] {
        let Some(source) = outside(name) else { return };
        for (t, seed) in [(192, 9), (128, 1), (64, 2)] {
            attend(&source, shared, t, seed);
        }
    }
}

fn attend(source: &str, shared: u32, t: usize, seed: u64) {
    let (heads, d) = (2usize, 64usize);
    let mut b = Bench::new(source);
    let mut numbers = Numbers::new(11);
    let size = heads * t * d;
    let [q, k, v] = [0; 3].map(|_| halves(&numbers.units(size).iter().map(|x| x * 2.0).collect::<Vec<_>>()));
    let [pq, pk, pv] = [&q, &k, &v].map(|x| b.buffer(&half_bytes(x)));
    let out = b.empty(size * 2);
    let scale = 0.125f32;
    let args = [
        pq.into(),
        pk.into(),
        pv.into(),
        out.into(),
        Argument::F32(scale),
        Argument::I32((t * d) as i32),
        Argument::I32(t as i32),
        NULL,
        NULL,
    ];
    let entry = b.module.entries().next().unwrap().name().to_owned();
    b.launch(&entry, &config([t.div_ceil(128) as u32, heads as u32, 1], shared, seed), &args).unwrap();
    let got = half_to_f32(&b.read(out, size * 2));
    let at = |x: &[f32], h: usize, i: usize, e: usize| f64::from(x[(h * t + i) * d + e]);
    let mut expected = vec![0f64; size];
    for h in 0..heads {
        for i in 0..t {
            let scores: Vec<f64> = (0..t)
                .map(|j| (0..d).map(|e| at(&q, h, i, e) * at(&k, h, j, e)).sum::<f64>() * f64::from(scale))
                .collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for e in 0..d {
                expected[(h * t + i) * d + e] = (0..t).map(|j| weights[j] * at(&v, h, j, e)).sum::<f64>() / sum;
            }
        }
    }
    assert!(distance(&got, &expected) < 2e-3, "{}", distance(&got, &expected));
}

/// A kernel of the NVVM dialect through LLVM: three-stage copies, swizzled shared memory, f32 results.
#[test]
fn nvvm_gemm() {
    let source = include_str!("../../../testdata/ptx/nvvm_gemm_f16_128x128x32.ptx");
    let (m, n, k) = (128usize, 256usize, 160usize);
    let mut b = Bench::new(source);
    let mut numbers = Numbers::new(4);
    let (a, w) = (halves(&numbers.units(m * k)), halves(&numbers.units(k * n)));
    let [pa, pw] = [&a, &w].map(|v| b.buffer(&half_bytes(v)));
    let c = b.empty(m * n * 2);
    let int = |v: usize| Argument::I32(v as i32);
    let args = [pa.into(), pw.into(), c.into(), NULL, int(m), int(n), int(k), int(k), int(n), int(n)];
    let counters = b.launch("gemm", &config([1, 2, 1], 49152, 2), &args).unwrap();
    let got = half_to_f32(&b.read(c, m * n * 2));
    let mut exact = vec![0f64; m * n];
    for i in 0..m {
        for p in 0..k {
            for j in 0..n {
                exact[i * n + j] += f64::from(a[i * k + p]) * f64::from(w[p * n + j]);
            }
        }
    }
    assert!(distance(&got, &exact) < 1e-3, "{}", distance(&got, &exact));
    assert_eq!(counters.mma_macs, (m * n * k) as u64);
}
