//! Nodes of the e-graph: operators as plain data.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use egg::{Id, Language};
use tenon_graph_dialect::{Operator, TensorType};

/// An operator with its result types. Equal where both are; the hash is made once.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The operator.
    pub operator: Operator,
    /// Types of its results.
    pub results: Vec<TensorType>,
    /// Everything that the operator and its results say, as text: the order of operations.
    key: String,
    hash: u64,
}

impl Operation {
    /// An operator with its result types.
    pub fn new(operator: Operator, results: Vec<TensorType>) -> Self {
        let key = match &operator {
            // What a tensor shows of itself is cut; its bytes are not.
            Operator::Constant(constant) => {
                let (dtype, shape, bytes) = (constant.value.dtype(), constant.value.shape(), constant.value.bytes());
                format!("constant {dtype} {shape:?} {bytes:02x?}")
            }
            operator => format!("{operator:?} -> {results:?}"),
        };
        // The default keys of this hasher are constants: the same in every run.
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Operation { operator, results, hash: hasher.finish(), key }
    }

    /// Everything that the operator and its results say.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl Eq for Operation {}

impl PartialOrd for Operation {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Operation {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Symbol {
    /// An argument of the function, by its place.
    Input(u32),
    /// A weight.
    Parameter(String),
    /// An operation that stays where it is, by its place; its operands are the children.
    Fence(u32),
    /// One result of a fence.
    Projection(u32),
    /// An operator with one result.
    Operator(Arc<Operation>),
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) symbol: Symbol,
    pub(crate) children: Vec<Id>,
}

impl Node {
    /// The operator, where it is one.
    pub(crate) fn operation(&self) -> Option<&Arc<Operation>> {
        match &self.symbol {
            Symbol::Operator(operation) => Some(operation),
            _ => None,
        }
    }
}

impl Language for Node {
    type Discriminant = &'static str;

    fn discriminant(&self) -> &'static str {
        match &self.symbol {
            Symbol::Input(_) => "input",
            Symbol::Parameter(_) => "parameter",
            Symbol::Fence(_) => "fence",
            Symbol::Projection(_) => "projection",
            Symbol::Operator(operation) => operation.operator.name(),
        }
    }

    fn matches(&self, other: &Self) -> bool {
        self.symbol == other.symbol && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}
