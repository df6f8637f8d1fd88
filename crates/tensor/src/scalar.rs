//! Floats of every width as numbers.
//!
//! Every float type here embeds in f64, so decoding is exact. Encoding rounds once, from the f64 directly, to nearest with ties to
//! even. What happens past the largest finite value is a parameter ([`Overflow`]), judged after rounding with unbounded exponent.
//!
//! | type | bias | infinities | NaN written | zero |
//! |---|---|---|---|---|
//! | `f16`, `bf16`, `f32`, `f64`, `f8E5M2` | IEEE | yes | quiet, sign kept | ±0 |
//! | `f8E4M3FN` | 7 | no | all ones, sign kept | ±0 |
//! | `f8E4M3FNUZ`, `f8E5M2FNUZ` | 8, 16 | no | `0x80` | +0 only |
//! | `f8E8M0FNU` | 127 | no | `0xff` | none |
//! | `f4E2M1FN` | 1 | no | none: −0, `0x8` | ±0 |
//!
//! Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0; ONNX operator Cast, opset 25.

use crate::DType;

/// What a finite or infinite value beyond the largest finite value of a type becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The largest finite value of its sign, infinities included.
    Saturate,
    /// Infinity where the type has one, else NaN. `f4E2M1FN` has neither and saturates.
    Special,
}

impl Overflow {
    /// What ONNX's Cast does with its default attributes: the 8- and 4-bit floats saturate, the others go to infinity.
    pub fn default_for(dtype: DType) -> Overflow {
        if dtype.bits() <= 8 { Overflow::Saturate } else { Overflow::Special }
    }
}

/// Rounding to `f8E8M0FNU`, whose values are the powers of two (`round_mode` of ONNX's Cast).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum E8m0Rounding {
    /// The power of two not below.
    Up,
    /// The power of two not above.
    Down,
    /// The nearest power of two, 1.5·2ⁿ going up.
    Nearest,
}

/// What lies at the top of a type's code space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Top {
    /// The largest exponent holds infinity and NaN.
    Ieee,
    /// Only all ones is NaN.
    NanAllOnes,
    /// All codes are finite; NaN is the code of −0.
    NanNegativeZero,
    /// All codes are finite.
    Finite,
}

#[derive(Clone, Copy)]
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    top: Top,
}

/// `None` for types that are no sign-exponent-mantissa floats.
fn format(dtype: DType) -> Option<Format> {
    let (exponent_bits, mantissa_bits, bias, top) = match dtype {
        DType::F16 => (5, 10, 15, Top::Ieee),
        DType::BF16 => (8, 7, 127, Top::Ieee),
        DType::F32 => (8, 23, 127, Top::Ieee),
        DType::F64 => (11, 52, 1023, Top::Ieee),
        DType::F8E4M3FN => (4, 3, 7, Top::NanAllOnes),
        DType::F8E4M3FNUZ => (4, 3, 8, Top::NanNegativeZero),
        DType::F8E5M2 => (5, 2, 15, Top::Ieee),
        DType::F8E5M2FNUZ => (5, 2, 16, Top::NanNegativeZero),
        DType::F4E2M1FN => (2, 1, 1, Top::Finite),
        _ => return None,
    };
    Some(Format { exponent_bits, mantissa_bits, bias, top })
}

impl Format {
    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// Largest finite value's code, without sign.
    fn largest(self) -> u64 {
        match self.top {
            Top::Ieee => self.infinity() - 1,
            Top::NanAllOnes => self.sign_bit() - 2,
            Top::NanNegativeZero | Top::Finite => self.sign_bit() - 1,
        }
    }

    fn nan(self, sign: u64) -> u64 {
        match self.top {
            Top::Ieee => sign | self.infinity() | 1 << (self.mantissa_bits - 1),
            Top::NanAllOnes => sign | (self.sign_bit() - 1),
            Top::NanNegativeZero | Top::Finite => self.sign_bit(),
        }
    }

    /// Code of zero with that sign bit.
    fn zero(self, sign: u64) -> u64 {
        if self.top == Top::NanNegativeZero { 0 } else { sign }
    }

    fn decode(self, bits: u64) -> f64 {
        let magnitude = bits & (self.sign_bit() - 1);
        let negative = bits & self.sign_bit() != 0;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = match self.top {
            Top::NanNegativeZero if negative && magnitude == 0 => f64::NAN,
            Top::Ieee if magnitude == self.infinity() => f64::INFINITY,
            Top::Ieee | Top::NanAllOnes if magnitude > self.largest() => f64::NAN,
            _ if exponent == 0 => mantissa as f64 * power_of_two(1 - self.bias - self.mantissa_bits as i32),
            _ => {
                let significand = mantissa | 1 << self.mantissa_bits;
                significand as f64 * power_of_two(exponent - self.bias - self.mantissa_bits as i32)
            }
        };
        if negative { -value } else { value }
    }

    fn encode(self, value: f64, overflow: Overflow) -> u64 {
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        if value == 0.0 {
            return self.zero(sign);
        }
        let magnitude = if value.is_infinite() { u64::MAX } else { self.round(value.abs()) };
        if magnitude == 0 {
            return self.zero(sign);
        }
        if magnitude <= self.largest() {
            return sign | magnitude;
        }
        match (overflow, self.top) {
            (Overflow::Saturate, _) | (_, Top::Finite) => sign | self.largest(),
            (Overflow::Special, Top::Ieee) => sign | self.infinity(),
            (Overflow::Special, _) => self.nan(sign),
        }
    }

    /// Code of a positive finite value, as if the exponent field had no end.
    fn round(self, value: f64) -> u64 {
        let bits = value.to_bits();
        let field = (bits >> 52) as i32;
        // The value is `significand` · 2^`scale`, with the significand's top bit at 52.
        let (significand, scale) = if field == 0 {
            let mantissa = bits & ((1 << 52) - 1);
            let shift = mantissa.leading_zeros() - 11;
            (mantissa << shift, -1074 - shift as i32)
        } else {
            (bits & ((1 << 52) - 1) | 1 << 52, field - 1075)
        };
        let exponent = scale + 52;
        let smallest = 1 - self.bias;
        let shift = (exponent.max(smallest) - self.mantissa_bits as i32) - scale;
        // Shifted by 54 or more, a 53-bit significand is less than half a unit.
        if shift >= 54 {
            return 0;
        }
        let kept = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = (1u64 << shift) >> 1;
        let rounded = kept + u64::from(shift > 0 && (rest > half || (rest == half && kept & 1 == 1)));
        if exponent < smallest {
            // Rounding up to the smallest normal value gives its code, the fields being adjacent.
            return rounded;
        }
        // `rounded` holds the hidden bit, which adds the last 1 to the exponent field.
        (((exponent + self.bias - 1) as u64) << self.mantissa_bits) + rounded
    }
}

/// 2ⁿ, exactly, for −1074 ≤ n ≤ 1023.
fn power_of_two(n: i32) -> f64 {
    if n >= -1022 { f64::from_bits(((n + 1023) as u64) << 52) } else { f64::from_bits(1 << (n + 1074)) }
}

/// Value of the float whose bits are the low [`DType::bits`] of `bits`. Exact; NaN for types that are no floats.
pub fn decode_float(dtype: DType, bits: u64) -> f64 {
    match dtype {
        // Not through `Format`, so that NaN keeps its payload.
        DType::F64 => f64::from_bits(bits),
        DType::F8E8M0FNU if bits & 0xff == 0xff => f64::NAN,
        DType::F8E8M0FNU => power_of_two((bits & 0xff) as i32 - 127),
        _ => format(dtype).map_or(f64::NAN, |format| format.decode(bits)),
    }
}

/// Bits of the value of a float type nearest to `value`, ties to even, with [`Overflow::default_for`] the type.
///
/// `f8E8M0FNU` is rounded as [`E8m0Rounding::Nearest`]. Types that are no floats give 0.
pub fn encode_float(dtype: DType, value: f64) -> u64 {
    encode_float_with(dtype, value, Overflow::default_for(dtype))
}

/// As [`encode_float`], with a chosen treatment of overflow.
pub fn encode_float_with(dtype: DType, value: f64, overflow: Overflow) -> u64 {
    if dtype == DType::F8E8M0FNU {
        return encode_e8m0(value, E8m0Rounding::Nearest, overflow);
    }
    format(dtype).map_or(0, |format| format.encode(value, overflow))
}

/// Bits of `value` as `f8E8M0FNU`.
///
/// With [`Overflow::Saturate`] values below 2⁻¹²⁷, zero included, become 2⁻¹²⁷ and values above 2¹²⁷ become 2¹²⁷; with
/// [`Overflow::Special`] all of them become NaN. Negative values, −0 included, are NaN in both: ONNX leaves them undefined.
pub fn encode_e8m0(value: f64, rounding: E8m0Rounding, overflow: Overflow) -> u64 {
    const NAN: u64 = 0xff;
    if value.is_nan() || value.is_sign_negative() {
        return NAN;
    }
    let (below, above) = match overflow {
        Overflow::Saturate => (0, 0xfe),
        Overflow::Special => (NAN, NAN),
    };
    if value < power_of_two(-127) {
        return below;
    }
    if value.is_infinite() {
        return above;
    }
    // At least 2⁻¹²⁷, hence normal.
    let bits = value.to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    let up = match rounding {
        E8m0Rounding::Up => mantissa != 0,
        E8m0Rounding::Down => false,
        E8m0Rounding::Nearest => mantissa >= 1 << 51,
    };
    let code = (bits >> 52) + u64::from(up) - (1023 - 127);
    if code > 0xfe { above } else { code }
}
