//! Functions of f32 and f64.

use tenon_graph_dialect::operators::Function;
use tenon_hw_dialect::{FloatPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::DType;

use crate::LoweringError;

pub(super) fn apply<'m>(
    scalar: Scalar<'m>,
    function: Function,
    ty: DType,
    operands: &[Value<'m>],
) -> Result<Value<'m>, LoweringError> {
    use Function as F;
    let binary = |name: &str| scalar.op(name, operands);
    let compare = |predicate| scalar.compare_float(predicate, operands[0], operands[1]);
    let constant = |value: f64| scalar.float(value, ty);
    let a = operands[0];
    Ok(match function {
        F::Add => binary("arith.addf")?,
        F::Subtract => binary("arith.subf")?,
        F::Multiply => binary("arith.mulf")?,
        F::Divide => binary("arith.divf")?,
        F::Remainder => truncated_remainder(scalar, a, operands[1])?,
        F::Modulo => {
            // The remainder has the dividend's sign; move it to the divisor's side, zeros included.
            let b = operands[1];
            let remainder = truncated_remainder(scalar, a, b)?;
            let zero = constant(0.0)?;
            let is_zero = scalar.compare_float(FloatPredicate::OrderedEqual, remainder, zero)?;
            let negative = scalar.compare_float(FloatPredicate::OrderedLess, remainder, zero)?;
            let divisor_negative = scalar.compare_float(FloatPredicate::OrderedLess, b, zero)?;
            let differ = scalar.op("arith.xori", &[negative, divisor_negative])?;
            let moved = scalar.op("arith.addf", &[remainder, b])?;
            let moved = scalar.select(differ, moved, remainder)?;
            let signed_zero = scalar.op("math.copysign", &[zero, b])?;
            scalar.select(is_zero, signed_zero, moved)?
        }
        F::Power => binary("math.powf")?,
        F::Max => binary("arith.maximumf")?,
        F::Min => binary("arith.minimumf")?,
        F::Atan2 => binary("math.atan2")?,
        F::Equal => compare(FloatPredicate::OrderedEqual)?,
        F::NotEqual => compare(FloatPredicate::UnorderedNotEqual)?,
        F::Less => compare(FloatPredicate::OrderedLess)?,
        F::LessEqual => compare(FloatPredicate::OrderedLessEqual)?,
        F::Greater => compare(FloatPredicate::OrderedGreater)?,
        F::GreaterEqual => compare(FloatPredicate::OrderedGreaterEqual)?,
        F::Negate => scalar.op("arith.negf", &[a])?,
        F::Abs => scalar.op("math.absf", &[a])?,
        F::Sign => {
            let zero = constant(0.0)?;
            let positive = scalar.compare_float(FloatPredicate::OrderedGreater, a, zero)?;
            let negative = scalar.compare_float(FloatPredicate::OrderedLess, a, zero)?;
            // Zero and NaN stay themselves.
            let rest = scalar.select(negative, constant(-1.0)?, a)?;
            scalar.select(positive, constant(1.0)?, rest)?
        }
        F::Reciprocal => scalar.op("arith.divf", &[constant(1.0)?, a])?,
        F::Rsqrt => {
            let root = scalar.op("math.sqrt", &[a])?;
            scalar.op("arith.divf", &[constant(1.0)?, root])?
        }
        F::Sigmoid => {
            // 1 / (1 + e^-x) for x ≥ 0, e^x / (1 + e^x) below: neither overflows, and small results keep their digits.
            let size = scalar.op("math.absf", &[a])?;
            let power = scalar.op("math.exp", &[scalar.op("arith.negf", &[size])?])?;
            let one = constant(1.0)?;
            let negative = scalar.compare_float(FloatPredicate::OrderedLess, a, constant(0.0)?)?;
            let above = scalar.select(negative, power, one)?;
            scalar.op("arith.divf", &[above, scalar.op("arith.addf", &[one, power])?])?
        }
        F::IsNan => scalar.compare_float(FloatPredicate::Unordered, a, a)?,
        F::IsInf => {
            let size = scalar.op("math.absf", &[a])?;
            scalar.compare_float(FloatPredicate::OrderedEqual, size, constant(f64::INFINITY)?)?
        }
        F::Exp => scalar.op("math.exp", &[a])?,
        F::Expm1 => scalar.op("math.expm1", &[a])?,
        F::Log => scalar.op("math.log", &[a])?,
        F::Log1p => scalar.op("math.log1p", &[a])?,
        F::Sqrt => scalar.op("math.sqrt", &[a])?,
        F::Erf => scalar.op("math.erf", &[a])?,
        F::Tanh => scalar.op("math.tanh", &[a])?,
        F::Sin => scalar.op("math.sin", &[a])?,
        F::Cos => scalar.op("math.cos", &[a])?,
        F::Tan => scalar.op("math.tan", &[a])?,
        F::Asin => scalar.op("math.asin", &[a])?,
        F::Acos => scalar.op("math.acos", &[a])?,
        F::Atan => scalar.op("math.atan", &[a])?,
        F::Sinh => scalar.op("math.sinh", &[a])?,
        F::Cosh => scalar.op("math.cosh", &[a])?,
        F::Asinh => scalar.op("math.asinh", &[a])?,
        F::Acosh => scalar.op("math.acosh", &[a])?,
        F::Atanh => scalar.op("math.atanh", &[a])?,
        F::Floor => scalar.op("math.floor", &[a])?,
        F::Ceil => scalar.op("math.ceil", &[a])?,
        F::Round => scalar.op("math.roundeven", &[a])?,
        F::Trunc => scalar.op("math.trunc", &[a])?,
        F::And
        | F::Or
        | F::Xor
        | F::Not
        | F::BitAnd
        | F::BitOr
        | F::BitXor
        | F::BitNot
        | F::ShiftLeft
        | F::ShiftRight
        | F::Select => {
            return Err(LoweringError::unsupported(function.name(), "floats"));
        }
    })
}

/// a - b·trunc(a / b), exactly: `arith.remf` is C's fmod.
fn truncated_remainder<'m>(scalar: Scalar<'m>, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, LoweringError> {
    Ok(scalar.op("arith.remf", &[a, b])?)
}
