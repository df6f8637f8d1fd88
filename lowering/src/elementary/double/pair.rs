//! Numbers in two parts.

use crate::elementary::expression::D;

/// The sum of two numbers, the second at most half a unit in the last place of the first.
#[derive(Clone, Copy)]
pub(super) struct Pair<'g> {
    pub(super) high: D<'g>,
    pub(super) low: D<'g>,
}

/// `a + b`, exactly, for `|a| ≥ |b|` or `a = 0`.
pub(super) fn fast_two_sum<'g>(a: D<'g>, b: D<'g>) -> Pair<'g> {
    let high = a + b;
    Pair { high, low: b - (high - a) }
}

/// `a + b`, exactly.
pub(super) fn two_sum<'g>(a: D<'g>, b: D<'g>) -> Pair<'g> {
    let high = a + b;
    let of_b = high - a;
    Pair { high, low: (a - (high - of_b)) + (b - of_b) }
}

/// `a · b`, exactly.
pub(super) fn two_product<'g>(a: D<'g>, b: D<'g>) -> Pair<'g> {
    let high = a * b;
    Pair { high, low: a.fma(b, -high) }
}
