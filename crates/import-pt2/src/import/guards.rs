//! Guards of a program: Python over the sizes of its inputs, `L['x'].size()[1] == 2*L['ids'].size()[0]`.

use tenon_graph_dialect::{Condition, DimExpr, Relation};

/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 32;

/// The size of a dimension of an input, by the input's name.
type Size<'s> = &'s dyn Fn(&str, usize) -> Option<DimExpr>;

/// The conditions of a guard, all of which must hold: comparisons, chained or joined by `and`, of sums, products, divisions, `min` and `max`.
/// An input inside of another (`L['batch']['ids']`) has the name that torch gives it, `batch_ids`.
///
/// # Errors
/// What is of another form, and why, as the end of a sentence about the guard.
pub(crate) fn parse(text: &str, size: Size<'_>) -> Result<Vec<Condition>, String> {
    let mut parser = Parser { rest: text, depth: 0, size };
    let mut conditions = Vec::new();
    loop {
        parser.comparison(&mut conditions)?;
        if !parser.word_is("and") {
            break;
        }
    }
    parser.skip();
    match parser.rest {
        "" => Ok(conditions),
        rest => Err(format!("has `{}` behind what is understood", rest.chars().take(40).collect::<String>())),
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    size: Size<'t>,
}

fn large() -> String {
    "is too large".to_owned()
}

impl<'t> Parser<'t> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("lacks a `{token}`")) }
    }

    /// Takes a word that stands on its own.
    fn word_is(&mut self, word: &str) -> bool {
        self.skip();
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        match self.rest.strip_prefix(word).filter(|rest| ends(rest)) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `a < b`, or `a <= b <= c`.
    fn comparison(&mut self, conditions: &mut Vec<Condition>) -> Result<(), String> {
        let mut left = self.sum()?;
        let mut count = 0;
        loop {
            let Some(relation) = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|text| self.eat(text)) else {
                return if count > 0 { Ok(()) } else { Err("compares nothing".to_owned()) };
            };
            let right = self.sum()?;
            let relation = Relation::of_text(relation).ok_or_else(|| "has no relation".to_owned())?;
            conditions.push(Condition::new(left, relation, right.clone()));
            left = right;
            count += 1;
        }
    }

    fn sum(&mut self) -> Result<DimExpr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("is nested too deep".to_owned());
        }
        let mut sum = self.product()?;
        loop {
            if self.eat("+") {
                sum = sum.add(&self.product()?).ok_or_else(large)?;
            } else if self.eat("-") {
                sum = sum.sub(&self.product()?).ok_or_else(large)?;
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<DimExpr, String> {
        let mut product = self.factor()?;
        loop {
            if self.rest.trim_start().starts_with("**") {
                return Err("has a power".to_owned());
            } else if self.eat("*") {
                product = product.mul(&self.factor()?).ok_or_else(large)?;
            } else if self.eat("//") {
                product = divide(&product, &self.factor()?)?;
            } else if self.eat("%") {
                product = remainder(&product, &self.factor()?)?;
            } else {
                return Ok(product);
            }
        }
    }

    fn factor(&mut self) -> Result<DimExpr, String> {
        if self.eat("-") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("is nested too deep".to_owned());
            }
            let factor = self.factor()?.mul(&DimExpr::constant(-1)).ok_or_else(large);
            self.depth -= 1;
            return factor;
        }
        if self.eat("(") {
            let inner = self.sum()?;
            self.need(")")?;
            return Ok(inner);
        }
        for (name, apply) in [
            ("Mod", remainder as fn(&DimExpr, &DimExpr) -> Result<DimExpr, String>),
            ("FloorDiv", divide),
            ("min", |a, b| a.minimum(b).ok_or_else(large)),
            ("Min", |a, b| a.minimum(b).ok_or_else(large)),
            ("max", |a, b| a.maximum(b).ok_or_else(large)),
            ("Max", |a, b| a.maximum(b).ok_or_else(large)),
        ] {
            if self.word_is(name) {
                self.need("(")?;
                let first = self.sum()?;
                self.need(",")?;
                let second = self.sum()?;
                self.need(")")?;
                return apply(&first, &second);
            }
        }
        if self.word_is("L") {
            return self.input();
        }
        self.index().and_then(|number| i64::try_from(number).map_err(|_| large())).map(DimExpr::constant)
    }

    fn index(&mut self) -> Result<usize, String> {
        self.skip();
        let length = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(length);
        let number = digits
            .parse()
            .map_err(|_| format!("has `{}` in place of a size", rest.chars().take(40).collect::<String>()))?;
        self.rest = rest;
        Ok(number)
    }

    /// `['x'].size()[1]`.
    fn input(&mut self) -> Result<DimExpr, String> {
        let mut names: Vec<String> = Vec::new();
        while self.eat("[") {
            let quote = if self.eat("'") { Some('\'') } else { self.eat("\"").then_some('"') };
            match quote {
                Some(quote) => {
                    let end = self.rest.find(quote).ok_or_else(|| "has a name without end".to_owned())?;
                    names.push(self.rest[..end].to_owned());
                    self.rest = &self.rest[end + 1..];
                }
                None => names.push(self.index()?.to_string()),
            }
            self.need("]")?;
        }
        if !self.eat(".size()") && !self.eat(".shape") {
            return Err("asks of an input what is no size".to_owned());
        }
        self.need("[")?;
        let dim = self.index()?;
        self.need("]")?;
        let name = names.join("_");
        (self.size)(&name, dim).ok_or_else(|| format!("names dimension {dim} of `{name}`, which is no input's"))
    }
}

fn divide(a: &DimExpr, b: &DimExpr) -> Result<DimExpr, String> {
    if let Some(quotient) = a.div_exact(b) {
        return Ok(quotient);
    }
    let divisor = b.as_constant().filter(|divisor| *divisor > 0);
    divisor.and_then(|divisor| a.floor_div(divisor)).ok_or_else(|| "divides by what is no positive number".to_owned())
}

fn remainder(a: &DimExpr, b: &DimExpr) -> Result<DimExpr, String> {
    divide(a, b)?.mul(b).and_then(|whole| a.sub(&whole)).ok_or_else(large)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let size = |name: &str, dim: usize| match (name, dim) {
            ("x", 0) => Some(DimExpr::symbol("a")),
            ("x", 1) => Some(DimExpr::symbol("b")),
            ("batch_ids", 0) => Some(DimExpr::symbol("c")),
            _ => None,
        };
        Ok(parse(text, &size)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn guards_are_read() {
        for (text, expected) in [
            ("L['x'].size()[1] == 2*L['x'].size()[0]", vec!["b == 2*a"]),
            ("L['x'].shape[1] <= 7", vec!["b <= 7"]),
            ("2 <= L['x'].size()[0] <= 16", vec!["2 <= a", "a <= 16"]),
            ("L[\"batch\"]['ids'].size()[0] < 3 and L['x'].size()[0] != 4", vec!["c < 3", "a != 4"]),
            ("(L['x'].size()[0] + 3) // 4 > 1", vec!["floordiv(a+3,4) > 1"]),
            ("Mod(L['x'].size()[0], 8) == 0", vec!["a-8*floordiv(a,8) == 0"]),
            ("L['x'].size()[0] % 8 == 0", vec!["a-8*floordiv(a,8) == 0"]),
            ("-L['x'].size()[0] >= -9", vec!["-a >= -9"]),
            ("max(L['x'].size()[0], 3) >= min(2, L['x'].size()[1])", vec!["max(3,a) >= min(2,b)"]),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_of_another_form_is_refused() {
        for text in [
            "",
            "L['y'].size()[1] == 7",
            "L['x'].size()[9] == 7",
            "L['x'].dtype == 7",
            "len(L['x']) == 7",
            "L['x'].size()[0]",
            "L['x'].size()[0] == 1 or L['x'].size()[0] == 2",
            "L['x'].size()[0] ** 2 == 4",
            "L['x'].size()[0] // L['x'].size()[1] == 4",
            "L['x.size()[0] == 1",
            "1 == 99999999999999999999",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"(".repeat(100_000)).is_err());
        assert!(read(&"-".repeat(100_000)).is_err());
    }
}
