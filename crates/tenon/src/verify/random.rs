//! Inputs by seed.

use tenon_tensor::{DType, Tensor, TensorError};

/// A small generator whose numbers are the same everywhere: xorshift64* (Vigna, 2016).
pub(super) struct Random(u64);

impl Random {
    /// Begins a sequence of its own for each seed and name.
    pub(super) fn new(seed: u64, name: &str) -> Random {
        // FNV-1a over the name, so that inputs differ.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let mut random = Random((hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        for _ in 0..4 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// At least 0 and below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From the first to the second, both included.
    pub(super) fn size(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most.saturating_sub(least) + 1)
    }
}

/// A tensor of a type: floats from -2 to 2; integers, which are often indices or masks, 0 or 1; truth values at random.
pub(crate) fn tensor(dtype: DType, shape: &[usize], seed: u64, name: &str) -> Result<Tensor, TensorError> {
    let mut random = Random::new(seed, name);
    let count = tenon_tensor::byte_count(DType::U8, shape).unwrap_or(0);
    let value =
        |random: &mut Random| if dtype.is_float() { 4.0 * random.unit() - 2.0 } else { (2.0 * random.unit()).floor() };
    let values: Vec<f64> = (0..count).map(|_| value(&mut random)).collect();
    Tensor::from_f64s(dtype, shape.to_vec(), &values)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_values() {
        let make = |dtype, seed, name| tensor(dtype, &[64], seed, name).unwrap().to_f64_vec().unwrap();
        assert_eq!(make(DType::F32, 1, "x"), make(DType::F32, 1, "x"));
        assert_ne!(make(DType::F32, 1, "x"), make(DType::F32, 2, "x"));
        assert_ne!(make(DType::F32, 1, "x"), make(DType::F32, 1, "y"));
        assert!(make(DType::F32, 3, "x").iter().all(|value| (-2.0..2.0).contains(value)));
        assert!(make(DType::I64, 3, "x").iter().all(|value| *value == 0.0 || *value == 1.0));
        let mut random = Random::new(0, "n");
        let sizes: Vec<_> = (0..100).map(|_| random.size(1, 3)).collect();
        assert!((1..=3).all(|size| sizes.contains(&size)) && sizes.iter().all(|size| (1..=3).contains(size)));
    }
}
