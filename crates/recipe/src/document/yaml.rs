//! YAML to a tree, from the events of the parser.
//!
//! Of YAML 1.2 a recipe is one document of mappings, sequences and scalars by the core schema. Tags, anchors and aliases are refused: a clause
//! says what it says where it stands, and no text can grow when it is read.

use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::{Entry, MAX_DEPTH, Node, Table, Value};
use crate::{RecipeError, RecipeErrorKind};

pub(super) fn parse(text: &str) -> Result<Table, RecipeError> {
    let mut reader = Reader { places: Places::of(text), open: Vec::new(), root: None };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => reader.event(event, &span)?,
            Err(error) => {
                let at = reader.places.byte(error.marker());
                return Err(wrong(at..at, error.info()));
            }
        }
    }
    match reader.root {
        None => Ok(Table::default()),
        Some(Node { value: Value::Table(table), .. }) => Ok(table),
        // An empty document is a scalar without text.
        Some(Node { value: Value::Other("null"), .. }) => Ok(Table::default()),
        Some(node) => Err(wrong(node.span.clone(), &format!("a recipe is a mapping, not {}", node.describe()))),
    }
}

fn wrong(span: Range<usize>, message: &str) -> RecipeError {
    RecipeError::new(RecipeErrorKind::Syntax, Some(span), message.to_owned())
        .help_with("correct the YAML; https://yaml.org/spec/1.2.2 has the syntax")
}

/// Where each character begins: the parser counts characters, spans count bytes.
struct Places {
    bytes: Vec<usize>,
    length: usize,
}

impl Places {
    fn of(text: &str) -> Self {
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(place, _)| place).collect() };
        Places { bytes, length: text.len() }
    }

    fn byte(&self, marker: &Marker) -> usize {
        let index = marker.index();
        if self.bytes.is_empty() {
            index.min(self.length)
        } else {
            self.bytes.get(index).copied().unwrap_or(self.length)
        }
    }

    fn range(&self, span: &Span) -> Range<usize> {
        let start = self.byte(&span.start);
        start..self.byte(&span.end).max(start)
    }
}

/// A collection that has begun.
enum Open {
    List { start: usize, items: Vec<Node> },
    Table { start: usize, entries: Vec<Entry>, key: Option<(String, Range<usize>)> },
}

struct Reader {
    places: Places,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Reader {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), RecipeError> {
        let range = self.places.range(span);
        match event {
            Event::Alias(_) => Err(wrong(range, "aliases are not part of a recipe; write the value out")),
            Event::Scalar(_, _, anchor, ref tag) if anchor > 0 || tag.is_some() => Err(marked(range)),
            Event::SequenceStart(anchor, ref tag) | Event::MappingStart(anchor, ref tag)
                if anchor > 0 || tag.is_some() =>
            {
                Err(marked(range))
            }
            Event::Scalar(text, style, ..) => self.scalar(&text, style, range),
            Event::SequenceStart(..) => self.begin(Open::List { start: range.start, items: Vec::new() }, range),
            Event::MappingStart(..) => {
                self.begin(Open::Table { start: range.start, entries: Vec::new(), key: None }, range)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let (start, value) = match open {
                    Open::List { start, items } => (start, Value::List(items)),
                    Open::Table { start, entries, .. } => (start, Value::Table(Table(entries))),
                };
                // The end of a block is only seen at what follows it.
                let end = last_end(&value).unwrap_or(range.end).max(start);
                let end = if range.end > range.start { range.end } else { end };
                self.place(Node { value, span: start..end.max(start) })
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn begin(&mut self, open: Open, range: Range<usize>) -> Result<(), RecipeError> {
        if matches!(self.open.last(), Some(Open::Table { key: None, .. })) {
            return Err(wrong(range, "a key is a text"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(wrong(range, "nested too deeply for a recipe"));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, range: Range<usize>) -> Result<(), RecipeError> {
        if let Some(Open::Table { entries, key: key @ None, .. }) = self.open.last_mut() {
            if entries.iter().any(|entry| entry.key == text) {
                return Err(wrong(range, &format!("the key `{text}` stands twice")));
            }
            *key = Some((text.to_owned(), range));
            return Ok(());
        }
        let value = if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text.to_owned()) };
        self.place(Node { value, span: range })
    }

    fn place(&mut self, node: Node) -> Result<(), RecipeError> {
        match self.open.last_mut() {
            None if self.root.is_some() => Err(wrong(node.span, "a recipe is one document")),
            None => {
                self.root = Some(node);
                Ok(())
            }
            Some(Open::List { items, .. }) => {
                items.push(node);
                Ok(())
            }
            Some(Open::Table { entries, key, .. }) => {
                if let Some((key, key_span)) = key.take() {
                    entries.push(Entry { key, key_span, node });
                }
                Ok(())
            }
        }
    }
}

fn marked(range: Range<usize>) -> RecipeError {
    wrong(range, "tags and anchors are not part of a recipe")
}

fn last_end(value: &Value) -> Option<usize> {
    match value {
        Value::List(items) => items.last().map(|item| item.span.end),
        Value::Table(table) => table.0.last().map(|entry| entry.node.span.end),
        _ => None,
    }
}

/// A plain scalar by the core schema of YAML 1.2 (section 10.3.2).
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Other("null"),
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits(unsigned) {
        return Value::Integer(text.parse().ok());
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix)
            && !rest.is_empty()
            && rest.chars().all(|character| character.is_digit(radix))
        {
            return Value::Integer(i64::from_str_radix(rest, radix).ok());
        }
    }
    let is_float = unsigned.starts_with(|character: char| character.is_ascii_digit() || character == '.')
        && unsigned.bytes().any(|byte| byte.is_ascii_digit())
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    match text.parse::<f64>() {
        Ok(number) if is_float => Value::Float(number),
        _ => Value::Text(text.to_owned()),
    }
}
