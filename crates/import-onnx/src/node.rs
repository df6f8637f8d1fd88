//! Nodes and their attributes.
//!
//! An operator's importer reads the attributes that its version of the operator has, by name and type, and then calls
//! [`Node::finish_attributes`]: an attribute that was not read is one that the operator does not have, and is refused. So no
//! attribute is ever ignored by mistake.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use indexmap::IndexMap;
use tenon_tensor::Tensor;

use crate::error::{ImportError, NodeSite};
use crate::graph::Graph;
use crate::value::ValueType;

/// Value of an attribute.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum AttributeValue {
    Float(f32),
    Int(i64),
    String(Bytes),
    Tensor(Tensor),
    Graph(Box<Graph>),
    Type(ValueType),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Strings(Vec<Bytes>),
    Tensors(Vec<Tensor>),
    Graphs(Vec<Graph>),
    Types(Vec<ValueType>),
    SparseTensors,
}

impl AttributeValue {
    /// What kind of value it is, for messages.
    fn describe(&self) -> &'static str {
        match self {
            AttributeValue::Float(_) => "is a float",
            AttributeValue::Int(_) => "is an integer",
            AttributeValue::String(_) => "is a string",
            AttributeValue::Tensor(_) => "is a tensor",
            AttributeValue::Graph(_) => "is a graph",
            AttributeValue::Type(_) => "is a type",
            AttributeValue::Floats(_) => "is a list of floats",
            AttributeValue::Ints(_) => "is a list of integers",
            AttributeValue::Strings(_) => "is a list of strings",
            AttributeValue::Tensors(_) => "is a list of tensors",
            AttributeValue::Graphs(_) => "is a list of graphs",
            AttributeValue::Types(_) => "is a list of types",
            AttributeValue::SparseTensors => "holds sparse tensors",
        }
    }
}

/// An attribute and whether an importer has read it.
#[derive(Debug)]
struct Attribute {
    value: AttributeValue,
    read: AtomicBool,
}

/// The attributes of one node, in the order of the file.
#[derive(Debug, Default)]
pub struct Attributes {
    entries: IndexMap<String, Attribute>,
}

impl Attributes {
    /// Adds an attribute; false when the name is taken.
    pub(crate) fn insert(&mut self, name: String, value: AttributeValue) -> bool {
        self.entries.insert(name, Attribute { value, read: AtomicBool::new(false) }).is_none()
    }

    fn read(&self, name: &str) -> Option<&AttributeValue> {
        let attribute = self.entries.get(name)?;
        attribute.read.store(true, Ordering::Relaxed);
        Some(&attribute.value)
    }

    /// All attributes, without marking them as read.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.entries.iter().map(|(name, attribute)| (name.as_str(), &attribute.value))
    }

    /// The graphs among the attributes, with the attribute's name, without marking them as read.
    pub fn graphs(&self) -> impl Iterator<Item = (&str, &Graph)> {
        self.iter().flat_map(|(name, value)| {
            let graphs = match value {
                AttributeValue::Graph(graph) => std::slice::from_ref(graph.as_ref()),
                AttributeValue::Graphs(graphs) => graphs,
                _ => &[],
            };
            graphs.iter().map(move |graph| (name, graph))
        })
    }
}

/// An operator applied to values.
#[derive(Debug)]
pub struct Node {
    /// Name, operator, domain, and where the node stands in the file.
    pub site: NodeSite,
    /// Version of the node's operator set: that which the model, or the function the node comes from, imports for its domain.
    pub version: i64,
    /// Names of the inputs; `None` for an optional input that is left out. Trailing ones may be absent altogether.
    pub inputs: Vec<Option<String>>,
    /// Names of the outputs; `None` for one that is not wanted.
    pub outputs: Vec<Option<String>>,
    /// Values from the graphs around this one that the node's subgraphs use, in order of use.
    pub captures: Vec<String>,
    /// The attributes.
    pub attributes: Attributes,
}

impl Node {
    /// Operator.
    pub fn op_type(&self) -> &str {
        &self.site.op_type
    }

    /// Operator domain; empty for ONNX's own.
    pub fn domain(&self) -> &str {
        &self.site.domain
    }

    /// Name of input `index`; `None` when it is left out.
    pub fn input(&self, index: usize) -> Option<&str> {
        self.inputs.get(index)?.as_deref()
    }

    /// Name of output `index`; `None` when it is not wanted.
    pub fn output(&self, index: usize) -> Option<&str> {
        self.outputs.get(index)?.as_deref()
    }

    /// Refuses attributes that no accessor has asked for.
    ///
    /// # Errors
    /// Names the first of them.
    pub fn finish_attributes(&self) -> Result<(), ImportError> {
        let unread = self.attributes.entries.iter().find(|(_, attribute)| !attribute.read.load(Ordering::Relaxed));
        match unread {
            None => Ok(()),
            Some((name, _)) => {
                Err(ImportError::UnknownAttribute { site: Box::new(self.site.clone()), name: name.clone() })
            }
        }
    }

    /// An attribute that the operator cannot do without.
    ///
    /// # Errors
    /// `value` is absent.
    pub fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, ImportError> {
        value.ok_or_else(|| ImportError::AttributeType {
            site: Box::new(self.site.clone()),
            name: name.to_owned(),
            expected: "present",
            found: "is missing".to_owned(),
        })
    }

    /// An error about attribute `name`, whose value is not what the operator allows.
    pub fn attribute_error(&self, name: &str, expected: &'static str, found: impl Into<String>) -> ImportError {
        ImportError::AttributeType {
            site: Box::new(self.site.clone()),
            name: name.to_owned(),
            expected,
            found: found.into(),
        }
    }

    /// A string attribute; `None` when absent.
    ///
    /// # Errors
    /// The attribute is of another type, or not UTF-8.
    pub fn string(&self, name: &str) -> Result<Option<&str>, ImportError> {
        let Some(bytes) = self.string_bytes(name)? else { return Ok(None) };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(self.attribute_error(name, "a string", "is not UTF-8")),
        }
    }

    /// A string attribute; `default` when absent.
    ///
    /// # Errors
    /// The attribute is of another type, or not UTF-8.
    pub fn string_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str, ImportError> {
        Ok(self.string(name)?.unwrap_or(default))
    }

    /// An integer attribute; `default` when absent.
    ///
    /// # Errors
    /// The attribute is of another type.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, ImportError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A float attribute; `default` when absent.
    ///
    /// # Errors
    /// The attribute is of another type.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32, ImportError> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// An integer attribute that stands for a truth value; `default` when absent.
    ///
    /// # Errors
    /// The attribute is of another type, or neither 0 nor 1.
    pub fn flag_or(&self, name: &str, default: bool) -> Result<bool, ImportError> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(self.attribute_error(name, "0 or 1", format!("is {other}"))),
        }
    }

    /// A list of UTF-8 strings; `None` when absent.
    ///
    /// # Errors
    /// The attribute is of another type, or not UTF-8.
    pub fn strings(&self, name: &str) -> Result<Option<Vec<&str>>, ImportError> {
        let Some(list) = self.string_list(name)? else { return Ok(None) };
        let texts: Result<Vec<&str>, _> = list.iter().map(|bytes| std::str::from_utf8(bytes)).collect();
        texts.map(Some).map_err(|_| self.attribute_error(name, "a list of strings", "is not UTF-8"))
    }
}

macro_rules! accessors {
    ($($(#[$meta:meta])* $name:ident: $type:ty, $variant:ident($value:ident) => $result:expr, $expected:literal;)*) => {
        impl Node {
            $(
                $(#[$meta])*
                /// `None` when absent.
                ///
                /// # Errors
                /// The attribute is of another type.
                pub fn $name(&self, name: &str) -> Result<Option<$type>, ImportError> {
                    match self.attributes.read(name) {
                        None => Ok(None),
                        Some(AttributeValue::$variant($value)) => Ok(Some($result)),
                        Some(other) => Err(self.attribute_error(name, $expected, other.describe())),
                    }
                }
            )*
        }
    };
}

accessors! {
    /// An integer attribute.
    int: i64, Int(value) => *value, "an integer";
    /// A float attribute.
    float: f32, Float(value) => *value, "a float";
    /// A string attribute, which need not be UTF-8.
    string_bytes: &Bytes, String(value) => value, "a string";
    /// A tensor attribute.
    tensor: &Tensor, Tensor(value) => value, "a tensor";
    /// A graph attribute.
    graph: &Graph, Graph(value) => value.as_ref(), "a graph";
    /// A type attribute.
    value_type: &ValueType, Type(value) => value, "a type";
    /// A list of integers.
    ints: &[i64], Ints(value) => value.as_slice(), "a list of integers";
    /// A list of floats.
    floats: &[f32], Floats(value) => value.as_slice(), "a list of floats";
    /// A list of strings, which need not be UTF-8.
    string_list: &[Bytes], Strings(value) => value.as_slice(), "a list of strings";
    /// A list of tensors.
    tensors: &[Tensor], Tensors(value) => value.as_slice(), "a list of tensors";
    /// A list of graphs.
    graph_list: &[Graph], Graphs(value) => value.as_slice(), "a list of graphs";
}
