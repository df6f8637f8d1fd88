//! Helpers of the tests.

use std::path::PathBuf;

use tenon_ptx_sim::{Argument, Counters, Device, DevicePointer, Error, LaunchConfig, Module};

/// A deterministic generator of test data.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
    /// In [-1, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
    pub fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }
}

pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The PTX of another compiler, or `None` with a note where it is not at hand.
pub fn outside(name: &str) -> Option<String> {
    let root = std::env::var_os("TENON_SHARED").map_or_else(|| repository().join("../shared"), PathBuf::from);
    let text = std::fs::read_to_string(root.join("ptx").join(name)).ok();
    if text.is_none() {
        println!("skipped: {name} is not at hand");
    }
    text
}

pub fn half_bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect()
}
pub fn f32_bytes(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
pub fn to_f32(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}
pub fn to_u32(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}
pub fn half_to_f32(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|c| half::f16::from_le_bytes(c.try_into().unwrap()).to_f32()).collect()
}
/// Rounded to f16.
pub fn halves(v: &[f32]) -> Vec<f32> {
    v.iter().map(|&x| half::f16::from_f32(x).to_f32()).collect()
}

/// A module with a device and buffers to launch it on.
pub struct Bench {
    pub module: Module,
    pub device: Device,
}

impl Bench {
    pub fn new(source: &str) -> Bench {
        Bench { module: Module::parse(source).unwrap(), device: Device::new() }
    }
    pub fn buffer(&mut self, data: &[u8]) -> DevicePointer {
        let p = self.device.allocate(data.len() as u64).unwrap();
        self.device.write(p, 0, data).unwrap();
        p
    }
    pub fn empty(&mut self, bytes: usize) -> DevicePointer {
        self.device.allocate(bytes as u64).unwrap()
    }
    pub fn launch(&mut self, entry: &str, config: &LaunchConfig, args: &[Argument]) -> Result<Counters, Error> {
        self.device.launch(&self.module, entry, config, args)
    }
    pub fn read(&self, p: DevicePointer, bytes: usize) -> Vec<u8> {
        self.device.read(p, 0, bytes as u64).unwrap()
    }
}

/// Largest difference, relative to 1 where values are small.
pub fn distance(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(&x, &y)| {
            let d = (f64::from(x) - y).abs() / y.abs().max(1.0);
            if d.is_nan() { f64::INFINITY } else { d }
        })
        .fold(0.0, f64::max)
}
