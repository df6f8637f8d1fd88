//! `tanh`, `sinh`, `cosh` of f64 and their inverses.

use super::exponential::{exp_scaled, expm1};
use super::logarithm::{log, log1p};
use crate::elementary::expression::{D, Graph};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 6] = [
    Definition::one_of_double("math.acosh", 3.0, acosh),
    Definition::one_of_double("math.asinh", 3.0, asinh),
    Definition::one_of_double("math.atanh", 3.0, atanh),
    Definition::one_of_double("math.cosh", 2.0, cosh),
    Definition::one_of_double("math.sinh", 3.0, sinh),
    Definition::one_of_double("math.tanh", 3.0, tanh),
];

/// `tanh x`.
pub(super) fn tanh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    // t / (t + 2) with t = e^2a − 1; from 22 on it is 1.
    let bounded = a.greater(22.0).select(22.0, a);
    let t = expm1(g, bounded + bounded);
    (t / (t + 2.0)).copy_sign(x)
}

/// `sinh x`.
pub(super) fn sinh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    // (t + t / (t + 1)) / 2 with t = e^a − 1.
    let t = expm1(g, a.greater(30.0).select(30.0, a));
    let small = (t + t / (t + 1.0)) * 0.5;
    let large = exp_scaled(g, a, -1);
    a.greater(30.0).select(large, small).copy_sign(x)
}

/// `cosh x`.
pub(super) fn cosh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let half = exp_scaled(g, x.abs(), -1);
    half + g.d(0.25) / half
}

/// Beyond, a number's square is nothing next to 1, or 1 nothing next to it.
const LARGE: f64 = 268_435_456.0;

/// `asinh x`.
pub(super) fn asinh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    let square = a * a;
    let small = log1p(g, a + square / ((square + 1.0).sqrt() + 1.0));
    let large = log(g, a) + std::f64::consts::LN_2;
    a.less(LARGE).select(small, large).copy_sign(x)
}

/// `acosh x`.
pub(super) fn acosh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let t = x - 1.0;
    let small = log1p(g, t + t.fma(t, t + t).sqrt());
    let large = log(g, x) + std::f64::consts::LN_2;
    let result = x.less(LARGE).select(small, large);
    x.less(1.0).select(f64::NAN, result)
}

/// `atanh x`.
pub(super) fn atanh<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    let result = log1p(g, (a + a) / (g.d(1.0) - a)) * 0.5;
    let result = a.greater(1.0).select(f64::NAN, result);
    // Half of twice a subnormal number is itself.
    result.copy_sign(x)
}
