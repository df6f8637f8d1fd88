//! Rules as data.

use std::sync::Arc;

use egg::Id;
use tenon_graph_dialect::operators::{Elementwise, Function, Reshape};
use tenon_graph_dialect::{Dim, Operator, TensorType};
use tenon_recipe::NumericClass;
use tenon_tensor::DType;

use crate::graph::{Graph, Origin};
use crate::language::{Node, Operation};
use crate::proof::{Dice, Instance};

/// A rule: what it finds equal to what.
pub struct Rule {
    /// Words joined by `-`; named in recipes, remarks and kernels.
    pub name: &'static str,
    /// What it keeps of the sequence of rounded operations.
    pub class: NumericClass,
    /// Left and right side, and conditions, as a sentence.
    pub about: &'static str,
    /// Name of the operation that its left side ends in.
    pub root: &'static str,
    /// Gives what is equal to the matched operator; nothing where a condition does not hold.
    pub apply: fn(&mut Match<'_>) -> Option<Id>,
    /// A random instance of the left side; it need not always match.
    pub instance: fn(&mut Dice) -> Instance,
}

/// One operator that a rule looks at.
pub struct Match<'g> {
    graph: &'g mut Graph,
    class: Id,
    root: Node,
    origin: Origin,
    /// That of the matched operator.
    own: Origin,
}

/// An operator of a class: what it is and what it reads.
#[derive(Clone)]
pub struct RuleView {
    /// The operator with its type.
    pub operation: Arc<Operation>,
    /// Its operands.
    pub operands: Vec<Id>,
}

impl<'g> Match<'g> {
    pub(crate) fn new(graph: &'g mut Graph, class: Id, root: Node, rule: &'static str) -> Self {
        let mut origin = graph.origin(&root);
        origin.rules.push(rule);
        origin.rules.sort_unstable();
        origin.rules.dedup();
        Match { graph, class, root, own: origin.clone(), origin }
    }

    /// The matched operator.
    pub fn operator(&self) -> Option<Operator> {
        self.root.operation().map(|operation| operation.operator.clone())
    }

    /// Its class.
    pub fn class(&self) -> Id {
        self.class
    }

    /// Its operands.
    pub fn operands(&self) -> Vec<Id> {
        self.root.children.clone()
    }

    /// Its operands, where there are this many.
    pub fn operands_of<const N: usize>(&self) -> Option<[Id; N]> {
        self.root.children.clone().try_into().ok()
    }

    /// Its type.
    pub fn result(&self) -> Option<TensorType> {
        self.root.operation().and_then(|operation| operation.results.first().cloned())
    }

    /// Type of a value.
    pub fn ty(&self, id: Id) -> Option<TensorType> {
        self.graph.ty(id).cloned()
    }

    /// Whether a value follows from weights.
    pub fn is_known(&self, id: Id) -> bool {
        self.graph.is_known(id)
    }

    /// Whether a value is a weight as the model has it.
    pub fn is_parameter(&self, id: Id) -> bool {
        self.graph.nodes(id).iter().any(|node| matches!(node.symbol, crate::language::Symbol::Parameter(_)))
    }

    /// The number that a literal of one element is.
    pub fn constant(&self, id: Id) -> Option<f64> {
        self.graph.nodes(id).iter().find_map(|node| match &node.operation()?.operator {
            Operator::Constant(constant) if constant.value.element_count() == 1 => constant.value.get_f64(0),
            _ => None,
        })
    }

    /// The first operator of a class for which `pick` gives something; it takes part in what the rule makes.
    pub fn find<T>(&mut self, id: Id, mut pick: impl FnMut(&RuleView) -> Option<T>) -> Option<T> {
        for node in self.graph.nodes(id) {
            let Some(operation) = node.operation() else { continue };
            let view = RuleView { operation: operation.clone(), operands: node.children.clone() };
            if let Some(found) = pick(&view) {
                let origin = self.graph.origin(&node);
                self.origin.join(&origin);
                return Some(found);
            }
        }
        None
    }

    /// Operators that read a value, each with its class, in order; those for which `pick` gives something take part.
    pub fn users<T>(&mut self, id: Id, mut pick: impl FnMut(&RuleView, Id) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        for (node, class) in self.graph.users(id) {
            let Some(operation) = node.operation() else { continue };
            let view = RuleView { operation: operation.clone(), operands: node.children.clone() };
            if let Some(picked) = pick(&view, class) {
                let origin = self.graph.origin(&node);
                self.origin.join(&origin);
                found.push(picked);
            }
        }
        found
    }

    /// Forgets what takes part beside the matched operator.
    pub fn alone(&mut self) {
        self.origin = self.own.clone();
    }

    /// A node of the right side; `None` where the operands do not fit the operator.
    pub fn add(&mut self, operator: impl Into<Operator>, operands: &[Id]) -> Option<Id> {
        let operator = operator.into();
        let types: Vec<TensorType> = operands.iter().map(|id| self.ty(*id)).collect::<Option<_>>()?;
        let results = operator.infer(&types).ok()?;
        (results.len() == 1).then(|| self.graph.add_as(operator, results, operands, self.origin.clone()))
    }

    /// A scalar function.
    pub fn function(&mut self, function: Function, operands: &[Id]) -> Option<Id> {
        self.add(Elementwise { function }, operands)
    }

    /// The value under other dimensions; itself where it has them.
    pub fn reshape(&mut self, id: Id, dims: &[Dim]) -> Option<Id> {
        if self.ty(id)?.dims == dims {
            return Some(id);
        }
        self.add(Reshape { shape: dims.iter().map(|dim| dim.extent.clone()).collect() }, &[id])
    }

    /// A scalar literal.
    pub fn scalar(&mut self, value: f64, dtype: DType) -> Option<Id> {
        let constant = tenon_tensor::Tensor::from_f64s(dtype, Vec::new(), &[value]).ok()?;
        self.add(tenon_graph_dialect::operators::Constant { value: constant }, &[])
    }
}
