//! Expressions over symbolic dimensions.
//!
//! Invariant: an expression is kept in normal form, a sum of integer multiples of products of atoms, so that two expressions that the
//! arithmetic of the normal form can show equal are `==`. The text form (`2*seq+1`, `floordiv(h-1,2)`) parses back to the same value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A factor that cannot be split.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Atom {
    Symbol(String),
    /// Rounded towards minus infinity; the divisor is at least 2.
    FloorDiv(DimExpr, i64),
    Max(DimExpr, DimExpr),
    Min(DimExpr, DimExpr),
}

/// An integer expression over named dimensions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DimExpr {
    /// Product of atoms (sorted; empty for the constant) to its coefficient (never 0).
    pub(crate) terms: BTreeMap<Vec<Atom>, i64>,
}

/// Expressions with more terms than this are not built; nor deeper ones.
const MAX_TERMS: usize = 64;
const MAX_DEPTH: usize = 24;

impl DimExpr {
    /// A number.
    pub fn constant(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        DimExpr { terms }
    }

    /// A named dimension.
    pub fn symbol(name: &str) -> Self {
        DimExpr { terms: BTreeMap::from([(vec![Atom::Symbol(name.to_owned())], 1)]) }
    }

    fn atom(atom: Atom) -> Self {
        DimExpr { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    /// The number, if it is one.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The name, if it is a bare symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match self.terms.iter().next() {
            Some((atoms, 1)) if self.terms.len() == 1 => match atoms.as_slice() {
                [Atom::Symbol(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Sum. `None`: too large to handle.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let mut terms = self.terms.clone();
        for (atoms, coefficient) in &other.terms {
            let entry = terms.entry(atoms.clone()).or_insert(0);
            *entry = entry.checked_add(*coefficient)?;
        }
        terms.retain(|_, coefficient| *coefficient != 0);
        (terms.len() <= MAX_TERMS).then_some(DimExpr { terms })
    }

    /// Difference.
    pub fn sub(&self, other: &Self) -> Option<Self> {
        self.add(&other.mul(&DimExpr::constant(-1))?)
    }

    /// Product.
    pub fn mul(&self, other: &Self) -> Option<Self> {
        let mut terms: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let mut atoms = [left.as_slice(), right.as_slice()].concat();
                atoms.sort();
                if atoms.len() > MAX_TERMS || terms.len() > MAX_TERMS {
                    return None;
                }
                let entry = terms.entry(atoms).or_insert(0);
                *entry = entry.checked_add(a.checked_mul(*b)?)?;
            }
        }
        terms.retain(|_, coefficient| *coefficient != 0);
        Some(DimExpr { terms })
    }

    /// Quotient by a positive number, rounded towards minus infinity.
    pub fn floor_div(&self, divisor: i64) -> Option<Self> {
        if divisor <= 0 {
            return None;
        }
        if divisor == 1 {
            return Some(self.clone());
        }
        // Multiples of the divisor leave the rounding: floordiv(2h + 3, 2) = h + 1 + floordiv(1, 2).
        let mut whole = DimExpr::default();
        let mut rest = DimExpr::default();
        for (atoms, coefficient) in &self.terms {
            let (quotient, remainder) = if atoms.is_empty() {
                (coefficient.div_euclid(divisor), coefficient.rem_euclid(divisor))
            } else if coefficient % divisor == 0 {
                (coefficient / divisor, 0)
            } else {
                (0, *coefficient)
            };
            if quotient != 0 {
                whole.terms.insert(atoms.clone(), quotient);
            }
            if remainder != 0 {
                rest.terms.insert(atoms.clone(), remainder);
            }
        }
        if rest.terms.keys().all(Vec::is_empty) {
            // The constant remainder is below the divisor.
            return Some(whole);
        }
        if rest.depth() >= MAX_DEPTH {
            return None;
        }
        whole.add(&DimExpr::atom(Atom::FloorDiv(rest, divisor)))
    }

    /// Quotient if the division is known to leave no remainder.
    pub fn div_exact(&self, divisor: &Self) -> Option<Self> {
        let (atoms, coefficient) = match divisor.terms.iter().next() {
            Some((atoms, coefficient)) if divisor.terms.len() == 1 => (atoms, *coefficient),
            _ => return (self == divisor && !self.terms.is_empty()).then(|| DimExpr::constant(1)),
        };
        let mut terms = BTreeMap::new();
        for (own, own_coefficient) in &self.terms {
            if own_coefficient % coefficient != 0 {
                return None;
            }
            let mut left = own.clone();
            for atom in atoms {
                let position = left.iter().position(|candidate| candidate == atom)?;
                left.remove(position);
            }
            terms.insert(left, own_coefficient / coefficient);
        }
        Some(DimExpr { terms })
    }

    /// The larger of two.
    pub fn maximum(&self, other: &Self) -> Option<Self> {
        self.pick(other, Atom::Max, std::cmp::max)
    }

    /// The smaller of two.
    pub fn minimum(&self, other: &Self) -> Option<Self> {
        self.pick(other, Atom::Min, std::cmp::min)
    }

    fn pick(&self, other: &Self, atom: fn(Self, Self) -> Atom, number: fn(i64, i64) -> i64) -> Option<Self> {
        if let Some(difference) = self.sub(other)?.as_constant() {
            // They differ by a known number: the choice is known.
            let other_is_picked = number(difference, 0) == 0;
            return Some(if other_is_picked { other.clone() } else { self.clone() });
        }
        if self.depth().max(other.depth()) >= MAX_DEPTH {
            return None;
        }
        let (first, second) = if self <= other { (self, other) } else { (other, self) };
        Some(DimExpr::atom(atom(first.clone(), second.clone())))
    }

    fn depth(&self) -> usize {
        self.terms
            .keys()
            .flatten()
            .map(|atom| match atom {
                Atom::Symbol(_) => 1,
                Atom::FloorDiv(inner, _) => 1 + inner.depth(),
                Atom::Max(a, b) | Atom::Min(a, b) => 1 + a.depth().max(b.depth()),
            })
            .max()
            .unwrap_or(0)
    }

    /// Names that occur in it.
    pub fn symbols(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.collect_symbols(&mut names);
        names
    }

    fn collect_symbols(&self, names: &mut BTreeSet<String>) {
        for atom in self.terms.keys().flatten() {
            match atom {
                Atom::Symbol(name) => {
                    names.insert(name.clone());
                }
                Atom::FloorDiv(inner, _) => inner.collect_symbols(names),
                Atom::Max(a, b) | Atom::Min(a, b) => {
                    a.collect_symbols(names);
                    b.collect_symbols(names);
                }
            }
        }
    }

    /// Replaces names by expressions; names without one stay.
    pub fn substitute(&self, lookup: &dyn Fn(&str) -> Option<DimExpr>) -> Option<Self> {
        let mut sum = DimExpr::default();
        for (atoms, coefficient) in &self.terms {
            let mut product = DimExpr::constant(*coefficient);
            for atom in atoms {
                let value = match atom {
                    Atom::Symbol(name) => lookup(name).unwrap_or_else(|| DimExpr::symbol(name)),
                    Atom::FloorDiv(inner, divisor) => inner.substitute(lookup)?.floor_div(*divisor)?,
                    Atom::Max(a, b) => a.substitute(lookup)?.maximum(&b.substitute(lookup)?)?,
                    Atom::Min(a, b) => a.substitute(lookup)?.minimum(&b.substitute(lookup)?)?,
                };
                product = product.mul(&value)?;
            }
            sum = sum.add(&product)?;
        }
        Some(sum)
    }

    /// Value for given values of all names.
    pub fn evaluate(&self, lookup: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.substitute(&|name| lookup(name).map(DimExpr::constant))?.as_constant()
    }

    /// A number and expressions whose product it is: a single product is split into its factors, a sum gives its common divisor and the rest.
    pub fn factors(&self) -> (i64, Vec<DimExpr>) {
        if let Some((atoms, coefficient)) = self.terms.iter().next()
            && self.terms.len() == 1
        {
            return (*coefficient, atoms.iter().cloned().map(DimExpr::atom).collect());
        }
        let common = self.terms.values().fold(0u64, |common, coefficient| gcd(common, coefficient.unsigned_abs()));
        match i64::try_from(common) {
            Ok(0) => (0, Vec::new()),
            Ok(common) => {
                let terms = self.terms.iter().map(|(atoms, coefficient)| (atoms.clone(), coefficient / common));
                (common, vec![DimExpr { terms: terms.collect() }])
            }
            Err(_) => (1, vec![self.clone()]),
        }
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let expression = parser.sum()?;
        parser.rest.is_empty().then_some(expression)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl From<i64> for DimExpr {
    fn from(value: i64) -> Self {
        DimExpr::constant(value)
    }
}

fn is_plain_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && !matches!(name, "floordiv" | "max" | "min")
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(name) if is_plain_name(name) => f.write_str(name),
            Atom::Symbol(name) => write!(f, "`{}`", name.replace('`', "'")),
            Atom::FloorDiv(inner, divisor) => write!(f, "floordiv({inner},{divisor})"),
            Atom::Max(a, b) => write!(f, "max({a},{b})"),
            Atom::Min(a, b) => write!(f, "min({a},{b})"),
        }
    }
}

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The constant comes last, as people write it.
        let constant = self.terms.iter().filter(|(atoms, _)| atoms.is_empty());
        let products = self.terms.iter().filter(|(atoms, _)| !atoms.is_empty());
        for (index, (atoms, coefficient)) in products.chain(constant).enumerate() {
            let factors: Vec<String> = atoms.iter().map(ToString::to_string).collect();
            if *coefficient < 0 {
                f.write_str("-")?;
            } else if index > 0 {
                f.write_str("+")?;
            }
            let size = coefficient.unsigned_abs();
            if factors.is_empty() {
                write!(f, "{size}")?;
            } else if size == 1 {
                f.write_str(&factors.join("*"))?;
            } else {
                write!(f, "{size}*{}", factors.join("*"))?;
            }
        }
        Ok(())
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<DimExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut sum = if self.eat("-") { self.product()?.mul(&DimExpr::constant(-1))? } else { self.product()? };
        loop {
            if self.eat("+") {
                sum = sum.add(&self.product()?)?;
            } else if self.eat("-") {
                sum = sum.sub(&self.product()?)?;
            } else {
                self.depth -= 1;
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<DimExpr> {
        let mut product = self.factor()?;
        while self.eat("*") {
            product = product.mul(&self.factor()?)?;
        }
        Some(product)
    }

    fn factor(&mut self) -> Option<DimExpr> {
        if self.eat("(") {
            let inner = self.sum()?;
            return self.eat(")").then_some(inner);
        }
        if self.eat("`") {
            let end = self.rest.find('`')?;
            let name = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            return Some(DimExpr::symbol(name));
        }
        let length =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        self.rest = &self.rest[length..];
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok().map(DimExpr::constant);
        }
        match word {
            "floordiv" | "max" | "min" => {
                if !self.eat("(") {
                    return None;
                }
                let first = self.sum()?;
                if !self.eat(",") {
                    return None;
                }
                let second = self.sum()?;
                if !self.eat(")") {
                    return None;
                }
                match word {
                    "floordiv" => first.floor_div(second.as_constant()?),
                    "max" => first.maximum(&second),
                    _ => first.minimum(&second),
                }
            }
            _ => is_plain_name(word).then(|| DimExpr::symbol(word)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn normal_form_decides_equality() {
        let parse = |text| DimExpr::parse(text).unwrap();
        assert_eq!(parse("2*(seq+1)-seq"), parse("seq + 2"));
        assert_eq!(parse("floordiv(2*h+3,2)"), parse("h+1"));
        assert_eq!(parse("max(h,h+2)"), parse("h+2"));
        assert_eq!(parse("floordiv(h-1,2)+1").to_string(), "floordiv(h+1,2)");
        assert_eq!(parse("12*a*b").div_exact(&parse("4*b")).unwrap(), parse("3*a"));
        assert!(parse("a+1").div_exact(&parse("2")).is_none());
        assert_eq!(DimExpr::parse("`odd name`").unwrap().as_symbol(), Some("odd name"));
        for bad in ["", "1+", "floordiv(a,0)", "a b", "floordiv(a,b)", "9999999999999999999999"] {
            assert!(DimExpr::parse(bad).is_none(), "{bad}");
        }
        assert!(DimExpr::parse(&"(".repeat(1000)).is_none());
    }

    #[test]
    fn factors() {
        let parse = |text| DimExpr::parse(text).unwrap();
        let names = |text| {
            let (number, rest) = parse(text).factors();
            (number, rest.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(names("12*a*b"), (12, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names("4*a+6"), (2, vec!["2*a+3".to_owned()]));
        assert_eq!(names("7"), (7, vec![]));
        assert_eq!(names("0"), (0, vec![]));
    }

    fn expression() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![Just("a".to_owned()), Just("b".to_owned()), (0i64..50).prop_map(|n| n.to_string())];
        leaf.prop_recursive(4, 24, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("({x})+({y})")),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("({x})-({y})")),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("({x})*({y})")),
                (inner.clone(), 1i64..9).prop_map(|(x, n)| format!("floordiv({x},{n})")),
                (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("max({x},{y})")),
                (inner.clone(), inner).prop_map(|(x, y)| format!("min({x},{y})")),
            ]
        })
    }

    /// Evaluates the text directly, without the normal form.
    fn naive(text: &str, a: i64, b: i64) -> i64 {
        fn go(rest: &mut &str, a: i64, b: i64) -> i64 {
            fn factor(rest: &mut &str, a: i64, b: i64) -> i64 {
                for (name, function) in [
                    ("floordiv(", i64::div_euclid as fn(i64, i64) -> i64),
                    ("max(", std::cmp::max),
                    ("min(", std::cmp::min),
                ] {
                    if let Some(inner) = rest.strip_prefix(name) {
                        *rest = inner;
                        let x = go(rest, a, b);
                        *rest = &rest[1..];
                        let y = go(rest, a, b);
                        *rest = &rest[1..];
                        return function(x, y);
                    }
                }
                if let Some(inner) = rest.strip_prefix('(') {
                    *rest = inner;
                    let value = go(rest, a, b);
                    *rest = &rest[1..];
                    return value;
                }
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
                let word = &rest[..length];
                *rest = &rest[length..];
                match word {
                    "a" => a,
                    "b" => b,
                    number => number.parse().unwrap(),
                }
            }
            let mut value = factor(rest, a, b);
            while let Some(sign) = rest.chars().next().filter(|c| "+-*".contains(*c)) {
                *rest = &rest[1..];
                let right = factor(rest, a, b);
                value = match sign {
                    '+' => value + right,
                    '-' => value - right,
                    _ => value * right,
                };
            }
            value
        }
        go(&mut &*text, a, b)
    }

    proptest! {
        #[test]
        fn normal_form_keeps_the_value(text in expression(), a in 0i64..40, b in 0i64..40) {
            if let Some(parsed) = DimExpr::parse(&text) {
                let lookup = |name: &str| Some(if name == "a" { a } else { b });
                prop_assert_eq!(parsed.evaluate(&lookup), Some(naive(&text, a, b)));
                prop_assert_eq!(DimExpr::parse(&parsed.to_string()), Some(parsed));
            }
        }

        #[test]
        fn parsing_never_panics(text in "[a-z0-9(),*+`. -]{0,60}") {
            let _ = DimExpr::parse(&text);
        }
    }
}
