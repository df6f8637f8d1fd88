//! What values expressions over symbolic dimensions can have.

use crate::DimExpr;
use crate::dim_expr::Atom;

impl DimExpr {
    /// The largest value that it can have while each name is at least 0 and at most what `lookup` says; `None`: a name without bound, or too large.
    pub fn upper_bound(&self, lookup: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.bounds(lookup).map(|(_, high)| high)
    }

    /// A value that it is never below while no name is negative; `None`: there may be none.
    pub fn lower_bound(&self) -> Option<i64> {
        self.range().0
    }

    /// The least and the largest value over all names that are not negative, each where it is known.
    fn range(&self) -> (Option<i64>, Option<i64>) {
        let mut sum = (Some(0i64), Some(0i64));
        for (atoms, coefficient) in &self.terms {
            let mut product = (Some(1i64), Some(1i64));
            for atom in atoms {
                let (low, high) = match atom {
                    Atom::Symbol(_) => (Some(0), None),
                    Atom::FloorDiv(inner, divisor) => {
                        let (low, high) = inner.range();
                        (low.map(|low| low.div_euclid(*divisor)), high.map(|high| high.div_euclid(*divisor)))
                    }
                    Atom::Max(x, y) => {
                        let (x, y) = (x.range(), y.range());
                        (x.0.max(y.0), x.1.zip(y.1).map(|(x, y)| x.max(y)))
                    }
                    Atom::Min(x, y) => {
                        let (x, y) = (x.range(), y.range());
                        let high = match (x.1, y.1) {
                            (Some(x), Some(y)) => Some(x.min(y)),
                            (one, other) => one.or(other),
                        };
                        (x.0.zip(y.0).map(|(x, y)| x.min(y)), high)
                    }
                };
                // Products of what may be negative are not followed.
                product = match (low, product.0) {
                    (Some(low), Some(least)) if low >= 0 && least >= 0 => {
                        (least.checked_mul(low), product.1.zip(high).and_then(|(most, high)| most.checked_mul(high)))
                    }
                    _ => (None, None),
                };
            }
            let (low, high) = if *coefficient > 0 { product } else { (product.1, product.0) };
            let scaled = |value: Option<i64>| value.and_then(|value| value.checked_mul(*coefficient));
            let plus =
                |sum: Option<i64>, value| sum.zip(value).and_then(|(sum, value): (i64, i64)| sum.checked_add(value));
            sum = (plus(sum.0, scaled(low)), plus(sum.1, scaled(high)));
        }
        sum
    }

    /// The least and the largest value, by interval arithmetic: both may be beyond what is reached.
    fn bounds(&self, lookup: &dyn Fn(&str) -> Option<i64>) -> Option<(i64, i64)> {
        let (mut low, mut high) = (0i64, 0i64);
        for (atoms, coefficient) in &self.terms {
            let mut product = (*coefficient, *coefficient);
            for atom in atoms {
                let (a, b) = match atom {
                    Atom::Symbol(name) => (0, lookup(name)?),
                    Atom::FloorDiv(inner, divisor) => {
                        let (a, b) = inner.bounds(lookup)?;
                        (a.div_euclid(*divisor), b.div_euclid(*divisor))
                    }
                    Atom::Max(x, y) => {
                        let (x, y) = (x.bounds(lookup)?, y.bounds(lookup)?);
                        (x.0.max(y.0), x.1.max(y.1))
                    }
                    Atom::Min(x, y) => {
                        let (x, y) = (x.bounds(lookup)?, y.bounds(lookup)?);
                        (x.0.min(y.0), x.1.min(y.1))
                    }
                };
                let corners = [
                    product.0.checked_mul(a)?,
                    product.0.checked_mul(b)?,
                    product.1.checked_mul(a)?,
                    product.1.checked_mul(b)?,
                ];
                product = (corners.into_iter().min()?, corners.into_iter().max()?);
            }
            low = low.checked_add(product.0)?;
            high = high.checked_add(product.1)?;
        }
        Some((low, high))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_never_passed() {
        let parse = |text| DimExpr::parse(text).unwrap();
        let bound = |text| parse(text).upper_bound(&|name| Some(if name == "a" { 4 } else { 10 }));
        assert_eq!(bound("2*a*b+1"), Some(81));
        assert_eq!(bound("b-a"), Some(10));
        assert_eq!(bound("floordiv(b-a,3)"), Some(3));
        assert_eq!(bound("max(a,b)-min(a,b)"), Some(10));
        assert_eq!(parse("c").upper_bound(&|_| None), None);
    }

    #[test]
    fn least_values_are_never_passed() {
        let cases = [
            ("7", Some(7)),
            ("2*a+3", Some(3)),
            ("a-1", Some(-1)),
            ("a-b", None),
            ("a-min(1,a)", Some(-1)),
            ("4-min(3,a)", Some(1)),
            ("max(a-3,0)", Some(0)),
            ("floordiv(a-3,2)", Some(-2)),
            ("a*b+1", Some(1)),
            ("(a-1)*(b-1)", None),
        ];
        for (text, expected) in cases {
            let expression = DimExpr::parse(text).unwrap();
            assert_eq!(expression.lower_bound(), expected, "{text}");
            for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))) {
                let value = expression.evaluate(&|name| Some(if name == "a" { a } else { b })).unwrap();
                assert!(expected.is_none_or(|least| value >= least), "{text} is {value}");
            }
        }
    }
}
