//! Whether the conditions of a loop are known before the model runs.

use std::collections::HashSet;

use crate::graph::Graph;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// The first value found that the body's condition depends on and that is computed while the model runs, over all iterations; `None` if
/// there is none.
///
/// What an operator computes from known values is known; so is what depends on a shape alone.
pub(super) fn unsettled(op: &OpImport<'_, '_, '_>, body: &Graph, carried: &[Handle]) -> Option<String> {
    let mut stack = vec![body.outputs.first()?.name.clone()];
    let mut seen = HashSet::new();
    while let Some(name) = stack.pop() {
        if !seen.insert(name.clone()) || body.initializers.contains_key(&name) {
            continue;
        }
        if let Some(input) = body.inputs.iter().position(|input| input.name == name) {
            // The iteration number and the condition of an iteration that runs are known.
            let Some(index) = input.checked_sub(2) else { continue };
            if carried.get(index).is_some_and(|value| is_computed(op, *value)) {
                return Some(name);
            }
            stack.extend(body.outputs.get(index + 1).map(|output| output.name.clone()));
            continue;
        }
        let makes = |outputs: &[Option<String>]| outputs.iter().flatten().any(|output| *output == name);
        match body.nodes.iter().find(|node| makes(&node.outputs)) {
            Some(node) if node.domain().is_empty() && matches!(node.op_type(), "Shape" | "Size") => {}
            Some(node) => stack.extend(node.inputs.iter().flatten().chain(&node.captures).cloned()),
            None if op.importer.lookup(&name).is_some_and(|value| is_computed(op, value)) => return Some(name),
            None => {}
        }
    }
    None
}

fn is_computed(op: &OpImport<'_, '_, '_>, value: Handle) -> bool {
    let builder = &op.importer.builder;
    op.importer.no_tensor(value).is_none() && builder.tensor(value).is_none() && builder.dims(value).is_none()
}

/// Whether a body gives an input back as it is.
pub(super) fn passes_through(body: &Graph, input: &str, output: &str) -> bool {
    let mut name = output;
    while name != input {
        let made = |outputs: &[Option<String>]| outputs.first().and_then(Option::as_deref) == Some(name);
        let node = body.nodes.iter().find(|node| made(&node.outputs));
        match node
            .filter(|node| node.op_type() == "Identity" && node.domain().is_empty())
            .and_then(|node| node.input(0))
        {
            Some(before) => name = before,
            None => return false,
        }
    }
    true
}
