//! `tanh`, `sinh`, `cosh` and their inverses.

use super::exponential::exp_scaled;
use super::expression::{F, Graph};
use super::logarithm::{log, log1p};
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 6] = [
    Definition::one("math.acosh", 2.5, acosh),
    Definition::one("math.asinh", 3.0, asinh),
    Definition::one("math.atanh", 3.0, atanh),
    Definition::one("math.cosh", 2.0, cosh),
    Definition::one("math.sinh", 2.0, sinh),
    Definition::one("math.tanh", 2.0, tanh),
];

/// `(tanh x − x) / x³` by `x²`, for `|x| ≤ 0.65`.
const TANH: [f32; 6] = [-3.333_332_8e-1, 1.333_311e-1, -5.393_485e-2, 2.163_675_4e-2, -8.023_214e-3, 2.005_795_7e-3];
/// `(sinh x − x) / x³` by `x²`, for `|x| ≤ 1`.
const SINH: [f32; 4] = [1.666_666_7e-1, 8.333_312e-3, 1.984_234_8e-4, 2.785_975e-6];
const LN_2: f32 = std::f32::consts::LN_2;

/// `x + x³ p(x²)`.
pub(super) fn odd<'g>(g: &'g Graph, x: F<'g>, coefficients: &[f32]) -> F<'g> {
    let square = x * x;
    (x * square).fma(g.polynomial(square, coefficients), x)
}

/// `tanh x`.
pub(super) fn tanh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    // 1 − 2 / (e^2a + 1).
    let power = exp_scaled(g, a + a, None, 0);
    let large = g.f(1.0) - g.f(2.0) / (power + 1.0);
    // The sign of zero is that of the argument.
    a.less(0.625).select(odd(g, a, &TANH), large).copy_sign(x)
}

/// `sinh x`.
pub(super) fn sinh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let half = exp_scaled(g, a, None, -1);
    let large = half - g.f(0.25) / half;
    a.less(1.0).select(odd(g, a, &SINH), large).copy_sign(x)
}

/// `cosh x`.
pub(super) fn cosh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let half = exp_scaled(g, x.abs(), None, -1);
    half + g.f(0.25) / half
}

/// `asinh x`.
pub(super) fn asinh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let square = a * a;
    let small = log1p(g, a + square / ((square + 1.0).sqrt() + 1.0));
    let large = log(g, a) + LN_2;
    a.less(65536.0).select(small, large).copy_sign(x)
}

/// `acosh x`.
pub(super) fn acosh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let t = x - 1.0;
    let small = log1p(g, t + t.fma(t, t + t).sqrt());
    let large = log(g, x) + LN_2;
    let result = x.less(65536.0).select(small, large);
    x.less(1.0).select(f32::NAN, result)
}

/// `atanh x`.
pub(super) fn atanh<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let result = log1p(g, (a + a) / (g.f(1.0) - a)) * 0.5;
    let result = a.greater(1.0).select(f32::NAN, result);
    result.copy_sign(x)
}
