//! `sin`, `cos`, `tan` of f64.
//!
//! The argument is reduced to a quarter of a turn either side of zero, in two parts: by three parts of π/2 up to 2^20, beyond that with the
//! bits of 2/π that matter, in integers (Payne and Hanek).

use super::exponential::round;
use super::pair::{Pair, fast_two_sum, two_product, two_sum};
use crate::elementary::expression::{D, Graph, L};
use crate::elementary::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one_of_double("math.cos", 1.0, cos),
    Definition::one_of_double("math.sin", 1.0, sin),
    Definition::one_of_double("math.tan", 1.0, tan),
];

const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;
/// π/2 in three parts.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];
/// Up to here the three parts of π/2 do.
const LARGE: f64 = 1_048_576.0;
/// 64 zeros and the bits of 2/π after the point.
const TWO_OVER_PI_BITS: [u64; 19] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
];

/// `(sin r − r) / r³` by `r²`, for `|r| ≤ π/4`.
const SIN: [f64; 7] = [
    -0.166_666_666_666_666_66,
    0.008_333_333_333_333_331,
    -0.000_198_412_698_412_647_78,
    2.755_731_921_911_718e-06,
    -2.505_210_615_578_957e-08,
    1.605_851_953_954_383_3e-10,
    -7.585_989_217_686_428e-13,
];
/// `(cos r − 1 + r²/2) / r⁴` by `r²`.
const COS: [f64; 6] = [
    0.041_666_666_666_666_664,
    -0.001_388_888_888_888_730_9,
    2.480_158_729_863_089e-05,
    -2.755_731_720_221_659e-07,
    2.087_613_186_543_891_7e-09,
    -1.138_160_080_364_866_3e-11,
];

/// `r` and the number of quarter turns `q`, modulo 4, with `x = q π/2 + r`. NaN for what is not finite.
fn reduce<'g>(g: &'g Graph, x: D<'g>) -> (Pair<'g>, L<'g>) {
    let (high, low, q) = g.branch(x.abs().less(LARGE), || reduce_small(g, x), || reduce_large(g, x));
    (Pair { high, low }, q)
}

fn reduce_small<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, D<'g>, L<'g>) {
    let (n, k) = round(g, x * TWO_OVER_PI);
    // Exact: what is left is a multiple of the last place of π/2 and less than 1.
    let first = n.fma(g.d(-HALF_PI[0]), x);
    let second = two_product(n, g.d(-HALF_PI[1]));
    let sum = two_sum(first, second.high);
    let low = sum.low + n.fma(g.d(-HALF_PI[2]), second.low);
    let r = fast_two_sum(sum.high, low);
    (r.high, r.low, k)
}

/// `x · 2/π` modulo 4 in 128-bit fixed point, for `|x| ≥ 2^20`.
fn reduce_large<'g>(g: &'g Graph, x: D<'g>) -> (D<'g>, D<'g>, L<'g>) {
    let bits = x.abs().to_bits();
    // |x| = m / 2^63 · 2^exponent.
    let m = bits.shift_left(11).or(g.l(i64::MIN));
    // Bits of 2/π whose products are multiples of 4 are left out: the window begins where two bits before the point come from.
    let place = bits.shift_right(52).minus(g.l(1024));
    let (word, shift) = (place.shift_right(6), place.and(g.l(63)));
    let mut words: Vec<L<'g>> = TWO_OVER_PI_BITS.iter().map(|bits| g.l(*bits as i64)).collect();
    for (bit, rest) in [(3, 11), (2, 7), (1, 5), (0, 4)] {
        let stays = word.and(g.l(1 << bit)).int_equal(0);
        words = (0..rest).map(|i| stays.select(words[i], words[i + (1 << bit)])).collect();
    }
    let back = g.l(63).minus(shift);
    let window = |i: usize| -> L<'g> {
        words[i].shift_left_by(shift).or(words[i + 1].shift_right_zero(1).shift_right_zero_by(back))
    };
    // The lower 192 bits of the product, without the last 64: two bits before the point and 126 after it.
    let middle = m.times(window(1));
    let low = middle.plus(m.times_high(window(2)));
    let carry = low.below(middle).select(g.l(1), g.l(0));
    let high = m.times(window(0)).plus(m.times_high(window(1))).plus(carry);
    let turns = high.plus(g.l(1 << 61)).shift_right_zero(62);
    let rest = high.minus(turns.shift_left(62));
    // The size of what is left, with a sign of its own.
    let negative = rest.int_less(0);
    let carry = low.int_equal(0).select(g.l(1), g.l(0));
    let high = negative.select(rest.xor(g.l(-1)).plus(carry), rest);
    let low: L<'g> = negative.select(g.l(0).minus(low), low);
    // As a number in two parts: 32 bits are a number without rounding.
    let part = |bits: L<'g>, exponent: i32| bits.to_double() * 2f64.powi(exponent - 126);
    let mask = g.l(0xffff_ffff);
    let upper = fast_two_sum(part(high.shift_right_zero(32), 96), part(high.and(mask), 64));
    let lower = fast_two_sum(part(low.shift_right_zero(32), 32), part(low.and(mask), 0));
    let sum = two_sum(upper.high, lower.high);
    let fraction = fast_two_sum(sum.high, sum.low + (upper.low + lower.low));
    // Times π/2.
    let product = two_product(fraction.high, g.d(HALF_PI[0]));
    let rest = fraction.high.fma(g.d(HALF_PI[1]), fraction.low.fma(g.d(HALF_PI[0]), product.low));
    let r = fast_two_sum(product.high, rest);
    let flip = negative.select(g.d(-1.0), g.d(1.0)) * x.less(0.0).select(g.d(-1.0), g.d(1.0));
    let flip = x.is_finite().select(flip, f64::NAN);
    (r.high * flip, r.low * flip, x.less(0.0).select(g.l(0).minus(turns), turns))
}

/// `sin r`, its low part not below a unit in the last place of its high part.
fn sine<'g>(g: &'g Graph, r: Pair<'g>) -> Pair<'g> {
    let square = r.high * r.high;
    let slope = square.fma(g.d(-0.5), 1.0);
    let rest = (r.high * square).fma(g.polynomial_of_double(square, &SIN), r.low * slope);
    Pair { high: r.high, low: rest }
}

/// `cos r`.
fn cosine<'g>(g: &'g Graph, r: Pair<'g>) -> Pair<'g> {
    let square = r.high * r.high;
    let half = square * 0.5;
    let high = g.d(1.0) - half;
    let rest = (square * square).fma(g.polynomial_of_double(square, &COS), -(r.high * r.low));
    Pair { high, low: ((g.d(1.0) - high) - half) + rest }
}

/// The sine of `q` quarter turns and `r`.
fn turned<'g>(g: &'g Graph, r: Pair<'g>, q: L<'g>) -> D<'g> {
    let (sine, cosine) = (sine(g, r), cosine(g, r));
    let even = q.and(g.l(1)).int_equal(0);
    let value = even.select(sine.high + sine.low, cosine.high + cosine.low);
    q.and(g.l(2)).int_equal(0).select(value, -value)
}

/// `sin x`.
pub(super) fn sin<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (r, q) = reduce(g, x);
    // Keeps the sign of zero.
    x.equal(0.0).select(x, turned(g, r, q))
}

/// `cos x`.
pub(super) fn cos<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (r, q) = reduce(g, x);
    turned(g, r, q.plus(g.l(1)))
}

/// `tan x`.
pub(super) fn tan<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    let (r, q) = reduce(g, x);
    let (sine, cosine) = (sine(g, r), cosine(g, r));
    let (sine, cosine) = (fast_two_sum(sine.high, sine.low), fast_two_sum(cosine.high, cosine.low));
    // sin / cos, or −cos / sin; the quotient's rounding error is known.
    let even = q.and(g.l(1)).int_equal(0);
    let above = |a: D<'g>, b: D<'g>| -> D<'g> { even.select(a, -b) };
    let (high, low) = (above(sine.high, cosine.high), above(sine.low, cosine.low));
    let below = |a: D<'g>, b: D<'g>| -> D<'g> { even.select(a, b) };
    let (divisor, divisor_low) = (below(cosine.high, sine.high), below(cosine.low, sine.low));
    let quotient = high / divisor;
    let rest = (-quotient).fma(divisor, high) + (-quotient).fma(divisor_low, low);
    x.equal(0.0).select(x, quotient + rest / divisor)
}
