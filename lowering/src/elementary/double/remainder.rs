//! The remainder of a division of f64, exactly.

use super::exponential::power_of_two;
use crate::elementary::expression::{D, Graph, L};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 1] = [Definition::two_of_double("arith.remf", 0.0, remf)];

/// Bits by which a remainder of 53 bits is shifted at once in 64.
const STEP: i32 = 11;

/// Mantissa and exponent: `|x| = m · 2^(e − 1075)`.
fn split<'g>(g: &'g Graph, x: D<'g>) -> (L<'g>, L<'g>) {
    let bits = x.abs().to_bits();
    let e = bits.shift_right_zero(52);
    let fraction = bits.and(g.l((1 << 52) - 1));
    let subnormal = e.int_equal(0);
    (subnormal.select(fraction, fraction.or(g.l(1 << 52))), subnormal.select(g.l(1), e))
}

/// `x − y · n`, with `n` the quotient without its fraction; the sign is that of `x`. Long division, 11 bits a step.
pub(super) fn remf<'g>(g: &'g Graph, x: D<'g>, y: D<'g>) -> D<'g> {
    let ((mx, ex), (my, ey)) = (split(g, x), split(g, y));
    // Division by zero is cut off below.
    let divisor: L<'g> = my.int_equal(0).select(g.l(1), my);
    let difference = ex.minus(ey).narrow();
    let difference = difference.int_less(0).select(g.i(0), difference);
    // The first step takes what is left over by whole steps; the quotient by 11, as a multiplication, holds up to 2^14.
    let whole = difference.widen().times(g.l(5958)).shift_right_zero(16).narrow();
    let first = difference.minus(whole.widen().times(g.l(i64::from(STEP))).narrow());
    let start = mx.remainder(divisor).shift_left_by(first.widen()).remainder(divisor);
    let r = g.repeat(whole, start, |r| r.shift_left(i64::from(STEP)).remainder(divisor));
    let exponent = ey.minus(g.l(1075));
    let half = exponent.shift_right(1);
    let result = r.to_double() * power_of_two(g, half) * power_of_two(g, exponent.minus(half));
    // A smaller number is its own remainder, of infinity too.
    let result = x.abs().less(y.abs()).select(x.abs(), result);
    let undefined = !x.is_finite() | y.equal(0.0) | y.is_nan();
    undefined.select(f64::NAN, result).copy_sign(x)
}
