//! Conversion between element types.

use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::{DType, NumberKind};

use crate::LoweringError;
use crate::schedule::scalar::{narrow, register_type, widen};

/// A value of one element type as another: float to integer truncates (out of range: saturates, NaN gives 0), integers wrap, anything to
/// bool compares with zero.
pub(crate) fn cast<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    if from == to {
        return Ok(value);
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
        (kind, _) => match source.bits().cmp(&target.bits()) {
            std::cmp::Ordering::Equal => value,
            std::cmp::Ordering::Greater => scalar.convert("arith.trunci", value, target)?,
            std::cmp::Ordering::Less if kind == NumberKind::SignedInteger => {
                scalar.convert("arith.extsi", value, target)?
            }
            std::cmp::Ordering::Less => scalar.convert("arith.extui", value, target)?,
        },
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
    if source.bits() > 32 {
        return Err(LoweringError::unsupported("graph.cast", format!("64-bit integers to {to}; cast to f32 first")));
    }
    let wide = scalar.convert(name, value, exact)?;
    Ok(scalar.convert("arith.truncf", wide, to)?)
}

fn float_to_integer<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    from: DType,
    to: DType,
) -> Result<Value<'m>, LoweringError> {
    let value = widen(scalar, value, from)?;
    let ty = if from == DType::F64 { DType::F64 } else { DType::F32 };
    let signed = to.is_signed();
    let bits = to.bits();
    // Convert through 64 bits, inside whose range every narrower one lies; wider values wrap as two's complement does.
    let wide = if bits < 64 { DType::I64 } else { register_type(to) };
    let (low, high) = if signed || bits < 64 { (-(2f64.powi(63)), 2f64.powi(63)) } else { (0.0, 2f64.powi(64)) };
    let name = if signed || bits < 64 { "arith.fptosi" } else { "arith.fptoui" };
    let above = scalar.compare_float(FloatPredicate::OrderedGreaterEqual, value, scalar.float(high, ty)?)?;
    let below = scalar.compare_float(FloatPredicate::OrderedLess, value, scalar.float(low, ty)?)?;
    let nan = scalar.compare_float(FloatPredicate::Unordered, value, value)?;
    let outside = scalar.op("arith.ori", &[scalar.op("arith.ori", &[above, below])?, nan])?;
    let safe = scalar.select(outside, scalar.float(0.0, ty)?, value)?;
    let converted = scalar.convert(name, safe, wide)?;
    let (least, greatest) = if signed || bits < 64 { (i64::MIN, i64::MAX) } else { (0, -1) };
    let converted = scalar.select(above, scalar.int(greatest, wide)?, converted)?;
    let converted = scalar.select(below, scalar.int(least, wide)?, converted)?;
    Ok(if bits < 64 { scalar.convert("arith.trunci", converted, register_type(to))? } else { converted })
}
