//! From graphs of nodes to a module of the graph dialect.
//!
//! - [`import_model`] reads a file, walks its nodes in order and lets the importer of each operator (`ops`) emit operations.
//! - `importer` holds names and scopes; the values are those of the graph builder, which evaluates operations on known ones.
//! - `inputs` gives dimensions their names or numbers; `node` is what an operator's importer sees.

pub(crate) mod importer;
mod inputs;
pub(crate) mod node;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tenon_ir::{Module, Session};
use tenon_tensor::Tensor;

use crate::error::ImportError;
use crate::graph::Graph;
use crate::model::Model;
use importer::Importer;

pub(crate) use inputs::element_name;
pub use tenon_graph_builder::Weights;
pub(crate) use tenon_graph_builder::sign;

/// What is known about inputs before a model is imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Shape of every input, by name. Symbolic dimensions become these numbers wherever they occur.
    pub shapes: Option<BTreeMap<String, Vec<u64>>>,
    /// Values of inputs, by name. One is taken as a constant only if it decides a shape.
    pub constants: BTreeMap<String, Tensor>,
}

/// A model as a module.
pub struct Imported<'s> {
    /// `func.func @main` and the parameters that it reads.
    pub module: Module<'s>,
    /// Values of the parameters.
    pub weights: Weights,
    /// Inputs whose given value decided a shape: they are constants of the module and no arguments of `@main`.
    pub constant_inputs: Vec<String>,
}

/// Reads an ONNX model and turns it into a module of the graph dialect.
///
/// `@main` has the model's inputs and outputs in their order, each with the attribute `graph.name`; the module has `graph.model`, the
/// file's name. Free dimensions are symbols, named as in the model (`dim_param`) or `INPUT_dimN`.
///
/// # Errors
/// A model that cannot be read, or with operators, options or shapes that are not supported; by code, naming the node.
pub fn import_model<'s>(
    session: &'s Session,
    path: &Path,
    options: &ImportOptions,
) -> Result<Imported<'s>, ImportError> {
    let model = Model::load(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    import_loaded(session, &model, &name, options)
}

/// Turns a model that was read into a module; `name` is the file's name.
///
/// # Errors
/// As [`import_model`].
pub fn import_loaded<'s>(
    session: &'s Session,
    model: &Model,
    name: &str,
    options: &ImportOptions,
) -> Result<Imported<'s>, ImportError> {
    inputs::check_given(&model.graph, options)?;
    let mut constant_inputs = BTreeSet::new();
    // Given integers that decide what runs become constants; what else decides it stays, as an operation where that can be.
    let mut keeps_control_flow = options.constants.is_empty();
    loop {
        let module = session.new_module(session.context().file_location(name, 0, 0))?;
        let result = Importer::import(&module, model, name, options, (&constant_inputs, keeps_control_flow));
        match result {
            Ok(weights) => {
                module.verify()?;
                let in_order = model.graph.inputs.iter().map(|input| input.name.clone());
                let constant_inputs = in_order.filter(|name| constant_inputs.contains(name)).collect();
                return Ok(Imported { module, weights, constant_inputs });
            }
            Err(ImportError::NotKnown { site, value, what }) => {
                // Each round makes at least one more input a constant, so this ends.
                let deciding = deciding_inputs(&model.graph, &value, options);
                if deciding.is_subset(&constant_inputs) {
                    return Err(ImportError::NotKnown { site, value, what });
                }
                constant_inputs.extend(deciding);
            }
            Err(ImportError::ControlFlow { site, value, reason }) => {
                let mut deciding = deciding_inputs(&model.graph, &value, options);
                let is_float =
                    |name: &String| options.constants.get(name).is_some_and(|given| given.dtype().is_float());
                if !keeps_control_flow {
                    deciding.retain(|name| !is_float(name));
                }
                match deciding.is_subset(&constant_inputs) {
                    false => constant_inputs.extend(deciding),
                    true if !keeps_control_flow => keeps_control_flow = true,
                    true => return Err(ImportError::ControlFlow { site, value, reason }),
                }
            }
            Err(other) => return Err(other),
        }
    }
}

/// Most elements of an input that is taken as a constant.
const MAX_DECIDING: usize = 1024;

/// The inputs with a given value that `value` is computed from, other than through their shape.
fn deciding_inputs(graph: &Graph, value: &str, options: &ImportOptions) -> BTreeSet<String> {
    let mut producers = BTreeMap::new();
    let mut graphs = vec![graph];
    while let Some(inner) = graphs.pop() {
        for node in &inner.nodes {
            producers.extend(node.outputs.iter().flatten().map(|name| (name.as_str(), node)));
            for (_, graph) in node.attributes.graphs() {
                // What a subgraph takes comes from what its node takes.
                producers.extend(graph.inputs.iter().map(|input| (input.name.as_str(), node)));
                graphs.push(graph);
            }
        }
    }
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut stack = vec![value];
    while let Some(name) = stack.pop() {
        if !seen.insert(name) {
            continue;
        }
        match producers.get(name) {
            Some(node) if matches!(node.op_type(), "Shape" | "Size") && node.domain().is_empty() => {}
            Some(node) => stack.extend(node.inputs.iter().flatten().chain(&node.captures).map(String::as_str)),
            None => {
                let small = options.constants.get(name).is_some_and(|tensor| tensor.element_count() <= MAX_DECIDING);
                if small && graph.inputs.iter().any(|input| input.name == name) {
                    found.insert(name.to_owned());
                }
            }
        }
    }
    found
}
