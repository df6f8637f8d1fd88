//! `erf`.

use super::exponential::exp_scaled;
use super::expression::{F, Graph};
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 1] = [Definition::one("math.erf", 2.0, erf)];

/// `erf x / x − 1` by `x²`, for `|x| ≤ 0.9`.
const NEAR: [f32; 8] = [
    1.283_791_7e-1,
    -3.761_263e-1,
    1.128_361_4e-1,
    -2.685_378_3e-2,
    5.181_979_4e-3,
    -7.803_893e-4,
    5.344_701_3e-5,
    1.069_772_3e-5,
];
/// `−ln erfc x` for `0.85 ≤ x ≤ 4`.
const FAR: [f32; 11] = [
    -2.784_514_3e-5,
    1.128_591_2,
    6.359_015e-1,
    1.041_954_6e-1,
    -2.094_299_9e-2,
    1.321_375_7e-3,
    8.779_135_5e-4,
    -3.811_789e-4,
    7.843_976e-5,
    -8.774_28e-6,
    4.270_184_2e-7,
];

/// `erf x / x` by `x²`, for `|x| ≤ 2.9`, within 2^-18.
const COARSE: [f32; 10] = [
    1.128_376_1,
    -3.760_61e-1,
    1.125_923_7e-1,
    -2.649_443_4e-2,
    4.927_397_2e-3,
    -7.128_671e-4,
    7.660_298e-5,
    -5.661_762_3e-6,
    2.532_179_3e-7,
    -5.112_855_5e-9,
];

/// The error function for results that are rounded to 16 bits: 0.51 places of f16 and 0.501 of bf16 with that rounding.
pub(super) fn erf_for_16_bits<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    // From 2.9 on the result rounds to 1. NaN goes through: the comparisons are the other way round.
    let bounded = x.less(-2.9).select(-2.9, x);
    let bounded = bounded.greater(2.9).select(2.9, bounded);
    bounded * g.polynomial(bounded * bounded, &COARSE)
}

/// The error function.
pub(super) fn erf<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let square = a * a;
    let near = a.fma(g.polynomial(square, &NEAR), a);
    // From 4 on the result is 1; NaN stays.
    let bounded = a.greater(4.0).select(4.0, a);
    let far = g.f(1.0) - exp_scaled(g, -g.polynomial(bounded, &FAR), None, 0);
    a.less(0.875).select(near, far).copy_sign(x)
}
