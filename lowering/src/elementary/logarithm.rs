//! `log`, `log2`, `log10`, `log1p`.
//!
//! The argument is a power of two times a number between 2/3 and 4/3, whose logarithm a polynomial (minimax, of that range) gives.

use super::exponential::power_of_two;
use super::expression::{F, Graph, I};
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 4] = [
    Definition::one("math.log", 1.0, log),
    Definition::one("math.log10", 2.0, log10),
    Definition::one("math.log1p", 2.0, log1p),
    Definition::one("math.log2", 2.0, log2),
];

/// ln 2 in two parts; the first has 16 bits, so that its multiples by exponents are exact.
pub(super) const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
const LOG10_2: [f32; 2] = [0.301_025_4, 4.605_039e-6];

/// `(log(1 + f) − f + f²/2) / f³` for `|f| ≤ 1/3`.
const LOG: [f32; 8] = [
    3.333_321_5e-1,
    -2.499_980_5e-1,
    2.001_044_5e-1,
    -1.668_018e-1,
    1.400_534e-1,
    -1.218_838_2e-1,
    1.398_670_7e-1,
    -1.287_426_2e-1,
];
/// `(log2(1 + f) − f log2 e) / f²` for `|f| ≤ 1/3`.
const LOG2: [f32; 9] = [
    -7.213_475e-1,
    4.808_967e-1,
    -3.606_715_2e-1,
    2.886_865e-1,
    -2.406_324_4e-1,
    2.020_983_2e-1,
    -1.759_391_3e-1,
    2.015_951_7e-1,
    -1.854_442e-1,
];
/// log2 e in two parts.
const LOG2_E: [f32; 2] = [std::f32::consts::LOG2_E, 1.925_963e-8];
/// `(log10(1 + f) − f log10 e) / f²` for `|f| ≤ 1/3`.
const LOG10: [f32; 9] = [
    -2.171_472_5e-1,
    1.447_642_9e-1,
    -1.085_724_1e-1,
    8.690_537e-2,
    -7.244_994e-2,
    6.080_912e-2,
    -5.284_546_3e-2,
    6.080_949e-2,
    -5.622_122_4e-2,
];
/// log10 e in two parts.
const LOG10_E: [f32; 2] = [std::f32::consts::LOG10_E, -1.010_305e-8];

/// `x = (1 + f) · 2^e` with `1 + f` from 2/3 to 4/3, for positive finite `x`.
fn split<'g>(g: &'g Graph, x: F<'g>) -> (F<'g>, F<'g>) {
    let small = x.less(f32::MIN_POSITIVE);
    let x = small.select(x * 8_388_608.0, x);
    let bias: F<'g> = small.select(-23.0, 0.0);
    let (m, e) = reduce(g, x);
    (m - 1.0, e.to_float() + bias)
}

/// `m` from 2/3 to 4/3 and `e` with `x = m · 2^e`, for normal `x`.
fn reduce<'g>(g: &'g Graph, x: F<'g>) -> (F<'g>, I<'g>) {
    let bits = x.to_bits();
    let shifted = bits.minus(g.bits(0x3f2a_aaab)).and(g.bits(0xff80_0000));
    (bits.minus(shifted).as_float(), shifted.shift_right(23))
}

/// Zero, negative numbers, infinity and NaN.
fn edges<'g>(x: F<'g>, result: F<'g>) -> F<'g> {
    let result = x.less(f32::INFINITY).select(result, x);
    let result = x.less(0.0).select(f32::NAN, result);
    x.equal(0.0).select(f32::NEG_INFINITY, result)
}

/// `log(1 + f)` for `|f| ≤ 1/3`, without its first term `f`.
fn log_rest<'g>(g: &'g Graph, f: F<'g>) -> F<'g> {
    let square = f * f;
    square * (f.fma(g.polynomial(f, &LOG), -0.5))
}

/// `ln x`.
pub(super) fn log<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (f, e) = split(g, x);
    let rest = e.fma(g.f(LN_2[1]), log_rest(g, f));
    edges(x, e.fma(g.f(LN_2[0]), f + rest))
}

/// `log2 x`.
pub(super) fn log2<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (f, e) = split(g, x);
    let rest = f.fma(g.f(LOG2_E[1]), f * f * g.polynomial(f, &LOG2));
    edges(x, e + f.fma(g.f(LOG2_E[0]), rest))
}

/// `log10 x`.
pub(super) fn log10<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (f, e) = split(g, x);
    let rest = f.fma(g.f(LOG10_E[1]), f * f * g.polynomial(f, &LOG10));
    let rest = e.fma(g.f(LOG10_2[1]), f.fma(g.f(LOG10_E[0]), rest));
    edges(x, e.fma(g.f(LOG10_2[0]), rest))
}

/// `ln(1 + x)`.
pub(super) fn log1p<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (_, e) = reduce(g, x + 1.0);
    // (1 + x) 2^-e − 1 = x 2^-e + (2^-e − 1), rounded once; for huge arguments, 2^-e is no normal number and 1 is nothing.
    let huge = g.i(64).int_less(e);
    let s = power_of_two(huge.select(g.i(64), g.i(0)).minus(e));
    let f = huge.select((x * 5.421_011e-20).fma(s, -1.0), x.fma(s, s - 1.0));
    let e = e.to_float();
    let rest = e.fma(g.f(LN_2[1]), log_rest(g, f));
    let result = e.fma(g.f(LN_2[0]), f + rest);
    let result = x.abs().less(1e-8).select(x, result);
    let result = x.less(f32::INFINITY).select(result, x);
    let result = x.less(-1.0).select(f32::NAN, result);
    x.equal(-1.0).select(f32::NEG_INFINITY, result)
}
