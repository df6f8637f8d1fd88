//! The tree of all keys that a recipe may have: one table, which reading, the JSON Schema and the list of what is enforced follow.

mod json;
mod table;

pub(crate) use table::ROOT;

/// A key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether this version enforces it.
    pub(crate) status: Status,
    /// What it says, for editors.
    pub(crate) about: &'static str,
}

/// Whether a clause or a word of one is enforced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It is.
    Enforced,
    /// It is not, and so refused: what is missing.
    Refused(&'static str),
}

/// A word of a clause that takes one of several.
pub(crate) struct Word {
    pub(crate) word: &'static str,
    pub(crate) status: Status,
}

/// What may stand at a key.
pub(crate) enum Kind {
    /// A table of given keys.
    Table(&'static [Key]),
    /// A table whose keys are names of the user's, each with the same content.
    Named(&'static Kind),
    /// One of several words.
    Choice(&'static [Word]),
    /// A text that is not empty.
    Text,
    /// 64 hexadecimal digits.
    Sha256,
    /// true or false.
    Bool,
    /// The version of the schema.
    Version,
    /// An integer, from the first to the second.
    Integer(u64, u64),
    /// A finite number, from the first to the second.
    Number(f64, f64),
    /// A number or a truth value.
    Scalar,
    /// Bytes: an integer, or a text like `512MiB`.
    Bytes,
    /// An element type.
    DType,
    /// A list of different positive integers.
    Sizes,
    /// A list of names and sizes.
    Dims,
    /// A list of different texts, none empty.
    Texts,
    /// A list of lists of different texts, none empty.
    Sequences,
}

/// Largest size of a dimension.
pub(crate) const MAX_SIZE: u64 = 1 << 40;

/// Units of bytes, largest first.
pub(crate) const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// The path of each clause that this version refuses, with what is missing; `NAME` stands for a name of the user's.
pub fn refused_clauses() -> Vec<(String, &'static str)> {
    fn walk(path: &str, kind: &Kind, found: &mut Vec<(String, &'static str)>) {
        match kind {
            Kind::Table(keys) => {
                for key in *keys {
                    let full = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
                    match key.status {
                        Status::Refused(reason) => found.push((full, reason)),
                        Status::Enforced => walk(&full, &key.kind, found),
                    }
                }
            }
            Kind::Named(below) => walk(&format!("{path}.NAME"), below, found),
            Kind::Choice(words) => {
                for word in *words {
                    if let Status::Refused(reason) = word.status {
                        found.push((format!("{path} = \"{}\"", word.word), reason));
                    }
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk("", &ROOT, &mut found);
    found
}
