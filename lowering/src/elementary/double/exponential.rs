//! `exp`, `exp2`, `expm1` of f64, by the method of f32.

use crate::elementary::expression::{D, Graph, L};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one_of_double("math.exp", 1.0, exp),
    Definition::one_of_double("math.exp2", 1.0, exp2),
    Definition::one_of_double("math.expm1", 2.0, expm1),
];

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts; the first has 33 bits, so that multiples of it by exponents are exact.
pub(super) const LN_2: [f64; 2] = [0.693_147_180_485_539_1, 7.440_617_110_012_397e-11];
/// Added to a float of less than 2^51, leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// `(e^r − 1 − r) / r²` for `|r| ≤ ln 2 / 2`.
const EXP: [f64; 11] = [
    0.5,
    0.166_666_666_666_666_7,
    0.041_666_666_666_666_685,
    0.008_333_333_333_326_082,
    0.001_388_888_888_887_429_4,
    1.984_126_987_500_567e-4,
    2.480_158_734_758_717_7e-5,
    2.755_725_516_624_523_3e-6,
    2.755_725_267_329_236_6e-7,
    2.510_531_411_653_494_5e-8,
    2.092_167_017_912_071e-9,
];
/// `(2^r − 1) / r` for `|r| ≤ 1 / 2`.
const EXP_2: [f64; 12] = [
    0.693_147_180_559_945_3,
    0.240_226_506_959_100_72,
    0.055_504_108_664_821_625,
    0.009_618_129_107_628_487,
    0.001_333_355_814_640_629,
    1.540_353_039_335_455_6e-4,
    1.525_273_384_178_581_6e-5,
    1.321_548_682_349_573_2e-6,
    1.017_805_697_025_038e-7,
    7.054_891_387_020_564e-9,
    4.455_838_746_135_410_3e-10,
    2.573_793_244_420_174_5e-11,
];

/// The nearest integer, as float and as integer; for arguments below 2^51.
pub(super) fn round<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, L<'g>) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits().minus(g.l(ROUND.to_bits() as i64)))
}

/// `2^n` for `−1022 ≤ n ≤ 1023`.
pub(super) fn power_of_two<'g>(g: &'g Graph, n: L<'g>) -> D<'g> {
    n.plus(g.l(1023)).shift_left(52).as_double()
}

/// `x · 2^n`, rounded once, for `−2044 ≤ n ≤ 2046`.
fn scale<'g>(g: &'g Graph, x: D<'g>, n: L<'g>) -> D<'g> {
    let half = n.shift_right(1);
    x * power_of_two(g, half) * power_of_two(g, n.minus(half))
}

/// `x`, but at least `low` and at most `high`; NaN stays.
fn clamp<'g>(x: D<'g>, low: f64, high: f64) -> D<'g> {
    let clamped = x.less(low).select(low, x);
    clamped.greater(high).select(high, clamped)
}

/// `n`, the nearest integer to `x / ln 2`, and `x − n ln 2`.
fn reduce<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, L<'g>) {
    let (n, k) = round(g, x * LOG2_E);
    (n.fma(g.d(-LN_2[1]), n.fma(g.d(-LN_2[0]), x)), k)
}

/// `e^x · 2^extra`; beyond the range it is 0 or infinite.
pub(super) fn exp_scaled<'g>(g: &'g Graph, x: D<'g>, extra: i64) -> D<'g> {
    let (r, k) = reduce(g, clamp(x, -800.0, 800.0));
    let p = (r * r).fma(g.polynomial_of_double(r, &EXP), r) + 1.0;
    scale(g, p, k.plus(g.l(extra)))
}

/// `e^(x + low)`, `low` far smaller than `x`; beyond the range it is 0 or infinite.
pub(super) fn exp_of_pair<'g>(g: &'g Graph, x: D<'g>, low: D<'g>) -> D<'g> {
    let (r, k) = reduce(g, clamp(x, -800.0, 800.0));
    let r = r + low;
    let p = (r * r).fma(g.polynomial_of_double(r, &EXP), r) + 1.0;
    scale(g, p, k)
}

/// `e^x`.
pub(super) fn exp<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    exp_scaled(g, x, 0)
}

/// `2^x`.
pub(super) fn exp2<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let clamped = clamp(x, -1200.0, 1200.0);
    let (n, k) = round(g, clamped);
    let r = clamped - n;
    scale(g, r.fma(g.polynomial_of_double(r, &EXP_2), 1.0), k)
}

/// `e^x − 1`.
pub(super) fn expm1<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (r, k) = reduce(g, clamp(x, -60.0, 720.0));
    let m = (r * r).fma(g.polynomial_of_double(r, &EXP), r);
    // 2 (2^(k-1) m + 2^(k-1) − 1/2): the power of two stays finite up to the largest result.
    let half = power_of_two(g, k.minus(g.l(1)));
    let scaled = half.fma(m, half - 0.5);
    let result = scaled + scaled;
    // Keeps the sign of zero, and what is too small to change.
    let result = x.abs().less(1e-17).select(x, result);
    x.greater(710.0).select(f64::INFINITY, result)
}
