//! Sizes of the program: symbols, the numbers that given shapes bind them to, their ranges, guards between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::IndexMap;
use tenon_graph_dialect::{Dim, DimExpr, Requirement, TensorType};

use super::guards;
use crate::dtype;
use crate::error::{Pt2Error, quoted};
use crate::program::Program;
use crate::schema::{Range, STRIDED, SymInt, TensorMeta};
use crate::sympy::{self, Relation};

/// What is known of the symbols.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sizes {
    bound: HashMap<String, i64>,
    /// Symbols that the sizes of inputs have; a run gives a value to no other.
    known: BTreeSet<String>,
    /// Least and largest value of each symbol.
    pub(crate) ranges: IndexMap<String, (i64, Option<i64>)>,
    /// What the program's guards ask of the inputs' sizes, what always holds left out.
    pub(crate) requirements: Vec<Requirement>,
}

impl Sizes {
    /// Symbols of a program, bound by the shapes of its inputs where those are given.
    pub(crate) fn read(
        program: &Program,
        inputs: &[(String, &TensorMeta)],
        shapes: Option<&BTreeMap<String, Vec<u64>>>,
    ) -> Result<Sizes, Pt2Error> {
        let mut sizes = Sizes::default();
        for (name, Range { min_val, max_val }) in &program.exported.range_constraints {
            // No size is below 0, whatever torch knows of a symbol.
            let largest = max_val.filter(|largest| *largest < i64::MAX / 2);
            let least = min_val.unwrap_or(0).max(0);
            if let Some(largest) = largest.filter(|largest| *largest < least) {
                let what = format!("the range of the symbol {}, {least} to {largest}, holds no size", quoted(name));
                return Err(Pt2Error::Structure { what });
            }
            sizes.ranges.insert(name.clone(), (least, largest));
        }
        for size in inputs.iter().flat_map(|(_, meta)| &meta.sizes) {
            if let SymInt::AsExpr(expression) = size {
                // One that cannot be read is refused with its input.
                sizes.known.extend(sympy::parse(&expression.expr_str).iter().flat_map(DimExpr::symbols));
            }
        }
        if let Some(shapes) = shapes {
            if let Some(name) = shapes.keys().find(|name| !inputs.iter().any(|(input, _)| input == *name)) {
                return Err(given(name, "the program has no such input".to_owned()));
            }
            for (name, meta) in inputs {
                let shape = shapes.get(name).ok_or_else(|| given(name, "no shape is given for it".to_owned()))?;
                sizes.bind(name, meta, shape)?;
            }
        }
        sizes.guards(program, inputs)?;
        Ok(sizes)
    }

    fn bind(&mut self, name: &str, meta: &TensorMeta, shape: &[u64]) -> Result<(), Pt2Error> {
        if shape.len() != meta.sizes.len() {
            let reason = format!(
                "the given shape {shape:?} has {} dimensions, the program declares {}",
                shape.len(),
                meta.sizes.len()
            );
            return Err(given(name, reason));
        }
        for (index, (declared, size)) in meta.sizes.iter().zip(shape).enumerate() {
            let wrong = |reason: String| Err(given(name, format!("dimension {index} {reason}")));
            let Ok(number) = i64::try_from(*size) else { return wrong("is larger than any memory".to_owned()) };
            let expression = self.size(declared, &format!("input {}", quoted(name)))?;
            match expression.as_constant() {
                Some(known) if known == number => {}
                Some(1) => return wrong(format!("is given as {size}; the program was exported for exactly 1 there")),
                Some(known) => return wrong(format!("is given as {size}, the program has {known} there")),
                None => {
                    let Some((symbol, value)) = solve(&expression, number) else {
                        return wrong(format!("is given as {size}, which {expression} cannot be"));
                    };
                    self.check_range(&symbol, value)?;
                    self.bound.insert(symbol, value);
                }
            }
        }
        Ok(())
    }

    fn check_range(&self, symbol: &str, value: i64) -> Result<(), Pt2Error> {
        let Some((min, max)) = self.ranges.get(symbol) else { return Ok(()) };
        if value >= *min && max.is_none_or(|max| value <= max) {
            return Ok(());
        }
        let max = max.map_or_else(|| "any size".to_owned(), |max| max.to_string());
        Err(Pt2Error::Range { name: symbol.to_owned(), size: value as u64, min: *min, max })
    }

    /// Relations between the inputs' sizes, `L['x'].size()[1] == L['ids'].size()[1]`.
    fn guards(&mut self, program: &Program, inputs: &[(String, &TensorMeta)]) -> Result<(), Pt2Error> {
        for text in &program.exported.guards_code {
            let owner = || format!("the guard {}", quoted(text));
            let size = |name: &str, dim: usize| {
                let (_, meta) = inputs.iter().find(|(input, _)| input == name)?;
                self.size(meta.sizes.get(dim)?, &owner()).ok()
            };
            let wrong = |reason| Pt2Error::Expression { owner: "a guard".to_owned(), text: text.clone(), reason };
            for condition in guards::parse(text, &size).map_err(wrong)? {
                match condition.decide() {
                    Some(true) => {}
                    Some(false) => {
                        let reason = "it does not hold for these sizes".to_owned();
                        return Err(Pt2Error::Assertion { owner: owner(), reason });
                    }
                    None => {
                        let reason = format!("the program was exported under the guard {}", quoted(text));
                        self.requirements.push(Requirement { condition, reason, source: Vec::new() });
                    }
                }
            }
        }
        Ok(())
    }

    /// A size with the known numbers in place of symbols.
    pub(crate) fn size(&self, size: &SymInt, owner: &str) -> Result<DimExpr, Pt2Error> {
        match size {
            SymInt::AsInt(value) => Ok(DimExpr::constant(*value)),
            SymInt::AsExpr(expression) => self.expression(&expression.expr_str, owner),
        }
    }

    pub(crate) fn expression(&self, text: &str, owner: &str) -> Result<DimExpr, Pt2Error> {
        let wrong = |reason: String| Pt2Error::Expression { owner: owner.to_owned(), text: text.to_owned(), reason };
        let value = sympy::parse(text).map_err(wrong)?;
        self.need_known(value.symbols()).map_err(wrong)?;
        let bound = |name: &str| self.bound.get(name).map(|value| DimExpr::constant(*value));
        value.substitute(&bound).ok_or_else(|| wrong("is too large".to_owned()))
    }

    pub(crate) fn relation(&self, text: &str, owner: &str) -> Result<Relation, Pt2Error> {
        let wrong = |reason: String| Pt2Error::Expression { owner: owner.to_owned(), text: text.to_owned(), reason };
        let bound = |name: &str| self.bound.get(name).map(|value| DimExpr::constant(*value));
        let relation = sympy::parse_relation(text).map_err(wrong)?;
        let symbols = relation.conditions().into_iter().flat_map(|condition| condition.symbols()).collect();
        self.need_known(symbols).map_err(wrong)?;
        relation.substitute(&bound).ok_or_else(|| wrong("is too large".to_owned()))
    }

    /// Refuses a symbol that no run could give a value to.
    fn need_known(&self, symbols: BTreeSet<String>) -> Result<(), String> {
        match symbols.iter().find(|symbol| !self.known.contains(*symbol)) {
            None => Ok(()),
            Some(symbol) => Err(format!("has the symbol {}, which no input's size has", quoted(symbol))),
        }
    }

    /// The type of a tensor.
    pub(crate) fn ty(&self, meta: &TensorMeta, owner: &str) -> Result<TensorType, Pt2Error> {
        if meta.layout != STRIDED {
            let what = "sparse and other layouts than strided".to_owned();
            return Err(Pt2Error::Type { owner: owner.to_owned(), what });
        }
        let dtype = dtype::read(meta.dtype, owner)?;
        let dim = |size: &SymInt| -> Result<Dim, Pt2Error> {
            let extent = self.size(size, owner)?;
            match extent.as_constant() {
                Some(size) if size < 0 => Err(Pt2Error::Structure { what: format!("{owner}: a size is {size}") }),
                _ => Ok(Dim::of(extent)),
            }
        };
        if meta.sizes.len() > 16 {
            return Err(Pt2Error::TooMany { what: "dimensions of a tensor", limit: 16 });
        }
        Ok(TensorType::new(dtype, meta.sizes.iter().map(dim).collect::<Result<_, _>>()?))
    }
}

fn given(name: &str, reason: String) -> Pt2Error {
    Pt2Error::GivenInput { name: name.to_owned(), reason }
}

/// The only symbol of a linear expression, and its value where the expression is `size`.
fn solve(expression: &DimExpr, size: i64) -> Option<(String, i64)> {
    let symbols = expression.symbols();
    let symbol = symbols.first().filter(|_| symbols.len() == 1)?;
    let at = |value: i64| expression.evaluate(&|_| Some(value));
    let (base, step) = (at(0)?, at(1)?.checked_sub(at(0)?)?);
    let value = size.checked_sub(base)?.checked_div(step)?;
    (value >= 0 && at(value) == Some(size)).then(|| (symbol.clone(), value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn linear_sizes_are_solved() {
        let solve = |text: &str, size| solve(&DimExpr::parse(text).unwrap(), size);
        assert_eq!(solve("s0", 5), Some(("s0".to_owned(), 5)));
        assert_eq!(solve("2*s0+1", 7), Some(("s0".to_owned(), 3)));
        assert_eq!(solve("2*s0", 7), None);
        assert_eq!(solve("s0*s1", 6), None);
        assert_eq!(solve("s0+8", 7), None);
    }
}
