//! Model-local functions, inlined where they are called.
//!
//! A call's nodes take its place. Names of the body get a prefix of their own for each call; formal inputs and outputs become the
//! call's. References to the function's attributes (`ref_attr_name`) are replaced by the call's attribute, by the default, or by
//! nothing. Each body is read for the operator sets that the function imports. What a body declares about its values (`value_info`)
//! is left out: it holds for no particular call.
//!
//! Expansion is bounded: no recursion, limited depth, nodes and bytes.
//!
//! Source: ONNX, `FunctionProto`, IR version 8 and later.

use std::collections::{HashMap, HashSet};

use prost::Message;

use crate::build::{Builder, Place, Uses, attribute_fault};
use crate::error::{ImportError, NodeSite, quoted};
use crate::node::{Attributes, Node};
use crate::opsets::{NEWEST_OPSET, Opsets, normal_domain};
use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, FunctionProto};

/// Most bytes of function bodies, each call counted.
const MAX_INLINED: usize = 1 << 26;

/// Domain, name and overload.
type Key = (String, String, String);

/// A function and what is computed from it once.
pub(crate) struct Function {
    proto: FunctionProto,
    opsets: Opsets,
    key: Key,
    /// Encoded size, the cost of inlining it once.
    size: usize,
}

/// The functions of a model.
#[derive(Default)]
pub(crate) struct Functions {
    by_key: HashMap<Key, Function>,
}

impl Functions {
    pub(crate) fn read(protos: Vec<FunctionProto>) -> Result<Functions, ImportError> {
        let mut by_key = HashMap::new();
        for proto in protos {
            let name = proto.name().to_owned();
            if name.is_empty() {
                return Err(ImportError::EmptyName { what: "a function of the model".to_owned() });
            }
            let key = (normal_domain(proto.domain()).to_owned(), name.clone(), proto.overload().to_owned());
            let opsets = Opsets::read(&proto.opset_import, &format!("function {}", quoted(&name)))?;
            let function = Function { opsets, key: key.clone(), size: proto.encoded_len(), proto };
            if by_key.insert(key, function).is_some() {
                return Err(ImportError::Duplicate { what: "a function of the model".to_owned(), name });
            }
        }
        Ok(Functions { by_key })
    }

    pub(crate) fn find(&self, domain: &str, name: &str, overload: &str) -> Option<&Function> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&(domain.to_owned(), name.to_owned(), overload.to_owned()))
    }
}

/// What names, attributes and operator sets mean in the graph or function body being read.
pub(crate) struct Scope<'s> {
    pub opsets: &'s Opsets,
    /// The call being inlined; `None` outside functions, where names are those of the file.
    call: Option<Call>,
}

struct Call {
    names: HashMap<String, String>,
    prefix: String,
    attributes: HashMap<String, AttributeProto>,
    /// The functions being inlined, outermost first.
    stack: Vec<Key>,
}

impl<'s> Scope<'s> {
    /// The scope of the model's main graph.
    pub(crate) fn model(opsets: &'s Opsets) -> Scope<'s> {
        Scope { opsets, call: None }
    }

    /// What a value of the file is called; an empty name stays empty.
    pub(crate) fn name(&mut self, name: &str) -> String {
        match &mut self.call {
            Some(call) if !name.is_empty() => {
                let Call { names, prefix, .. } = call;
                names.entry(name.to_owned()).or_insert_with(|| format!("{prefix}{name}")).clone()
            }
            _ => name.to_owned(),
        }
    }

    /// An attribute with references to the function's attributes replaced; `None` when it refers to one that is not given.
    pub(crate) fn attribute(
        &self,
        mut attribute: AttributeProto,
        site: &NodeSite,
    ) -> Result<Option<AttributeProto>, ImportError> {
        let reference = attribute.ref_attr_name.take().filter(|name| !name.is_empty());
        match (reference, &self.call) {
            (None, _) => Ok(Some(attribute)),
            (Some(reference), Some(call)) => Ok(call
                .attributes
                .get(&reference)
                .map(|value| AttributeProto { name: attribute.name, ..value.clone() })),
            (Some(_), None) => Err(attribute_fault(
                site,
                attribute.name(),
                "it refers to an attribute of a function, outside functions",
            )),
        }
    }
}

impl Builder<'_> {
    /// Puts the nodes of a function in place of a call.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn call(
        &mut self,
        function: &Function,
        site: NodeSite,
        inputs: Vec<Option<String>>,
        outputs: Vec<Option<String>>,
        attributes: Vec<AttributeProto>,
        caller: &Scope,
        place: &Place,
        built: &mut Vec<(Node, Uses)>,
    ) -> Result<(), ImportError> {
        let proto = &function.proto;
        let refuse = |reason: String| ImportError::Function { function: proto.name().to_owned(), reason };
        let mut stack = caller.call.as_ref().map_or_else(Vec::new, |call| call.stack.clone());
        if stack.contains(&function.key) {
            return Err(refuse(format!("it calls itself, through {site}")));
        }
        stack.push(function.key.clone());
        self.inlined += function.size;
        if self.inlined > MAX_INLINED {
            return Err(ImportError::TooMany { what: "bytes of inlined functions".to_owned(), limit: MAX_INLINED });
        }
        if inputs.len() > proto.input.len() || outputs.len() > proto.output.len() {
            return Err(refuse(format!(
                "it has {} inputs and {} outputs; {site} calls it with {} and {}",
                proto.input.len(),
                proto.output.len(),
                inputs.len(),
                outputs.len()
            )));
        }
        // The number of nodes so far is different for each call, so no two prefixes are equal.
        let prefix = format!("{}#{}/", if site.name.is_empty() { &site.op_type } else { &site.name }, self.nodes);
        let mut names = HashMap::new();
        let mut actual = inputs.into_iter();
        for formal in &proto.input {
            let value = actual.next().flatten().unwrap_or_default();
            if formal.is_empty() || names.insert(formal.clone(), value).is_some() {
                return Err(refuse(format!("its input {} is empty or repeated", quoted(formal))));
            }
        }
        let formal_inputs: HashSet<&String> = proto.input.iter().collect();
        let mut copies = Vec::new();
        let mut actual = outputs.into_iter();
        for formal in &proto.output {
            let value = actual.next().flatten();
            if formal_inputs.contains(formal) {
                // An input handed through: its value under another name.
                copies.extend(value.map(|value| (names.get(formal).cloned().unwrap_or_default(), value)));
                continue;
            }
            let value = value.unwrap_or_else(|| format!("{prefix}{formal}"));
            if formal.is_empty() || names.insert(formal.clone(), value).is_some() {
                return Err(refuse(format!("its output {} is empty or repeated", quoted(formal))));
            }
        }
        let attributes = bind(proto, &site, attributes)?;
        let inner = place.inner(format!("function {} called by {site}", quoted(proto.name())))?;
        let mut scope = Scope { opsets: &function.opsets, call: Some(Call { names, prefix, attributes, stack }) };
        self.nodes(proto.node.clone(), &mut scope, &inner, built)?;
        for (index, (input, output)) in copies.into_iter().enumerate() {
            let site = NodeSite {
                graph: inner.graph.clone(),
                index: proto.node.len() + index,
                op_type: "Identity".to_owned(),
                ..NodeSite::default()
            };
            let node = Node {
                site,
                version: function.opsets.version("").unwrap_or(NEWEST_OPSET),
                inputs: vec![Some(input).filter(|name| !name.is_empty())],
                outputs: vec![Some(output)],
                captures: Vec::new(),
                attributes: Attributes::default(),
            };
            built.push((node, Uses::new()));
        }
        Ok(())
    }
}

/// The function's attributes as a call gives them, defaults included.
fn bind(
    proto: &FunctionProto,
    site: &NodeSite,
    given: Vec<AttributeProto>,
) -> Result<HashMap<String, AttributeProto>, ImportError> {
    let mut bound: HashMap<String, AttributeProto> =
        proto.attribute_proto.iter().map(|default| (default.name().to_owned(), default.clone())).collect();
    let declared: HashSet<&str> = proto.attribute.iter().map(String::as_str).collect();
    for attribute in given {
        let name = attribute.name().to_owned();
        if !bound.contains_key(&name) && !declared.contains(name.as_str()) {
            return Err(ImportError::UnknownAttribute { site: Box::new(site.clone()), name });
        }
        if matches!(attribute.r#type(), AttributeType::Graph | AttributeType::Graphs) {
            // Its captures would have to be resolved around the call, not in the function.
            let reason = format!("{site} gives it a graph, as attribute {}", quoted(&name));
            return Err(ImportError::Function { function: proto.name().to_owned(), reason });
        }
        bound.insert(name, attribute);
    }
    Ok(bound)
}
