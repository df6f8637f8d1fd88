//! A recipe's text as a tree with spans, whichever format it is written in.

mod toml;
mod yaml;

use std::ops::Range;

use crate::RecipeError;

/// Deepest nesting of tables and lists that is read; the deepest clause needs six.
pub(crate) const MAX_DEPTH: usize = 32;

/// The languages that recipes are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// <https://toml.io>, version 1.
    Toml,
    /// YAML 1.2 by its core schema, without tags, anchors and aliases.
    Yaml,
}

impl Format {
    /// The format of a file by its ending.
    pub fn of_ending(ending: &str) -> Option<Format> {
        match ending.to_ascii_lowercase().as_str() {
            "toml" => Some(Format::Toml),
            "yaml" | "yml" => Some(Format::Yaml),
            _ => None,
        }
    }
}

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    /// Bytes of the text.
    pub(crate) span: Range<usize>,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    /// `None`: beyond the range of i64.
    Integer(Option<i64>),
    Float(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Table),
    /// What no clause takes, by its name in messages.
    Other(&'static str),
}

/// Entries in the order of the text; no key stands twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table(pub(crate) Vec<Entry>);

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The table at a key; none where there is another value.
    pub(crate) fn table(&self, key: &str) -> Option<&Table> {
        self.get(key).and_then(Node::as_table)
    }
}

impl Node {
    pub(crate) fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Node]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn as_integer(&self) -> Option<i64> {
        if let Value::Integer(number) = &self.value { *number } else { None }
    }

    pub(crate) fn as_size(&self) -> Option<u64> {
        self.as_integer().and_then(|number| u64::try_from(number).ok())
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = &self.value { Some(*value) } else { None }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        match &self.value {
            Value::Float(number) => Some(*number),
            Value::Integer(Some(number)) => Some(*number as f64),
            _ => None,
        }
    }

    /// The value for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{}\"", crate::check::shown(text)),
            Value::Integer(Some(number)) => number.to_string(),
            Value::Integer(None) => "an integer of more than 64 bits".to_owned(),
            // 1e39 rather than forty digits.
            Value::Float(number) if number.abs() >= 1e16 => format!("{number:e}"),
            Value::Float(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            Value::Other(name) => (*name).to_owned(),
        }
    }
}

/// Reads a text.
///
/// # Errors
/// The text is not of its format, by place.
pub(crate) fn parse(text: &str, format: Format) -> Result<Table, RecipeError> {
    match format {
        Format::Toml => toml::parse(text),
        Format::Yaml => yaml::parse(text),
    }
}

/// JSON as a tree without places; nulls are left out. None where it nests too deeply.
pub(crate) fn of_json(value: &serde_json::Value) -> Option<Node> {
    fn node(value: &serde_json::Value, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let content = match value {
            serde_json::Value::Null => Value::Other("null"),
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Value::Integer(Some(number)),
                (None, Some(number)) => Value::Float(number),
                (None, None) => Value::Integer(None),
            },
            serde_json::Value::String(text) => Value::Text(text.clone()),
            serde_json::Value::Array(items) => {
                Value::List(items.iter().map(|item| node(item, depth + 1)).collect::<Option<_>>()?)
            }
            serde_json::Value::Object(entries) => {
                let entries = entries.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                    Some(Entry { key: key.clone(), key_span: 0..0, node: node(value, depth + 1)? })
                });
                Value::Table(Table(entries.collect::<Option<_>>()?))
            }
        };
        Some(Node { value: content, span: 0..0 })
    }
    node(value, 0)
}
