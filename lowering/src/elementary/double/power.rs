//! `powf`, `cbrt`, `rsqrt` of f64, by the methods of f32.

use super::exponential::{LN_2, exp_of_pair};
use super::pair::{Pair, fast_two_sum, two_product};
use crate::elementary::expression::{D, Graph};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one_of_double("math.cbrt", 1.0, cbrt),
    Definition::two_of_double("math.powf", 1.5, powf),
    Definition::one_of_double("math.rsqrt", 1.5, rsqrt),
];

/// `(2 atanh r − 2 r − 2/3 r³) / r⁵` by `r²`, for `|r| ≤ 3 − √8`.
const ATANH: [f64; 8] = [
    0.4,
    0.285_714_285_714_293_7,
    0.222_222_222_216_527_65,
    0.181_818_183_360_998_48,
    0.153_845_948_870_071_8,
    0.133_348_087_988_123_4,
    0.117_061_264_645_633_98,
    0.117_243_270_608_467_47,
];
/// 2/3 in two parts.
const TWO_THIRDS: [f64; 2] = [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17];
/// The third part of ln 2, beyond those of the logarithm.
const LN_2_REST: f64 = -1.312_469_841_778_525_5e-27;

/// `ln x` to about 65 bits, for positive finite `x`.
fn log_pair<'g>(g: &'g Graph, x: D<'g>) -> Pair<'g> {
    // m from √½ to √2.
    let (m, e) = super::logarithm::mantissa_and_exponent(g, x);
    // r = (m − 1) / (m + 1); the sum's rounding error is known.
    let (a, b) = (m - 1.0, m + 1.0);
    let b_low = m - (b - 1.0);
    let r = a / b;
    let r_low = (-b_low).fma(r, (-r).fma(b, a)) / b;
    // ln m = 2 r + 2/3 r³ + r⁵ p(r²).
    let square = two_product(r, r);
    let square_low = (r + r).fma(r_low, square.low);
    let cube = two_product(square.high, r);
    let cube_low = square.high.fma(r_low, square_low.fma(r, cube.low));
    let third = two_product(cube.high, g.d(TWO_THIRDS[0]));
    let third_low = cube.high.fma(g.d(TWO_THIRDS[1]), cube_low.fma(g.d(TWO_THIRDS[0]), third.low));
    let rest = (cube.high * square.high) * g.polynomial_of_double(square.high, &ATANH);
    let sum = fast_two_sum(r + r, third.high);
    let low = sum.low + (third_low + rest + (r_low + r_low));
    // The exponent's multiple of ln 2: its first part is exact and larger than the rest, or zero.
    let total = fast_two_sum(e * LN_2[0], sum.high);
    let part = two_product(e, g.d(LN_2[1]));
    let second = fast_two_sum(part.high, low);
    let tail = total.low + second.low + e.fma(g.d(LN_2_REST), part.low);
    let near = e.equal(0.0);
    let high: D<'g> = near.select(sum.high, total.high);
    fast_two_sum(high, near.select(low, second.high + tail))
}

/// `x` to the power `y`, with the special cases of C's `pow`.
pub(super) fn powf<'g>(g: &'g Graph, x: D<'g>, y: D<'g>) -> D<'g> {
    let a = x.abs();
    let log = log_pair(g, a);
    // Products beyond any result, and NaN out of them, are cut off.
    let bounded = y.abs().less(1e250).select(y, g.d(1e250).copy_sign(y));
    let product = two_product(bounded, log.high);
    let low = bounded.fma(log.low, product.low);
    let cut = product.high.abs().greater(1000.0);
    let result = exp_of_pair(g, product.high, cut.select(0.0, low));

    // Zero and infinity to a power.
    let grows = y.greater(0.0);
    let result = a.equal(0.0).select(grows.select(0.0, f64::INFINITY), result);
    let result: D<'g> = a.equal(f64::INFINITY).select(grows.select(f64::INFINITY, 0.0), result);
    // An infinite power.
    let endless = y.abs().equal(f64::INFINITY);
    let above = grows.select(a.greater(1.0).select(f64::INFINITY, 0.0), a.greater(1.0).select(0.0, f64::INFINITY));
    let above = a.equal(1.0).select(1.0, above);
    let result: D<'g> = endless.select(above, result);

    // A negative base: integers only; odd ones give its sign. From 2^52 on every float is an integer, from 2^53 on an even one.
    let size = y.abs();
    let fractional = size.less(4_503_599_627_370_496.0);
    let shifted = size + 4_503_599_627_370_496.0;
    let whole = fractional.select(shifted - 4_503_599_627_370_496.0, size);
    let is_integer = whole.equal(size);
    let odd = |value: D<'g>| value.to_bits().and(g.l(1)).int_equal(1);
    let odd_high = odd(size) & size.less(9_007_199_254_740_992.0);
    let is_odd = is_integer & ((fractional & odd(shifted)) | (!fractional & odd_high));
    let negative = x.to_bits().int_less(0);
    let result = (negative & is_odd).select(-result, result);
    let undefined = x.less(0.0) & !is_integer & x.is_finite();
    let result = undefined.select(f64::NAN, result);
    let result = (x.is_nan() | y.is_nan()).select(f64::NAN, result);
    (y.equal(0.0) | x.equal(1.0)).select(1.0, result)
}

/// The cube root.
pub(super) fn cbrt<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    let small = a.less(1e-200);
    let large = a.greater(1e200);
    // 2^±300, whose cube roots are 2^±100.
    let (up, down) = (2f64.powi(300), 2f64.powi(-300));
    let scaled = small.select(a * up, large.select(a * down, a));
    // A third of the exponent: by multiplication with 1/3 in fixed point, good to 4 bits.
    let third = scaled.to_bits().shift_right_zero(32).times(g.l(0x5555_5556)).shift_right_zero(32);
    let mut t = third.plus(g.l(0x2a9f_7893)).shift_left(32).as_double();
    // Halley's iteration, cubic: t (t³ + 2a) / (2 t³ + a), as a correction of t.
    for _ in 0..3 {
        let cube = t * t * t;
        t = t.fma((scaled - cube) / (cube + cube + scaled), t);
    }
    // The last correction with the cube's error known.
    let square = two_product(t, t);
    let cube = two_product(square.high, t);
    let cube_low = square.low.fma(t, cube.low);
    let difference = (scaled - cube.high) - cube_low;
    t = t + difference / (square.high * 3.0);
    let t = small.select(t * 2f64.powi(-100), large.select(t * 2f64.powi(100), t));
    let fixed = a.equal(0.0) | !a.less(f64::INFINITY);
    fixed.select(x, t.copy_sign(x))
}

/// `1 / √x`.
pub(super) fn rsqrt<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    g.d(1.0) / x.sqrt()
}
