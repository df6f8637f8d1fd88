//! The e-graph with what is known of each class and where its nodes come from.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use egg::{Analysis, DidMerge, EGraph, Id, Language};
use tenon_graph_dialect::operators::Constant;
use tenon_graph_dialect::{Operator, TensorType};
use tenon_tensor::{DType, Tensor};

use crate::language::{Node, Operation, Symbol};

/// What is known of a class.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Types of the results: one but of fences.
    pub(crate) types: Vec<TensorType>,
    /// Of what follows from weights and literals alone, and may be kept as a weight: bytes of those that it follows from.
    pub(crate) known: Option<u64>,
    /// The same, of what may be too large to keep but not to compute on the way.
    pub(crate) follows: Option<u64>,
}

/// Types of leaves, and the analysis.
#[derive(Debug, Default)]
pub(crate) struct Types {
    leaves: HashMap<Symbol, Vec<TensorType>>,
}

/// Bytes of a value of fixed shape.
fn bytes(ty: &TensorType) -> Option<u64> {
    ty.known_shape()?.into_iter().try_fold(ty.dtype.size() as u64, |bytes, size| bytes.checked_mul(size))
}

/// Operators whose work is in proportion to what they read and write, so that evaluating them while compiling costs no more than reading the
/// model.
fn is_proportional(operator: &Operator) -> bool {
    use Operator::*;
    matches!(
        operator,
        Constant(_)
            | Iota(_)
            | Elementwise(_)
            | Cast(_)
            | Reduce(_)
            | Gather(_)
            | Quantize(_)
            | Dequantize(_)
            | Reshape(_)
            | Transpose(_)
            | Broadcast(_)
            | Slice(_)
            | Pad(_)
            | Concat(_)
    )
}

/// Most products of two elements that a contraction of weights may take to be computed ahead: well below a second of the interpreter.
const MOST_PRODUCTS: u64 = 1 << 26;

/// Whether an operator of weights is computed ahead: one whose work is in proportion, or a contraction of little work.
fn is_computed_ahead(operator: &Operator, result: Option<&TensorType>, operands: &[Option<&TensorType>]) -> bool {
    let Operator::Contract(contract) = operator else { return is_proportional(operator) };
    let shape = |ty: Option<&TensorType>| ty.and_then(TensorType::known_shape);
    let (Some(result), Some(lhs)) = (shape(result), shape(operands.first().copied().flatten())) else { return false };
    let summed = contract.summed();
    let summed = contract.lhs.chars().zip(lhs).filter(|(label, _)| summed.contains(label)).map(|(_, size)| size);
    result.into_iter().chain(summed).try_fold(1u64, u64::checked_mul).is_some_and(|products| products <= MOST_PRODUCTS)
}

/// A value that follows from weights is computed ahead only where it takes at most this many bytes, or twice those of the weights.
const SMALL: u64 = 1 << 16;
/// Times the bytes of the weights that a value on the way may take.
const ON_THE_WAY: u64 = 8;

impl Analysis<Node> for Types {
    type Data = Facts;

    fn make(egraph: &mut EGraph<Node, Self>, node: &Node, _: Id) -> Facts {
        let types = match &node.symbol {
            Symbol::Operator(operation) => operation.results.clone(),
            Symbol::Projection(index) => node
                .children
                .first()
                .and_then(|id| egraph[*id].data.types.get(*index as usize))
                .cloned()
                .into_iter()
                .collect(),
            leaf => egraph.analysis.leaves.get(leaf).cloned().unwrap_or_default(),
        };
        let size = types.first().and_then(bytes);
        let below = match &node.symbol {
            Symbol::Parameter(_) => size,
            Symbol::Operator(operation)
                if is_computed_ahead(
                    &operation.operator,
                    types.first(),
                    &node.children.iter().map(|id| egraph[*id].data.types.first()).collect::<Vec<_>>(),
                ) =>
            {
                match operation.operator {
                    Operator::Constant(_) => size,
                    _ => node
                        .children
                        .iter()
                        .try_fold(0u64, |sum, id| Some(sum.saturating_add(egraph[*id].data.follows?))),
                }
            }
            _ => None,
        };
        let within =
            |times: u64| below.filter(|below| size.is_some_and(|size| size <= SMALL.max(below.saturating_mul(times))));
        Facts { types, known: within(2), follows: within(ON_THE_WAY) }
    }

    fn merge(&mut self, to: &mut Facts, from: Facts) -> DidMerge {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let merged = (least(to.known, from.known), least(to.follows, from.follows));
        let did = DidMerge((to.known, to.follows) != merged, (from.known, from.follows) != merged);
        (to.known, to.follows) = merged;
        did
    }
}

/// Where a node comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Places of the operations of the function that it stands for.
    pub(crate) sources: BTreeSet<u32>,
    /// Rules that made it, in order.
    pub(crate) rules: Vec<&'static str>,
}

impl Origin {
    pub(crate) fn join(&mut self, other: &Origin) {
        self.sources.extend(&other.sources);
        for rule in &other.rules {
            if !self.rules.contains(rule) {
                self.rules.push(rule);
            }
        }
    }
}

/// Graphs of equal values.
#[derive(Debug, Default)]
pub struct Graph {
    pub(crate) egraph: EGraph<Node, Types>,
    origins: HashMap<Node, Origin>,
    /// Whether classes have been joined since everything was up to date.
    joined: bool,
    /// How often classes have been joined.
    pub(crate) unions: usize,
}

impl Graph {
    /// The class of a value now.
    pub fn find(&self, id: Id) -> Id {
        self.egraph.find(id)
    }

    /// Type of a value.
    pub fn ty(&self, id: Id) -> Option<&TensorType> {
        self.egraph[id].data.types.first()
    }

    /// Whether a value follows from weights and literals alone and is small enough to be computed ahead.
    pub fn is_known(&self, id: Id) -> bool {
        self.egraph[id].data.known.is_some()
    }

    /// Whether it can be computed ahead, on the way to something that is kept.
    pub(crate) fn follows(&self, id: Id) -> bool {
        self.egraph[id].data.follows.is_some()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.egraph.total_number_of_nodes()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.egraph.is_empty()
    }

    /// Classes in order of their numbers.
    pub(crate) fn classes(&self) -> Vec<Id> {
        let mut classes: Vec<Id> = self.egraph.classes().map(|class| class.id).collect();
        classes.sort_unstable();
        classes
    }

    /// Nodes of a class, each once, in order.
    pub(crate) fn nodes(&self, id: Id) -> Vec<Node> {
        let mut nodes: Vec<Node> = self.egraph[id].nodes.iter().map(|node| self.canonical(node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// A node with the classes that its children are in now.
    pub(crate) fn canonical(&self, node: &Node) -> Node {
        node.clone().map_children(|id| self.egraph.find(id))
    }

    /// Operators that read a value, each with its class, in order.
    pub(crate) fn users(&self, id: Id) -> Vec<(Node, Id)> {
        let class = &self.egraph[id];
        let mut users: Vec<(Node, Id)> = class
            .parents()
            .map(|parent| (self.canonical(self.egraph.id_to_node(parent)), self.egraph.find(parent)))
            .filter(|(node, _)| node.operation().is_some())
            .collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    pub(crate) fn leaf(&mut self, symbol: Symbol, types: Vec<TensorType>, children: Vec<Id>) -> Id {
        self.egraph.analysis.leaves.insert(symbol.clone(), types);
        self.egraph.add(Node { symbol, children })
    }

    /// A result of a fence.
    pub(crate) fn projection(&mut self, fence: Id, index: u32) -> Id {
        self.egraph.add(Node { symbol: Symbol::Projection(index), children: vec![fence] })
    }

    /// An argument of the function.
    pub fn input(&mut self, place: u32, ty: TensorType) -> Id {
        self.leaf(Symbol::Input(place), vec![ty], Vec::new())
    }

    /// A weight.
    pub fn parameter(&mut self, name: &str, ty: TensorType) -> Id {
        self.leaf(Symbol::Parameter(name.to_owned()), vec![ty], Vec::new())
    }

    /// An operator with one result, of the type that follows from its operands; `None` where they do not fit.
    pub fn add(&mut self, operator: impl Into<Operator>, operands: &[Id]) -> Option<Id> {
        let operator = operator.into();
        let types: Vec<TensorType> = operands.iter().map(|id| self.ty(*id).cloned()).collect::<Option<_>>()?;
        let results = operator.infer(&types).ok()?;
        (results.len() == 1).then(|| self.add_as(operator, results, operands, Origin::default()))
    }

    /// A scalar literal.
    pub fn scalar(&mut self, value: f64, dtype: DType) -> Option<Id> {
        self.add(Constant { value: Tensor::from_f64s(dtype, Vec::new(), &[value]).ok()? }, &[])
    }

    pub(crate) fn add_as(
        &mut self,
        operator: Operator,
        results: Vec<TensorType>,
        operands: &[Id],
        origin: Origin,
    ) -> Id {
        let node =
            Node { symbol: Symbol::Operator(Arc::new(Operation::new(operator, results))), children: operands.to_vec() };
        let node = self.canonical(&node);
        match self.origins.get_mut(&node) {
            // Of a node that the function has several times, all places are its own; what a rule makes anew keeps its first origin.
            Some(own) if origin.rules.is_empty() && own.rules.is_empty() => own.join(&origin),
            Some(_) => {}
            None => {
                self.origins.insert(node.clone(), origin);
            }
        }
        self.egraph.add(node)
    }

    /// Declares two values equal, unless their types differ: of extents an operator may say less than another. Whether that was new.
    pub(crate) fn unite(&mut self, a: Id, b: Id) -> bool {
        let new = self.ty(a) == self.ty(b) && self.egraph.union(a, b);
        self.joined |= new;
        self.unions += usize::from(new);
        new
    }

    /// Where a node comes from.
    pub(crate) fn origin(&self, node: &Node) -> Origin {
        self.origins.get(node).cloned().unwrap_or_default()
    }

    /// Brings everything up to date after classes have been joined.
    pub(crate) fn rebuild(&mut self) {
        self.egraph.rebuild();
        if !std::mem::take(&mut self.joined) {
            return;
        }
        let mut old: Vec<(Node, Origin)> = std::mem::take(&mut self.origins).into_iter().collect();
        // Of nodes that have become one, that of the function goes before that of a rule, then the smaller one.
        old.sort_by(|(a, a_origin), (b, b_origin)| (a_origin.rules.len(), a).cmp(&(b_origin.rules.len(), b)));
        for (node, origin) in old {
            let node = self.canonical(&node);
            self.origins.entry(node).or_insert(origin);
        }
    }
}
