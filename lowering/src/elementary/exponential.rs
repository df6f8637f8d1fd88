//! `exp`, `exp2`, `expm1`.
//!
//! The argument is an integer times ln 2 plus a remainder of at most half of it; a polynomial (minimax, of that range) gives the
//! exponential of the remainder, powers of two scale it.

use super::expression::{F, Graph, I};
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one("math.exp", 1.0, exp),
    Definition::one("math.exp2", 1.0, exp2),
    Definition::one("math.expm1", 2.0, expm1),
];

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has 16 bits, so that small multiples of it are exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
/// Added to a float of less than 2^22, leaves the nearest integer in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;

/// `(e^r − 1 − r) / r²` for `|r| ≤ ln 2 / 2`.
const EXP: [f32; 6] = [0.5, 1.666_666_6e-1, 4.166_648_5e-2, 8.333_541e-3, 1.393_322_8e-3, 1.976_699_4e-4];
/// `(2^r − 1) / r` for `|r| ≤ 1 / 2`.
const EXP_2: [f32; 7] =
    [6.931_472e-1, 2.402_265e-1, 5.550_405e-2, 9.618_087e-3, 1.333_795e-3, 1.545_218e-4, 1.433_003e-5];

/// The nearest integer, as float and as int; for arguments below 2^22.
pub(super) fn round<'g>(g: &'g Graph, x: F<'g>) -> (F<'g>, I<'g>) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits().minus(g.bits(ROUND.to_bits())))
}

/// `2^n` for `−126 ≤ n ≤ 127`.
pub(super) fn power_of_two<'g>(n: I<'g>) -> F<'g> {
    n.plus(127).shift_left(23).as_float()
}

/// `x · 2^n`, rounded once, for `−252 ≤ n ≤ 254`.
pub(super) fn scale<'g>(x: F<'g>, n: I<'g>) -> F<'g> {
    let half = n.shift_right(1);
    x * power_of_two(half) * power_of_two(n.minus(half))
}

/// `e^(x + low) · 2^extra`; beyond the range it is 0 or infinite. `low` is far smaller than `x`.
pub(super) fn exp_scaled<'g>(g: &'g Graph, x: F<'g>, low: Option<F<'g>>, extra: i32) -> F<'g> {
    // NaN goes through: the comparisons of the clamp are the other way round.
    let clamped = x.less(-150.0).select(-150.0, x);
    let clamped = clamped.greater(150.0).select(150.0, clamped);
    let (n, k) = round(g, clamped * LOG2_E);
    let mut r = n.fma(g.f(-LN_2[1]), n.fma(g.f(-LN_2[0]), clamped));
    if let Some(low) = low {
        r = r + low;
    }
    let p = (r * r).fma(g.polynomial(r, &EXP), r) + 1.0;
    scale(p, k.plus(extra))
}

/// `e^x`.
pub(super) fn exp<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    exp_scaled(g, x, None, 0)
}

/// `(e^r − 1) / r` for `|r| ≤ ln 2 / 2`, within 2^-28.
const EXP_SHORT: [f32; 6] = [1.0, 0.499_999_94, 0.166_665_2, 0.041_668_408, 0.008_368_921, 0.001_381_417_4];

/// `e^x` for `x ≤ 0` that is added to numbers of about 1: below 2^-126 it is 0.
pub(super) fn exp_of_nonpositive<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    // From -88 on the power of two below is 0.
    let x = x.max(-88.0);
    let shifted = x.fma(g.f(LOG2_E), ROUND);
    let n = shifted - ROUND;
    let r = n.fma(g.f(-LN_2[1]), n.fma(g.f(-LN_2[0]), x));
    // The integer is in the low bits of what was rounded, so that a shift makes it an exponent.
    let power = shifted.to_bits().shift_left(23).plus(g.bits(1f32.to_bits())).as_float();
    r.fma(g.polynomial(r, &EXP_SHORT), 1.0) * power
}

/// `2^x`.
pub(super) fn exp2<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let clamped = x.less(-200.0).select(-200.0, x);
    let clamped = clamped.greater(200.0).select(200.0, clamped);
    let (n, k) = round(g, clamped);
    let r = clamped - n;
    scale(r.fma(g.polynomial(r, &EXP_2), 1.0), k)
}

/// `e^x − 1`.
pub(super) fn expm1<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let clamped = x.less(-60.0).select(-60.0, x);
    let clamped = clamped.greater(100.0).select(100.0, clamped);
    let (n, k) = round(g, clamped * LOG2_E);
    let r = n.fma(g.f(-LN_2[1]), n.fma(g.f(-LN_2[0]), clamped));
    let m = (r * r).fma(g.polynomial(r, &EXP), r);
    // 2 (2^(k-1) m + 2^(k-1) − 1/2): the power of two stays finite up to the largest result.
    let half = power_of_two(k.minus(1));
    let scaled = half.fma(m, half - 0.5);
    let result = scaled + scaled;
    // Keeps the sign of zero, and what is too small to change.
    let result = x.abs().less(1e-7).select(x, result);
    x.greater(89.0).select(f32::INFINITY, result)
}
