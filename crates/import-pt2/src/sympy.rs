//! Expressions as SymPy's `srepr` writes them, `Mul(Integer(64), Symbol('s27', positive=True, integer=True))`.

use tenon_tensor::{Condition, DimExpr, Relation as Order};

/// Deepest nesting of calls.
const MAX_DEPTH: usize = 32;

/// A relation or truth value over sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Relation {
    Known(bool),
    Compare(Condition),
    /// All hold.
    All(Vec<Relation>),
}

impl Relation {
    /// Whether it holds, where that is known for all sizes; no symbol is negative.
    pub(crate) fn decide(&self) -> Option<bool> {
        match self {
            Relation::Known(value) => Some(*value),
            Relation::Compare(condition) => condition.decide(),
            Relation::All(parts) => {
                let decided: Vec<_> = parts.iter().map(Relation::decide).collect();
                match decided.contains(&Some(false)) {
                    true => Some(false),
                    false => decided.into_iter().collect::<Option<Vec<_>>>().map(|_| true),
                }
            }
        }
    }

    /// With symbols replaced; `None`: too large to handle.
    pub(crate) fn substitute(&self, lookup: &dyn Fn(&str) -> Option<DimExpr>) -> Option<Relation> {
        Some(match self {
            Relation::Known(value) => Relation::Known(*value),
            Relation::Compare(condition) => Relation::Compare(condition.substitute(lookup)?),
            Relation::All(parts) => {
                Relation::All(parts.iter().map(|part| part.substitute(lookup)).collect::<Option<_>>()?)
            }
        })
    }

    /// The conditions that it consists of, those that are known left out.
    pub(crate) fn conditions(&self) -> Vec<&Condition> {
        match self {
            Relation::Known(_) => Vec::new(),
            Relation::Compare(condition) => vec![condition],
            Relation::All(parts) => parts.iter().flat_map(Relation::conditions).collect(),
        }
    }
}

/// Parses a size.
pub(crate) fn parse(text: &str) -> Result<DimExpr, String> {
    let mut parser = Parser { rest: text, depth: 0 };
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// Parses a relation between sizes.
pub(crate) fn parse_relation(text: &str) -> Result<Relation, String> {
    let mut parser = Parser { rest: text, depth: 0 };
    let value = parser.relation()?;
    parser.end()?;
    Ok(value)
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn end(&mut self) -> Result<(), String> {
        self.skip();
        if self.rest.is_empty() { Ok(()) } else { Err("has more text than one expression".to_owned()) }
    }

    fn eat(&mut self, token: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: char) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("lacks a `{token}`")) }
    }

    fn word(&mut self) -> &'t str {
        self.skip();
        let length =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word
    }

    /// `-12`.
    fn number(&mut self) -> Result<i64, String> {
        self.skip();
        let negative = self.eat('-');
        let value: i64 = self.word().parse().map_err(|_| "has a number that cannot be read".to_owned())?;
        Ok(if negative { -value } else { value })
    }

    /// A quoted name and what follows it up to the closing parenthesis.
    fn symbol(&mut self) -> Result<DimExpr, String> {
        self.need('\'')?;
        let end = self.rest.find('\'').ok_or_else(|| "has a name without end".to_owned())?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        while self.eat(',') {
            self.word();
            self.need('=')?;
            self.word();
        }
        self.need(')')?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("has a symbol whose name is none".to_owned());
        }
        if name.starts_with('u') || name.starts_with("zuf") {
            return Err(format!("has the symbol `{name}`, a size that depends on values"));
        }
        Ok(DimExpr::symbol(name))
    }

    fn arguments(&mut self) -> Result<Vec<DimExpr>, String> {
        let mut arguments = Vec::new();
        if self.eat(')') {
            return Ok(arguments);
        }
        loop {
            self.skip();
            let is_option = self.rest.find(['=', ',', '(', ')']).is_some_and(|at| self.rest[at..].starts_with('='));
            if is_option {
                self.word();
                self.need('=')?;
                self.word();
            } else {
                arguments.push(self.value()?);
            }
            if self.eat(')') {
                return Ok(arguments);
            }
            self.need(',')?;
        }
    }

    fn value(&mut self) -> Result<DimExpr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("is nested too deep".to_owned());
        }
        let value = self.term();
        self.depth -= 1;
        value
    }

    fn term(&mut self) -> Result<DimExpr, String> {
        self.skip();
        if self.rest.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return Ok(DimExpr::constant(self.number()?));
        }
        let name = self.word().to_owned();
        self.need('(')?;
        let large = || "is too large".to_owned();
        match name.as_str() {
            "Integer" => {
                let value = self.number()?;
                self.need(')')?;
                return Ok(DimExpr::constant(value));
            }
            "Symbol" => return self.symbol(),
            _ => {}
        }
        let arguments = self.arguments()?;
        let fold = |start: i64, combine: fn(&DimExpr, &DimExpr) -> Option<DimExpr>| {
            arguments.iter().try_fold(DimExpr::constant(start), |sum, value| combine(&sum, value)).ok_or_else(large)
        };
        let reduce = |combine: fn(&DimExpr, &DimExpr) -> Option<DimExpr>| {
            let (first, rest) = arguments.split_first().ok_or_else(|| format!("calls `{name}` without arguments"))?;
            rest.iter().try_fold(first.clone(), |sum, value| combine(&sum, value)).ok_or_else(large)
        };
        let two = || match arguments.as_slice() {
            [a, b] => Ok((a, b)),
            _ => Err(format!("calls `{name}` with {} arguments", arguments.len())),
        };
        let divide = |a: &DimExpr, b: &DimExpr| {
            if let Some(quotient) = a.div_exact(b) {
                return Ok(quotient);
            }
            let divisor = b.as_constant().filter(|divisor| *divisor > 0);
            divisor
                .and_then(|divisor| a.floor_div(divisor))
                .ok_or_else(|| "divides by what is no positive number".to_owned())
        };
        match name.as_str() {
            "Add" => fold(0, DimExpr::add),
            "Mul" => fold(1, DimExpr::mul),
            "Max" => reduce(DimExpr::maximum),
            "Min" => reduce(DimExpr::minimum),
            "Pow" | "PowByNatural" => {
                let (base, exponent) = two()?;
                let exponent = exponent.as_constant().filter(|exponent| (0..=16).contains(exponent));
                let exponent = exponent.ok_or_else(|| "has a power that is no small number".to_owned())?;
                (0..exponent).try_fold(DimExpr::constant(1), |product, _| product.mul(base)).ok_or_else(large)
            }
            "FloorDiv" | "CleanDiv" => two().and_then(|(a, b)| divide(a, b)),
            "CeilDiv" => {
                let (a, b) = two()?;
                let up = a.add(b).and_then(|sum| sum.sub(&DimExpr::constant(1))).ok_or_else(large)?;
                match a.div_exact(b) {
                    Some(quotient) => Ok(quotient),
                    None => divide(&up, b),
                }
            }
            "Mod" | "PythonMod" => {
                let (a, b) = two()?;
                divide(a, b)?.mul(b).and_then(|whole| a.sub(&whole)).ok_or_else(large)
            }
            "floor" | "ceiling" | "ToInt" | "FloorToInt" | "CeilToInt" | "TruncToInt" => match arguments.as_slice() {
                [value] => Ok(value.clone()),
                _ => Err(format!("calls `{name}` with {} arguments", arguments.len())),
            },
            other => Err(format!("calls `{other}`, which is not known")),
        }
    }

    fn relation(&mut self) -> Result<Relation, String> {
        self.skip();
        let name = self.word().to_owned();
        match name.as_str() {
            "True" | "true" => return Ok(Relation::Known(true)),
            "False" | "false" => return Ok(Relation::Known(false)),
            "And" => return self.all(),
            _ => {}
        }
        let relation = match name.as_str() {
            "Equality" | "Eq" => Order::Equal,
            "Unequality" | "Ne" => Order::NotEqual,
            "StrictLessThan" | "Lt" => Order::Less,
            "LessThan" | "Le" => Order::AtMost,
            "StrictGreaterThan" | "Gt" => Order::Greater,
            "GreaterThan" | "Ge" => Order::AtLeast,
            other => return Err(format!("is no relation that is known: `{other}`")),
        };
        self.need('(')?;
        match self.arguments()?.as_slice() {
            [left, right] => Ok(Relation::Compare(Condition::new(left.clone(), relation, right.clone()))),
            _ => Err("is a relation that has not two sides".to_owned()),
        }
    }

    /// Relations up to a closing parenthesis.
    fn all(&mut self) -> Result<Relation, String> {
        self.need('(')?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("is nested too deep".to_owned());
        }
        let mut parts = vec![self.relation()?];
        while self.eat(',') {
            parts.push(self.relation()?);
        }
        self.need(')')?;
        self.depth -= 1;
        Ok(Relation::All(parts))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let symbol = "Symbol('s27', positive=True, integer=True)";
        let cases = [
            (symbol.to_owned(), "s27"),
            (format!("Mul(Integer(64), {symbol})"), "64*s27"),
            (format!("Add({symbol}, Integer(-1), Mul(Integer(2), Symbol('s3', integer=True)))"), "2*s3+s27-1"),
            (format!("FloorDiv(Add({symbol}, Integer(-1)), Integer(2))"), "floordiv(s27-1,2)"),
            (format!("FloorDiv(Mul({symbol}, Integer(6)), Integer(3))"), "2*s27"),
            (format!("Mod({symbol}, Integer(4))"), "s27-4*floordiv(s27,4)"),
            (format!("Max(Integer(1), {symbol})"), "max(1,s27)"),
            (format!("Pow({symbol}, Integer(2))"), "s27*s27"),
            ("Integer(7)".to_owned(), "7"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap(), DimExpr::parse(expected).unwrap(), "{text}");
        }
        for text in [
            "",
            "Symbol('u0', integer=True)",
            "Foo(Integer(1))",
            "Integer(1) 2",
            "Add(Integer(1)",
            "Pow(Integer(1), Integer(99))",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"Add(".repeat(100_000)).is_err());
    }

    #[test]
    fn relations_are_read_and_decided() {
        let symbol = "Symbol('s0', positive=True, integer=True)";
        let relation = |text: &str| parse_relation(text).unwrap();
        assert_eq!(relation("true").decide(), Some(true));
        assert_eq!(relation(&format!("GreaterThan({symbol}, Integer(0))")).decide(), Some(true));
        assert_eq!(relation(&format!("StrictLessThan({symbol}, Integer(0))")).decide(), Some(false));
        assert_eq!(relation(&format!("LessThan({symbol}, Integer(9))")).decide(), None);
        assert_eq!(relation(&format!("Eq({symbol}, {symbol})")).decide(), Some(true));
        let both =
            |least: i64| format!("And(GreaterThan({symbol}, Integer({least})), StrictLessThan({symbol}, Integer(9)))");
        assert_eq!(relation(&both(-1)).decide(), None);
        assert_eq!(relation(&both(-1)).conditions().len(), 2);
        assert_eq!(relation(&format!("And(true, Lt({symbol}, Integer(0)))")).decide(), Some(false));
        assert_eq!(relation(&format!("And(Ge({symbol}, Integer(0)), Ge({symbol}, Integer(-1)))")).decide(), Some(true));
        assert!(parse_relation("Or(x, y)").is_err());
        assert!(parse_relation(&"And(".repeat(100_000)).is_err());
    }
}
