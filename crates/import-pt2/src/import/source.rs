//! Where a node comes from: the module whose `forward` made it, and the line of the model's code.

use serde_json::Value;
use tenon_ir::{Context, Location};

use crate::error::NodeSite;
use crate::schema::Node;

/// Longest part of a path that is kept.
const MAX_TEXT: usize = 200;

fn text<'n>(node: &'n Node, key: &str) -> &'n str {
    node.metadata.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).filter(|c| !c.is_control()).collect()
}

/// Path of the innermost module: `nn_module_stack` is `KEY,PATH,CLASS;…`, outermost first.
fn module(node: &Node) -> &str {
    let innermost = text(node, "nn_module_stack").rsplit(';').next().unwrap_or_default();
    innermost.split(',').nth(1).unwrap_or_default()
}

/// The innermost line outside of torch itself: file and number.
fn line(node: &Node) -> Option<(&str, u32)> {
    let frame = |line: &'_ str| -> Option<(usize, u32)> {
        let rest = line.trim().strip_prefix("File \"")?;
        let (path, rest) = rest.split_once("\", line ")?;
        let number = rest.split(',').next()?.trim().parse().ok()?;
        Some((path.len(), number))
    };
    let frames: Vec<(&str, u32)> = text(node, "stack_trace")
        .lines()
        .filter_map(|line| {
            let (length, number) = frame(line)?;
            let start = line.find('"')? + 1;
            Some((&line[start..start + length], number))
        })
        .collect();
    let own = frames
        .iter()
        .rev()
        .find(|(path, _)| !path.starts_with("torch/") && !path.contains("/torch/") && !path.starts_with('<'));
    own.or(frames.last()).copied()
}

/// The last two parts of a path.
fn tail(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    slashes.next();
    slashes.next().map_or(path, |(at, _)| &path[at + 1..])
}

/// The place of a node for messages.
pub(crate) fn site(node: &Node) -> NodeSite {
    let name = node
        .name
        .clone()
        .unwrap_or_else(|| super::importer::output_names(node).first().copied().unwrap_or_default().to_owned());
    NodeSite {
        name: short(&name),
        target: short(node.target.trim_start_matches("torch.ops.")),
        module: short(module(node)),
        line: line(node).map(|(path, number)| short(&format!("{}:{number}", tail(path)))).unwrap_or_default(),
    }
}

/// The place of a node for its operations: its name at the line of the code, then the module.
pub(crate) fn location<'s>(context: Context<'s>, node: &Node, site: &NodeSite, file: &str) -> Location<'s> {
    let place = match line(node) {
        Some((path, number)) => context.file_location(&short(path), number, 0),
        None => context.file_location(file, 0, 0),
    };
    let own = context.name_location(if site.name.is_empty() { "node" } else { &site.name }, place);
    let module = match (site.module.as_str(), site.line.as_str()) {
        ("", "") => return own,
        ("", line) => line.to_owned(),
        (module, "") => module.to_owned(),
        (module, line) => format!("{module} ({line})"),
    };
    context.fused_location(&[own, context.name_location(&module, place)])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_line_of_the_model_is_taken() {
        let json = r#"{"target":"torch.ops.aten.linear.default","inputs":[],"outputs":[{"as_tensor":{"name":"linear_3"}}],"name":"linear_3","metadata":{
            "nn_module_stack":"L__self__,,__main__.M;L__self__layers_0,layers.0,a.b.Layer",
            "stack_trace":"File \"/home/x/site-packages/models/llama/modeling.py\", line 459, in forward\n    y = self.l(x)\n  File \"/usr/lib/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(x)"}}"#;
        let node: Node = serde_json::from_str(json).unwrap();
        let site = site(&node);
        assert_eq!((site.module.as_str(), site.line.as_str()), ("layers.0", "llama/modeling.py:459"));
        assert_eq!(site.to_string(), "node `linear_3` (aten.linear.default, in layers.0, llama/modeling.py:459)");
    }
}
