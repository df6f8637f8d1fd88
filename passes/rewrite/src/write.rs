//! From what was picked of an e-graph back to the block.
//!
//! Operations that stay keep their places; before each of them stands what it needs and nothing else has needed before, in the order of the
//! operators that it comes from. The function's old operators are erased.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use egg::Id;
use tenon_ir::{Builder, Location, Op, Value};
use tenon_pass_manager::{PassContext, PassError};

use crate::derived::{Expression, is_trivial, location};
use crate::graph::Graph;
use crate::language::{Node, Symbol};
use crate::read::{Read, key};

/// What is computed how.
pub(crate) struct Picked {
    /// The node of each class that is needed.
    pub(crate) nodes: BTreeMap<Id, Node>,
    /// Nodes of classes that follow from weights.
    pub(crate) known: BTreeMap<Id, Node>,
    /// Those of them that may be kept.
    pub(crate) kept: BTreeSet<Id>,
    /// Of classes whose node a rule made, the best of the other nodes.
    pub(crate) alternatives: BTreeMap<Id, Alternative>,
}

/// A node that was not picked.
pub(crate) struct Alternative {
    /// What the whole costs, in picoseconds.
    pub(crate) cost: u64,
    /// What it costs with the alternative.
    pub(crate) without: u64,
    /// The alternative's operator.
    pub(crate) operator: &'static str,
}

impl Picked {
    /// The node of a class: of one that follows from weights, where that is more than a weight's shape, a derived parameter.
    fn node(&self, class: Id) -> Option<&Node> {
        if self.kept.contains(&class) { self.known.get(&class) } else { self.nodes.get(&class) }
    }

    fn is_derived(&self, class: Id) -> bool {
        self.kept.contains(&class) && self.known.get(&class).is_some_and(|node| !is_trivial(node, &self.known))
    }

    /// Whether this is what the function has already.
    pub(crate) fn is_as_before(&self, graph: &Graph, roots: &[Id]) -> bool {
        let (mut seen, mut stack) = (BTreeSet::new(), roots.to_vec());
        while let Some(class) = stack.pop() {
            let class = graph.find(class);
            if !seen.insert(class) {
                continue;
            }
            let is_new = self.node(class).is_some_and(|node| !graph.origin(node).rules.is_empty());
            if is_new || self.is_derived(class) {
                return false;
            }
            stack.extend(self.needs(class));
        }
        true
    }

    /// What must be there before a class.
    fn needs(&self, class: Id) -> Vec<Id> {
        match self.node(class) {
            Some(node) if !self.is_derived(class) => node.children.clone(),
            _ => Vec::new(),
        }
    }
}

struct Writer<'m, 'a> {
    read: &'a Read<'m>,
    picked: &'a Picked,
    /// Where derived parameters are declared.
    function: Op<'m>,
    values: HashMap<Id, Value<'m>>,
    declared: BTreeSet<String>,
    context: &'a PassContext,
}

/// Writes what was picked into the block. `false`, with nothing changed, where something would be needed before the operation that gives it.
pub(crate) fn write(
    read: &Read<'_>,
    picked: &Picked,
    function: Op<'_>,
    arguments: &[Value<'_>],
    context: &PassContext,
) -> Result<bool, PassError> {
    if !is_ordered(read, picked) {
        return Ok(false);
    }
    let graph = &read.graph;
    let values =
        arguments.iter().filter_map(|value| Some((graph.find(*read.classes.get(&key(*value))?), *value))).collect();
    let mut writer = Writer { read, picked, function, values, declared: BTreeSet::new(), context };
    for (place, op) in read.ops.iter().enumerate() {
        if !read.fences.contains_key(&(place as u32)) {
            continue;
        }
        let Some(at) = Builder::before(*op) else { continue };
        let operands: Vec<Id> =
            op.operands().iter().filter_map(|value| read.classes.get(&key(*value))).map(|id| graph.find(*id)).collect();
        writer.before(at, &operands)?;
        for (index, class) in operands.iter().enumerate() {
            if let Some(value) = writer.values.get(class) {
                op.set_operand(index, *value);
            }
        }
        for result in op.results() {
            if let Some(class) = read.classes.get(&key(result)) {
                writer.values.insert(graph.find(*class), result);
            }
        }
    }
    for (place, op) in read.ops.iter().enumerate().rev() {
        if (read.is_operator[place] || op.is("graph.get_parameter")) && !op.has_users() {
            op.erase()?;
        }
    }
    Ok(true)
}

/// Whether everything that an operation needs is given before it.
fn is_ordered(read: &Read<'_>, picked: &Picked) -> bool {
    let graph = &read.graph;
    let mut given: BTreeSet<Id> = BTreeSet::new();
    let mut results: BTreeMap<Id, usize> = BTreeMap::new();
    for (place, op) in read.ops.iter().enumerate() {
        if read.fences.contains_key(&(place as u32)) {
            for class in op.results().iter().filter_map(|value| read.classes.get(&key(*value))) {
                results.insert(graph.find(*class), place);
            }
        }
    }
    for (place, op) in read.ops.iter().enumerate() {
        if !read.fences.contains_key(&(place as u32)) {
            continue;
        }
        let mut stack: Vec<Id> =
            op.operands().iter().filter_map(|value| read.classes.get(&key(*value))).map(|id| graph.find(*id)).collect();
        while let Some(class) = stack.pop() {
            if results.get(&class).is_some_and(|giver| *giver >= place) {
                return false;
            }
            if !results.contains_key(&class) && given.insert(class) {
                stack.extend(picked.needs(class));
            }
        }
    }
    true
}

impl<'m> Writer<'m, '_> {
    fn graph(&self) -> &Graph {
        &self.read.graph
    }

    /// Everything that classes need and is not there yet.
    fn before(&mut self, at: Builder<'m>, classes: &[Id]) -> Result<(), PassError> {
        let mut waiting: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
        let mut users: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        let mut stack: Vec<Id> = classes.to_vec();
        while let Some(class) = stack.pop() {
            if self.values.contains_key(&class) || waiting.contains_key(&class) {
                continue;
            }
            let needs: BTreeSet<Id> =
                self.picked.needs(class).into_iter().filter(|id| !self.values.contains_key(id)).collect();
            for need in &needs {
                users.entry(*need).or_default().push(class);
            }
            stack.extend(&needs);
            waiting.insert(class, needs);
        }
        let place = |class: Id| {
            let node = self.picked.node(class);
            node.and_then(|node| self.graph().origin(node).sources.last().copied()).unwrap_or(0)
        };
        let places: BTreeMap<Id, u32> = waiting.keys().map(|class| (*class, place(*class))).collect();
        let mut ready: BinaryHeap<Reverse<(u32, Id)>> = waiting
            .iter()
            .filter(|(_, needs)| needs.is_empty())
            .map(|(class, _)| Reverse((places[class], *class)))
            .collect();
        while let Some(Reverse((_, class))) = ready.pop() {
            let value = self.emit(at, class)?;
            self.values.insert(class, value);
            for user in users.get(&class).into_iter().flatten() {
                let Some(needs) = waiting.get_mut(user) else { continue };
                if needs.remove(&class) && needs.is_empty() {
                    ready.push(Reverse((places[user], *user)));
                }
            }
        }
        Ok(())
    }

    fn location(&self, at: Builder<'m>, node: &Node) -> Location<'m> {
        let sources = self.graph().origin(node).sources;
        let locations: Vec<_> =
            sources.iter().filter_map(|place| self.read.ops.get(*place as usize)).map(|op| op.location()).collect();
        match locations.as_slice() {
            [] => location(at),
            [one] => *one,
            several => at.context().fused_location(several),
        }
    }

    fn emit(&mut self, at: Builder<'m>, class: Id) -> Result<Value<'m>, PassError> {
        let Some(node) = self.picked.node(class).cloned() else { return Err(missing()) };
        let location = self.location(at, &node);
        let at = at.with_location(location);
        if self.picked.is_derived(class) {
            return self.derived(at, class, &node);
        }
        match &node.symbol {
            Symbol::Parameter(name) => {
                let ty = self.graph().ty(class).map(|ty| ty.to_type(at.context())).transpose()?;
                Ok(at
                    .op("graph.get_parameter")
                    .attribute("parameter", at.context().symbol(name))
                    .results(&ty.into_iter().collect::<Vec<_>>())
                    .value()?)
            }
            Symbol::Operator(operation) => {
                let operands: Vec<_> =
                    node.children.iter().filter_map(|child| self.values.get(child).copied()).collect();
                let results = operation.operator.build_as(at, &operands, &operation.results)?;
                let value = results.first().copied().ok_or_else(missing)?;
                self.note(value, class, &node, location);
                Ok(value)
            }
            _ => Err(missing()),
        }
    }

    /// Leaves the names of the rules on the operation, and a remark.
    fn note(&self, value: Value<'m>, class: Id, node: &Node, location: Location<'m>) {
        let rules = self.graph().origin(node).rules;
        let (false, Some((op, _))) = (rules.is_empty(), value.defining_op()) else { return };
        let context = op.context();
        let names: Vec<_> = rules.iter().map(|rule| context.string(rule)).collect();
        // An attribute that cannot be set is one remark less, and nothing else.
        let _ = op.set_attribute(RULES, context.array(&names));
        self.context.count("operators made by rules", 1);
        let rejected = self.picked.alternatives.get(&class).map(|alternative| {
            let [cost, without] = [alternative.cost, alternative.without].map(|cost| cost as f64 / 1e6);
            format!("; {cost:.2} us in all, {without:.2} us with the best alternative, `{}`", alternative.operator)
        });
        let message = format!("`{}` by {}{}", op.name(), rules.join(", "), rejected.unwrap_or_default());
        self.context.remark("rewritten", location.names(), message);
    }

    fn derived(&mut self, at: Builder<'m>, class: Id, node: &Node) -> Result<Value<'m>, PassError> {
        let expression = Expression { nodes: &self.picked.known };
        let (Some(name), Some(ty)) = (expression.name(class), self.graph().ty(class).cloned()) else {
            return Err(missing());
        };
        if self.declared.insert(name.clone()) {
            let before = Builder::before(self.function).ok_or_else(missing)?;
            expression.write(class, &name, &ty, before.with_location(self.location(at, node)))?;
            self.context.count("parameters computed ahead", 1);
            self.context.remark(
                "derived",
                at.location().names(),
                format!("parameter `@{name}`, {ty}, is computed ahead"),
            );
        }
        let context = at.context();
        Ok(at
            .op("graph.get_parameter")
            .attribute("parameter", context.symbol(&name))
            .results(&[ty.to_type(context)?])
            .value()?)
    }
}

/// Attribute of an operator with the names of the rules that made it.
pub(crate) const RULES: &str = "rules";

fn missing() -> PassError {
    PassError::Broken {
        when: "while a rewritten graph was written".to_owned(),
        detail: "a value was picked that nothing gives".to_owned(),
    }
}
