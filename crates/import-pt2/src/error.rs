//! Why an archive cannot be read or imported.

use std::fmt;
use std::path::PathBuf;

use tenon_graph_dialect::SemanticError;
use tenon_ir::IrError;

/// Where a node stands in the exported program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSite {
    /// The node's name in the graph.
    pub name: String,
    /// What it calls, `aten.linear.default`.
    pub target: String,
    /// Path of the module whose `forward` made it; empty for the model itself.
    pub module: String,
    /// The innermost line of the model's code, `modeling_llama.py:459`.
    pub line: String,
}

impl fmt::Display for NodeSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({}", quoted(&self.name), plain(&self.target))?;
        if !self.module.is_empty() {
            write!(f, ", in {}", plain(&self.module))?;
        }
        if !self.line.is_empty() {
            write!(f, ", {}", plain(&self.line))?;
        }
        f.write_str(")")
    }
}

/// A name from a file, fit for a message: quoted, escaped, and cut when it is very long.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", plain(name))
}

pub(crate) fn plain(name: &str) -> String {
    const SHOWN: usize = 160;
    let mut text = String::new();
    for character in name.chars().take(SHOWN) {
        match character {
            // Guards are full of them, and backticks are what quotes.
            '\'' => text.push(character),
            _ => text.extend(character.escape_debug()),
        }
    }
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// An archive that cannot be read or imported.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Pt2Error {
    /// The operating system refused to read the file.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The bytes are no ZIP archive, or a damaged one.
    #[error("this is no PT2 archive, or a damaged one: {reason}")]
    Archive { reason: String },
    /// An entry that is not stored as it is.
    #[error("the entry {} is {how}", quoted(entry))]
    Stored { entry: String, how: &'static str },
    /// An entry that every archive of torch.export has is missing or wrong.
    #[error("{reason}")]
    Layout { reason: String },
    /// A JSON entry that does not follow the schema.
    #[error("the entry {} is not as the schema has it: {reason}", quoted(entry))]
    Json { entry: String, reason: String },
    /// A version of the schema that is not read.
    #[error("the archive has schema version {major}.{minor}; versions {known}.x are read")]
    Schema { major: i64, minor: i64, known: i64 },
    /// A weight that only Python can read.
    #[error("weight {} is stored as a Python pickle (`use_pickle`)", quoted(name))]
    Pickle { name: String },
    /// A weight whose description does not fit its data.
    #[error("weight {}: {reason}", quoted(name))]
    Weight { name: String, reason: String },
    /// An element type or memory layout that Tenon does not have.
    #[error("{owner}: {what} are not supported")]
    Type { owner: String, what: String },
    /// Names that are missing, defined twice, or used before they are defined.
    #[error("{what}")]
    Structure { what: String },
    /// More or deeper than any real model.
    #[error("{what}: more than {limit}")]
    TooMany { what: &'static str, limit: usize },
    /// An operator that no importer handles.
    #[error("{site}: {}", unknown(overload))]
    UnknownOperator {
        site: Box<NodeSite>,
        /// Of an operator that there is, the overload that there is not.
        overload: Option<String>,
    },
    /// An operator of a library of the model's own.
    #[error("{site}: the custom operator {} is bound to no kernel", quoted(&site.target))]
    CustomOperator { site: Box<NodeSite>, stanza: String },
    /// Arguments that the operator does not take.
    #[error("{site}: {reason}")]
    Arguments { site: Box<NodeSite>, reason: String },
    /// A combination of options that cannot be expressed.
    #[error("{site}: {what} is not supported")]
    Option { site: Box<NodeSite>, what: String },
    /// A value that decides a shape and is not known before the model runs.
    #[error("{site}: {what} is decided by values that are not known before the model runs")]
    NotKnown { site: Box<NodeSite>, what: String },
    /// The operation that a node becomes breaks a rule of its dialect.
    #[error("{site}: {source}")]
    Semantic { site: Box<NodeSite>, source: SemanticError },
    /// The operation that a node becomes breaks a rule of the flow dialect.
    #[error("{site}: {source}")]
    Flow { site: Box<NodeSite>, source: tenon_flow_dialect::FlowError },
    /// A symbolic size that cannot be read.
    #[error("{owner}: {} {reason}", quoted(text))]
    Expression { owner: String, text: String, reason: String },
    /// A tensor is read or written where it cannot be known whether it shares memory with one that was written.
    #[error("{site}: {reason}")]
    Alias { site: Box<NodeSite>, reason: String },
    /// Given shapes that the program contradicts.
    #[error("input {}: {reason}", quoted(name))]
    GivenInput { name: String, reason: String },
    /// Sizes outside the range that the program was exported for.
    #[error("dimension {} is {size}; the program was exported for {min} to {max}", quoted(name))]
    Range { name: String, size: u64, min: i64, max: String },
    /// An assertion of the program that does not hold.
    #[error("{owner}: {reason}")]
    Assertion { owner: String, reason: String },
    /// MLIR refused what was built, which no archive is known to lead to.
    #[error("the imported module is refused: {0}")]
    Ir(#[from] IrError),
}

impl Pt2Error {
    /// Stable code, explained in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            Pt2Error::Io { .. } => "E0160",
            Pt2Error::Archive { .. } => "E0161",
            Pt2Error::Stored { .. } => "E0162",
            Pt2Error::Layout { .. } => "E0163",
            Pt2Error::Json { .. } => "E0164",
            Pt2Error::Schema { .. } => "E0165",
            Pt2Error::Pickle { .. } => "E0166",
            Pt2Error::Weight { .. } => "E0167",
            Pt2Error::Type { .. } => "E0168",
            Pt2Error::Structure { .. } => "E0169",
            Pt2Error::TooMany { .. } => "E0170",
            Pt2Error::UnknownOperator { .. } => "E0171",
            Pt2Error::CustomOperator { .. } => "E0172",
            Pt2Error::Arguments { .. } => "E0173",
            Pt2Error::Option { .. } => "E0174",
            Pt2Error::NotKnown { .. } => "E0175",
            Pt2Error::Semantic { .. } => "E0176",
            Pt2Error::Flow { .. } => "E0177",
            Pt2Error::Expression { .. } => "E0178",
            Pt2Error::Alias { .. } => "E0179",
            Pt2Error::GivenInput { .. } => "E0180",
            Pt2Error::Range { .. } => "E0181",
            Pt2Error::Assertion { .. } => "E0182",
            Pt2Error::Ir(source) => source.code(),
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            Pt2Error::Io { .. } => "check the path and its permissions",
            Pt2Error::Archive { .. } => "write it again with `torch.export.save`, or copy it again",
            Pt2Error::Stored { .. } => {
                "write it with `torch.export.save`, which stores entries as they are; do not repack it"
            }
            Pt2Error::Layout { .. } => {
                "give the file that `torch.export.save` writes; files of `torch.save`, `torch.jit.save` and AOTInductor are others"
            }
            Pt2Error::Json { .. } => "write the archive again with `torch.export.save`",
            Pt2Error::Schema { .. } => "export the model with a torch of 2025 or newer, whose archives have schema 8",
            Pt2Error::Pickle { .. } => {
                "replace the tensor subclass by plain tensors before exporting (for torchao: `unwrap_tensor_subclass`)"
            }
            Pt2Error::Weight { .. } => "write the archive again with `torch.export.save`",
            Pt2Error::Type { .. } => "convert such tensors before exporting",
            Pt2Error::Structure { .. } => "write the archive again with `torch.export.save`; do not edit it",
            Pt2Error::TooMany { .. } => "split the model",
            Pt2Error::UnknownOperator { overload: Some(_), .. } => {
                "write the archive again with `torch.export.save` of a torch whose schemas are read (2.15 or older); do not edit it"
            }
            Pt2Error::UnknownOperator { .. } => {
                "docs/aten-operators.md lists those that are supported: export with `run_decompositions()`, which leaves fewer; of a name that torch does not have, the archive is damaged: write it again with `torch.export.save`"
            }
            Pt2Error::CustomOperator { stanza, .. } => {
                return Some(format!("bind it in the recipe:\n{stanza}"));
            }
            Pt2Error::Arguments { .. } => "write the archive again with `torch.export.save`; do not edit it",
            Pt2Error::Option { .. } => "export the model without the option",
            Pt2Error::NotKnown { .. } => {
                "compute the value from shapes or constants, or keep that part outside the model"
            }
            Pt2Error::Semantic { source, .. } => return source.help(),
            Pt2Error::Flow { source, .. } => return source.help(),
            Pt2Error::Expression { .. } => {
                "export the model with sizes that follow from the shapes of its inputs; if they do, the archive is damaged: write it again with `torch.export.save`"
            }
            Pt2Error::Alias { .. } => "write to a clone of the tensor instead, or export with `run_decompositions()`",
            Pt2Error::GivenInput { .. } => "give the input as the program declares it",
            Pt2Error::Range { .. } => {
                "take sizes inside the range, or export again with a wider one in `dynamic_shapes`"
            }
            Pt2Error::Assertion { .. } => "give inputs that the program was exported for, or export it again",
            Pt2Error::Ir(source) => return source.help(),
        };
        Some(text.to_owned())
    }
}

fn unknown(overload: &Option<String>) -> String {
    match overload {
        None => "the operator is not supported".to_owned(),
        Some(overload) => format!("the overload {} of the operator is not known", quoted(overload)),
    }
}

/// An error of one node, before it is said which.
#[derive(Debug)]
pub(crate) enum OpError {
    Arguments(String),
    Option(String),
    NotKnown(String),
    Alias(String),
    Assertion(String),
    Semantic(SemanticError),
    Flow(tenon_flow_dialect::FlowError),
    /// One that names its own node.
    Inner(Box<Pt2Error>),
}

impl OpError {
    pub(crate) fn at(self, site: &NodeSite) -> Pt2Error {
        let owner = || Box::new(site.clone());
        match self {
            OpError::Arguments(reason) => Pt2Error::Arguments { site: owner(), reason },
            OpError::Option(what) => Pt2Error::Option { site: owner(), what },
            OpError::NotKnown(what) => Pt2Error::NotKnown { site: owner(), what },
            OpError::Alias(reason) => Pt2Error::Alias { site: owner(), reason },
            OpError::Assertion(reason) => Pt2Error::Assertion { owner: site.to_string(), reason },
            OpError::Semantic(source) => Pt2Error::Semantic { site: owner(), source },
            OpError::Flow(source) => Pt2Error::Flow { site: owner(), source },
            OpError::Inner(error) => *error,
        }
    }
}

impl From<SemanticError> for OpError {
    fn from(error: SemanticError) -> Self {
        OpError::Semantic(error)
    }
}

impl From<tenon_flow_dialect::FlowError> for OpError {
    fn from(error: tenon_flow_dialect::FlowError) -> Self {
        OpError::Flow(error)
    }
}

impl From<Pt2Error> for OpError {
    fn from(error: Pt2Error) -> Self {
        OpError::Inner(Box::new(error))
    }
}
