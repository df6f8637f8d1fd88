//! Names of outputs, from the specification of the tree that the program returns.

use serde_json::Value;

use crate::program::Program;

/// Deepest nesting that is followed.
const MAX_DEPTH: usize = 32;

/// For each leaf in order its path, `logits` or `past.0.key`; empty where the tree has no names.
pub(crate) fn paths(program: &Program) -> Vec<String> {
    let calls = &program.exported.graph_module.module_call_graph;
    let signature = calls.iter().find(|call| call.fqn.is_empty()).and_then(|call| call.signature.as_ref());
    let spec = signature.and_then(|signature| serde_json::from_str::<Value>(&signature.out_spec).ok());
    let mut found = Vec::new();
    if let Some(tree) = spec.as_ref().and_then(|spec| spec.get(1)) {
        leaves(tree, "", false, &mut found, 0);
    }
    found
}

/// `named`: some part of the path is a key.
fn leaves(tree: &Value, path: &str, named: bool, found: &mut Vec<String>, depth: usize) {
    let children = tree.get("children_spec").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let kind = tree.get("type").and_then(Value::as_str);
    if kind.is_none() || depth > MAX_DEPTH {
        found.push(if named { path.to_owned() } else { String::new() });
        return;
    }
    // Keys stand in the context: of a dictionary as a list, of a class of outputs as a list or within one.
    let context = tree.get("context").and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let keys = context.as_ref().and_then(|context| keys(context, children.len()));
    for (index, child) in children.iter().enumerate() {
        let key = keys.as_ref().and_then(|keys| keys.get(index)).cloned();
        let part = key.clone().unwrap_or_else(|| index.to_string());
        let path = if path.is_empty() { part } else { format!("{path}.{part}") };
        leaves(child, &path, named || key.is_some(), found, depth + 1);
    }
}

fn keys(context: &Value, count: usize) -> Option<Vec<String>> {
    let list = context.as_array()?;
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match list.iter().map(text).collect::<Option<Vec<_>>>() {
        Some(keys) if keys.len() == count && count > 0 => Some(keys),
        _ => list.iter().find_map(|inner| keys(inner, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tree: &str) -> Vec<String> {
        let mut found = Vec::new();
        leaves(&serde_json::from_str(tree).unwrap_or_default(), "", false, &mut found, 0);
        found
    }

    #[test]
    fn keys_of_dictionaries_are_names() {
        let leaf = r#"{"type":null,"context":null,"children_spec":[]}"#;
        assert_eq!(of(leaf), [""]);
        let tuple = format!(r#"{{"type":"builtins.tuple","context":"null","children_spec":[{leaf},{leaf}]}}"#);
        assert_eq!(of(&tuple), ["", ""]);
        let dict =
            format!(r#"{{"type":"builtins.dict","context":"[\"logits\",\"past\"]","children_spec":[{leaf},{tuple}]}}"#);
        assert_eq!(of(&dict), ["logits", "past.0", "past.1"]);
    }
}
