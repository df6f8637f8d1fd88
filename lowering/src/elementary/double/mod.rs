//! Functions of f64. The methods are those of f32 where they carry over; logarithms follow fdlibm's, with coefficients of our own.

mod exponential;
mod hyperbolic;
mod logarithm;

use super::expression::{D, Function, Graph};

type Make = for<'g> fn(&'g Graph, D<'g>) -> D<'g>;

/// Every function: its operation, the greatest error in units in the last place, how it is made.
const TABLE: [(&str, f64, Make); 11] = [
    ("math.cosh", 2.0, hyperbolic::cosh),
    ("math.exp", 1.0, exponential::exp),
    ("math.exp2", 1.0, exponential::exp2),
    ("math.expm1", 2.0, exponential::expm1),
    ("math.log", 1.0, logarithm::log),
    ("math.log10", 1.0, logarithm::log10),
    ("math.log1p", 1.0, logarithm::log1p),
    ("math.log2", 1.0, logarithm::log2),
    ("math.rsqrt", 1.5, rsqrt),
    ("math.sinh", 3.0, hyperbolic::sinh),
    ("math.tanh", 3.0, hyperbolic::tanh),
];

/// The f64 function of an operation, with its bound.
pub(super) fn of(operation: &str) -> Option<(f64, Function)> {
    let (_, bound, make) = TABLE.into_iter().find(|(name, ..)| *name == operation)?;
    Some((bound, Graph::double(1, |g, x| make(g, x[0]))))
}

/// `1 / √x`.
fn rsqrt<'g>(g: &'g Graph, x: D<'g>) -> D<'g> {
    g.d(1.0) / x.sqrt()
}
