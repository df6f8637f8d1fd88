//! Numbers that may depend on extents.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tenon_tensor::{Condition, DimExpr};

use crate::plan::{Argument, LaunchPlan, Operation, Step, TensorSlot};

/// A number, or an expression over the plan's extents in the text form of [`DimExpr`]: `"floordiv(batch*seq+127,128)"`.
///
/// Serialises as a JSON number or string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expr {
    /// A number.
    Number(u64),
    /// An expression over the plan's extents.
    Text(String),
}

impl Expr {
    /// The number, where it is one.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            Expr::Number(value) => Some(*value),
            Expr::Text(_) => None,
        }
    }

    /// The expression; `None`: a number above `i64::MAX`, or a text that is none.
    pub fn parse(&self) -> Option<DimExpr> {
        match self {
            Expr::Number(value) => i64::try_from(*value).ok().map(DimExpr::constant),
            Expr::Text(text) => DimExpr::parse(text),
        }
    }

    /// The extent that the text names, where it is a bare name.
    pub fn as_symbol(&self) -> Option<String> {
        match self {
            Expr::Number(_) => None,
            Expr::Text(_) => self.parse()?.as_symbol().map(str::to_owned),
        }
    }
}

impl From<u64> for Expr {
    fn from(value: u64) -> Self {
        Expr::Number(value)
    }
}

impl From<&DimExpr> for Expr {
    fn from(expression: &DimExpr) -> Self {
        match expression.as_constant().and_then(|value| u64::try_from(value).ok()) {
            Some(value) => Expr::Number(value),
            None => Expr::Text(expression.to_string()),
        }
    }
}

impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expr::Number(value) => value.fmt(f),
            Expr::Text(text) => text.fmt(f),
        }
    }
}

/// The expressions of a plan, each text once, ready to be evaluated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expressions {
    indices: HashMap<String, usize>,
    list: Vec<DimExpr>,
    /// What must hold of extents, by the place in the plan's list.
    conditions: Vec<(usize, Condition)>,
}

impl Expressions {
    /// Those of a valid plan that a run evaluates; texts that are no expressions are left out.
    pub(crate) fn of(plan: &LaunchPlan) -> Self {
        let mut expressions = Expressions::default();
        for (index, requirement) in plan.requirements.iter().enumerate() {
            expressions.conditions.extend(Condition::parse(&requirement.condition).map(|condition| (index, condition)));
        }
        let slots = plan.inputs.iter().chain(&plan.outputs);
        slots.filter_map(|slot| slot.extents.as_ref()).flatten().for_each(|expression| expressions.add(expression));
        for step in plan.steps.iter().flat_map(Step::walk) {
            match &step.operation {
                Operation::Launch(launch) => {
                    launch.grid.iter().for_each(|size| expressions.add(size));
                    for argument in &launch.arguments {
                        match argument {
                            Argument::Extent(extent) => expressions.add(extent),
                            Argument::TensorMap(map) => {
                                map.sizes.iter().chain(&map.strides).for_each(|size| expressions.add(size));
                            }
                            _ => {}
                        }
                    }
                }
                Operation::Copy(copy) => expressions.add(&copy.bytes),
                Operation::Memset(memset) => expressions.add(&memset.bytes),
                _ => {}
            }
        }
        expressions
    }

    fn add(&mut self, expression: &Expr) {
        if let Expr::Text(text) = expression
            && !self.indices.contains_key(text)
            && let Some(parsed) = DimExpr::parse(text)
        {
            self.indices.insert(text.clone(), self.list.len());
            self.list.push(parsed);
        }
    }

    /// The conditions of the plan, each with its place in the plan's list.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (usize, &Condition)> {
        self.conditions.iter().map(|(index, condition)| (*index, condition))
    }

    /// The value of each for values of all extents.
    pub(crate) fn evaluate(&self, extents: &BTreeMap<String, i64>) -> Values<'_> {
        let lookup = |name: &str| extents.get(name).copied();
        Values { indices: &self.indices, values: self.list.iter().map(|one| one.evaluate(&lookup)).collect() }
    }
}

/// Expressions evaluated.
pub(crate) struct Values<'a> {
    indices: &'a HashMap<String, usize>,
    values: Vec<Option<i64>>,
}

impl Values<'_> {
    /// The value; `None` when it leaves i64.
    pub(crate) fn get(&self, expression: &Expr) -> Option<i64> {
        match expression {
            Expr::Number(value) => i64::try_from(*value).ok(),
            Expr::Text(text) => *self.values.get(*self.indices.get(text)?)?,
        }
    }
}

impl TensorSlot {
    /// The extent of a dimension: its capacity where nothing else is said.
    pub fn extent(&self, dimension: usize) -> Expr {
        let stated = self.extents.as_ref().and_then(|extents| extents.get(dimension)).cloned();
        stated.unwrap_or_else(|| Expr::Number(self.shape.get(dimension).copied().unwrap_or(0)))
    }
}

impl LaunchPlan {
    /// The largest value that each extent may have: as [`LaunchPlan::input_capacities`], and what the steps say that read extents.
    pub fn extent_capacities(&self) -> BTreeMap<String, u64> {
        let mut capacities = self.input_capacities();
        for step in &self.steps {
            if let Operation::ReadExtent(read) = &step.operation {
                capacities.insert(read.name.clone(), read.capacity);
            }
        }
        capacities
    }

    /// The largest value of each extent that inputs have: the least capacity of the input dimensions that are bare that extent.
    pub fn input_capacities(&self) -> BTreeMap<String, u64> {
        let mut capacities = BTreeMap::new();
        for slot in &self.inputs {
            for (extent, capacity) in slot.extents.iter().flatten().zip(&slot.shape) {
                if let Some(name) = extent.as_symbol() {
                    capacities
                        .entry(name)
                        .and_modify(|known: &mut u64| *known = (*known).min(*capacity))
                        .or_insert(*capacity);
                }
            }
        }
        capacities
    }
}
