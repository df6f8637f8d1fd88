//! What follows from weights alone: `graph.derived_parameter`.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;
use sha2::{Digest, Sha256};
use tenon_graph_dialect::{Operator, TensorType};
use tenon_ir::{Builder, Location, Module, Value};
use tenon_pass_manager::PassError;
use tenon_reference::{Interpreter, Mode, ReferenceError};
use tenon_tensor::Tensor;

use crate::graph::Graph;
use crate::language::{Node, Symbol};

/// Of each class that follows from weights, the node with the fewest operations below it.
pub(crate) fn cheapest(graph: &Graph) -> BTreeMap<Id, Node> {
    let mut costs: BTreeMap<Id, (u64, Node)> = BTreeMap::new();
    let classes: Vec<Id> = graph.classes().into_iter().filter(|id| graph.follows(*id)).collect();
    loop {
        let mut changed = false;
        for class in &classes {
            for node in graph.nodes(*class) {
                let below = node.children.iter().try_fold(0u64, |sum, id| Some(sum.saturating_add(costs.get(id)?.0)));
                let Some(below) = below else { continue };
                let cost = below.saturating_add(u64::from(node.operation().is_some()));
                if costs.get(class).is_none_or(|(least, _)| cost < *least) {
                    costs.insert(*class, (cost, node));
                    changed = true;
                }
            }
        }
        if !changed {
            return costs.into_iter().map(|(class, (_, node))| (class, node)).collect();
        }
    }
}

/// A derived parameter that is written: how it is computed.
pub(crate) struct Expression<'g> {
    pub(crate) nodes: &'g BTreeMap<Id, Node>,
}

impl Expression<'_> {
    /// Classes in order of computation, `root` last.
    fn order(&self, root: Id) -> Option<Vec<Id>> {
        let (mut order, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![(root, false)]);
        while let Some((class, done)) = stack.pop() {
            if done {
                order.push(class);
            } else if seen.insert(class) {
                stack.push((class, true));
                stack.extend(self.nodes.get(&class)?.children.iter().rev().map(|child| (*child, false)));
            }
        }
        Some(order)
    }

    /// The name of the value: that of the first weight, the last operator, and a hash of everything that it is computed by. So it is one
    /// name for one value in all buckets.
    pub(crate) fn name(&self, root: Id) -> Option<String> {
        let order = self.order(root)?;
        let places: BTreeMap<Id, usize> = order.iter().enumerate().map(|(place, class)| (*class, place)).collect();
        let mut hash = Sha256::new();
        let mut first = None;
        for class in &order {
            let node = self.nodes.get(class)?;
            match &node.symbol {
                Symbol::Parameter(name) => {
                    hash.update(format!("parameter {name}\n"));
                    first = first.or(Some(name.clone()));
                }
                Symbol::Operator(operation) => hash.update(operation.key()),
                _ => return None,
            }
            for child in &node.children {
                hash.update(format!(" {}", places.get(child)?));
            }
            hash.update("\n");
        }
        let digest: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let last = match &self.nodes.get(&root)?.symbol {
            Symbol::Operator(operation) => operation.operator.name().trim_start_matches("graph.").to_owned(),
            _ => "same".to_owned(),
        };
        Some(format!("{}.{last}.{digest}", first.unwrap_or_else(|| "literal".to_owned())))
    }

    /// Writes it at `at`, before a function.
    pub(crate) fn write(&self, root: Id, name: &str, ty: &TensorType, at: Builder<'_>) -> Result<(), PassError> {
        let context = at.context();
        let op = at
            .op("graph.derived_parameter")
            .attribute("sym_name", context.string(name))
            .attribute("type", context.type_attribute(ty.to_type(context)?))
            .regions(1)
            .build()?;
        let block = op.region(0).expect("the operation was built with a region").append_block(&[])?;
        let body = at.in_block(block);
        let mut values: BTreeMap<Id, Value<'_>> = BTreeMap::new();
        for class in self.order(root).unwrap_or_default() {
            let Some(node) = self.nodes.get(&class) else { continue };
            let value = match &node.symbol {
                Symbol::Parameter(parameter) => {
                    let ty = parameter_type(at, parameter);
                    body.op("graph.get_parameter")
                        .attribute("parameter", context.symbol(parameter))
                        .results(&ty.into_iter().collect::<Vec<_>>())
                        .value()?
                }
                Symbol::Operator(operation) => {
                    let operands: Vec<_> =
                        node.children.iter().filter_map(|child| values.get(child).copied()).collect();
                    let results = operation.operator.build_as(body, &operands, &operation.results)?;
                    let Some(value) = results.first() else { continue };
                    *value
                }
                _ => continue,
            };
            values.insert(class, value);
        }
        let yielded: Vec<_> = values.get(&root).copied().into_iter().collect();
        body.op("graph.yield").operands(&yielded).build()?;
        Ok(())
    }
}

/// The declared type of a weight, by the module's own declarations beside the place of the builder.
fn parameter_type<'m>(at: Builder<'m>, name: &str) -> Option<tenon_ir::Type<'m>> {
    let declared = at.block().ops().into_iter().find(|op| op.string("sym_name").as_deref() == Some(name))?;
    declared.attribute("type").and_then(|ty| ty.as_type())
}

/// Whether a node is no more than another shape of a weight, or a literal: nothing to compute ahead.
pub(crate) fn is_trivial(node: &Node, nodes: &BTreeMap<Id, Node>) -> bool {
    match &node.symbol {
        Symbol::Parameter(_) => true,
        Symbol::Operator(operation) => match &operation.operator {
            Operator::Constant(_) => true,
            Operator::Reshape(_) => {
                node.children.first().and_then(|child| nodes.get(child)).is_some_and(|inner| is_trivial(inner, nodes))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Values of all derived parameters of a module, by name; those that need a weight that is not given are left out.
///
/// # Errors
/// What the interpreter refuses to compute.
pub fn evaluate_derived(
    module: &Module<'_>,
    weights: &dyn Fn(&str) -> Option<Tensor>,
) -> Result<Vec<(String, Tensor)>, ReferenceError> {
    let mut interpreter = Interpreter::new(module, weights, Mode::Typed);
    let mut values = Vec::new();
    for op in module.body().ops().into_iter().filter(|op| op.is("graph.derived_parameter")) {
        let read = op.walk().into_iter().filter_map(|inner| inner.attribute("parameter")?.as_symbol());
        let is_given = |name: &String| {
            let derived = |op: &tenon_ir::Op<'_>| {
                op.is("graph.derived_parameter") && op.string("sym_name").as_ref() == Some(name)
            };
            weights(name).is_some() || module.body().ops().iter().any(derived)
        };
        if read.collect::<Vec<_>>().iter().all(is_given) {
            let name = op.string("sym_name").unwrap_or_default();
            let value = interpreter.parameter(&name)?;
            values.push((name, value));
        }
    }
    Ok(values)
}

/// Where a derived parameter's own operations come from: nowhere in the function.
pub(crate) fn location<'m>(at: Builder<'m>) -> Location<'m> {
    at.context().unknown_location()
}
