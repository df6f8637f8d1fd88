//! Walking a model's nodes: names, scopes of subgraphs, inputs and outputs. Values are held by the graph builder.

use std::collections::{BTreeSet, HashMap, HashSet};

pub(crate) use tenon_graph_builder::Handle;
use tenon_graph_builder::{Argument, GraphBuilder, Output, Weights};
use tenon_graph_dialect::{SemanticError, TensorType};
use tenon_ir::{Location, Module};
use tenon_tensor::{DType, Tensor};

use super::ImportOptions;
use super::inputs::{Port, PortKind, Symbols, element_name};
use super::node::OpImport;
use crate::error::{ImportError, NodeSite};
use crate::graph::Graph;
use crate::model::Model;
use crate::node::Node;
use crate::ops;
use crate::value::ValueInfo;

/// Most nodes of subgraphs, each counted as often as it is imported: loops are written out one iteration after the other.
const MAX_INNER_NODES: usize = 1 << 16;

/// What a value is that is no tensor. An optional that holds a value is that value.
enum Structured {
    Sequence(Vec<Handle>),
    Nothing,
}

/// State of the walk over one model.
pub(crate) struct Importer<'m> {
    pub(crate) builder: GraphBuilder<'m>,
    /// Values by name, innermost graph last.
    scopes: Vec<HashMap<String, Handle>>,
    file: String,
    /// Values that are no tensors; what the builder knows of them means nothing.
    structured: HashMap<Handle, Structured>,
    /// Nodes of subgraphs imported so far, each as often as it was.
    inner_nodes: usize,
    /// Whether an input whose value decides a shape can become a constant.
    pub(crate) has_given_values: bool,
    /// Whether branches and loops that values decide become operations; else they are refused, so that the value may become a constant.
    pub(crate) keeps_control_flow: bool,
}

impl<'m> Importer<'m> {
    /// Fills an empty module; inputs named in `constant` take their given values, and control flow is kept as operations or refused.
    pub(super) fn import(
        module: &'m Module<'_>,
        model: &Model,
        file: &str,
        options: &ImportOptions,
        (constant, keeps_control_flow): (&BTreeSet<String>, bool),
    ) -> Result<Weights, ImportError> {
        let context = module.op().context();
        let graph = &model.graph;
        let ports = graph.inputs.iter().map(|input| Port::of(input, options)).collect::<Result<Vec<_>, _>>()?;
        let tensors: Vec<&ValueInfo> = ports.iter().flat_map(|port| &port.tensors).collect();
        let types = Symbols::input_types(&tensors, options)?;
        let location = |name: &str| context.name_location(name, context.file_location(file, 0, 0));

        let is_argument = |name: &str| !constant.contains(name);
        let inputs: Vec<_> = tensors.iter().zip(&types).filter(|(input, _)| is_argument(&input.name)).collect();
        let mut arguments = Vec::new();
        for (input, ty) in &inputs {
            ty.to_type(context).map_err(|source| input_error(&input.name, &source))?;
            arguments.push(Argument {
                name: input.name.clone(),
                ty: (*ty).clone(),
                location: location(&input.name),
                attributes: Vec::new(),
            });
        }
        let (builder, handles) = GraphBuilder::new(module, file, &arguments).map_err(|error| broken(&error))?;
        let has_given_values = !options.constants.is_empty();
        let mut importer = Importer {
            builder,
            scopes: vec![HashMap::new()],
            file: file.to_owned(),
            structured: HashMap::new(),
            inner_nodes: 0,
            has_given_values,
            keeps_control_flow,
        };
        for ((input, _), handle) in inputs.iter().zip(handles) {
            importer.name(&input.name, handle);
        }
        for (input, ty) in tensors.iter().zip(&types).filter(|(input, _)| !is_argument(&input.name)) {
            let Some(given) = options.constants.get(&input.name) else { continue };
            check_value(&input.name, ty, given)?;
            let handle = importer.builder.constant(given.clone());
            importer.name(&input.name, handle);
        }
        for port in &ports {
            importer.structured_input(port);
        }
        importer.graph(graph)?;

        let mut outputs = Vec::new();
        for output in &graph.outputs {
            let Some(handle) = importer.lookup(&output.name) else {
                return Err(ImportError::Undefined {
                    what: "an output of the graph".to_owned(),
                    name: output.name.clone(),
                });
            };
            for (name, value) in importer.leaves(&output.name, handle) {
                let found = importer.builder.ty(value).dtype;
                let declared = output.value_type.element_type()?.unwrap_or(found);
                if declared != found {
                    return Err(ImportError::OutputType { name, declared, found });
                }
                let location = location(&name);
                outputs.push(Output { name, value, location, attributes: Vec::new() });
            }
        }
        importer.builder.finish(&outputs).map_err(|(name, source)| input_error(&name, &source))
    }

    /// Imports the initializers and nodes of a graph into the innermost scope.
    pub(crate) fn graph(&mut self, graph: &Graph) -> Result<(), ImportError> {
        for (name, tensor) in &graph.initializers {
            let handle = self.builder.weight(name, tensor.clone());
            self.name(name, handle);
        }
        for node in &graph.nodes {
            self.node(node)?;
        }
        Ok(())
    }

    /// A sequence or an optional among the inputs, by its name.
    fn structured_input(&mut self, port: &Port) {
        let handle = match port.kind {
            PortKind::Tensor => return,
            PortKind::Nothing => self.nothing(),
            PortKind::Sequence => {
                let elements = port.tensors.iter().filter_map(|tensor| self.lookup(&tensor.name)).collect();
                self.sequence(elements)
            }
        };
        self.name(&port.name, handle);
    }

    /// The tensors of a value with their names: `x[0]`, `x[1]` and so on for a sequence `x`.
    fn leaves(&self, name: &str, handle: Handle) -> Vec<(String, Handle)> {
        match self.structured.get(&handle) {
            Some(Structured::Sequence(elements)) => {
                elements.iter().enumerate().map(|(index, element)| (element_name(name, index), *element)).collect()
            }
            Some(Structured::Nothing) => Vec::new(),
            None => vec![(name.to_owned(), handle)],
        }
    }

    fn structure(&mut self, structure: Structured) -> Handle {
        let handle = self.builder.symbolic(DType::Bool, &[0], Vec::new());
        self.structured.insert(handle, structure);
        handle
    }

    /// A sequence of tensors.
    pub(crate) fn sequence(&mut self, elements: Vec<Handle>) -> Handle {
        self.structure(Structured::Sequence(elements))
    }

    /// An optional that holds nothing.
    pub(crate) fn nothing(&mut self) -> Handle {
        self.structure(Structured::Nothing)
    }

    /// What a value is, in words, where it is no tensor.
    pub(crate) fn no_tensor(&self, handle: Handle) -> Option<&'static str> {
        self.structured.get(&handle).map(|structure| match structure {
            Structured::Sequence(_) => "a sequence",
            Structured::Nothing => "an optional that holds nothing",
        })
    }

    /// The elements, where a value is a sequence.
    pub(crate) fn elements(&self, handle: Handle) -> Option<&[Handle]> {
        match self.structured.get(&handle) {
            Some(Structured::Sequence(elements)) => Some(elements),
            _ => None,
        }
    }

    /// Whether a value is an optional that holds nothing.
    pub(crate) fn is_nothing(&self, handle: Handle) -> bool {
        matches!(self.structured.get(&handle), Some(Structured::Nothing))
    }

    /// Imports a graph inside the current one, applied to values, and gives its outputs.
    pub(crate) fn inner_graph(
        &mut self,
        graph: &Graph,
        inputs: &[Handle],
        site: &NodeSite,
    ) -> Result<Vec<Handle>, ImportError> {
        if graph.inputs.len() != inputs.len() {
            let reason = format!("its graph takes {} values, not {}", graph.inputs.len(), inputs.len());
            return Err(ImportError::Inputs { site: Box::new(site.clone()), reason });
        }
        self.inner_nodes += graph.nodes.len() + 1;
        if self.inner_nodes > MAX_INNER_NODES {
            return Err(ImportError::Unrolled { site: Box::new(site.clone()), limit: MAX_INNER_NODES });
        }
        self.scopes.push(HashMap::new());
        for (input, handle) in graph.inputs.iter().zip(inputs) {
            self.name(&input.name, *handle);
        }
        let result = self.graph(graph).and_then(|()| {
            let find = |name: &str| {
                self.lookup(name)
                    .ok_or_else(|| ImportError::Undefined { what: site.to_string(), name: name.to_owned() })
            };
            graph.outputs.iter().map(|output| find(&output.name)).collect()
        });
        self.scopes.pop();
        result
    }

    /// Imports the nodes that some values of a graph need, the graph being applied to values, and gives these.
    pub(crate) fn part_of_graph(
        &mut self,
        graph: &Graph,
        inputs: &[Handle],
        names: &[&str],
        site: &NodeSite,
    ) -> Result<Vec<Handle>, ImportError> {
        let mut needed: HashSet<&str> = names.iter().copied().collect();
        let mut nodes = Vec::new();
        for node in graph.nodes.iter().rev() {
            if node.outputs.iter().flatten().any(|output| needed.contains(output.as_str())) {
                needed.extend(node.inputs.iter().flatten().chain(&node.captures).map(String::as_str));
                nodes.push(node);
            }
        }
        self.inner_nodes += nodes.len() + 1;
        if self.inner_nodes > MAX_INNER_NODES {
            return Err(ImportError::Unrolled { site: Box::new(site.clone()), limit: MAX_INNER_NODES });
        }
        self.scopes.push(HashMap::new());
        for (input, handle) in graph.inputs.iter().zip(inputs) {
            self.name(&input.name, *handle);
        }
        for (name, tensor) in graph.initializers.iter().filter(|(name, _)| needed.contains(name.as_str())) {
            let handle = self.builder.weight(name, tensor.clone());
            self.name(name, handle);
        }
        let result = nodes.into_iter().rev().try_for_each(|node| self.node(node)).and_then(|()| {
            let undefined = |name: &str| ImportError::Undefined { what: site.to_string(), name: name.to_owned() };
            names.iter().map(|name| self.lookup(name).ok_or_else(|| undefined(name))).collect()
        });
        self.scopes.pop();
        result
    }

    fn node(&mut self, node: &Node) -> Result<(), ImportError> {
        let context = self.builder.context();
        let site = &node.site;
        let name = match site.name.is_empty() {
            true => format!("{}_{}", site.op_type, site.index + 1),
            false => site.name.clone(),
        };
        let line = u32::try_from(site.index + 1).unwrap_or(u32::MAX);
        self.set_location(context.name_location(&name, context.file_location(&self.file, line, 0)));
        let (row, since) = ops::find(node)?;
        let outputs = (row.import)(&mut OpImport::new(self, node, since))?;
        node.finish_attributes()?;
        for (index, name) in node.outputs.iter().enumerate() {
            let Some(name) = name else { continue };
            let Some(&handle) = outputs.get(index) else {
                return Err(ImportError::Option {
                    site: Box::new(site.clone()),
                    what: format!("output number {index}"),
                });
            };
            self.name(name, handle);
        }
        Ok(())
    }

    fn set_location(&mut self, location: Location<'_>) {
        self.builder.set_location(location);
    }

    fn name(&mut self, name: &str, handle: Handle) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), handle);
        }
    }

    /// The value of a name, innermost graph first.
    pub(crate) fn lookup(&self, name: &str) -> Option<Handle> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }
}

fn check_value(name: &str, ty: &TensorType, given: &Tensor) -> Result<(), ImportError> {
    let shape: Vec<u64> = given.shape().iter().map(|size| *size as u64).collect();
    let fits = ty.dtype == given.dtype()
        && ty.rank() == shape.len()
        && ty.dims.iter().zip(&shape).all(|(dim, size)| dim.known().is_none_or(|known| known == *size));
    if fits {
        return Ok(());
    }
    let reason = format!("the given value is {}{shape:?}, the model declares {ty}", given.dtype());
    Err(ImportError::GivenInput { name: name.to_owned(), reason })
}

fn broken(error: &SemanticError) -> ImportError {
    ImportError::Unsupported { what: format!("this build of MLIR, which refuses a plain function ({error}),") }
}

fn input_error(name: &str, source: &SemanticError) -> ImportError {
    ImportError::GivenInput { name: name.to_owned(), reason: source.to_string() }
}
