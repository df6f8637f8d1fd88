//! Numbers that a loop counts while it runs: symbols with a range, which no type may hold.
//!
//! What is computed from them is followed as expressions, as sizes are. So `x[i : i + 1]` has one element although `i` is known in no
//! iteration. A size that does change from one iteration to the next is refused when it becomes one of a type.

use std::collections::HashMap;

use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_graph_dialect::{DimExpr, ErrorKind, Operator, SemanticError, TensorType};
use tenon_ir::Value;
use tenon_tensor::DType;

use crate::builder::{GraphBuilder, Handle};

/// Greatest values of counters by their names; the least is 0.
#[derive(Default)]
pub(crate) struct Counters(HashMap<String, i64>);

impl Counters {
    /// Whether a counter is part of an expression.
    pub(crate) fn occur_in(&self, value: &DimExpr) -> bool {
        !self.0.is_empty() && value.symbols().iter().any(|name| self.0.contains_key(name))
    }

    /// The least and the largest value of an expression over counters alone, perhaps beyond what is reached.
    pub(crate) fn bounds(&self, value: &DimExpr) -> Option<(i64, i64)> {
        if !self.occur_in(value) {
            return None;
        }
        let most = |value: &DimExpr| value.upper_bound(&|name| self.0.get(name).copied());
        Some((most(&value.mul(&DimExpr::constant(-1))?)?.checked_neg()?, most(value)?))
    }

    /// A comparison, or the larger or smaller of two values, where ranges decide it.
    pub(crate) fn compare(&self, function: Function, a: &DimExpr, b: &DimExpr) -> Option<DimExpr> {
        if self.0.is_empty() {
            return None;
        }
        let (low, high) = self.bounds(&a.sub(b)?)?;
        let either = |yes: bool, no: bool| (yes || no).then(|| DimExpr::constant(i64::from(yes)));
        match function {
            Function::Less => either(high < 0, low >= 0),
            Function::LessEqual => either(high <= 0, low > 0),
            Function::Greater => either(low > 0, high <= 0),
            Function::GreaterEqual => either(low >= 0, high < 0),
            Function::Equal => either(low == 0 && high == 0, low > 0 || high < 0),
            Function::NotEqual => either(low > 0 || high < 0, low == 0 && high == 0),
            Function::Max if low >= 0 => Some(a.clone()),
            Function::Max if high <= 0 => Some(b.clone()),
            Function::Min if low >= 0 => Some(b.clone()),
            Function::Min if high <= 0 => Some(a.clone()),
            _ => None,
        }
    }

    /// Refuses an operator whose places or sizes change with a counter.
    pub(crate) fn check(&self, operator: &Operator, results: &[TensorType]) -> Result<(), SemanticError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut extents: Vec<&DimExpr> = results.iter().flat_map(|ty| &ty.dims).map(|dim| &dim.extent).collect();
        match operator {
            Operator::Slice(slice) => extents.extend(&slice.starts),
            Operator::Pad(pad) => extents.extend(pad.low.iter().chain(&pad.high)),
            _ => {}
        }
        match extents.into_iter().find(|extent| self.occur_in(extent)) {
            Some(extent) => {
                let message = format!("the size {extent} changes with the iterations of a loop");
                Err(SemanticError::new(ErrorKind::Shape, operator.name(), message))
            }
            None => Ok(()),
        }
    }
}

impl<'m> GraphBuilder<'m> {
    /// The value of a counter called `name`, of one element: `value`, an i64 scalar, is at least 0 and at most `most` wherever it is used.
    ///
    /// # Errors
    /// A value that MLIR refuses.
    pub fn counter(
        &mut self,
        (dtype, shape): (DType, &[u64]),
        name: &str,
        most: i64,
        value: Handle,
    ) -> Result<Handle, SemanticError> {
        self.set_extent(name, value)?;
        self.counters.0.insert(name.to_owned(), most);
        Ok(self.symbolic(dtype, shape, vec![DimExpr::symbol(name)]))
    }

    /// Whether an expression depends on a counter.
    pub fn is_counted(&self, value: &DimExpr) -> bool {
        self.counters.occur_in(value)
    }

    /// An expression over counters as an i64 scalar: a multiple of a counter and what is left.
    pub(crate) fn counted_value(&mut self, value: &DimExpr) -> Result<Value<'m>, SemanticError> {
        let refused = || {
            SemanticError::new(ErrorKind::Shape, "graph.elementwise", format!("{value} is no multiple of a counter"))
        };
        let name = value.symbols().into_iter().find(|name| self.counters.0.contains_key(name)).ok_or_else(refused)?;
        let symbol = DimExpr::symbol(&name);
        let (factor, rest) = linear(value, &name).ok_or_else(refused)?;
        if rest == DimExpr::constant(0) && factor == 1 {
            return Err(refused());
        }
        let scalar = TensorType::fixed(DType::I64, &[]);
        let mut result = self.extent(&symbol)?;
        let mut apply = |builder: &mut Self, function, with: DimExpr| {
            let other = builder.extent(&with)?;
            result = builder.build(Elementwise { function }, &[result, other], scalar.clone())?;
            Ok::<_, SemanticError>(result)
        };
        if factor != 1 {
            apply(self, Function::Multiply, factor.into())?;
        }
        if rest != DimExpr::constant(0) {
            apply(self, Function::Add, rest)?;
        }
        Ok(result)
    }
}

/// The factor of a symbol in an expression, and what is left; `None` where it is no multiple of the symbol.
pub fn linear(value: &DimExpr, name: &str) -> Option<(i64, DimExpr)> {
    let symbol = DimExpr::symbol(name);
    let at = |place: DimExpr| value.substitute(&|own| (own == name).then(|| place.clone()));
    let rest = at(DimExpr::constant(0))?;
    let factor = at(symbol.add(&DimExpr::constant(1))?)?.sub(value)?.as_constant()?;
    (symbol.mul(&DimExpr::constant(factor))?.add(&rest)? == *value).then_some((factor, rest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every decision against all values of the counter.
    #[test]
    fn ranges_decide_what_holds_everywhere() {
        let counters = Counters(HashMap::from([("i".to_owned(), 5)]));
        let parse = |text: &str| DimExpr::parse(text).unwrap();
        let at = |value: &DimExpr, i: i64| value.evaluate(&|_| Some(i)).unwrap();
        let texts = ["i", "i+1", "2*i", "5", "6", "0", "min(5,i)", "5-i", "-1"];
        let mut decided = 0;
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(|b| (parse(a), parse(b)))) {
            use Function::*;
            for function in [Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual, Max, Min] {
                let Some(found) = counters.compare(function, &a, &b) else { continue };
                decided += 1;
                for i in 0..=5 {
                    let (x, y) = (at(&a, i), at(&b, i));
                    let expected = match function {
                        Less => i64::from(x < y),
                        LessEqual => i64::from(x <= y),
                        Greater => i64::from(x > y),
                        GreaterEqual => i64::from(x >= y),
                        Equal => i64::from(x == y),
                        NotEqual => i64::from(x != y),
                        Max => x.max(y),
                        _ => x.min(y),
                    };
                    assert_eq!(at(&found, i), expected, "{function:?} {a} {b} {i}");
                }
            }
        }
        assert!(decided > 100, "{decided}");
        assert_eq!(counters.compare(Function::Less, &parse("i"), &parse("5")), None);
        assert_eq!(counters.compare(Function::Less, &parse("i"), &parse("n")), None);
    }

    #[test]
    fn expressions_are_split_by_a_symbol() {
        let split =
            |text: &str| linear(&DimExpr::parse(text).unwrap(), "i").map(|(factor, rest)| (factor, rest.to_string()));
        assert_eq!(split("3*i+n"), Some((3, "n".to_owned())));
        assert_eq!(split("n"), Some((0, "n".to_owned())));
        assert_eq!(split("i*i"), None);
        assert_eq!(split("min(i,3)"), None);
    }
}
