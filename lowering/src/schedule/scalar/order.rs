//! Numbers as integers that compare alike.

use tenon_hw_dialect::{FloatPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::scalar::widen;

/// The type of an element type's keys.
pub(crate) fn key_type(dtype: DType) -> DType {
    if dtype.bits() > 32 { DType::I64 } else { DType::I32 }
}

/// An integer whose order without sign is that of the numbers: -0 equals +0, and NaN is above every number and equals NaN.
pub(crate) fn key<'m>(code: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    let ty = key_type(dtype);
    let sign = if ty == DType::I64 { i64::MIN } else { i64::from(i32::MIN) };
    if !dtype.is_float() {
        let extend = if dtype.is_signed() { "arith.extsi" } else { "arith.extui" };
        let wide = if dtype.bits() == ty.bits() { value } else { code.convert(extend, value, ty)? };
        return Ok(if dtype.is_signed() { code.op("arith.xori", &[wide, code.int(sign, ty)?])? } else { wide });
    }
    let wide = widen(code, value, dtype)?;
    let float = if ty == DType::I64 { DType::F64 } else { DType::F32 };
    let bits = code.convert("arith.bitcast", wide, ty)?;
    // Of a negative number all bits turn, of another one the sign alone.
    let spread = code.op("arith.shrsi", &[bits, code.int(i64::from(ty.bits()) - 1, ty)?])?;
    let turned = code.op("arith.ori", &[spread, code.int(sign, ty)?])?;
    let ordered = code.op("arith.xori", &[bits, turned])?;
    let zero = code.compare_float(FloatPredicate::OrderedEqual, wide, code.float(0.0, float)?)?;
    let ordered = code.select(zero, code.int(sign, ty)?, ordered)?;
    let nan = code.compare_float(FloatPredicate::Unordered, wide, wide)?;
    Ok(code.select(nan, code.int(-1, ty)?, ordered)?)
}
