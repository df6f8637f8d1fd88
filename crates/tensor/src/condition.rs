//! Conditions between expressions over symbolic dimensions.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use crate::DimExpr;

/// How two sizes compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `<`
    Less,
    /// `>`
    Greater,
}

impl Relation {
    /// All of them; those whose text begins another's come behind it.
    const ALL: [Relation; 6] =
        [Relation::Equal, Relation::NotEqual, Relation::AtMost, Relation::AtLeast, Relation::Less, Relation::Greater];

    /// As Python writes it.
    pub fn text(self) -> &'static str {
        match self {
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
            Relation::AtMost => "<=",
            Relation::AtLeast => ">=",
            Relation::Less => "<",
            Relation::Greater => ">",
        }
    }

    /// The relation of a text as Python writes it.
    pub fn of_text(text: &str) -> Option<Relation> {
        Relation::ALL.into_iter().find(|relation| relation.text() == text)
    }

    /// Whether it holds of two values in this order.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::AtMost => order.is_le(),
            Relation::AtLeast => order.is_ge(),
            Relation::Less => order.is_lt(),
            Relation::Greater => order.is_gt(),
        }
    }
}

/// Two expressions and how they must compare: `2*seq <= 512`. The text form parses back to the same value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    /// What stands on the left.
    pub left: DimExpr,
    /// How they compare.
    pub relation: Relation,
    /// What stands on the right.
    pub right: DimExpr,
}

impl Condition {
    /// `left RELATION right`.
    pub fn new(left: DimExpr, relation: Relation, right: DimExpr) -> Self {
        Condition { left, relation, right }
    }

    /// Whether it holds, where that is the same for all values of the names; no name is negative.
    pub fn decide(&self) -> Option<bool> {
        let difference = self.left.sub(&self.right)?;
        if let Some(difference) = difference.as_constant() {
            return Some(self.relation.holds(difference.cmp(&0)));
        }
        // Both ends of an interval, each where it is known.
        let (low, high) = (difference.lower_bound(), difference.mul(&DimExpr::constant(-1))?.lower_bound());
        let (low, high) = (low, high.and_then(i64::checked_neg));
        let above = |bound: i64| low.is_some_and(|low| low >= bound);
        let below = |bound: i64| high.is_some_and(|high| high <= bound);
        let (holds, fails) = match self.relation {
            Relation::Equal => (false, above(1) || below(-1)),
            Relation::NotEqual => (above(1) || below(-1), false),
            Relation::AtMost => (below(0), above(1)),
            Relation::AtLeast => (above(0), below(-1)),
            Relation::Less => (below(-1), above(0)),
            Relation::Greater => (above(1), below(0)),
        };
        (holds || fails).then_some(holds)
    }

    /// With names replaced by expressions; `None`: too large to handle.
    pub fn substitute(&self, lookup: &dyn Fn(&str) -> Option<DimExpr>) -> Option<Self> {
        Some(Condition {
            left: self.left.substitute(lookup)?,
            relation: self.relation,
            right: self.right.substitute(lookup)?,
        })
    }

    /// The value of each side; `None`: a name that `lookup` does not know, or a value that leaves i64.
    pub fn evaluate(&self, lookup: &dyn Fn(&str) -> Option<i64>) -> Option<(i64, i64)> {
        Some((self.left.evaluate(lookup)?, self.right.evaluate(lookup)?))
    }

    /// Names that occur in it.
    pub fn symbols(&self) -> BTreeSet<String> {
        self.left.symbols().into_iter().chain(self.right.symbols()).collect()
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        // A name in backticks may hold anything, so that the relation is looked for outside of them.
        let quoted = |at: usize| text[..at].matches('`').count() % 2 == 1;
        let (at, relation) = Relation::ALL.into_iter().find_map(|relation| {
            let mut places = text.match_indices(relation.text()).map(|(at, _)| at);
            places.find(|at| !quoted(*at)).map(|at| (at, relation))
        })?;
        let right = &text[at + relation.text().len()..];
        Some(Condition { left: DimExpr::parse(&text[..at])?, relation, right: DimExpr::parse(right)? })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.relation.text(), self.right)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_parse_back() {
        for text in ["n == 5", "2*a != b+1", "n <= 4", "n >= 4", "a < b", "`<odd>` > 1", "min(1,a) <= b"] {
            assert_eq!(Condition::parse(text).unwrap().to_string(), text);
        }
        for text in ["n", "n = 5", "n == ", "== 5", "a == b == c", ""] {
            assert_eq!(Condition::parse(text), None, "{text}");
        }
    }

    /// What is decided holds for every value of the names, and what is not decided holds for some and not for others.
    #[test]
    fn what_is_decided_is_so_for_all_sizes() {
        let cases = [
            ("n == n", Some(true)),
            ("n+1 == n", Some(false)),
            ("n >= 0", Some(true)),
            ("n+1 > 0", Some(true)),
            ("n < 0", Some(false)),
            ("0 <= min(n,3)", Some(true)),
            ("min(1,n) <= 1", Some(true)),
            ("max(n,4) >= 3", Some(true)),
            ("2 <= min(1,n)", Some(false)),
            ("n == 5", None),
            ("1 <= n", None),
            ("n != 5", None),
            ("floordiv(n,2) >= 0", Some(true)),
            ("n-m <= 0", None),
        ];
        for (text, expected) in cases {
            let condition = Condition::parse(text).unwrap();
            assert_eq!(condition.decide(), expected, "{text}");
            let mut seen = BTreeSet::new();
            for n in 0..8 {
                for m in 0..8 {
                    let (left, right) = condition.evaluate(&|name| Some(if name == "n" { n } else { m })).unwrap();
                    seen.insert(condition.relation.holds(left.cmp(&right)));
                }
            }
            let truth = if seen.len() == 1 { seen.first().copied() } else { None };
            assert_eq!(truth, expected, "{text}");
        }
    }
}
