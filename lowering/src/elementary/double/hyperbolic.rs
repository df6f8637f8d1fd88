//! `sinh`, `cosh`, `tanh` of f64.

use super::exponential::{exp_scaled, expm1};
use crate::elementary::expression::{D, Graph};

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
