//! `powf`, `cbrt`, `rsqrt`.

use super::exponential::exp_scaled;
use super::expression::{F, Graph};
use super::logarithm::LN_2;
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one("math.cbrt", 1.0, cbrt),
    Definition::two("math.powf", 2.0, powf),
    Definition::one("math.rsqrt", 1.5, rsqrt),
];

/// `(2 atanh r − 2 r − 2/3 r³) / r⁵` by `r²`, for `|r| ≤ 3 − √8`.
const ATANH: [f32; 3] = [4.000_015_3e-1, 2.854_708_4e-1, 2.341_989_6e-1];
/// 2/3 in two parts.
const TWO_THIRDS: [f32; 2] = [0.666_666_7, -1.986_821_5e-8];
/// The third part of ln 2, beyond those of the logarithm.
const LN_2_REST: f32 = 5.497_923e-14;

/// A number in two parts, the second at most half a unit in the last place of the first.
#[derive(Clone, Copy)]
struct Pair<'g> {
    high: F<'g>,
    low: F<'g>,
}

/// `a + b`, exactly, for `|a| ≥ |b|`.
fn fast_two_sum<'g>(a: F<'g>, b: F<'g>) -> Pair<'g> {
    let high = a + b;
    Pair { high, low: b - (high - a) }
}

/// `a · b`, exactly.
fn two_product<'g>(a: F<'g>, b: F<'g>) -> Pair<'g> {
    let high = a * b;
    Pair { high, low: a.fma(b, -high) }
}

/// `ln x` to about 36 bits, for positive finite `x`.
fn log_pair<'g>(g: &'g Graph, x: F<'g>) -> Pair<'g> {
    let small = x.less(f32::MIN_POSITIVE);
    let x = small.select(x * 8_388_608.0, x);
    // m from √½ to √2.
    let bits = x.to_bits();
    let shifted = bits.minus(g.bits(0x3f35_04f3)).and(g.bits(0xff80_0000));
    let m = bits.minus(shifted).as_float();
    let bias: F<'g> = small.select(-23.0, 0.0);
    let e = shifted.shift_right(23).to_float() + bias;
    // r = (m − 1) / (m + 1); the sum's rounding error is known.
    let (a, b) = (m - 1.0, m + 1.0);
    let b_low = (m - (b - 1.0)) + g.f(0.0);
    let r = a / b;
    let r_low = (-b_low).fma(r, (-r).fma(b, a)) / b;
    // ln m = 2 r + 2/3 r³ + r⁵ p(r²).
    let square = two_product(r, r);
    let square_low = (r + r).fma(r_low, square.low);
    let cube = two_product(square.high, r);
    let cube_low = square.high.fma(r_low, square_low.fma(r, cube.low));
    let third = two_product(cube.high, g.f(TWO_THIRDS[0]));
    let third_low = cube.high.fma(g.f(TWO_THIRDS[1]), cube_low.fma(g.f(TWO_THIRDS[0]), third.low));
    let rest = (cube.high * square.high) * g.polynomial(square.high, &ATANH);
    let sum = fast_two_sum(r + r, third.high);
    let low = sum.low + (third_low + rest + (r_low + r_low));
    // The exponent's multiple of ln 2: its first part is exact and larger than the rest, or zero.
    let whole = e * LN_2[0];
    let total = fast_two_sum(whole, sum.high);
    let total: Pair<'g> =
        Pair { high: e.equal(0.0).select(sum.high, total.high), low: e.equal(0.0).select(g.f(0.0), total.low) };
    let part = two_product(e, g.f(LN_2[1]));
    let low = total.low + part.high + (low + e.fma(g.f(LN_2_REST), part.low));
    fast_two_sum(total.high, low)
}

/// `x` to the power `y`, with the special cases of C's `pow`.
pub(super) fn powf<'g>(g: &'g Graph, x: F<'g>, y: F<'g>) -> F<'g> {
    let a = x.abs();
    let log = log_pair(g, a);
    // Products beyond any result, and NaN out of them, are cut off.
    let bounded = y.abs().less(1e30).select(y, g.f(1e30).copy_sign(y));
    let product = two_product(bounded, log.high);
    let low = bounded.fma(log.low, product.low);
    let cut = product.high.abs().greater(200.0);
    let result = exp_scaled(g, product.high, Some(cut.select(0.0, low)), 0);

    // Zero and infinity to a power.
    let grows = y.greater(0.0);
    let zero = a.equal(0.0);
    let infinite = a.equal(f32::INFINITY);
    let result = zero.select(grows.select(0.0, f32::INFINITY), result);
    let result = infinite.select(grows.select(f32::INFINITY, 0.0), result);
    // An infinite power.
    let endless = y.abs().equal(f32::INFINITY);
    let above = grows.select(a.greater(1.0).select(f32::INFINITY, 0.0), a.greater(1.0).select(0.0, f32::INFINITY));
    let above = a.equal(1.0).select(1.0, above);
    let result: F<'g> = endless.select(above, result);

    // A negative base: integers only; odd ones give its sign. From 2^23 on every float is an integer, from 2^24 on an even one.
    let size = y.abs();
    let whole = {
        let shifted = size + 8_388_608.0;
        let nearest = shifted - 8_388_608.0;
        size.less(8_388_608.0).select(nearest, size)
    };
    let is_integer = whole.equal(size);
    let odd_low = (size + 8_388_608.0).to_bits().and(1).int_equal(1);
    let odd_high = size.to_bits().and(1).int_equal(1) & size.less(16_777_216.0);
    let is_odd = is_integer & ((size.less(8_388_608.0) & odd_low) | (!size.less(8_388_608.0) & odd_high));
    let negative = x.to_bits().int_less(0);
    let result = (negative & is_odd).select(-result, result);
    let undefined = x.less(0.0) & !is_integer & x.is_finite();
    let result = undefined.select(f32::NAN, result);
    let result = (x.is_nan() | y.is_nan()).select(f32::NAN, result);
    (y.equal(0.0) | x.equal(1.0)).select(1.0, result)
}

/// The cube root.
pub(super) fn cbrt<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let small = a.less(f32::MIN_POSITIVE);
    let large = a.greater(1e30);
    let scaled = small.select(a * 16_777_216.0, large.select(a * 5.960_464_5e-8, a));
    // A third of the exponent: by multiplication with 1/3 in fixed point, good to 4 bits.
    let third = scaled.to_bits().widen().times(g.l(0x5555_5556)).shift_right_zero(32).narrow();
    let mut t = third.plus(0x2a51_1cd0).as_float();
    // Halley's iteration, cubic: t (t³ + 2a) / (2 t³ + a), as a correction of t.
    for _ in 0..2 {
        let cube = t * t * t;
        t = t.fma((scaled - cube) / (cube + cube + scaled), t);
    }
    // The last correction with the cube's error known.
    let square = two_product(t, t);
    let cube = two_product(square.high, t);
    let cube_low = square.low.fma(t, cube.low);
    let difference = (scaled - cube.high) - cube_low;
    t = t + difference / (square.high * 3.0);
    let t = small.select(t * 0.003_906_25, large.select(t * 256.0, t));
    let fixed = a.equal(0.0) | !a.less(f32::INFINITY);
    fixed.select(x, t.copy_sign(x))
}

/// `1 / √x`.
pub(super) fn rsqrt<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    g.f(1.0) / x.sqrt()
}
