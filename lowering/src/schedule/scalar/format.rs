//! Floats of eight bits and fewer as arithmetic on their bits, on every architecture alike.
//!
//! Decoding gives the f32 that is the same number. Encoding rounds once, from an f32 or f64, to nearest with ties to even. The formats are
//! those of `tenon_tensor`, which is the oracle of the tests here. Sources: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling
//! Formats 1.0; ONNX operator Cast, opset 25.

use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::{DType, Overflow};

use crate::LoweringError;

/// Fields of a sign-exponent-mantissa format, and the magnitudes at the top of its code space.
#[derive(Clone, Copy)]
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i64,
    /// Code of the largest finite magnitude.
    largest: i64,
    /// Code that the format has for magnitudes beyond it, sign apart; none where it saturates in any case.
    beyond: Option<i64>,
    /// NaN's code, sign apart.
    nan: i64,
    /// Whether the code of -0 is NaN, and zero has no sign.
    negative_zero_is_nan: bool,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let format = |exponent_bits, mantissa_bits, bias, largest, beyond, nan, negative_zero_is_nan| {
            Some(Format { exponent_bits, mantissa_bits, bias, largest, beyond, nan, negative_zero_is_nan })
        };
        match dtype {
            DType::F8E4M3FN => format(4, 3, 7, 0x7e, Some(0x7f), 0x7f, false),
            DType::F8E5M2 => format(5, 2, 15, 0x7b, Some(0x7c), 0x7e, false),
            DType::F8E4M3FNUZ => format(4, 3, 8, 0x7f, Some(0x80), 0x80, true),
            DType::F8E5M2FNUZ => format(5, 2, 16, 0x7f, Some(0x80), 0x80, true),
            DType::F4E2M1FN => format(2, 1, 1, 0x7, None, 0x8, false),
            _ => None,
        }
    }

    fn sign_bit(self) -> i64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }
}

/// The number whose bits a value of a narrow float type holds, as f32.
pub(super) fn decode<'m>(scalar: Scalar<'m>, value: Value<'m>, from: DType) -> Result<Value<'m>, LoweringError> {
    let int = |number: i64| scalar.int(number, DType::I32);
    let bits = scalar.convert("arith.extui", value, DType::I32)?;
    let Some(format) = Format::of(from) else { return decode_power_of_two(scalar, bits) };
    let magnitude = scalar.op("arith.andi", &[bits, int(format.sign_bit() - 1)?])?;
    let mantissa_shift = int(i64::from(23 - format.mantissa_bits))?;
    // A number with a leading 1 has its fields in other places and another bias.
    let normal = scalar.op("arith.shli", &[magnitude, mantissa_shift])?;
    let normal = scalar.add(normal, int((127 - format.bias) << 23)?)?;
    let normal = scalar.convert("arith.bitcast", normal, DType::F32)?;
    // One without is a multiple of the least.
    let least = 2f64.powi(1 - format.bias as i32 - format.mantissa_bits as i32);
    let whole = scalar.convert("arith.uitofp", magnitude, DType::F32)?;
    let subnormal = scalar.op("arith.mulf", &[whole, scalar.float(least, DType::F32)?])?;
    let is_subnormal =
        scalar.compare_int(IntegerPredicate::UnsignedLess, magnitude, int(1 << format.mantissa_bits)?)?;
    let number = scalar.select(is_subnormal, subnormal, normal)?;
    let number = match from {
        DType::F8E5M2 => {
            let infinite = scalar.compare_int(IntegerPredicate::Equal, magnitude, int(0x7c)?)?;
            scalar.select(infinite, scalar.float(f64::INFINITY, DType::F32)?, number)?
        }
        _ => number,
    };
    // The sign goes to the highest bit, NaN after it.
    let sign = scalar.op("arith.andi", &[bits, int(format.sign_bit())?])?;
    let sign = scalar.op("arith.shli", &[sign, int(31 - i64::from(format.exponent_bits + format.mantissa_bits))?])?;
    let number = scalar.convert("arith.bitcast", number, DType::I32)?;
    let number = scalar.convert("arith.bitcast", scalar.op("arith.ori", &[number, sign])?, DType::F32)?;
    let is_nan = match from {
        DType::F4E2M1FN => return Ok(number),
        _ if format.negative_zero_is_nan => scalar.compare_int(IntegerPredicate::Equal, bits, int(format.nan)?)?,
        DType::F8E5M2 => scalar.compare_int(IntegerPredicate::UnsignedGreater, magnitude, int(0x7c)?)?,
        _ => scalar.compare_int(IntegerPredicate::Equal, magnitude, int(format.nan)?)?,
    };
    // A NaN keeps its sign where its format has one for it.
    let quiet = scalar.op("arith.ori", &[sign, int(0x7fc0_0000)?])?;
    let quiet = if format.negative_zero_is_nan { int(0x7fc0_0000)? } else { quiet };
    let quiet = scalar.convert("arith.bitcast", quiet, DType::F32)?;
    Ok(scalar.select(is_nan, quiet, number)?)
}

/// `f8E8M0FNU`: 2 to the power of the bits less 127; all ones are NaN.
fn decode_power_of_two<'m>(scalar: Scalar<'m>, bits: Value<'m>) -> Result<Value<'m>, LoweringError> {
    let int = |number: i64| scalar.int(number, DType::I32);
    let power = scalar.op("arith.shli", &[bits, int(23)?])?;
    // 2⁻¹²⁷ is below the numbers with a leading 1.
    let is_least = scalar.compare_int(IntegerPredicate::Equal, bits, int(0)?)?;
    let power = scalar.select(is_least, int(1 << 22)?, power)?;
    let is_nan = scalar.compare_int(IntegerPredicate::Equal, bits, int(0xff)?)?;
    let power = scalar.select(is_nan, int(0x7fc0_0000)?, power)?;
    Ok(scalar.convert("arith.bitcast", power, DType::F32)?)
}

/// Bits of the value of a narrow float type nearest to an f32 or f64 (`from`).
pub(super) fn encode<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
    overflow: Overflow,
) -> Result<Value<'m>, LoweringError> {
    let Some(format) = Format::of(to) else { return encode_power_of_two(scalar, value, from, overflow) };
    let (word, mantissa_bits, bias) = if from == DType::F64 { (DType::I64, 52, 1023) } else { (DType::I32, 23, 127) };
    let int = |number: i64| scalar.int(number, word);
    let bits = scalar.convert("arith.bitcast", value, word)?;
    let magnitude = scalar.op("arith.andi", &[bits, int(if word == DType::I64 { i64::MAX } else { 0x7fff_ffff })?])?;
    // Half of the last digit that stays, less the digit itself when that is even: a tie goes to even. What is carried out of the mantissa is
    // the next exponent.
    let lost = i64::from(mantissa_bits - format.mantissa_bits);
    let last = scalar.op("arith.andi", &[scalar.op("arith.shrui", &[magnitude, int(lost)?])?, int(1)?])?;
    let rounded = scalar.add(scalar.add(magnitude, int((1 << (lost - 1)) - 1)?)?, last)?;
    let rounded = scalar.op("arith.shrui", &[rounded, int(lost)?])?;
    let normal = scalar.add(rounded, int(-((bias - format.bias) << format.mantissa_bits))?)?;
    // Below the numbers with a leading 1, the sum with a number whose last digit is the least magnitude rounds to multiples of that.
    let anchor = 2f64.powi(1 - format.bias as i32 - format.mantissa_bits as i32 + mantissa_bits as i32);
    let size = scalar.convert("arith.bitcast", magnitude, from)?;
    let anchor = scalar.float(anchor, from)?;
    let sum = scalar.convert("arith.bitcast", scalar.op("arith.addf", &[size, anchor])?, word)?;
    let subnormal = scalar.op("arith.subi", &[sum, scalar.convert("arith.bitcast", anchor, word)?])?;
    let least_normal = int((bias + 1 - format.bias) << mantissa_bits)?;
    let is_subnormal = scalar.compare_int(IntegerPredicate::UnsignedLess, magnitude, least_normal)?;
    let code = scalar.select(is_subnormal, subnormal, normal)?;
    let is_beyond = scalar.compare_int(IntegerPredicate::SignedGreater, code, int(format.largest)?)?;
    let beyond = match (overflow, format.beyond) {
        (Overflow::Special, Some(code)) => code,
        _ => format.largest,
    };
    let code = scalar.select(is_beyond, int(beyond)?, code)?;
    let is_nan = scalar.compare_float(FloatPredicate::Unordered, value, value)?;
    let code = scalar.select(is_nan, int(format.nan)?, code)?;
    // The sign, in its place.
    let distance = i64::from(word.bits()) - 1 - i64::from(format.exponent_bits + format.mantissa_bits);
    let sign = scalar.op("arith.shrui", &[bits, int(distance)?])?;
    let sign = scalar.op("arith.andi", &[sign, int(format.sign_bit())?])?;
    let sign = if format.negative_zero_is_nan {
        let is_zero = scalar.compare_int(IntegerPredicate::Equal, code, int(0)?)?;
        scalar.select(is_zero, int(0)?, sign)?
    } else {
        sign
    };
    let code = scalar.op("arith.ori", &[code, sign])?;
    Ok(scalar.convert("arith.trunci", code, DType::I8)?)
}

/// Bits of the power of two nearest to a number, 1.5·2ⁿ going up. Past the ends, the end or NaN; of a negative number NaN.
fn encode_power_of_two<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    overflow: Overflow,
) -> Result<Value<'m>, LoweringError> {
    const NAN: i64 = 0xff;
    let int = |number: i64| scalar.int(number, DType::I64);
    // In f64 every power that the type has has a leading 1.
    let wide = if from == DType::F64 { value } else { scalar.convert("arith.extf", value, DType::F64)? };
    let bits = scalar.convert("arith.bitcast", wide, DType::I64)?;
    let rounded = scalar.op("arith.shrui", &[scalar.add(bits, int(1 << 51)?)?, int(52)?])?;
    let code = scalar.op("arith.subi", &[rounded, int(1023 - 127)?])?;
    let (low, high) = match overflow {
        Overflow::Saturate => (0, 0xfe),
        Overflow::Special => (NAN, NAN),
    };
    let least = int((1023 - 127) << 52)?;
    let is_below = scalar.compare_int(IntegerPredicate::SignedLess, bits, least)?;
    let is_above = scalar.compare_int(IntegerPredicate::SignedGreater, code, int(0xfe)?)?;
    let is_negative = scalar.compare_int(IntegerPredicate::SignedLess, bits, int(0)?)?;
    let is_nan = scalar.compare_float(FloatPredicate::Unordered, wide, wide)?;
    let code = scalar.select(is_above, int(high)?, code)?;
    let code = scalar.select(is_below, int(low)?, code)?;
    let undefined = scalar.op("arith.ori", &[is_negative, is_nan])?;
    let code = scalar.select(undefined, int(NAN)?, code)?;
    Ok(scalar.convert("arith.trunci", code, DType::I8)?)
}
