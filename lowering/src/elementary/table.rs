//! What a function states of itself: the operation that it computes, its bound, how it is made. Each file of functions lists its own.

use super::expression::{D, F, Function, Graph};

type One = for<'g> fn(&'g Graph, F<'g>) -> F<'g>;
type Two = for<'g> fn(&'g Graph, F<'g>, F<'g>) -> F<'g>;
type OneOfDouble = for<'g> fn(&'g Graph, D<'g>) -> D<'g>;
type TwoOfDouble = for<'g> fn(&'g Graph, D<'g>, D<'g>) -> D<'g>;

#[derive(Clone, Copy)]
enum Maker {
    One(One),
    Two(Two),
    OneOfDouble(OneOfDouble),
    TwoOfDouble(TwoOfDouble),
}

/// A function of f32 or of f64.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    /// Name of the operation.
    pub(super) operation: &'static str,
    /// The greatest error over all arguments, in units in the last place.
    pub(super) max_ulp: f64,
    maker: Maker,
}

impl Definition {
    /// A function of one f32.
    pub(super) const fn one(operation: &'static str, max_ulp: f64, make: One) -> Self {
        Definition { operation, max_ulp, maker: Maker::One(make) }
    }

    /// A function of two f32.
    pub(super) const fn two(operation: &'static str, max_ulp: f64, make: Two) -> Self {
        Definition { operation, max_ulp, maker: Maker::Two(make) }
    }

    /// A function of one f64.
    pub(super) const fn one_of_double(operation: &'static str, max_ulp: f64, make: OneOfDouble) -> Self {
        Definition { operation, max_ulp, maker: Maker::OneOfDouble(make) }
    }

    /// A function of two f64.
    pub(super) const fn two_of_double(operation: &'static str, max_ulp: f64, make: TwoOfDouble) -> Self {
        Definition { operation, max_ulp, maker: Maker::TwoOfDouble(make) }
    }

    /// Number of arguments.
    pub(super) fn arity(&self) -> usize {
        match self.maker {
            Maker::One(_) | Maker::OneOfDouble(_) => 1,
            Maker::Two(_) | Maker::TwoOfDouble(_) => 2,
        }
    }

    /// The function as data.
    pub(super) fn function(&self) -> Function {
        match self.maker {
            Maker::One(make) => Graph::function(1, |g, x| make(g, x[0])),
            Maker::Two(make) => Graph::function(2, |g, x| make(g, x[0], x[1])),
            Maker::OneOfDouble(make) => Graph::double(1, |g, x| make(g, x[0])),
            Maker::TwoOfDouble(make) => Graph::double(2, |g, x| make(g, x[0], x[1])),
        }
    }
}
