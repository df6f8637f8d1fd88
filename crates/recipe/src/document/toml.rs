//! TOML to a tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Node, Table, Value};
use crate::{RecipeError, RecipeErrorKind};

pub(super) fn parse(text: &str) -> Result<Table, RecipeError> {
    let table = DeTable::parse(text).map_err(|error| {
        RecipeError::new(RecipeErrorKind::Syntax, error.span(), error.message().to_owned())
            .help_with("correct the TOML; https://toml.io has the syntax")
    })?;
    Ok(read_table(table.get_ref()))
}

fn read_table(table: &DeTable<'_>) -> Table {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry { key: key.get_ref().to_string(), key_span: key.span(), node: read(value) })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Table(entries)
}

fn read(value: &Spanned<DeValue<'_>>) -> Node {
    let content = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other("a float"), Value::Float),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(list) => Value::List(list.iter().map(read).collect()),
        DeValue::Table(table) => Value::Table(read_table(table)),
    };
    Node { value: content, span: value.span() }
}
