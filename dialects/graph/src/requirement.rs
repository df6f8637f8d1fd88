//! What must hold of the extents of a request: conditions that inference cannot decide, ranges and guards of the model.

use std::collections::BTreeSet;

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::{Condition, Relation};

use crate::{Dim, DimExpr, ErrorKind, SemanticError};

/// The attribute of a module that lists them.
const ATTRIBUTE: &str = "graph.requirements";

/// A condition on extents, with where it comes from. A module lists them as `graph.requirements`; they become conditions of the launch plan, which
/// a run is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The condition.
    pub condition: Condition,
    /// Why it must hold, for messages.
    pub reason: String,
    /// Names of the model's nodes that need it, and their places in its source.
    pub source: Vec<String>,
}

impl Requirement {
    /// A requirement of no node in particular.
    pub fn new(left: DimExpr, relation: Relation, right: DimExpr, reason: impl Into<String>) -> Self {
        Requirement { condition: Condition::new(left, relation, right), reason: reason.into(), source: Vec::new() }
    }

    /// Two dimensions must have one size. Nothing where they are known to, which spares the text of the reason.
    pub fn same(a: &Dim, b: &Dim, reason: impl FnOnce() -> String) -> Option<Self> {
        (a.extent != b.extent).then(|| Requirement::new(a.extent.clone(), Relation::Equal, b.extent.clone(), reason()))
    }

    /// `low <= high`; nothing where it always holds.
    pub(crate) fn at_most(low: DimExpr, high: DimExpr, reason: impl FnOnce() -> String) -> Option<Self> {
        let condition = Condition::new(low, Relation::AtMost, high);
        (condition.decide() != Some(true)).then(|| Requirement { condition, reason: reason(), source: Vec::new() })
    }

    /// Those of a module.
    ///
    /// # Errors
    /// An attribute that is no list of requirements.
    pub fn read_all(module: Op<'_>) -> Result<Vec<Requirement>, SemanticError> {
        let Some(attribute) = module.attribute(ATTRIBUTE) else { return Ok(Vec::new()) };
        let read = |entry: &Attribute<'_>| {
            let text = |name: &str| entry.get(name)?.as_string();
            let source = entry.get("source").and_then(Attribute::as_array).unwrap_or_default();
            Some(Requirement {
                condition: Condition::parse(&text("condition")?)?,
                reason: text("reason")?,
                source: source.iter().filter_map(|name| name.as_string()).collect(),
            })
        };
        let list = attribute.as_array().and_then(|list| list.iter().map(read).collect());
        list.ok_or_else(|| {
            let message =
                format!("`{ATTRIBUTE}` must list dictionaries with `condition` and `reason`, not {attribute}");
            SemanticError::new(ErrorKind::Attribute, "module", message)
        })
    }

    /// Writes them to a module in place of those that it has; of several with one condition the first is kept.
    ///
    /// # Errors
    /// MLIR refuses the attribute.
    pub fn write_all(module: Op<'_>, list: &[Requirement]) -> Result<(), SemanticError> {
        let context = module.context();
        let mut seen = BTreeSet::new();
        let entries: Vec<_> = list
            .iter()
            .filter(|requirement| seen.insert(requirement.condition.to_string()))
            .map(|requirement| requirement.attribute(context))
            .collect();
        if entries.is_empty() {
            module.remove_attribute(ATTRIBUTE);
            return Ok(());
        }
        let set = module.set_attribute(ATTRIBUTE, context.array(&entries));
        set.map_err(|error| SemanticError::new(ErrorKind::Structure, "module", error.to_string()))
    }

    fn attribute<'s>(&self, context: Context<'s>) -> Attribute<'s> {
        let source: Vec<_> = self.source.iter().map(|name| context.string(name)).collect();
        let mut entries =
            vec![("condition", context.string(&self.condition.to_string())), ("reason", context.string(&self.reason))];
        if !source.is_empty() {
            entries.push(("source", context.array(&source)));
        }
        context.dictionary(&entries)
    }
}

/// Dimensions that broadcast against each other have one size, those of 1 left out.
pub(crate) fn broadcast_requirements(shapes: &[&[Dim]]) -> Vec<Requirement> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut found = Vec::new();
    for back in 1..=rank {
        let at = |shape: &&&[Dim]| shape.len().checked_sub(back).map(|index| shape[index].clone());
        let mut dims = shapes.iter().filter_map(|shape| at(&shape)).filter(|dim| !dim.is_one());
        let Some(first) = dims.next() else { continue };
        let reason = || format!("dimension {} of all operands must be one size", rank - back);
        found.extend(dims.filter_map(|dim| Requirement::same(&first, &dim, reason)));
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_ir::{PrintOptions, Session};

    #[test]
    fn a_module_keeps_them_as_text() {
        let session = Session::new();
        let module = session.parse_module("module {}", "test").unwrap();
        let (n, five) = (DimExpr::symbol("n"), DimExpr::constant(5));
        let mut first = Requirement::new(n.clone(), Relation::Equal, five.clone(), "a \"quoted\" reason");
        first.source = vec!["node".to_owned(), "model.py:7".to_owned()];
        let again = Requirement::new(n.clone(), Relation::Equal, five, "another reason");
        let other = Requirement::new(n.clone(), Relation::AtLeast, n.mul(&n).unwrap(), "r");
        Requirement::write_all(module.op(), &[first.clone(), again, other.clone()]).unwrap();
        let text = module.print(PrintOptions::default());
        let parsed = session.parse_module(&text, "test").unwrap();
        assert_eq!(Requirement::read_all(parsed.op()).unwrap(), [first, other]);
        assert_eq!(parsed.print(PrintOptions::default()), text);
        Requirement::write_all(module.op(), &[]).unwrap();
        assert!(!module.print(PrintOptions::default()).contains("requirements"));
        for wrong in ["3", "[{condition = \"n\", reason = \"\"}]", "[{reason = \"\"}]", "[{condition = \"n == 1\"}]"] {
            let text = format!("module attributes {{graph.requirements = {wrong}}} {{}}");
            let module = session.parse_module(&text, "test").unwrap();
            assert_eq!(Requirement::read_all(module.op()).unwrap_err().code(), "E0304", "{wrong}");
        }
    }
}
