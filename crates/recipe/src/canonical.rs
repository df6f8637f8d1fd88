//! The canonical form of a recipe, its hash, and the difference of two.
//!
//! The form is JSON with sorted keys, no spaces and every default written out; it is what the hash is over and what a bundle stores.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{DimEntry, PadValue, Recipe};

impl Recipe {
    /// The recipe as JSON with sorted keys, no spaces and every default written out.
    pub fn canonical_json(&self) -> String {
        let mut text = String::new();
        write(&self.form(), &mut text);
        text
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        Sha256::digest(self.canonical_json().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The clauses that stages after `contract` go by, beside the shape space and the numeric promise: those of `compile`, `hardware` and
    /// `semantic.control_flow` that are not the default, in the shape of [`form`](Self::form). Empty where all are.
    pub fn stage_clauses(&self) -> Value {
        let mut form = changes(&self.form(), &Recipe::default().form()).unwrap_or_else(|| json!({}));
        if let Some(root) = form.as_object_mut() {
            root.retain(|key, _| matches!(key.as_str(), "semantic" | "compile" | "hardware"));
            if let Some(semantic) = root.get_mut("semantic").and_then(Value::as_object_mut) {
                semantic.retain(|key, _| key == "control_flow");
                if semantic.is_empty() {
                    root.remove("semantic");
                }
            }
        }
        form
    }

    /// What two recipes say differently, in order of the clauses' names: the clause, and what it is here and there. A clause that only one
    /// of them has is `null` in the other.
    pub fn differences(&self, other: &Recipe) -> Vec<Difference> {
        let (mut here, mut there) = (BTreeMap::new(), BTreeMap::new());
        leaves("", &self.form(), &mut here);
        leaves("", &other.form(), &mut there);
        let absent = || "null".to_owned();
        let clauses: std::collections::BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        clauses
            .into_iter()
            .filter(|clause| here.get(*clause) != there.get(*clause))
            .map(|clause| Difference {
                clause: clause.clone(),
                before: here.get(clause).cloned().unwrap_or_else(absent),
                after: there.get(clause).cloned().unwrap_or_else(absent),
            })
            .collect()
    }

    /// The whole recipe as JSON, every default written out.
    pub fn form(&self) -> Value {
        let flow = &self.control_flow;
        let (compile, hardware) = (&self.compile, &self.hardware);
        json!({
            "recipe": 1,
            "name": self.name,
            "semantic": {
                "dims": map(&self.dims, |clause| json!({
                    "allowed": clause.allowed,
                    "between": if clause.pad { "pad" } else { "reject" },
                    "beyond": "reject",
                })),
                "combine": self.combine.name(),
                "max_graphs": self.max_graphs,
                "inputs": map(&self.inputs, |clause| json!({
                    "dims": clause.dims.as_ref().map(|dims| dims.iter().map(|entry| match entry {
                        DimEntry::Fixed(size) => json!(size),
                        DimEntry::Named(name) => json!(name),
                    }).collect::<Vec<_>>()),
                    "dtype": clause.dtype.map(tenon_tensor::DType::name),
                    "pad": clause.pad.map(|pad| match pad {
                        PadValue::Integer(value) => json!(value),
                        PadValue::Float(value) => json!(value),
                        PadValue::Bool(value) => json!(value),
                    }),
                })),
                "numerics": {
                    "rewrites": self.numerics.rewrites.name(),
                    "accumulate": self.numerics.accumulate.name(),
                    "rounding": "nearest",
                    "tolerance": {"abs": self.numerics.tolerance.abs, "rel": self.numerics.tolerance.rel},
                },
                "control_flow": {"branches": flow.branches.name(), "unroll": map(&flow.unroll, |count| json!(count))},
            },
            "compile": {
                "fusion": {"require": compile.require, "forbid": compile.forbid, "disable": compile.disable},
                "layout": {"conv": compile.conv_layout.name()},
                "quantization": {"fake_quant": compile.fake_quant.name()},
                "attention": {"implementation": compile.attention.name()},
                "control_flow": {
                    "policy": flow.policy.map(crate::ControlFlowPolicy::name),
                    "inline_if_depth": flow.inline_if_depth,
                    "host_dispatch": if flow.host_dispatch { "allow" } else { "forbid" },
                },
            },
            "hardware": {
                "targets": self.targets,
                "activation_budget": hardware.activation_budget,
                "over_budget": hardware.over_budget.name(),
                "pinned_inputs": hardware.pinned_inputs,
                "collectives": hardware.collectives.name(),
                "expect": map(&hardware.expect, |expect| json!({
                    "instructions": map(&expect.instructions, |list| json!(list)),
                    "forbidden_instructions": map(&expect.forbidden_instructions, |list| json!(list)),
                    "spills": expect.spills,
                    "min_occupancy": expect.min_occupancy,
                })),
                "kernels": map(&hardware.kernels, |lock| json!({"version": lock.version, "sha256": lock.sha256})),
            },
            "custom_ops": map(&self.custom_ops, |op| json!({
                "version": op.version, "shape": op.shape, "library": op.library, "sha256": op.sha256,
            })),
            "feedback": map(&self.feedback, |metric| json!({
                "warn_below": metric.warn_below,
                "error_below": metric.error_below,
                "warn_above": metric.warn_above,
                "error_above": metric.error_above,
                "try": metric.attempts,
            })),
        })
    }
}

/// A clause that two recipes have differently.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The clause's path: `semantic.numerics.rewrites`.
    pub clause: String,
    /// What the first recipe says, as JSON.
    pub before: String,
    /// What the second recipe says, as JSON.
    pub after: String,
}

/// What a form has differently from another: entries that are not the same, without nulls. None where there are none.
fn changes(form: &Value, other: &Value) -> Option<Value> {
    let empty = Value::Object(serde_json::Map::new());
    match form {
        Value::Null => None,
        Value::Object(entries) => {
            let changed: serde_json::Map<_, _> = entries
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), changes(value, other.get(key).unwrap_or(&empty))?)))
                .collect();
            (!changed.is_empty()).then_some(Value::Object(changed))
        }
        value => (value != other).then(|| value.clone()),
    }
}

fn map<T>(entries: &IndexMap<String, T>, form: impl Fn(&T) -> Value) -> Value {
    Value::Object(entries.iter().map(|(name, entry)| (name.clone(), form(entry))).collect())
}

/// Sorts keys itself, so that the form does not depend on how `serde_json` keeps maps.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(entries) => {
            let sorted: BTreeMap<_, _> = entries.iter().collect();
            text.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Scalars and lists by path.
fn leaves(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let key = if key.contains('.') { format!("\"{key}\"") } else { key.clone() };
                leaves(&if path.is_empty() { key } else { format!("{path}.{key}") }, value, found);
            }
        }
        Value::Null => {}
        other => {
            let mut text = String::new();
            write(other, &mut text);
            found.insert(path.to_owned(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_of_the_default() {
        assert_eq!(
            Recipe::default().canonical_json(),
            concat!(
                r#"{"compile":{"attention":{"implementation":"auto"},"control_flow":{"host_dispatch":"forbid","inline_if_depth":2,"policy":null},"#,
                r#""fusion":{"disable":[],"forbid":[],"require":[]},"layout":{"conv":"auto"},"quantization":{"fake_quant":"keep"}},"#,
                r#""custom_ops":{},"feedback":{},"hardware":{"activation_budget":null,"collectives":"none","expect":{},"kernels":{},"#,
                r#""over_budget":"error","pinned_inputs":false,"targets":[]},"name":"default","recipe":1,"semantic":{"combine":"product","#,
                r#""control_flow":{"branches":"all","unroll":{}},"dims":{},"inputs":{},"max_graphs":1024,"numerics":{"accumulate":"f32","#,
                r#""rewrites":"reassociates","rounding":"nearest","tolerance":{"abs":0.0001,"rel":0.001}}}}"#
            )
        );
        assert_eq!(Recipe::default().hash().len(), 64);
    }
}
