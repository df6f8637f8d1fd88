//! Walking a model's nodes: names, scopes of subgraphs, inputs and outputs. Values are held by the graph builder.

use std::collections::{BTreeSet, HashMap};

pub(crate) use tenon_graph_builder::Handle;
use tenon_graph_builder::{Argument, GraphBuilder, Output, Weights};
use tenon_graph_dialect::{SemanticError, TensorType};
use tenon_ir::{Location, Module};
use tenon_tensor::Tensor;

use super::ImportOptions;
use super::inputs::Symbols;
use super::node::OpImport;
use crate::error::{ImportError, NodeSite};
use crate::graph::Graph;
use crate::model::Model;
use crate::node::Node;
use crate::ops;

/// State of the walk over one model.
pub(crate) struct Importer<'m> {
    pub(crate) builder: GraphBuilder<'m>,
    /// Values by name, innermost graph last.
    scopes: Vec<HashMap<String, Handle>>,
    file: String,
}

impl<'m> Importer<'m> {
    /// Fills an empty module; inputs named in `constant` take their given values.
    pub(super) fn import(
        module: &'m Module<'_>,
        model: &Model,
        file: &str,
        options: &ImportOptions,
        constant: &BTreeSet<String>,
    ) -> Result<Weights, ImportError> {
        let context = module.op().context();
        let graph = &model.graph;
        let types = Symbols::input_types(graph, options)?;
        let location = |name: &str| context.name_location(name, context.file_location(file, 0, 0));

        let is_argument = |name: &str| !constant.contains(name);
        let inputs: Vec<_> = graph.inputs.iter().zip(&types).filter(|(input, _)| is_argument(&input.name)).collect();
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
        let mut importer = Importer { builder, scopes: vec![HashMap::new()], file: file.to_owned() };
        for ((input, _), handle) in inputs.iter().zip(handles) {
            importer.name(&input.name, handle);
        }
        for (input, ty) in graph.inputs.iter().zip(&types).filter(|(input, _)| !is_argument(&input.name)) {
            let Some(given) = options.constants.get(&input.name) else { continue };
            check_value(&input.name, ty, given)?;
            let handle = importer.builder.constant(given.clone());
            importer.name(&input.name, handle);
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
            let found = importer.builder.ty(handle).dtype;
            let declared = match &output.value_type {
                crate::value::ValueType::Undeclared => found,
                _ => output.tensor()?.dtype,
            };
            if declared != found {
                return Err(ImportError::OutputType { name: output.name.clone(), declared, found });
            }
            outputs.push(Output {
                name: output.name.clone(),
                value: handle,
                location: location(&output.name),
                attributes: Vec::new(),
            });
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

    /// Imports a graph inside the current one and gives its outputs.
    pub(crate) fn inner_graph(&mut self, graph: &Graph, site: &NodeSite) -> Result<Vec<Handle>, ImportError> {
        self.scopes.push(HashMap::new());
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
