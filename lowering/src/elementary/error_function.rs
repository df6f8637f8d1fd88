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
