//! Why a model cannot be read.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tenon_graph_dialect::SemanticError;
use tenon_ir::IrError;
use tenon_tensor::TensorError;

/// Where a node stands in the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSite {
    /// Which graph holds the node: empty for the main graph, else for example "then_branch of node `a` (If, number 3)".
    pub graph: Arc<str>,
    /// Position in that graph's list of nodes, as stored in the file.
    pub index: usize,
    /// The node's name, often empty.
    pub name: String,
    /// Operator.
    pub op_type: String,
    /// Operator domain; empty for ONNX's own.
    pub domain: String,
}

impl fmt::Display for NodeSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("node")?;
        if !self.name.is_empty() {
            write!(f, " {}", quoted(&self.name))?;
        }
        f.write_str(" (")?;
        if !self.domain.is_empty() {
            write!(f, "{}::", plain(&self.domain))?;
        }
        write!(f, "{}, number {}", plain(&self.op_type), self.index)?;
        if !self.graph.is_empty() {
            write!(f, ", in {}", self.graph)?;
        }
        f.write_str(")")
    }
}

/// A name from a file, fit for a message: quoted, escaped, and cut when it is very long.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", plain(name))
}

fn plain(name: &str) -> String {
    const SHOWN: usize = 120;
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// A model, or a tensor file, that cannot be read.
///
/// `owner` says whose data is meant: an initializer, an attribute of a node, a file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ImportError {
    /// The operating system refused to read a file.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The bytes are no protobuf message of ONNX.
    #[error("this is no ONNX file, or a damaged one: {reason}")]
    Decode { reason: String },
    /// The message decodes but holds no graph.
    #[error("the file holds no graph")]
    NoGraph,
    /// The file format's version is missing or unknown.
    #[error("the model's IR version is {found}; versions {oldest} to {newest} are known")]
    IrVersion { found: i64, oldest: i64, newest: i64 },
    /// An operator set is missing, unknown, or given twice.
    #[error("{reason}")]
    Opset { reason: String },
    /// An element type that no tensor has.
    #[error("{owner}: elements of type {found} are not supported")]
    ElementType { owner: String, found: String },
    /// Dimensions that no tensor has.
    #[error("{owner}: the dimensions {dims:?} are negative or too large")]
    Dimensions { owner: String, dims: Vec<i64> },
    /// The data is not what type and dimensions say.
    #[error("{owner}: {reason}")]
    TensorData { owner: String, reason: String },
    /// External data outside the model's folder.
    #[error("{owner}: its external data is at {}, {reason}", quoted(location))]
    ExternalLocation { owner: String, location: String, reason: String },
    /// External data that does not exist or ends early.
    #[error("{owner}: its external data in {} {reason}", quoted(location))]
    ExternalData { owner: String, location: String, reason: String },
    /// A name that must be present is empty.
    #[error("{what} has no name")]
    EmptyName { what: String },
    /// A name is defined twice in one graph.
    #[error("{what} defines {}, which is defined already", quoted(name))]
    Duplicate { what: String, name: String },
    /// A value that nothing defines.
    #[error("{what} uses {}, which nothing defines", quoted(name))]
    Undefined { what: String, name: String },
    /// Nodes that wait for each other.
    #[error("the graph has a cycle: {}", cycle.join(" needs "))]
    Cycle { cycle: Vec<String> },
    /// Subgraphs or functions nested deeper than the limit.
    #[error("{what} is nested more than {limit} deep")]
    TooDeep { what: String, limit: usize },
    /// An attribute that contradicts itself.
    #[error("{site}: attribute {}: {reason}", quoted(name))]
    Attribute { site: Box<NodeSite>, name: String, reason: String },
    /// An attribute is not of the type that the operator asks for, or is missing.
    #[error("{site}: attribute {} must be {expected}, but {found}", quoted(name))]
    AttributeType { site: Box<NodeSite>, name: String, expected: &'static str, found: String },
    /// An attribute that the operator of this version does not have.
    #[error("{site}: the operator has no attribute {}", quoted(name))]
    UnknownAttribute { site: Box<NodeSite>, name: String },
    /// A value that is no tensor, where only a tensor will do.
    #[error("the value {} is {found}, not a tensor", quoted(name))]
    ValueType { name: String, found: String },
    /// Part of the format that is not read.
    #[error("{what} is not supported")]
    Unsupported { what: String },
    /// A model-local function that cannot be inlined.
    #[error("function {}: {reason}", quoted(function))]
    Function { function: String, reason: String },
    /// More parts than any real model has.
    #[error("{what}: more than {limit}")]
    TooMany { what: String, limit: usize },
    /// A node of a domain whose operator set the model does not import.
    #[error("{site}: the model imports no operator set for the domain {}", quoted(&site.domain))]
    NoOpset { site: Box<NodeSite> },
    /// An operator that no importer handles.
    #[error("{site}: the operator is not supported")]
    UnknownOperator { site: Box<NodeSite> },
    /// An operator that is no function of numeric tensors at inference.
    #[error("{site}: the operator is none that Tenon compiles: {reason}")]
    OutOfScope { site: Box<NodeSite>, reason: &'static str },
    /// A version of an operator that no importer handles.
    #[error("{site}: the operator of version {version} of its operator set is not supported; {supported}")]
    OperatorVersion { site: Box<NodeSite>, version: i64, supported: String },
    /// A sequence or an optional where the operator takes a tensor.
    #[error("{site}: its input {} is {found}, not a tensor", quoted(name))]
    NoTensor { site: Box<NodeSite>, name: String, found: &'static str },
    /// A loop that is too long to be written out.
    #[error("{site}: with it, subgraphs written out have more than {limit} nodes")]
    Unrolled { site: Box<NodeSite>, limit: usize },
    /// Inputs or attributes that the operator does not take.
    #[error("{site}: {reason}")]
    Inputs { site: Box<NodeSite>, reason: String },
    /// A value that decides a shape and is not known before the model runs.
    #[error("{site}: the value of {} decides {what}, and is not known before the model runs", quoted(value))]
    NotKnown { site: Box<NodeSite>, value: String, what: &'static str },
    /// Control flow that depends on values, in a way that has no fixed form.
    #[error("{site}: the value of {} decides what runs: {reason}", quoted(value))]
    ControlFlow { site: Box<NodeSite>, value: String, reason: String },
    /// The operation that a node becomes breaks a rule of the graph dialect.
    #[error("{site}: {source}")]
    Semantic { site: Box<NodeSite>, source: SemanticError },
    /// A combination of options that cannot be expressed.
    #[error("{site}: {what} is not supported")]
    Option { site: Box<NodeSite>, what: String },
    /// What needs a dimension whose size the model leaves open.
    #[error("{site}: {what} is not supported")]
    FreeDimension { site: Box<NodeSite>, what: String },
    /// A given shape or value of an input that the model contradicts.
    #[error("input {}: {reason}", quoted(name))]
    GivenInput { name: String, reason: String },
    /// An input whose number of dimensions is not declared.
    #[error("input {}: the model does not declare its number of dimensions", quoted(name))]
    UnknownRank { name: String },
    /// An output that is not what the model declares.
    #[error("output {}: the model declares elements of type {declared}, its nodes give {found}", quoted(name))]
    OutputType { name: String, declared: tenon_tensor::DType, found: tenon_tensor::DType },
    /// MLIR refused what was built.
    #[error("the imported module is refused: {0}")]
    Ir(#[from] IrError),
    /// A node without operator.
    #[error("node number {index}{} has no operator type", if name.is_empty() { String::new() } else { format!(" ({})", quoted(name)) })]
    NoOperator { index: usize, name: String },
}

impl ImportError {
    /// Stable code, explained in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            ImportError::Io { .. } => "E0100",
            ImportError::Decode { .. } => "E0101",
            ImportError::NoGraph => "E0102",
            ImportError::IrVersion { .. } => "E0103",
            ImportError::Opset { .. } => "E0104",
            ImportError::ElementType { .. } => "E0105",
            ImportError::Dimensions { .. } => "E0106",
            ImportError::TensorData { .. } => "E0107",
            ImportError::ExternalLocation { .. } => "E0108",
            ImportError::ExternalData { .. } => "E0109",
            ImportError::EmptyName { .. } => "E0110",
            ImportError::Duplicate { .. } => "E0111",
            ImportError::Undefined { .. } => "E0112",
            ImportError::Cycle { .. } => "E0113",
            ImportError::TooDeep { .. } => "E0114",
            ImportError::Attribute { .. } => "E0115",
            ImportError::AttributeType { .. } => "E0116",
            ImportError::UnknownAttribute { .. } => "E0117",
            ImportError::ValueType { .. } => "E0118",
            ImportError::Unsupported { .. } => "E0119",
            ImportError::Function { .. } => "E0120",
            ImportError::TooMany { .. } => "E0121",
            ImportError::NoOpset { .. } => "E0122",
            ImportError::NoOperator { .. } => "E0123",
            ImportError::UnknownOperator { .. } => "E0130",
            ImportError::OperatorVersion { .. } => "E0131",
            ImportError::Inputs { .. } => "E0132",
            ImportError::NotKnown { .. } => "E0133",
            ImportError::Semantic { .. } => "E0134",
            ImportError::Option { .. } | ImportError::FreeDimension { .. } => "E0135",
            ImportError::GivenInput { .. } => "E0136",
            ImportError::UnknownRank { .. } => "E0137",
            ImportError::OutputType { .. } => "E0138",
            ImportError::Ir(_) => "E0139",
            ImportError::NoTensor { .. } => "E0140",
            ImportError::Unrolled { .. } => "E0141",
            ImportError::ControlFlow { .. } => "E0145",
            ImportError::OutOfScope { .. } => "E0147",
        }
    }

    /// What to change.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            ImportError::Io { .. } => "check the path and its permissions",
            ImportError::Decode { .. } => "export or download the model again; `onnx.checker.check_model` reads it too",
            ImportError::NoGraph => "give a model, not a tensor or an empty file",
            ImportError::IrVersion { .. } => "export the model with a current exporter",
            ImportError::Opset { .. } => {
                "convert the model with `onnx.version_converter.convert_version` or export it for a supported operator set"
            }
            ImportError::ElementType { .. } => "keep such values outside the model, or cast them to a number type",
            ImportError::Dimensions { .. } => "correct the dimensions in the exporter",
            ImportError::TensorData { .. } => "export the model again, with its weights",
            ImportError::ExternalLocation { .. } => {
                "put the data file beside the model and name it by a path relative to the model's folder"
            }
            ImportError::ExternalData { .. } => "copy the data file that belongs to this model beside it",
            ImportError::EmptyName { .. } => "give it a name in the exporter",
            ImportError::Duplicate { .. } => "rename one of the two",
            ImportError::Undefined { .. } => "add the missing node, input or initializer, or correct the name",
            ImportError::Cycle { .. } => "break the cycle; a loop is written with the operator Loop or Scan",
            ImportError::TooDeep { .. } => "flatten the model",
            ImportError::Attribute { .. } | ImportError::AttributeType { .. } => {
                "correct the attribute in the exporter"
            }
            ImportError::UnknownAttribute { .. } => {
                "remove the attribute, or import the operator set whose version of the operator has it"
            }
            ImportError::ValueType { .. } => "export the model with tensors in place of sequences, maps and optionals",
            ImportError::Unsupported { .. } => "export the model without it",
            ImportError::Function { .. } => "inline the function with `onnx.inliner.inline_local_functions`",
            ImportError::TooMany { .. } => "split the model",
            ImportError::NoOpset { .. } => "add the domain to the model's `opset_import`",
            ImportError::NoOperator { .. } => "give the node an operator type in the exporter",
            ImportError::UnknownOperator { .. } => {
                "export the model without the operator; docs/onnx-operators.md lists those that are supported"
            }
            ImportError::OutOfScope { .. } => "run this part before or after the model, and export the rest",
            ImportError::OperatorVersion { .. } => {
                "convert the model with `onnx.version_converter.convert_version` to a version that is supported"
            }
            ImportError::Inputs { .. } => "correct the node in the exporter",
            ImportError::NotKnown { .. } => {
                "if the value is an input of the model, give it with --shapes-from-inputs; else export the model with it as a constant"
            }
            ImportError::ControlFlow { .. } => {
                "give both branches, and a carried value before and after an iteration, one type and shape; a value that is an input of the \
                 model is taken as a constant with --shapes-from-inputs"
            }
            ImportError::NoTensor { .. } => "put SequenceAt, ConcatFromSequence or OptionalGetElement before it",
            ImportError::Unrolled { .. } => "export the model with fewer iterations, or for a shorter sequence",
            ImportError::Semantic { source, .. } => return source.help(),
            ImportError::Option { .. } => "export the model without the option",
            ImportError::FreeDimension { .. } => {
                "export the model with that dimension fixed, or compile for the shapes of given inputs with --shapes-from-inputs"
            }
            ImportError::GivenInput { .. } => "give the input as the model declares it",
            ImportError::UnknownRank { .. } => {
                "declare the input's shape in the model, or give it with --shapes-from-inputs"
            }
            ImportError::OutputType { .. } => "correct the declared type of the output, or add a Cast before it",
            ImportError::Ir(source) => return source.help(),
        };
        Some(text.to_owned())
    }

    /// A tensor that could not be made, with whose data it was.
    pub(crate) fn tensor(owner: &str, source: TensorError) -> ImportError {
        ImportError::TensorData { owner: owner.to_owned(), reason: source.to_string() }
    }
}
