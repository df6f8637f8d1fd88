//! A tree held against the table of keys: unknown keys, values of a wrong type, clauses that are not enforced.

use std::ops::Range;

use tenon_tensor::DType;

use crate::RecipeError;
use crate::RecipeErrorKind::{UnknownKey, Unsupported, Value as WrongValue, Version};
use crate::document::{Node, Table, Value};
use crate::schema::{Key, Kind, MAX_SIZE, Status, UNITS, Word};

/// Collects faults of a tree.
pub(crate) struct Checker {
    pub(crate) errors: Vec<RecipeError>,
}

impl Checker {
    /// Holds a table against its keys.
    pub(crate) fn table(&mut self, table: &Table, keys: &[Key], path: &str) {
        for entry in &table.0 {
            let full = join(path, &entry.key);
            match keys.iter().find(|key| key.name == entry.key) {
                None => self.unknown(entry.key_span.clone(), &entry.key, &full, keys),
                Some(Key { status: Status::Refused(reason), kind, .. }) => {
                    self.unsupported(entry.key_span.clone(), &format!("clause `{full}`"), reason);
                    // What is wrong in it is said too: whoever takes it out may put it back later.
                    self.value(&entry.node, kind, &full);
                }
                Some(key) => self.value(&entry.node, &key.kind, &full),
            }
        }
    }

    fn unknown(&mut self, span: Range<usize>, name: &str, full: &str, keys: &[Key]) {
        let full = shown(full);
        let nearest = nearest(name, keys.iter().map(|key| key.name));
        let names: Vec<_> = keys.iter().map(|key| key.name).collect();
        let help = match nearest {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("keys here are {}", names.join(", ")),
        };
        self.errors.push(RecipeError::new(UnknownKey, Some(span), format!("unknown key `{full}`")).help_with(help));
    }

    pub(crate) fn unsupported(&mut self, span: Range<usize>, what: &str, reason: &str) {
        let message = format!("{what} is not supported in this version: {reason}");
        let help = "remove it: a clause that nothing enforces would promise nothing";
        self.errors.push(RecipeError::new(Unsupported, Some(span), message).help_with(help));
    }

    pub(crate) fn wrong(&mut self, value: &Node, path: &str, expected: &str) {
        let message = format!("`{path}` must be {expected}, not {}", value.describe());
        self.errors.push(
            RecipeError::new(WrongValue, Some(value.span.clone()), message).help_with(format!("write {expected}")),
        );
    }

    /// Holds a value against its kind.
    fn value(&mut self, value: &Node, kind: &Kind, path: &str) {
        let fits = |fits: bool, expected: &str, checker: &mut Self| {
            if !fits {
                checker.wrong(value, path, expected);
            }
        };
        match kind {
            Kind::Table(keys) => match value.as_table() {
                Some(table) => self.table(table, keys, path),
                None => self.wrong(value, path, "a table"),
            },
            Kind::Named(below) => match value.as_table() {
                Some(table) => {
                    for entry in &table.0 {
                        if !is_name(&entry.key) {
                            let what = if entry.key.is_empty() { "is empty" } else { "has a control character" };
                            let error = RecipeError::new(
                                WrongValue,
                                Some(entry.key_span.clone()),
                                format!("a name in `{path}` {what}"),
                            );
                            self.errors.push(error.help_with("write a name that can be seen"));
                        }
                        self.value(&entry.node, below, &join(path, &entry.key));
                    }
                }
                None => self.wrong(value, path, "a table"),
            },
            Kind::Choice(words) => self.choice(value, words, path),
            Kind::Text => fits(
                value.as_text().is_some_and(is_name),
                "a text that is not empty and has no control characters",
                self,
            ),
            Kind::Sha256 => fits(value.as_text().is_some_and(is_sha256), "64 hexadecimal digits in lower case", self),
            Kind::Bool => fits(value.as_bool().is_some(), "true or false", self),
            Kind::Version => {
                if value.as_integer() != Some(1) {
                    let message = "this version of Tenon reads recipes of schema version 1";
                    let error = RecipeError::new(Version, Some(value.span.clone()), message);
                    self.errors.push(error.help_with("write `recipe = 1`"));
                }
            }
            Kind::Integer(least, most) => {
                let inside = value.as_size().is_some_and(|number| (*least..=*most).contains(&number));
                fits(inside, &format!("an integer from {least} to {most}"), self);
            }
            Kind::Number(least, most) => {
                let inside =
                    value.as_number().is_some_and(|number| number.is_finite() && (*least..=*most).contains(&number));
                fits(inside, &range_of_numbers(*least, *most), self);
            }
            Kind::Scalar => {
                let number = value.as_number().is_some_and(f64::is_finite);
                fits(number || value.as_bool().is_some(), "a finite number, true or false", self);
            }
            Kind::Bytes => fits(bytes(value).is_some(), "bytes as an integer or a text like \"512MiB\"", self),
            Kind::DType => {
                let names: Vec<_> = DType::all().map(DType::name).collect();
                let known = value.as_text().is_some_and(|word| word.parse::<DType>().is_ok());
                fits(known, &format!("one of {}", names.join(", ")), self);
            }
            Kind::Sizes => self.sizes(value, path),
            Kind::Dims => self.dims(value, path),
            Kind::Texts => self.texts(value, path, "a list of different texts"),
            Kind::Sequences => self.sequences(value, path),
        }
    }

    fn choice(&mut self, value: &Node, words: &[Word], path: &str) {
        let found = value.as_text().and_then(|text| words.iter().find(|word| word.word == text));
        match found {
            Some(Word { status: Status::Enforced, .. }) => {}
            Some(Word { word, status: Status::Refused(reason) }) => {
                let help = enforced(words).join(" or ");
                let message = format!("`{path} = \"{word}\"` is not supported in this version: {reason}");
                let error = RecipeError::new(Unsupported, Some(value.span.clone()), message);
                self.errors.push(error.help_with(format!("remove it, or write {help}")));
            }
            None => {
                let expected = enforced(words);
                let expected =
                    if expected.len() == 1 { expected[0].clone() } else { format!("one of {}", expected.join(", ")) };
                let message = format!("`{path}` must be {expected}, not {}", value.describe());
                let known = words.iter().filter(|word| word.status == Status::Enforced).map(|word| word.word);
                let near = value.as_text().and_then(|text| nearest(text, known));
                let help = near.map_or_else(|| format!("write {expected}"), |near| format!("did you mean \"{near}\"?"));
                self.errors.push(RecipeError::new(WrongValue, Some(value.span.clone()), message).help_with(help));
            }
        }
    }

    fn sizes(&mut self, value: &Node, path: &str) {
        let expected = "a list of positive integers";
        let Some(list) = value.as_list().filter(|list| !list.is_empty()) else {
            return self.wrong(value, path, expected);
        };
        if let Some(entry) =
            list.iter().find(|entry| !entry.as_size().is_some_and(|size| (1..=MAX_SIZE).contains(&size)))
        {
            self.wrong(entry, path, expected);
        }
    }

    fn dims(&mut self, value: &Node, path: &str) {
        let expected = "a list of names and sizes";
        let Some(list) = value.as_list() else { return self.wrong(value, path, expected) };
        for entry in list {
            let is_entry = match &entry.value {
                Value::Text(name) => is_name(name),
                _ => entry.as_size().is_some_and(|size| size <= MAX_SIZE),
            };
            if !is_entry {
                return self.wrong(entry, path, expected);
            }
        }
    }

    fn texts(&mut self, value: &Node, path: &str, expected: &str) {
        let Some(list) = value.as_list() else { return self.wrong(value, path, expected) };
        let mut seen: Vec<&str> = Vec::new();
        for entry in list {
            match entry.as_text() {
                Some(text) if is_name(text) && !seen.contains(&text) => seen.push(text),
                _ => return self.wrong(entry, path, expected),
            }
        }
    }

    fn sequences(&mut self, value: &Node, path: &str) {
        let expected = "a list of lists of names, as in [[\"conv\", \"relu\"]]";
        let Some(list) = value.as_list() else { return self.wrong(value, path, expected) };
        for entry in list {
            match entry.as_list() {
                Some([]) | None => return self.wrong(entry, path, expected),
                Some(names) => {
                    if let Some(name) = names.iter().find(|name| !name.as_text().is_some_and(is_name)) {
                        return self.wrong(name, path, expected);
                    }
                }
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn enforced(words: &[Word]) -> Vec<String> {
    let enforced = words.iter().filter(|word| word.status == Status::Enforced);
    enforced.map(|word| format!("\"{}\"", word.word)).collect()
}

fn range_of_numbers(least: f64, most: f64) -> String {
    match (least > -f64::MAX, most < f64::MAX) {
        (true, true) => format!("a number from {least} to {most}"),
        (true, false) if least == 0.0 => "a number that is not negative".to_owned(),
        _ => "a finite number".to_owned(),
    }
}

/// Whether a text may name something: it is not empty, and all of it can be seen.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// A name for messages: without control characters, and not longer than can be read.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 100;
    let mut shown: String = name.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if name.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// The candidate most similar to a name, if one is similar at all.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let (distance, known) = candidates.map(|known| (strsim::osa_distance(name, known), known)).min()?;
    // A third of the longer name, so that a short word is not proposed for any other.
    let length = name.chars().count().max(known.chars().count());
    (distance < length && distance <= length.div_ceil(3).max(1)).then_some(known)
}

/// A number of bytes: an integer, or digits and a unit.
pub(crate) fn bytes(value: &Node) -> Option<u64> {
    if let Some(size) = value.as_size() {
        return Some(size);
    }
    let text = value.as_text()?;
    let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    let number = number.strip_suffix(' ').unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(*factor)
}
