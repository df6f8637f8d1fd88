//! Scalar code of elementwise functions and casts, in the element's own type.
//!
//! Every function rounds its result to its element type: f16, bf16 and the narrower floats compute in f32 and round once, which for +, -, ·, /
//! and √ is the correctly rounded result (f32 has more than twice their digits).
//!
//! Floats and integers of 8 bits or fewer lie in registers as `i8`: a float by its bits, an integer narrower than eight bits extended by its
//! sign or by zeros.

mod cast;
mod float;
mod format;
mod integer;
pub(crate) mod order;
pub(crate) mod quotient;

use tenon_graph_dialect::operators::Function;
use tenon_hw_dialect::Scalar;
use tenon_ir::{IrError, Value};
use tenon_tensor::{DType, NumberKind, Overflow, encode_float};

use crate::LoweringError;
use crate::elementary::NONPOSITIVE;

pub(crate) use cast::{cast, cast_with};

/// Whether values of a float type are bits in registers, without arithmetic of their own.
pub(crate) fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() <= 8
}

/// Whether values of a type take fewer bits than their registers.
pub(crate) fn is_sub_byte(dtype: DType) -> bool {
    dtype.bits() < 8 && dtype != DType::Bool
}

/// The type that values of an element type have inside tiles: signless, bool as `i1`, what is narrower than 16 bits otherwise as `i8`.
pub(crate) fn register_type(dtype: DType) -> DType {
    match dtype {
        DType::U8 | DType::I2 | DType::I4 | DType::U2 | DType::U4 => DType::I8,
        narrow if is_narrow_float(narrow) => DType::I8,
        DType::U16 => DType::I16,
        DType::U32 => DType::I32,
        DType::U64 => DType::I64,
        other => other,
    }
}

/// The type that an element has in memory: bool as a byte.
pub(crate) fn memory_type(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I8 } else { register_type(dtype) }
}

/// The type that arithmetic on an element type is done in.
pub(crate) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        narrow if is_narrow_float(narrow) => DType::F32,
        other => register_type(other),
    }
}

/// A value in its compute type.
pub(crate) fn widen<'m>(scalar: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    match dtype {
        DType::F16 | DType::BF16 => Ok(scalar.convert("arith.extf", value, DType::F32)?),
        narrow if is_narrow_float(narrow) => format::decode(scalar, value, narrow),
        _ => Ok(value),
    }
}

/// A value of the compute type rounded to its own; past the largest value of a float of 8 bits or fewer, to that one.
pub(crate) fn narrow<'m>(scalar: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    match dtype {
        DType::F16 | DType::BF16 => Ok(scalar.convert("arith.truncf", value, dtype)?),
        narrow if is_narrow_float(narrow) => {
            format::encode(scalar, value, DType::F32, narrow, Overflow::default_for(narrow))
        }
        _ => Ok(value),
    }
}

/// The low bits of an integer in the form that its type has in registers.
pub(crate) fn wrap<'m>(scalar: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    if !is_sub_byte(dtype) {
        return Ok(value);
    }
    let bits = i64::from(dtype.bits());
    if !dtype.is_signed() {
        return Ok(scalar.op("arith.andi", &[value, scalar.int((1 << bits) - 1, DType::I8)?])?);
    }
    let unused = scalar.int(8 - bits, DType::I8)?;
    Ok(scalar.op("arith.shrsi", &[scalar.op("arith.shli", &[value, unused])?, unused])?)
}

/// A number as a constant of an element type; integers wrap.
pub(crate) fn constant<'m>(scalar: Scalar<'m>, value: Number, dtype: DType) -> Result<Value<'m>, LoweringError> {
    let ty = register_type(dtype);
    if is_narrow_float(dtype) {
        let value = match value {
            Number::Float(value) => value,
            Number::Integer(value) => value as f64,
        };
        return Ok(scalar.int(encode_float(dtype, value) as i64, ty)?);
    }
    Ok(match value {
        Number::Float(value) if ty.is_float() => scalar.float(value, ty)?,
        Number::Integer(value) if !ty.is_float() => scalar.int(value, ty)?,
        Number::Float(value) => scalar.int(value as i64, ty)?,
        Number::Integer(value) => scalar.float(value as f64, ty)?,
    })
}

/// A literal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Float(f64),
    Integer(i64),
}

/// An operation of f32 whose result is rounded to 16 bits, or corrected: by the form, or the instruction, that it has for that.
pub(crate) fn approximate<'m>(
    scalar: Scalar<'m>,
    operation: &str,
    operands: &[Value<'m>],
) -> Result<Value<'m>, IrError> {
    let at = scalar.builder();
    let flags = at.context().parse_attribute("#arith.fastmath<afn>")?;
    let types: Vec<_> = operands.iter().take(1).map(|operand| operand.ty()).collect();
    at.op(operation).attribute("fastmath", flags).operands(operands).results(&types).value()
}

/// `e^x` of an `x` that is not above 0, to be added to 1 or more: below 2^-126 it may be 0.
pub(crate) fn exp_of_nonpositive<'m>(scalar: Scalar<'m>, x: Value<'m>) -> Result<Value<'m>, IrError> {
    let at = scalar.builder();
    at.op("math.exp").attribute(NONPOSITIVE, at.context().unit()).operands(&[x]).results(&[x.ty()]).value()
}

/// The function applied to operands of element type `dtype` (for `select`: of the values), in register types.
pub(crate) fn apply<'m>(
    scalar: Scalar<'m>,
    function: Function,
    dtype: DType,
    operands: &[Value<'m>],
) -> Result<Value<'m>, LoweringError> {
    match (function, operands) {
        (Function::Select, [condition, a, b]) => return Ok(scalar.select(*condition, *a, *b)?),
        (Function::And | Function::BitAnd, [a, b]) => return Ok(scalar.op("arith.andi", &[*a, *b])?),
        (Function::Or | Function::BitOr, [a, b]) => return Ok(scalar.op("arith.ori", &[*a, *b])?),
        (Function::Xor | Function::BitXor, [a, b]) => return Ok(scalar.op("arith.xori", &[*a, *b])?),
        (Function::Not | Function::BitNot, [a]) => {
            let ones = scalar.int(-1, register_type(dtype))?;
            return wrap(scalar, scalar.op("arith.xori", &[*a, ones])?, dtype);
        }
        _ => {}
    }
    match dtype.kind() {
        NumberKind::Float => {
            let wide = operands.iter().map(|value| widen(scalar, *value, dtype)).collect::<Result<Vec<_>, _>>()?;
            let result = match (function, wide.as_slice()) {
                (Function::Erf, [x]) if matches!(dtype, DType::F16 | DType::BF16) => {
                    approximate(scalar, "math.erf", &[*x])?
                }
                _ => float::apply(scalar, function, compute_type(dtype), &wide)?,
            };
            if function.is_predicate() { Ok(result) } else { narrow(scalar, result, dtype) }
        }
        NumberKind::SignedInteger | NumberKind::UnsignedInteger => {
            let result = integer::apply(scalar, function, dtype, operands)?;
            if function.is_predicate() { Ok(result) } else { wrap(scalar, result, dtype) }
        }
        NumberKind::Bool => integer::apply(scalar, function, DType::Bool, operands),
        NumberKind::Complex => Err(LoweringError::unsupported(function.name(), "complex numbers")),
    }
}
