//! From messages to graphs.
//!
//! One walk over the messages names every value, decodes every tensor, inlines calls of model-local functions and resolves captures
//! of subgraphs. A subgraph's name shadows an equal one around it.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::error::{ImportError, NodeSite, quoted};
use crate::external::ExternalData;
use crate::function::{Functions, Scope};
use crate::graph::{self, Graph};
use crate::node::{AttributeValue, Attributes, Node};
use crate::opsets::normal_domain;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto};
use crate::tensor;
use crate::value::{self, ValueInfo, ValueType};

/// Deepest nesting of subgraphs and function calls together.
pub(crate) const MAX_DEPTH: usize = 32;

/// Most nodes of a model, functions inlined.
pub(crate) const MAX_NODES: usize = 1 << 19;

/// Names that a graph uses and does not define, each with what uses it first.
pub(crate) type Uses = IndexMap<String, String>;

/// Where the walk is: the graph's description for error messages, and its depth.
#[derive(Clone)]
pub(crate) struct Place {
    pub graph: Arc<str>,
    pub depth: usize,
}

impl Place {
    /// The main graph.
    pub(crate) fn main() -> Place {
        Place { graph: Arc::from(""), depth: 0 }
    }

    /// A graph or function body inside this one. Its description holds the outer ones, as far as they fit.
    pub(crate) fn inner(&self, mut graph: String) -> Result<Place, ImportError> {
        const SHOWN: usize = 600;
        if self.depth == MAX_DEPTH {
            return Err(ImportError::TooDeep { what: graph, limit: MAX_DEPTH });
        }
        if graph.len() > SHOWN {
            graph.truncate((0..=SHOWN).rev().find(|&end| graph.is_char_boundary(end)).unwrap_or(0));
            graph.push('…');
        }
        Ok(Place { graph: graph.into(), depth: self.depth + 1 })
    }

    /// `what` of this graph.
    fn of(&self, what: &str) -> String {
        if self.graph.is_empty() { format!("{what} of the graph") } else { format!("{what} of {}", self.graph) }
    }
}

/// State of the walk over one model.
pub(crate) struct Builder<'m> {
    pub external: ExternalData,
    pub functions: &'m Functions,
    /// Nodes seen so far.
    pub nodes: usize,
    /// Bytes of function bodies inlined so far.
    pub inlined: usize,
}

impl Builder<'_> {
    /// Builds a graph; what it uses from around it is returned beside it.
    pub(crate) fn graph(
        &mut self,
        proto: GraphProto,
        scope: &mut Scope,
        place: &Place,
    ) -> Result<(Graph, Uses), ImportError> {
        if !proto.sparse_initializer.is_empty() {
            return Err(ImportError::Unsupported { what: place.of("a sparse initializer") });
        }
        let mut defined = HashSet::new();
        let mut inputs = Vec::new();
        for input in &proto.input {
            let name = named(scope.name(input.name()), || place.of("an input"))?;
            define(&mut defined, &name, || place.of("an input"))?;
            inputs.push(value::value_info(input, name)?);
        }
        let mut initializers = IndexMap::new();
        for initializer in proto.initializer {
            let name = named(scope.name(initializer.name()), || place.of("an initializer"))?;
            let tensor = tensor::decode(initializer, &mut self.external, &format!("initializer {}", quoted(&name)))?;
            defined.insert(name.clone());
            if initializers.insert(name.clone(), tensor).is_some() {
                return Err(ImportError::Duplicate { what: place.of("an initializer"), name });
            }
        }
        let (defaulted_inputs, inputs) = inputs.into_iter().partition(|input| initializers.contains_key(&input.name));

        let mut built = Vec::new();
        self.nodes(proto.node, scope, place, &mut built)?;
        for (node, _) in &built {
            for name in node.outputs.iter().flatten() {
                define(&mut defined, name, || node.site.to_string())?;
            }
        }
        let mut uses = Uses::new();
        let mut nodes = Vec::with_capacity(built.len());
        for (node, captured) in built {
            for name in node.inputs.iter().flatten().filter(|name| !defined.contains(*name)) {
                uses.entry(name.clone()).or_insert_with(|| node.site.to_string());
            }
            for (name, user) in captured {
                if !defined.contains(&name) {
                    uses.entry(name).or_insert(user);
                }
            }
            nodes.push(node);
        }
        let mut outputs: Vec<ValueInfo> = Vec::new();
        let mut output_names = HashSet::new();
        for output in &proto.output {
            let name = named(scope.name(output.name()), || place.of("an output"))?;
            define(&mut output_names, &name, || place.of("an output"))?;
            if !defined.contains(&name) {
                uses.entry(name.clone()).or_insert_with(|| place.of("an output"));
            }
            outputs.push(value::value_info(output, name)?);
        }
        let mut value_info = IndexMap::new();
        for declared in proto.value_info.iter().filter(|declared| !declared.name().is_empty()) {
            let name = scope.name(declared.name());
            value_info.insert(name.clone(), value::value_info(declared, name)?);
        }
        let graph = Graph {
            name: proto.name.unwrap_or_default(),
            inputs,
            defaulted_inputs,
            outputs,
            initializers,
            nodes: graph::sort(nodes)?,
            value_info,
            captures: uses.keys().cloned().collect(),
        };
        Ok((graph, uses))
    }

    /// Builds nodes in the order of the file, function calls replaced by the functions' nodes.
    pub(crate) fn nodes(
        &mut self,
        protos: Vec<NodeProto>,
        scope: &mut Scope,
        place: &Place,
        built: &mut Vec<(Node, Uses)>,
    ) -> Result<(), ImportError> {
        for (index, proto) in protos.into_iter().enumerate() {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                return Err(ImportError::TooMany { what: "nodes, functions inlined".to_owned(), limit: MAX_NODES });
            }
            if proto.op_type().is_empty() {
                return Err(ImportError::NoOperator { index, name: proto.name().to_owned() });
            }
            let site = NodeSite {
                graph: place.graph.clone(),
                index,
                name: proto.name().to_owned(),
                op_type: proto.op_type().to_owned(),
                domain: normal_domain(proto.domain()).to_owned(),
            };
            let overload = proto.overload().to_owned();
            let names = |list: &[String], scope: &mut Scope| -> Vec<Option<String>> {
                list.iter().map(|name| Some(scope.name(name)).filter(|name| !name.is_empty())).collect()
            };
            let inputs = names(&proto.input, scope);
            let outputs = names(&proto.output, scope);
            let mut attributes = Vec::new();
            for attribute in proto.attribute {
                attributes.extend(scope.attribute(attribute, &site)?);
            }
            if let Some(function) = self.functions.find(&site.domain, &site.op_type, &overload) {
                self.call(function, site, inputs, outputs, attributes, scope, place, built)?;
                continue;
            }
            let Some(version) = scope.opsets.version(&site.domain) else {
                return Err(ImportError::NoOpset { site: Box::new(site) });
            };
            let mut captured = Uses::new();
            let mut values = Attributes::default();
            for attribute in attributes {
                let name = attribute.name().to_owned();
                let value = self.attribute(attribute, scope, &site, place, &mut captured)?;
                if !values.insert(name.clone(), value) {
                    return Err(attribute_fault(&site, &name, "it is given twice"));
                }
            }
            let captures = captured.keys().cloned().collect();
            built.push((Node { site, version, inputs, outputs, captures, attributes: values }, captured));
        }
        Ok(())
    }

    fn attribute(
        &mut self,
        proto: AttributeProto,
        scope: &mut Scope,
        site: &NodeSite,
        place: &Place,
        captured: &mut Uses,
    ) -> Result<AttributeValue, ImportError> {
        let name = proto.name().to_owned();
        let fault = |reason: &str| attribute_fault(site, &name, reason);
        if name.is_empty() {
            return Err(fault("it has no name"));
        }
        let owner = format!("attribute {} of {site}", quoted(&name));
        let mut graph = |builder: &mut Self, graph: GraphProto| {
            let place = place.inner(format!("{} of {site}", quoted(&name)))?;
            let (graph, uses) = builder.graph(graph, scope, &place)?;
            uses.into_iter().for_each(|(name, user)| {
                captured.entry(name).or_insert(user);
            });
            Ok::<Graph, ImportError>(graph)
        };
        let tensor = |builder: &mut Self, proto: TensorProto| tensor::decode(proto, &mut builder.external, &owner);
        let value_type = |proto: &TypeProto| -> Result<ValueType, ImportError> { value::value_type(proto, &owner) };
        Ok(match proto.r#type() {
            // Writers of protobuf 3 leave out numbers that are 0 and empty strings.
            AttributeType::Float => AttributeValue::Float(proto.f()),
            AttributeType::Int => AttributeValue::Int(proto.i()),
            AttributeType::String => AttributeValue::String(proto.s.unwrap_or_default()),
            AttributeType::Tensor => {
                let inner = proto.t.ok_or_else(|| fault("it is a tensor, but holds none"))?;
                AttributeValue::Tensor(tensor(self, *inner)?)
            }
            AttributeType::Graph => {
                let inner = proto.g.ok_or_else(|| fault("it is a graph, but holds none"))?;
                AttributeValue::Graph(Box::new(graph(self, *inner)?))
            }
            AttributeType::TypeProto => {
                let inner = proto.tp.ok_or_else(|| fault("it is a type, but holds none"))?;
                AttributeValue::Type(value_type(&inner)?)
            }
            AttributeType::Floats => AttributeValue::Floats(proto.floats),
            AttributeType::Ints => AttributeValue::Ints(proto.ints),
            AttributeType::Strings => AttributeValue::Strings(proto.strings),
            AttributeType::Tensors => {
                let tensors = proto.tensors.into_iter().map(|proto| tensor(self, proto));
                AttributeValue::Tensors(tensors.collect::<Result<_, _>>()?)
            }
            AttributeType::Graphs => {
                let graphs = proto.graphs.into_iter().map(|proto| graph(self, proto));
                AttributeValue::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            AttributeType::TypeProtos => {
                AttributeValue::Types(proto.type_protos.iter().map(value_type).collect::<Result<_, _>>()?)
            }
            AttributeType::SparseTensor | AttributeType::SparseTensors => AttributeValue::SparseTensors,
            AttributeType::Undefined => return Err(fault("it has no type, or an unknown one")),
        })
    }
}

pub(crate) fn attribute_fault(site: &NodeSite, name: &str, reason: &str) -> ImportError {
    ImportError::Attribute { site: Box::new(site.clone()), name: name.to_owned(), reason: reason.to_owned() }
}

fn named(name: String, what: impl Fn() -> String) -> Result<String, ImportError> {
    if name.is_empty() { Err(ImportError::EmptyName { what: what() }) } else { Ok(name) }
}

fn define(defined: &mut HashSet<String>, name: &str, what: impl Fn() -> String) -> Result<(), ImportError> {
    if defined.insert(name.to_owned()) {
        return Ok(());
    }
    Err(ImportError::Duplicate { what: what(), name: name.to_owned() })
}
