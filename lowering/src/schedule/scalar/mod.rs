//! Scalar code of elementwise functions and casts, in the element's own type.
//!
//! Every function rounds its result to its element type: f16 and bf16 compute in f32 and round once, which for +, -, ·, / and √ is the
//! correctly rounded result (f32 has more than twice their digits).

mod cast;
mod float;
mod integer;
pub(crate) mod order;

use tenon_graph_dialect::operators::Function;
use tenon_hw_dialect::Scalar;
use tenon_ir::Value;
use tenon_tensor::{DType, NumberKind};

use crate::LoweringError;

pub(crate) use cast::cast;

/// The type that values of an element type have inside tiles: signless, bool as `i1`.
pub(crate) fn register_type(dtype: DType) -> DType {
    match dtype {
        DType::U8 => DType::I8,
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
        other => register_type(other),
    }
}

/// A value in its compute type.
pub(crate) fn widen<'m>(scalar: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    match dtype {
        DType::F16 | DType::BF16 => Ok(scalar.convert("arith.extf", value, DType::F32)?),
        _ => Ok(value),
    }
}

/// A value of the compute type rounded to its own.
pub(crate) fn narrow<'m>(scalar: Scalar<'m>, value: Value<'m>, dtype: DType) -> Result<Value<'m>, LoweringError> {
    match dtype {
        DType::F16 | DType::BF16 => Ok(scalar.convert("arith.truncf", value, dtype)?),
        _ => Ok(value),
    }
}

/// A number as a constant of an element type; integers wrap.
pub(crate) fn constant<'m>(scalar: Scalar<'m>, value: Number, dtype: DType) -> Result<Value<'m>, LoweringError> {
    let ty = register_type(dtype);
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
            return Ok(scalar.op("arith.xori", &[*a, ones])?);
        }
        _ => {}
    }
    match dtype.kind() {
        NumberKind::Float => {
            let wide = operands.iter().map(|value| widen(scalar, *value, dtype)).collect::<Result<Vec<_>, _>>()?;
            let result = float::apply(scalar, function, compute_type(dtype), &wide)?;
            if function.is_predicate() { Ok(result) } else { narrow(scalar, result, dtype) }
        }
        NumberKind::SignedInteger | NumberKind::UnsignedInteger => integer::apply(scalar, function, dtype, operands),
        NumberKind::Bool => integer::apply(scalar, function, DType::Bool, operands),
        NumberKind::Complex => Err(LoweringError::unsupported(function.name(), "complex numbers")),
    }
}
