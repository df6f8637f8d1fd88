//! Graphs, and the order of their nodes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use indexmap::IndexMap;
use tenon_tensor::Tensor;

use crate::error::ImportError;
use crate::node::Node;
use crate::value::ValueInfo;

/// A graph of a model: the main one, or a subgraph of a control-flow node.
///
/// Invariants: names of inputs, initializers and node outputs are distinct; every name that a node or output uses is defined here or,
/// in a subgraph, listed in `captures`; nodes come after those whose results they use, captures of their subgraphs included, and
/// otherwise in the order of the file.
#[derive(Debug)]
pub struct Graph {
    /// The graph's name, often empty or arbitrary.
    pub name: String,
    /// Inputs that a caller gives, in order.
    pub inputs: Vec<ValueInfo>,
    /// Declarations of inputs that have an initializer too. The initializer is their value; they are not inputs.
    pub defaulted_inputs: Vec<ValueInfo>,
    /// Outputs, in order.
    pub outputs: Vec<ValueInfo>,
    /// Constants by name.
    pub initializers: IndexMap<String, Tensor>,
    /// Nodes, in topological order.
    pub nodes: Vec<Node>,
    /// Declared types of values in between.
    pub value_info: IndexMap<String, ValueInfo>,
    /// Values of the graphs around this one that are used here, in order of use; empty for the main graph.
    pub captures: Vec<String>,
}

/// Sorts nodes topologically and stably: of the nodes that are ready, the first of the file comes first.
pub(crate) fn sort(nodes: Vec<Node>) -> Result<Vec<Node>, ImportError> {
    let mut producer = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        producer.extend(node.outputs.iter().flatten().map(|name| (name.as_str(), index)));
    }
    let needs = |node: &Node| -> Vec<usize> {
        let names = node.inputs.iter().flatten().chain(&node.captures);
        names.filter_map(|name| producer.get(name.as_str()).copied()).collect()
    };
    let mut waiting: Vec<usize> = vec![0; nodes.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let needed = needs(node);
        waiting[index] = needed.len();
        needed.into_iter().for_each(|other| users[other].push(index));
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&index| waiting[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    if order.len() < nodes.len() {
        return Err(ImportError::Cycle { cycle: cycle(&nodes, &waiting, needs) });
    }
    let mut slots: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| slots[index].take()).collect())
}

/// Nodes of one cycle, each needing the next, the first repeated at the end.
fn cycle(nodes: &[Node], waiting: &[usize], needs: impl Fn(&Node) -> Vec<usize>) -> Vec<String> {
    const SHOWN: usize = 8;
    let Some(mut current) = waiting.iter().position(|&count| count > 0) else { return Vec::new() };
    let mut seen_at = HashMap::new();
    let mut path = Vec::new();
    // A node that still waits needs one that still waits, so the walk returns to where it was.
    while !seen_at.contains_key(&current) {
        seen_at.insert(current, path.len());
        path.push(current);
        match needs(&nodes[current]).into_iter().find(|&other| waiting[other] > 0) {
            Some(next) => current = next,
            None => break,
        }
    }
    let start = seen_at.get(&current).copied().unwrap_or(0);
    let mut names: Vec<String> = path[start..].iter().take(SHOWN).map(|&index| nodes[index].site.to_string()).collect();
    if path.len() - start > SHOWN {
        names.push("further nodes".to_owned());
    }
    names.push(nodes[current].site.to_string());
    names
}
