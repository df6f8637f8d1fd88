//! `log`, `log2`, `log10`, `log1p` of f64.
//!
//! The argument is a power of two times a number `1 + f` between √½ and √2, and `log(1 + f) = f − f²/2 + s (f²/2 + R(s²))` with
//! `s = f / (2 + f)`. Source of the method: fdlibm.

use super::exponential::LN_2;
use crate::elementary::expression::{D, Graph, L};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 4] = [
    Definition::one_of_double("math.log", 1.0, log),
    Definition::one_of_double("math.log10", 1.0, log10),
    Definition::one_of_double("math.log1p", 1.0, log1p),
    Definition::one_of_double("math.log2", 1.0, log2),
];

/// `(2 atanh s / s − 2) / s²` by `s²`, for `|s| ≤ 3 − √8`.
const LOG: [f64; 7] = [
    0.666_666_666_666_667,
    0.399_999_999_998_972_6,
    0.285_714_286_269_336_26,
    0.222_222_109_858_509_76,
    0.181_828_995_407_972_53,
    0.153_313_872_974_245_92,
    0.146_204_587_130_158_55,
];
/// log2 e, log10 e and log10 2 in two parts, the first of 33 bits.
const LOG2_E: [f64; 2] = [1.442_695_040_721_446_3, 1.675_171_316_488_651_2e-10];
const LOG10_E: [f64; 2] = [0.434_294_481_878_168_9, 2.508_294_671_164_527_5e-11];
const LOG10_2: [f64; 2] = [0.301_029_995_607_677_85, 5.630_334_806_675_098e-11];

/// Bits of √½.
const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
const EXPONENT: i64 = 0x7ff0_0000_0000_0000 | i64::MIN;

/// `m` from √½ to √2 and `e` with `x = m · 2^e`, for normal `x`.
fn reduce<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, L<'g>) {
    let bits = x.to_bits();
    let shifted = bits.minus(g.l(SQRT_HALF)).and(g.l(EXPONENT));
    (bits.minus(shifted).as_double(), shifted.shift_right(52))
}

/// `m` from √½ to √2 and `e` with `x = m · 2^e`, for positive finite `x`.
pub(super) fn mantissa_and_exponent<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, D<'g>) {
    let small = x.less(f64::MIN_POSITIVE);
    let x = small.select(x * 18_014_398_509_481_984.0, x);
    let bias = small.select(-54.0, 0.0);
    let (m, e) = reduce(g, x);
    (m, e.to_double() + bias)
}

/// `x = (1 + f) · 2^e`, for positive finite `x`.
fn split<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, D<'g>) {
    let (m, e) = mantissa_and_exponent(g, x);
    (m - 1.0, e)
}

/// Zero, negative numbers, infinity and NaN.
fn edges<'g>(x: D<'g>, result: D<'g>) -> D<'g> {
    let result = x.less(f64::INFINITY).select(result, x);
    let result = x.less(0.0).select(f64::NAN, result);
    x.equal(0.0).select(f64::NEG_INFINITY, result)
}

/// `f²/2`, and `log(1 + f) − f + f²/2`.
fn terms<'g>(g: &'g Graph, f: D<'g>) -> (D<'g>, D<'g>) {
    let half = f * f * 0.5;
    let s = f / (f + 2.0);
    let square = s * s;
    (half, s * (half + square * g.polynomial_of_double(square, &LOG)))
}

/// `e ln 2 + log(1 + f) + correction`.
fn sum<'g>(g: &'g Graph, f: D<'g>, e: D<'g>, correction: D<'g>) -> D<'g> {
    let (half, rest) = terms(g, f);
    let low = e.fma(g.d(LN_2[1]), correction);
    e * LN_2[0] - ((half - (rest + low)) - f)
}

/// `ln x`.
pub(super) fn log<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (f, e) = split(g, x);
    edges(x, sum(g, f, e, g.d(0.0)))
}

/// `ln(1 + x)`.
pub(super) fn log1p<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let whole = x + 1.0;
    let (m, e) = reduce(g, whole);
    let e = e.to_double();
    // What rounding 1 + x lost, relative to it; nothing to speak of where x is huge.
    let lost = e.less(2.0).select(x - (whole - 1.0), g.d(1.0) - (whole - x));
    let correction = e.less(54.0).select(lost / whole, 0.0);
    let near = e.equal(0.0);
    // Without an exponent, x itself is f, exactly.
    let f = near.select(x, m - 1.0);
    let result = sum(g, f, e, near.select(0.0, correction));
    let result = x.abs().less(1e-17).select(x, result);
    let result = x.less(f64::INFINITY).select(result, x);
    let result = x.less(-1.0).select(f64::NAN, result);
    x.equal(-1.0).select(f64::NEG_INFINITY, result)
}

/// A number's upper 21 bits of mantissa.
fn upper<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    x.to_bits().and(g.l(!0xffff_ffff)).as_double()
}

/// `e · scale + log(1 + f) · factor`, both constants in two parts.
fn scaled<'g>(g: &'g Graph, f: D<'g>, e: D<'g>, scale: [f64; 2], factor: [f64; 2]) -> D<'g> {
    let (half, rest) = terms(g, f);
    let high = upper(g, f - half);
    let low = ((f - high) - half) + rest;
    let main = high * factor[0];
    let small = (low + high) * factor[1] + low * factor[0] + e * scale[1];
    let whole = e * scale[0];
    let sum = whole + main;
    (small + ((whole - sum) + main)) + sum
}

/// `log2 x`.
pub(super) fn log2<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (f, e) = split(g, x);
    edges(x, scaled(g, f, e, [1.0, 0.0], LOG2_E))
}

/// `log10 x`.
pub(super) fn log10<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (f, e) = split(g, x);
    edges(x, scaled(g, f, e, LOG10_2, LOG10_E))
}
