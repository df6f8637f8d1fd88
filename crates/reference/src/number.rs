//! Numbers that operators compute with: reals (f32 or f64) and integers modulo their width.

use std::ops::{Add, Div, Mul, Neg, Sub};

use tenon_tensor::{DType, NumberKind, decode_float, encode_float};

/// The two types that floats are computed in.
pub(crate) trait Real:
    Copy
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;

    /// Rounds to nearest even.
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    fn sqrt(self) -> Self;

    /// Applies a function of f64 and rounds.
    fn through(self, function: impl Fn(f64) -> f64) -> Self {
        Self::of(function(self.wide()))
    }

    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }

    /// The larger; NaN wins, and +0 over -0.
    fn larger(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && (self > other || (self == other && !self.wide().is_sign_negative()))) {
            self
        } else {
            other
        }
    }

    /// The smaller; NaN wins, and -0 over +0.
    fn smaller(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && (self < other || (self == other && self.wide().is_sign_negative()))) {
            self
        } else {
            other
        }
    }
}

macro_rules! real {
    ($($ty:ty),*) => { $(
        impl Real for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = <$ty>::INFINITY;

            fn of(value: f64) -> Self {
                value as $ty
            }

            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn sqrt(self) -> Self {
                self.sqrt()
            }
        }
    )* };
}

real!(f32, f64);

/// An f32 rounded to a narrower float type, as a value. Types that are not narrower leave it.
pub(crate) fn round_f32(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::F32 | DType::F64 => value,
        DType::F16 => half::f16::from_f32(value).to_f32(),
        DType::BF16 => half::bf16::from_f32(value).to_f32(),
        _ => decode_float(dtype, encode_float(dtype, f64::from(value))) as f32,
    }
}

/// An f64 rounded once to a float type, as a value.
pub(crate) fn round_f64(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        _ => decode_float(dtype, encode_float(dtype, value)),
    }
}

/// Least and greatest value of an integer type; of `i1` 0 and 1.
pub(crate) fn range(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits().clamp(1, 64);
    match dtype.kind() {
        NumberKind::SignedInteger => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// The value of a stored integer: `ui64` is stored as the `i64` of the same bits, all others as themselves.
pub(crate) fn widen(dtype: DType, stored: i64) -> i128 {
    if dtype == DType::U64 { i128::from(stored as u64) } else { i128::from(stored) }
}

/// The stored form of an integer modulo the width of its type; of `i1`, whether it is odd.
pub(crate) fn wrap(dtype: DType, value: i128) -> i64 {
    let bits = dtype.bits().clamp(1, 64);
    let unused = 64 - bits;
    let low = value as i64;
    match dtype.kind() {
        NumberKind::SignedInteger => (low << unused) >> unused,
        _ => (((low as u64) << unused) >> unused) as i64,
    }
}

/// The f64 that any rounding to 52 bits or fewer treats as it would treat the integer: truncated, the last bit set if that lost something.
pub(crate) fn round_to_odd(value: i128) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    if back == value {
        return nearest;
    }
    let truncated =
        if back.unsigned_abs() > value.unsigned_abs() { f64::from_bits(nearest.to_bits() - 1) } else { nearest };
    f64::from_bits(truncated.to_bits() | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_in_their_own_width() {
        assert_eq!(wrap(DType::I8, 128), -128);
        assert_eq!(wrap(DType::U8, -1), 255);
        assert_eq!(wrap(DType::I4, 9), -7);
        assert_eq!(wrap(DType::Bool, 3), 1);
        assert_eq!(wrap(DType::U64, -1), -1);
        assert_eq!(widen(DType::U64, -1), i128::from(u64::MAX));
        assert_eq!(range(DType::I2), (-2, 1));
        assert_eq!(range(DType::U64), (0, i128::from(u64::MAX)));
    }

    #[test]
    fn one_rounding_from_wide_integers() {
        // Halfway between two f32 but for the last bit: nearest f64 first would tie to even, downwards.
        let value = (1i128 << 60) + (1 << 36) + 1;
        assert_eq!(round_to_odd(value) as f32, ((1u64 << 60) + (1 << 37)) as f32);
        assert_eq!(round_to_odd(-value) as f32, -(((1u64 << 60) + (1 << 37)) as f32));
        assert_eq!(round_to_odd(3), 3.0);
    }

    #[test]
    fn nan_wins_and_zeros_are_ordered() {
        assert!(1.0f32.larger(f32::NAN).is_nan() && f32::NAN.smaller(1.0).is_nan());
        assert!(0.0f64.larger(-0.0).is_sign_positive() && (-0.0f64).larger(0.0).is_sign_positive());
        assert!(0.0f64.smaller(-0.0).is_sign_negative() && (-0.0f64).smaller(0.0).is_sign_negative());
    }
}
