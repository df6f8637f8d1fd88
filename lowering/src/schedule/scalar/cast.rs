//! Conversion between element types.

use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::{DType, NumberKind, Overflow};

use crate::LoweringError;
use crate::schedule::scalar::{format, is_narrow_float, narrow, register_type, widen, wrap};

/// A value of one element type as another: float to integer truncates (out of range: saturates, NaN gives 0), integers wrap, anything to
/// bool compares with zero, floats of 8 bits and fewer saturate.
pub(crate) fn cast<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    cast_with(scalar, value, from, to, Overflow::default_for(to))
}

/// As [`cast`], with a choice of what lies beyond the largest value of a float of 8 bits or fewer.
pub(crate) fn cast_with<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
    overflow: Overflow,
) -> Result<Value<'m>, LoweringError> {
    if from == to {
        return Ok(value);
    }
    if is_narrow_float(from) {
        // f32 holds it.
        return cast_with(scalar, widen(scalar, value, from)?, DType::F32, to, overflow);
    }
    if is_narrow_float(to) {
        // Through a format that is rounded from once.
        let (wide, value) = match (from.kind(), register_type(from).bits()) {
            (NumberKind::Float, 64) => (DType::F64, value),
            (NumberKind::Float, _) => (DType::F32, widen(scalar, value, from)?),
            (NumberKind::SignedInteger | NumberKind::UnsignedInteger, 32) => {
                (DType::F64, cast(scalar, value, from, DType::F64)?)
            }
            (NumberKind::SignedInteger | NumberKind::UnsignedInteger, 64) => {
                (DType::F64, cast(scalar, rounded_to_odd(scalar, value)?, from, DType::F64)?)
            }
            _ => (DType::F32, cast(scalar, value, from, DType::F32)?),
        };
        return format::encode(scalar, value, wide, to, overflow);
    }
    let (source, target) = (register_type(from), register_type(to));
    Ok(match (from.kind(), to.kind()) {
        (NumberKind::Complex, _) | (_, NumberKind::Complex) => {
            return Err(LoweringError::unsupported("graph.cast", format!("{from} to {to}")));
        }
        (NumberKind::Float, NumberKind::Bool) => {
            let zero = scalar.float(0.0, source)?;
            scalar.compare_float(FloatPredicate::UnorderedNotEqual, value, zero)?
        }
        (_, NumberKind::Bool) => {
            let zero = scalar.int(0, source)?;
            scalar.compare_int(IntegerPredicate::NotEqual, value, zero)?
        }
        (NumberKind::Float, NumberKind::Float) => float_to_float(scalar, value, from, to)?,
        (NumberKind::Float, _) => float_to_integer(scalar, value, from, to)?,
        (NumberKind::SignedInteger, NumberKind::Float) => integer_to_float(scalar, value, "arith.sitofp", source, to)?,
        (_, NumberKind::Float) => integer_to_float(scalar, value, "arith.uitofp", source, to)?,
        (kind, _) => {
            let value = match source.bits().cmp(&target.bits()) {
                std::cmp::Ordering::Equal => value,
                std::cmp::Ordering::Greater => scalar.convert("arith.trunci", value, target)?,
                std::cmp::Ordering::Less if kind == NumberKind::SignedInteger => {
                    scalar.convert("arith.extsi", value, target)?
                }
                std::cmp::Ordering::Less => scalar.convert("arith.extui", value, target)?,
            };
            wrap(scalar, value, to)?
        }
    })
}

fn float_to_float<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    let sixteen = |dtype: DType| dtype.bits() == 16;
    Ok(if sixteen(from) && sixteen(to) {
        // f16 and bf16 into each other: f32 holds both.
        narrow(scalar, widen(scalar, value, from)?, to)?
    } else if from.bits() < to.bits() {
        scalar.convert("arith.extf", value, to)?
    } else {
        scalar.convert("arith.truncf", value, to)?
    })
}

/// An f64 in the range of f32 that f32 holds and bf16 rounds alike: digits that f32 lacks, where there are any, are gathered in its last one.
fn gathered_for_f32<'m>(scalar: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, LoweringError> {
    const LOST: i64 = (1 << 29) - 1;
    let int = |number: i64| scalar.int(number, DType::I64);
    let bits = scalar.convert("arith.bitcast", value, DType::I64)?;
    let lost = scalar.op("arith.andi", &[bits, int(LOST)?])?;
    let gathered = scalar.op("arith.andi", &[scalar.add(lost, int(LOST)?)?, int(LOST + 1)?])?;
    let kept = scalar.op("arith.andi", &[bits, int(!LOST)?])?;
    Ok(scalar.convert("arith.bitcast", scalar.op("arith.ori", &[kept, gathered])?, DType::F64)?)
}

/// A 64-bit integer that f64 holds and every narrower float rounds alike: bits that f64 may lack, where there are any, are gathered in the lowest
/// one that it has. Numbers below 2^53 stay as they are.
fn rounded_to_odd<'m>(scalar: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, LoweringError> {
    const LOST: i64 = (1 << 11) - 1;
    let int = |number: i64| scalar.int(number, DType::I64);
    let lost = scalar.op("arith.andi", &[value, int(LOST)?])?;
    let gathered = scalar.op("arith.andi", &[scalar.add(lost, int(LOST)?)?, int(LOST + 1)?])?;
    let kept = scalar.op("arith.andi", &[value, int(!LOST)?])?;
    let odd = scalar.op("arith.ori", &[kept, gathered])?;
    // −2^53 ≤ value < 2^53; of ui64, what is at least 2^64 − 2^53 seems small too, and rounds to the same.
    let small = scalar.compare_int(IntegerPredicate::UnsignedLess, scalar.add(value, int(1 << 53)?)?, int(1 << 54)?)?;
    Ok(scalar.select(small, value, odd)?)
}

fn integer_to_float<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    name: &str,
    source: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    if to.bits() > 16 {
        return Ok(scalar.convert(name, value, to)?);
    }
    // Through a format that holds the integer exactly, so that rounding happens once.
    let exact = if source.bits() <= 16 { DType::F32 } else { DType::F64 };
    let value = if source.bits() > 32 { rounded_to_odd(scalar, value)? } else { value };
    let wide = scalar.convert(name, value, exact)?;
    if to == DType::BF16 && exact == DType::F64 {
        // LLVM would go from the integer through f32, which rounds a second time.
        let single = scalar.convert("arith.truncf", gathered_for_f32(scalar, wide)?, DType::F32)?;
        return Ok(scalar.convert("arith.truncf", single, to)?);
    }
    Ok(scalar.convert("arith.truncf", wide, to)?)
}

/// Truncates; what lies outside the range becomes its end, NaN 0. Source: ONNX Cast, as the reference reads it; PTX ISA, "cvt".
fn float_to_integer<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    let value = widen(scalar, value, from)?;
    let ty = if from == DType::F64 { DType::F64 } else { DType::F32 };
    let bits = to.bits() as i32;
    // Through 64 bits, which hold every narrower range.
    let wide = if bits < 64 { DType::I64 } else { register_type(to) };
    let name = if to.is_signed() || bits < 64 { "arith.fptosi" } else { "arith.fptoui" };
    // Both ends are powers of two, which every float type holds.
    let (low, high) =
        if to.is_signed() { (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)) } else { (0.0, 2f64.powi(bits)) };
    let (least, greatest) = match (to.is_signed(), bits) {
        (true, _) => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        (false, 64) => (0, -1),
        (false, _) => (0, (1 << bits) - 1),
    };
    let above = scalar.compare_float(FloatPredicate::OrderedGreaterEqual, value, scalar.float(high, ty)?)?;
    let below = scalar.compare_float(FloatPredicate::OrderedLess, value, scalar.float(low, ty)?)?;
    let nan = scalar.compare_float(FloatPredicate::Unordered, value, value)?;
    let outside = scalar.op("arith.ori", &[scalar.op("arith.ori", &[above, below])?, nan])?;
    let safe = scalar.select(outside, scalar.float(0.0, ty)?, value)?;
    let converted = scalar.convert(name, safe, wide)?;
    let converted = scalar.select(above, scalar.int(greatest, wide)?, converted)?;
    let converted = scalar.select(below, scalar.int(least, wide)?, converted)?;
    Ok(if bits < 64 { scalar.convert("arith.trunci", converted, register_type(to))? } else { converted })
}
