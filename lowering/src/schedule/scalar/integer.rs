//! Functions of integers and bools.

use tenon_graph_dialect::operators::Function;
use tenon_hw_dialect::{IntegerPredicate, Scalar};
use tenon_ir::Value;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::scalar::register_type;

pub(super) fn apply<'m>(
    scalar: Scalar<'m>,
    function: Function,
    dtype: DType,
    operands: &[Value<'m>],
) -> Result<Value<'m>, LoweringError> {
    use Function as F;
    use IntegerPredicate as P;
    let signed = dtype.is_signed();
    let ty = register_type(dtype);
    let pick =
        |with_sign: &'static str, without: &'static str| scalar.op(if signed { with_sign } else { without }, operands);
    let compare =
        |with_sign, without| scalar.compare_int(if signed { with_sign } else { without }, operands[0], operands[1]);
    let int = |value: i64| scalar.int(value, ty);
    let a = operands[0];
    Ok(match function {
        F::Add => scalar.op("arith.addi", operands)?,
        F::Subtract => scalar.op("arith.subi", operands)?,
        F::Multiply => scalar.op("arith.muli", operands)?,
        F::Divide => divide(scalar, dtype, a, operands[1])?.0,
        F::Remainder => divide(scalar, dtype, a, operands[1])?.1,
        F::Modulo => {
            let b = operands[1];
            let remainder = divide(scalar, dtype, a, b)?.1;
            if !signed {
                return Ok(remainder);
            }
            let zero = int(0)?;
            let nonzero = scalar.compare_int(P::NotEqual, remainder, zero)?;
            let signs = scalar.op("arith.xori", &[remainder, b])?;
            let differ = scalar.compare_int(P::SignedLess, signs, zero)?;
            let move_it = scalar.op("arith.andi", &[nonzero, differ])?;
            let moved = scalar.add(remainder, b)?;
            scalar.select(move_it, moved, remainder)?
        }
        F::Max => pick("arith.maxsi", "arith.maxui")?,
        F::Min => pick("arith.minsi", "arith.minui")?,
        F::Equal => scalar.compare_int(P::Equal, a, operands[1])?,
        F::NotEqual => scalar.compare_int(P::NotEqual, a, operands[1])?,
        F::Less => compare(P::SignedLess, P::UnsignedLess)?,
        F::LessEqual => compare(P::SignedLessEqual, P::UnsignedLessEqual)?,
        F::Greater => compare(P::SignedGreater, P::UnsignedGreater)?,
        F::GreaterEqual => compare(P::SignedGreaterEqual, P::UnsignedGreaterEqual)?,
        F::Negate => {
            let zero = int(0)?;
            scalar.op("arith.subi", &[zero, a])?
        }
        F::Abs if !signed => a,
        F::Abs => {
            let zero = int(0)?;
            let negated = scalar.op("arith.subi", &[zero, a])?;
            scalar.select(scalar.compare_int(P::SignedLess, a, zero)?, negated, a)?
        }
        F::Sign => {
            let zero = int(0)?;
            let positive = scalar.compare_int(if signed { P::SignedGreater } else { P::UnsignedGreater }, a, zero)?;
            let negative = scalar.compare_int(P::SignedLess, a, zero)?;
            let below = if signed { scalar.select(negative, int(-1)?, zero)? } else { zero };
            scalar.select(positive, int(1)?, below)?
        }
        F::ShiftLeft | F::ShiftRight => {
            // Shifts by the width or more are undefined in LLVM; here they give what shifting one by one would.
            let width = i64::from(dtype.bits());
            // The amount is bounded first: of a comparison with the width and a shift, LLVM makes PTX's shift, which takes 32 bits of the amount
            // and gives 0 from the width on, and for 64-bit values it forgets the upper half of the amount.
            let amount = scalar.op("arith.minui", &[operands[1], int(width)?])?;
            let inside = scalar.compare_int(P::UnsignedLess, amount, int(width)?)?;
            match (function, signed) {
                (F::ShiftRight, true) => {
                    let amount = scalar.op("arith.minui", &[operands[1], int(width - 1)?])?;
                    scalar.op("arith.shrsi", &[a, amount])?
                }
                (F::ShiftRight, false) => scalar.select(inside, scalar.op("arith.shrui", &[a, amount])?, int(0)?)?,
                _ => scalar.select(inside, scalar.op("arith.shli", &[a, amount])?, int(0)?)?,
            }
        }
        F::Power => power(scalar, dtype, a, operands[1])?,
        _ => return Err(LoweringError::unsupported(function.name(), format!("operands of type {dtype}"))),
    })
}

/// aᵇ modulo the type's width, by squaring; for b below 0 the truncated quotient 1 / a⁻ᵇ, with 1 / 0 as 0.
///
/// One step for each bit of an exponent: a step for a bit that is known to be 0 goes when the code is optimised.
fn power<'m>(scalar: Scalar<'m>, dtype: DType, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, LoweringError> {
    let ty = register_type(dtype);
    let (zero, one) = (scalar.int(0, ty)?, scalar.int(1, ty)?);
    let (mut result, mut square) = (one, a);
    // The sign bit of an exponent that is not below 0 is 0.
    let bits = if dtype.is_signed() { dtype.bits() - 1 } else { dtype.bits() };
    for bit in 0..bits {
        let mask = scalar.int((1u64 << bit) as i64, ty)?;
        let is_clear = scalar.compare_int(IntegerPredicate::Equal, scalar.op("arith.andi", &[b, mask])?, zero)?;
        result = scalar.select(is_clear, result, scalar.mul(result, square)?)?;
        square = scalar.mul(square, square)?;
    }
    if !dtype.is_signed() {
        return Ok(result);
    }
    // 1, and -1 by whether the exponent is odd; 0 for the rest.
    let minus_one = scalar.int(-1, ty)?;
    let is_even = scalar.compare_int(IntegerPredicate::Equal, scalar.op("arith.andi", &[b, one])?, zero)?;
    let alternating = scalar.select(is_even, one, minus_one)?;
    let is_one = scalar.compare_int(IntegerPredicate::Equal, a, one)?;
    let is_minus_one = scalar.compare_int(IntegerPredicate::Equal, a, minus_one)?;
    let inverse = scalar.select(is_minus_one, alternating, zero)?;
    let inverse = scalar.select(is_one, one, inverse)?;
    scalar.select(scalar.compare_int(IntegerPredicate::SignedLess, b, zero)?, inverse, result).map_err(Into::into)
}

/// Truncated quotient and remainder without undefined cases: by 0 they are 0 and the dividend; the least integer by -1 gives itself and 0.
fn divide<'m>(
    scalar: Scalar<'m>,
    dtype: DType,
    a: Value<'m>,
    b: Value<'m>,
) -> Result<(Value<'m>, Value<'m>), LoweringError> {
    let ty = register_type(dtype);
    let zero = scalar.int(0, ty)?;
    let one = scalar.int(1, ty)?;
    let by_zero = scalar.compare_int(IntegerPredicate::Equal, b, zero)?;
    if !dtype.is_signed() {
        let divisor = scalar.select(by_zero, one, b)?;
        let quotient = scalar.op("arith.divui", &[a, divisor])?;
        let remainder = scalar.op("arith.remui", &[a, divisor])?;
        return Ok((scalar.select(by_zero, zero, quotient)?, scalar.select(by_zero, a, remainder)?));
    }
    let minus_one = scalar.compare_int(IntegerPredicate::Equal, b, scalar.int(-1, ty)?)?;
    let special = scalar.op("arith.ori", &[by_zero, minus_one])?;
    let divisor = scalar.select(special, one, b)?;
    let quotient = scalar.op("arith.divsi", &[a, divisor])?;
    let remainder = scalar.op("arith.remsi", &[a, divisor])?;
    let negated = scalar.op("arith.subi", &[zero, a])?;
    let quotient = scalar.select(minus_one, negated, quotient)?;
    let remainder = scalar.select(minus_one, zero, remainder)?;
    Ok((scalar.select(by_zero, zero, quotient)?, scalar.select(by_zero, a, remainder)?))
}
