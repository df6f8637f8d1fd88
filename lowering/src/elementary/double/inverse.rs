//! `asin`, `acos`, `atan`, `atan2` of f64.

use super::pair::fast_two_sum;
use crate::elementary::expression::{D, Graph};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 4] = [
    Definition::one_of_double("math.acos", 1.0, acos),
    Definition::one_of_double("math.asin", 1.0, asin),
    Definition::one_of_double("math.atan", 1.0, atan),
    Definition::two_of_double("math.atan2", 1.5, atan2),
];

/// π/2 and π in two parts.
const HALF_PI: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
const PI: [f64; 2] = [std::f64::consts::PI, 1.224_646_799_147_353_2e-16];

/// `(asin x − x) / x³` by `x²`, for `|x| ≤ 1/2`.
const ASIN: [f64; 14] = [
    0.166_666_666_666_666_66,
    0.075_000_000_000_001_19,
    0.044_642_857_142_550_19,
    0.030_381_944_475_693_704,
    0.022_372_157_435_623_815,
    0.017_352_816_768_546_473,
    0.013_963_775_787_848_137,
    0.011_566_511_821_890_942,
    0.009_621_402_747_344_83,
    0.009_322_101_501_082_774,
    0.003_035_007_172_726_762_3,
    0.019_579_201_619_744_684,
    -0.019_277_545_928_584_557,
    0.029_635_026_263_548_55,
];
/// `(atan x − x) / x³` by `x²`, for `|x| ≤ 7/16`.
const ATAN: [f64; 12] = [
    -0.333_333_333_333_333_3,
    0.199_999_999_999_994_07,
    -0.142_857_142_855_661_06,
    0.111_111_110_965_839_41,
    -0.090_909_083_528_792_08,
    0.076_922_854_843_509_6,
    -0.066_662_407_883_702_12,
    0.058_769_347_652_848_98,
    -0.052_166_025_928_240_795,
    0.044_919_440_048_116_197,
    -0.033_120_869_253_846_03,
    0.014_765_970_807_038_169,
];

/// `asin x − x` for `|x| ≤ 1/2`, by `x` and its square.
fn asin_rest<'g>(g: &'g Graph, x: D<'g>, square: D<'g>) -> D<'g> {
    x * square * g.polynomial_of_double(square, &ASIN)
}

/// For `1/2 < a ≤ 1`: `2 asin √((1 − a) / 2)`, which is `acos a`, as a number and what is to be added to it.
fn acos_large<'g>(g: &'g Graph, a: D<'g>) -> (D<'g>, D<'g>) {
    let square = (g.d(1.0) - a) * 0.5;
    let root = square.sqrt();
    let lost = (-root).fma(root, square) / (root + root);
    let rest = asin_rest(g, root, square) + root.equal(0.0).select(0.0, lost);
    (root + root, rest + rest)
}

/// `asin x`; NaN outside of −1 to 1.
pub(super) fn asin<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    let (angle, rest) = acos_large(g, a);
    let difference = fast_two_sum(g.d(HALF_PI[0]), -angle);
    let large = difference.high + (difference.low - (rest - HALF_PI[1]));
    let small = a + asin_rest(g, a, a * a);
    a.less_equal(0.5).select(small, large).copy_sign(x)
}

/// `acos x`; NaN outside of −1 to 1.
pub(super) fn acos<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let a = x.abs();
    let (angle, rest) = acos_large(g, a);
    let difference = fast_two_sum(g.d(PI[0]), -angle);
    let left = difference.high + (difference.low - (rest - PI[1]));
    let large = x.less(0.0).select(left, angle + rest);
    let difference = fast_two_sum(g.d(HALF_PI[0]), -x);
    let small = difference.high + (difference.low - (asin_rest(g, x, x * x) - HALF_PI[1]));
    a.less_equal(0.5).select(small, large)
}

/// `atan a` for `a ≥ 0`: the angle of the nearest of 0, atan 1/2, π/4, atan 3/2 and π/2, and the rest. Source of the method: fdlibm.
fn atan_positive<'g>(g: &'g Graph, a: D<'g>) -> D<'g> {
    let steps = [0.437_5, 0.687_5, 1.187_5, 2.437_5].map(|step| a.less(step));
    let pick = |values: [D<'g>; 5]| -> D<'g> {
        let last: D<'g> = steps[3].select(values[3], values[4]);
        let last: D<'g> = steps[2].select(values[2], last);
        let last: D<'g> = steps[1].select(values[1], last);
        steps[0].select(values[0], last)
    };
    let one = g.d(1.0);
    let above = pick([a, a + a - 1.0, a - 1.0, a - 1.5, -one]);
    let below = pick([one, a + 2.0, a + 1.0, a.fma(g.d(1.5), 1.0), a]);
    let high = [0.0, 0.463_647_609_000_806_1, std::f64::consts::FRAC_PI_4, 0.982_793_723_247_329, HALF_PI[0]];
    let low = [0.0, 2.269_877_745_296_168_7e-17, 3.061_616_997_868_383e-17, 1.390_331_103_123_099_8e-17, HALF_PI[1]];
    let z = above / below;
    let square = z * z;
    let rest = (z * square).fma(g.polynomial_of_double(square, &ATAN), pick(low.map(|low| g.d(low))));
    let near = fast_two_sum(pick(high.map(|high| g.d(high))), z);
    near.high + (near.low + rest)
}

/// `atan x`.
pub(super) fn atan<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    atan_positive(g, x.abs()).copy_sign(x)
}

/// The angle of the point `(x, y)`.
pub(super) fn atan2<'g>(g: &'g Graph, y: D<'g>, x: D<'g>) -> D<'g> {
    let (a, b) = (y.abs(), x.abs());
    let ratio = a / b;
    // Both zero, both infinite.
    let ratio = (a.equal(0.0) & b.equal(0.0)).select(0.0, ratio);
    let ratio = (a.equal(f64::INFINITY) & b.equal(f64::INFINITY)).select(1.0, ratio);
    let angle = atan_positive(g, ratio);
    let left = fast_two_sum(g.d(PI[0]), -angle);
    let left = left.high + (left.low + PI[1]);
    x.to_bits().int_less(0).select(left, angle).copy_sign(y)
}
