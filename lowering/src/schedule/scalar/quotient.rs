//! Division of many numbers by one, and the root of a variance, in f32: by the instructions that approximate 1/x and 1/√x, corrected.
//!
//! Division that is correct over the whole range branches to code for numbers near its ends, element by element. Here it is known that the
//! divisor is not near them, so that a quotient is three operations: `q = a·r`, then what is left of `a` (exact, since it is fused) times `r`. With
//! `r` within 2^-22 of `1/b`, that is the correctly rounded quotient but for one in about a million, which is off by one place; quotients below 2^-100
//! may lose digits.

use tenon_hw_dialect::{FloatPredicate, Scalar};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::approximate;

/// Divisors that a normalisation may have without coming near the ends of the range: the least `ε` under the root.
const LEAST_EPSILON: f64 = 1e-30;

/// A divisor and its reciprocal, of which either may stand for both.
#[derive(Clone, Copy)]
pub(crate) struct Divisor<'m> {
    pub(crate) value: Value<'m>,
    /// Within 2^-22; none where only the divisor is known.
    pub(crate) reciprocal: Option<Value<'m>>,
}

/// Whether a deviation `√(variance + epsilon)` can be a [`Divisor`] with a reciprocal.
pub(crate) fn has_reciprocal_root(element: DType, epsilon: f64) -> bool {
    element == DType::F32 && epsilon >= LEAST_EPSILON
}

/// `1/x` of an f32 in `[2^-100, 2^100]`, or NaN.
pub(crate) fn reciprocal<'m>(scalar: Scalar<'m>, x: Value<'m>) -> Result<Value<'m>, IrError> {
    approximate(scalar, "arith.divf", &[scalar.float(1.0, DType::F32)?, x])
}

/// `√x` and `1/√x` of an f32 for which [`has_reciprocal_root`]; both 0 for an infinite one, so that finite numbers divided by it are 0.
pub(crate) fn root<'m>(scalar: Scalar<'m>, x: Value<'m>) -> Result<[Value<'m>; 2], IrError> {
    let reciprocal = approximate(scalar, "math.rsqrt", &[x])?;
    let estimate = scalar.op("arith.mulf", &[x, reciprocal])?;
    let half = scalar.op("arith.mulf", &[reciprocal, scalar.float(0.5, DType::F32)?])?;
    let rest = scalar.op("math.fma", &[scalar.op("arith.negf", &[estimate])?, estimate, x])?;
    let root = scalar.op("math.fma", &[rest, half, estimate])?;
    let zero = scalar.float(0.0, DType::F32)?;
    let infinite = scalar.compare_float(FloatPredicate::OrderedEqual, x, scalar.float(f64::INFINITY, DType::F32)?)?;
    Ok([scalar.select(infinite, zero, root)?, scalar.select(infinite, zero, reciprocal)?])
}

/// `a / divisor`; `rounded_once_more` tells that the quotient is rounded to 16 bits, which its last place does not change.
pub(crate) fn quotient<'m>(
    scalar: Scalar<'m>,
    a: Value<'m>,
    divisor: Divisor<'m>,
    rounded_once_more: bool,
) -> Result<Value<'m>, IrError> {
    let Some(reciprocal) = divisor.reciprocal else { return scalar.op("arith.divf", &[a, divisor.value]) };
    let estimate = scalar.op("arith.mulf", &[a, reciprocal])?;
    if rounded_once_more {
        return Ok(estimate);
    }
    let rest = scalar.op("math.fma", &[scalar.op("arith.negf", &[estimate])?, divisor.value, a])?;
    scalar.op("math.fma", &[rest, reciprocal, estimate])
}

/// `a / count` for a number that is known.
pub(crate) fn quotient_by_number<'m>(
    scalar: Scalar<'m>,
    a: Value<'m>,
    count: f64,
    element: DType,
) -> Result<Value<'m>, IrError> {
    let value = scalar.float(count, element)?;
    let is_power_of_two = count > 0.0 && count.log2().fract() == 0.0;
    if element != DType::F32 || is_power_of_two || count < 1.0 {
        // By a power of two it is a product.
        return scalar.op("arith.divf", &[a, value]);
    }
    let reciprocal = scalar.float(f64::from(1.0 / count as f32), element)?;
    let estimate = scalar.op("arith.mulf", &[a, reciprocal])?;
    let divided = quotient(scalar, a, Divisor { value, reciprocal: Some(reciprocal) }, false)?;
    // Of what is infinite nothing is left.
    let size = scalar.op("math.absf", &[estimate])?;
    let infinite = scalar.compare_float(FloatPredicate::OrderedEqual, size, scalar.float(f64::INFINITY, element)?)?;
    scalar.select(infinite, estimate, divided)
}

#[cfg(test)]
mod tests {
    /// What [`super::quotient`] does, with a reciprocal that is off by a share of itself.
    fn corrected(a: f32, b: f32, off: f64) -> f32 {
        let reciprocal = ((1.0 + off) / f64::from(b)) as f32;
        let estimate = a * reciprocal;
        (-estimate).mul_add(b, a).mul_add(reciprocal, estimate)
    }

    /// The claim at the top, for reciprocals that the instruction may give at worst.
    #[test]
    fn corrected_quotients_are_those_of_division() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0
        };
        let (mut differ, count) = (0, 1_000_000);
        for _ in 0..count {
            let (a, b) = (random() * 4.0 - 2.0, (random() * 40.0 - 20.0).exp2());
            let off = (f64::from(random()) * 2.0 - 1.0) / 4_194_304.0;
            let (got, exact) = (corrected(a, b, off), a / b);
            differ += u32::from(got != exact);
            let place = f32::from_bits(exact.abs().to_bits() + 1) - exact.abs();
            assert!((got - exact).abs() <= place, "{a:e} / {b:e} = {got:e}, not {exact:e}");
        }
        assert!(differ * 100_000 <= count, "{differ} of {count} differ");
    }
}
