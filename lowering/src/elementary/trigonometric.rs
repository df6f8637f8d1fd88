//! `sin`, `cos`, `tan`.
//!
//! The argument is reduced to a quarter of a turn either side of zero: by three parts of π/2 up to 2^16, beyond that with the bits of
//! 2/π that matter, in integers (Payne and Hanek).

use super::exponential::round;
use super::expression::{F, Graph, I};
use super::hyperbolic::odd;
use super::table::Definition;

/// The functions of this file, with their bounds.
pub(super) const FUNCTIONS: [Definition; 3] = [
    Definition::one("math.cos", 3.0, cos),
    Definition::one("math.sin", 3.0, sin),
    Definition::one("math.tan", 4.0, tan),
];

const TWO_OVER_PI: f32 = std::f32::consts::FRAC_2_PI;
/// π/2 in three parts.
const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];
/// Bits of 2/π after the point, 32 in each.
const TWO_OVER_PI_BITS: [u32; 7] =
    [0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
/// Up to here the three parts of π/2 do.
const LARGE: f32 = 65536.0;

/// `(sin r − r) / r³` by `r²`, for `|r| ≤ π/4`.
const SIN: [f32; 4] = [-1.666_666_7e-1, 8.333_38e-3, -1.985_349_8e-4, 2.837_247_2e-6];
/// `(cos r − 1 + r²/2) / r⁴` by `r²`.
const COS: [f32; 4] = [4.166_666_8e-2, -1.388_898e-3, 2.482_200_8e-5, -2.887_845_2e-7];
/// `(tan r − r) / r³` by `r²`.
const TAN: [f32; 8] = [
    3.333_333e-1,
    1.333_343_2e-1,
    5.395_144e-2,
    2.200_673_1e-2,
    8.250_111e-3,
    5.156_911e-3,
    -7.673_459_5e-4,
    2.113_587e-3,
];

/// `r` and the number of quarter turns `q`, modulo 4, with `x = q π/2 + r`. NaN for what is not finite.
fn reduce<'g>(g: &'g Graph, x: F<'g>) -> (F<'g>, I<'g>) {
    let (r, q) = g.branch(
        x.abs().less(LARGE),
        || {
            let (n, k) = round(g, x * TWO_OVER_PI);
            let r = n.fma(g.f(-HALF_PI[0]), x);
            let r = n.fma(g.f(-HALF_PI[1]), r);
            (n.fma(g.f(-HALF_PI[2]), r), k)
        },
        || reduce_large(g, x),
    );
    (r, q.and(3))
}

/// `x · 2/π` modulo 4 in 64-bit fixed point, for `|x| ≥ 2^16`.
fn reduce_large<'g>(g: &'g Graph, x: F<'g>) -> (F<'g>, I<'g>) {
    let bits = x.abs().to_bits();
    // |x| = m / 2^32 · 2^exponent.
    let m = bits.shift_left(8).or(g.bits(0x8000_0000)).widen();
    let exponent = bits.shift_right(23).minus(126);
    let (word, shift) = (exponent.shift_right(5), exponent.and(31).widen());
    // The word of 2/π at `word + offset − 1`; before the point there are zeros.
    let at = |offset: usize| {
        let bits = |index: usize| {
            let place = (index + offset).checked_sub(1);
            g.bits(place.and_then(|place| TWO_OVER_PI_BITS.get(place)).copied().unwrap_or(0))
        };
        let low = word.int_less(1).select(bits(0), bits(1));
        let high = word.int_less(3).select(bits(2), bits(3));
        let most: I<'g> = word.int_less(2).select(low, high);
        word.int_less(4).select(most, bits(4))
    };
    let words = [at(0), at(1), at(2), at(3)].map(I::widen);
    // 32 bits before the point and 64 after it of 2/π · 2^exponent.
    let join = |high: usize| {
        let pair = words[high].shift_left(32).or(words[high + 1]);
        pair.shift_left_by(shift).shift_right_zero(32)
    };
    let (before, first, second) = (join(0), join(1), join(2));
    // The product's low two bits before the point and 62 after it.
    let product = m
        .times(before)
        .shift_left(30)
        .plus(m.times(first).shift_right_zero(2))
        .plus(m.times(second).shift_right_zero(34));
    let turns = product.plus(g.l(1 << 61)).shift_right_zero(62);
    let rest = product.minus(turns.shift_left(62));
    // π/2 · 2^-62.
    let r = rest.to_float() * (std::f32::consts::FRAC_PI_2 / (1u64 << 62) as f32);
    let negative = x.less(0.0);
    let q = turns.narrow();
    let r = x.is_finite().select(r, f32::NAN);
    (negative.select(-r, r), negative.select(g.i(0).minus(q), q))
}

fn cosine<'g>(g: &'g Graph, r: F<'g>) -> F<'g> {
    let square = r * r;
    square.fma(square.fma(g.polynomial(square, &COS), -0.5), 1.0)
}

/// The sine of `q` quarter turns and `r`.
fn turned<'g>(g: &'g Graph, r: F<'g>, q: I<'g>) -> F<'g> {
    let value = q.and(1).int_equal(0).select(odd(g, r, &SIN), cosine(g, r));
    q.and(2).int_equal(0).select(value, -value)
}

/// `sin x`.
pub(super) fn sin<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (r, q) = reduce(g, x);
    // Keeps the sign of zero.
    x.equal(0.0).select(x, turned(g, r, q))
}

/// `cos x`.
pub(super) fn cos<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (r, q) = reduce(g, x);
    turned(g, r, q.plus(1))
}

/// `tan x`.
pub(super) fn tan<'g>(g: &'g Graph, x: F<'g>) -> F<'g> {
    let (r, q) = reduce(g, x);
    let t = odd(g, r, &TAN);
    let result = q.and(1).int_equal(0).select(t, g.f(-1.0) / t);
    x.equal(0.0).select(x, result)
}
