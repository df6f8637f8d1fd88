//! The remainder of a division, exactly.

use super::exponential::scale;
use super::expression::{F, Graph, I, L};
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 1] = [Definition::two("arith.remf", 0.0, remf)];

/// Bits by which a remainder of 24 bits is shifted at once in 64.
const STEP: i32 = 40;

/// Mantissa and exponent: `|x| = m · 2^(e − 150)`.
fn split<'g>(g: &'g Graph, x: F<'g>) -> (I<'g>, I<'g>) {
    let bits = x.abs().to_bits();
    let e = bits.shift_right(23);
    let fraction = bits.and(0x7f_ffff);
    let subnormal = e.int_equal(0);
    (subnormal.select(fraction, fraction.or(g.i(0x80_0000))), subnormal.select(g.i(1), e))
}

/// `x − y · n`, with `n` the quotient without its fraction; the sign is that of `x`.
pub(super) fn remf<'g>(g: &'g Graph, x: F<'g>, y: F<'g>) -> F<'g> {
    let ((mx, ex), (my, ey)) = (split(g, x), split(g, y));
    // Division by zero is cut off below.
    let divisor = my.int_equal(0).select(g.i(1), my).widen();
    let difference = ex.minus(ey);
    let shifted = |r: L<'g>, count: I<'g>| r.shift_left_by(count.widen()).remainder(divisor);
    let clamp = |count: I<'g>| {
        let count = count.int_less(0).select(g.i(0), count);
        count.int_less(STEP).select(count, g.i(STEP))
    };
    let (r, e) = g.branch(
        difference.int_less(STEP + 1),
        || (shifted(mx.widen(), clamp(difference)).to_float(), ey),
        || {
            let mut r = mx.widen();
            for step in 0..7 {
                r = shifted(r, clamp(difference.minus(step * STEP)));
            }
            (r.to_float(), ey)
        },
    );
    let result = scale(r, e.minus(150));
    // A smaller number is its own remainder, of infinity too.
    let result = x.abs().less(y.abs()).select(x.abs(), result);
    let undefined = !x.is_finite() | y.equal(0.0) | y.is_nan();
    undefined.select(f32::NAN, result).copy_sign(x)
}
