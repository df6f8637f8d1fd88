//! `asin`, `acos`, `atan`, `atan2`.

use super::expression::{F, Graph};
use super::hyperbolic::odd;
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 4] = [
    Definition::one("math.acos", 2.0, acos),
    Definition::one("math.asin", 2.5, asin),
    Definition::one("math.atan", 2.0, atan),
    Definition::two("math.atan2", 2.0, atan2),
];

const HALF_PI: [f32; 2] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8];
const PI: [f32; 2] = [std::f32::consts::PI, -8.742_278e-8];

/// `(asin x − x) / x³` by `x²`, for `|x| ≤ 1/2`.
const ASIN: [f32; 6] = [1.666_666e-1, 7.500_519e-2, 4.451_443_6e-2, 3.182_688e-2, 1.437_153_2e-2, 3.760_472_3e-2];
/// `(atan x − x) / x³` by `x²`, for `|x| ≤ 1`.
const ATAN: [f32; 9] = [
    -3.333_33e-1,
    1.999_853_1e-1,
    -1.426_405e-1,
    1.095_115_5e-1,
    -8.400_377e-2,
    5.790_420_2e-2,
    -3.112_406e-2,
    1.088_548_5e-2,
    -1.787_068_9e-3,
];

/// For `1/2 < a ≤ 1`: `2 asin √((1 − a) / 2)`, which is `acos a`.
fn acos_large<'g>(g: &'g Graph, a: F<'g>) -> F<'g> {
    let half = odd(g, ((g.f(1.0) - a) * 0.5).sqrt(), &ASIN);
    half + half
}

/// `asin x`; NaN outside of −1 to 1.
pub(super) fn asin<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let large = g.f(HALF_PI[0]) - (acos_large(g, a) - HALF_PI[1]);
    a.less_equal(0.5).select(odd(g, a, &ASIN), large).copy_sign(x)
}

/// `acos x`; NaN outside of −1 to 1.
pub(super) fn acos<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let large = acos_large(g, a);
    let large = x.less(0.0).select(g.f(PI[0]) - (large - PI[1]), large);
    let small = g.f(HALF_PI[0]) - (odd(g, x, &ASIN) - HALF_PI[1]);
    a.less_equal(0.5).select(small, large)
}

/// `atan x`.
pub(super) fn atan<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let a = x.abs();
    let large = a.greater(1.0);
    let inner = odd(g, large.select(g.f(1.0) / a, a), &ATAN);
    large.select(g.f(HALF_PI[0]) - (inner - HALF_PI[1]), inner).copy_sign(x)
}

/// The angle of the point `(x, y)`.
pub(super) fn atan2<'g>(g: &'g Graph, y: F<'g>, x: F<'g>) -> F<'g> {
    let (a, b) = (y.abs(), x.abs());
    let steep = b.less(a);
    let (low, high) = (steep.select(b, a), steep.select(a, b));
    let ratio = low / high;
    // Both zero, both infinite.
    let ratio = high.equal(0.0).select(0.0, ratio);
    let ratio = (low.equal(f32::INFINITY)).select(1.0, ratio);
    let inner = odd(g, ratio, &ATAN);
    let angle = steep.select(g.f(HALF_PI[0]) - (inner - HALF_PI[1]), inner);
    let left = x.to_bits().int_less(0);
    let angle = left.select(g.f(PI[0]) - (angle - PI[1]), angle).copy_sign(y);
    (x.is_nan() | y.is_nan()).select(f32::NAN, angle)
}
