//! The values of a model and the module being built.
//!
//! A value is held by a [`Handle`]. It is *computed* (a result of an operation), *constant* (a tensor), or *symbolic* (integers known as
//! expressions over the symbols of the inputs). Constants and symbolic values become operations when one that computes needs them.

use std::collections::{BTreeSet, HashMap, HashSet};

use tenon_graph_dialect::operators::{Broadcast, Cast, Concat, Constant, DimExtent, Iota, Reshape};
use tenon_graph_dialect::{DimExpr, Operator, SemanticError, TensorType};
use tenon_ir::{Builder, Context, Location, Module, Value};
use tenon_tensor::{DType, Tensor};

use super::fold::Folder;
use super::inputs::Symbols;
use super::node::OpImport;
use super::symbolic::{self, Known, MAX_TEXT};
use super::{ImportOptions, Weights};
use crate::error::{ImportError, NodeSite};
use crate::graph::Graph;
use crate::model::Model;
use crate::node::Node;
use crate::ops;

/// Constants of at most this many elements are literals, larger ones parameters.
const MAX_LITERAL: usize = 16;

/// A value of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(usize);

#[derive(Clone)]
enum Content {
    Computed,
    Symbolic(Vec<DimExpr>),
    Constant(Tensor),
}

struct Entry<'m> {
    ty: TensorType,
    content: Content,
    /// The operation's result, once there is one.
    value: Option<Value<'m>>,
    /// Name of the initializer that a constant comes from.
    source: Option<String>,
}

/// State of the walk over one model.
pub(crate) struct Importer<'m> {
    builder: Builder<'m>,
    /// Where parameters go: before the function.
    parameters: Builder<'m>,
    entries: Vec<Entry<'m>>,
    /// Values by name, innermost graph last.
    scopes: Vec<HashMap<String, Handle>>,
    file: String,
    weights: Weights,
    symbols: HashSet<String>,
    folder: Folder,
    /// Extents that are values already.
    extents: HashMap<String, Value<'m>>,
    arguments: Vec<(Value<'m>, TensorType)>,
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
        module.op().set_attribute("graph.model", context.string(file))?;
        let top = Builder::at_end(module.body()).ok_or_else(|| broken("the module has no body"))?;

        let is_argument = |name: &str| !constant.contains(name);
        let inputs: Vec<_> = graph.inputs.iter().zip(&types).filter(|(input, _)| is_argument(&input.name)).collect();
        let mut argument_types = Vec::new();
        for (input, ty) in &inputs {
            let ty = ty.to_type(context).map_err(|source| input_error(&input.name, &source))?;
            argument_types.push((ty, context.name_location(&input.name, context.file_location(file, 0, 0))));
        }
        let types_only: Vec<_> = argument_types.iter().map(|(ty, _)| *ty).collect();
        let names: Vec<_> = inputs.iter().map(|(input, _)| name_attributes(context, &input.name)).collect();
        let mut function = top
            .op("func.func")
            .attribute("sym_name", context.string("main"))
            .attribute("function_type", context.type_attribute(context.function_type(&types_only, &[])))
            .regions(1);
        if !names.is_empty() {
            function = function.attribute("arg_attrs", context.array(&names));
        }
        let function = function.build()?;
        let region = function.region(0).ok_or_else(|| broken("a function has a region"))?;
        let block = region.append_block(&argument_types)?;
        let mut importer = Importer {
            builder: Builder::at_end(block).ok_or_else(|| broken("a block is in a function"))?,
            parameters: Builder::before(function).ok_or_else(|| broken("a function is in a module"))?,
            entries: Vec::new(),
            scopes: vec![HashMap::new()],
            file: file.to_owned(),
            weights: Weights::new(),
            symbols: HashSet::from(["main".to_owned()]),
            folder: Folder::new(),
            extents: HashMap::new(),
            arguments: Vec::new(),
        };
        for ((input, ty), value) in inputs.iter().zip(block.arguments()) {
            importer.arguments.push((value, (*ty).clone()));
            let handle = importer.push((*ty).clone(), Content::Computed, Some(value));
            importer.name(&input.name, handle);
        }
        for (input, ty) in graph.inputs.iter().zip(&types).filter(|(input, _)| !is_argument(&input.name)) {
            let given = options.constants.get(&input.name).ok_or_else(|| broken("a constant input has a value"))?;
            check_value(&input.name, ty, given)?;
            let handle = importer.constant(given.clone());
            importer.name(&input.name, handle);
        }
        importer.graph(graph)?;

        let mut results = Vec::new();
        for output in &graph.outputs {
            let Some(handle) = importer.lookup(&output.name) else {
                return Err(ImportError::Undefined {
                    what: "an output of the graph".to_owned(),
                    name: output.name.clone(),
                });
            };
            let found = importer.ty(handle).dtype;
            let declared = match &output.value_type {
                crate::value::ValueType::Undeclared => found,
                _ => output.tensor()?.dtype,
            };
            if declared != found {
                return Err(ImportError::OutputType { name: output.name.clone(), declared, found });
            }
            importer.set_location(context.name_location(&output.name, context.file_location(file, 0, 0)));
            results.push(importer.materialise(handle).map_err(|source| input_error(&output.name, &source))?);
        }
        let result_types: Vec<_> = results.iter().map(|value| value.ty()).collect();
        importer.builder.with_location(context.unknown_location()).op("func.return").operands(&results).build()?;
        function.set_attribute(
            "function_type",
            context.type_attribute(context.function_type(&types_only, &result_types)),
        )?;
        if !results.is_empty() {
            let names: Vec<_> = graph.outputs.iter().map(|output| name_attributes(context, &output.name)).collect();
            function.set_attribute("res_attrs", context.array(&names))?;
        }
        Ok(importer.weights)
    }

    /// Imports the initializers and nodes of a graph into the innermost scope.
    pub(crate) fn graph(&mut self, graph: &Graph) -> Result<(), ImportError> {
        for (name, tensor) in &graph.initializers {
            let handle = self.constant(tensor.clone());
            self.entries[handle.0].source = Some(name.clone());
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
        self.builder = self.builder.with_location(location);
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

    fn push(&mut self, ty: TensorType, content: Content, value: Option<Value<'m>>) -> Handle {
        self.entries.push(Entry { ty, content, value, source: None });
        Handle(self.entries.len() - 1)
    }

    /// A constant.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> Handle {
        let shape: Vec<u64> = tensor.shape().iter().map(|size| *size as u64).collect();
        self.push(TensorType::fixed(tensor.dtype(), &shape), Content::Constant(tensor), None)
    }

    /// Integers known as expressions; `shape` is a number of elements or empty for a scalar.
    pub(crate) fn symbolic(&mut self, dtype: DType, shape: &[u64], values: Vec<DimExpr>) -> Handle {
        let known = Known { dtype, shape: shape.iter().map(|size| *size as usize).collect(), values };
        match known.to_tensor() {
            Some(tensor) => self.constant(tensor),
            None => self.push(TensorType::fixed(dtype, shape), Content::Symbolic(known.values), None),
        }
    }

    /// Type of a value.
    pub(crate) fn ty(&self, handle: Handle) -> &TensorType {
        &self.entries[handle.0].ty
    }

    /// The tensor, where a value is a constant.
    pub(crate) fn tensor(&self, handle: Handle) -> Option<&Tensor> {
        match &self.entries[handle.0].content {
            Content::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The elements in row-major order, where they are known integers or expressions.
    pub(crate) fn dims(&self, handle: Handle) -> Option<Vec<DimExpr>> {
        self.known(handle).map(|known| known.values)
    }

    fn known(&self, handle: Handle) -> Option<Known> {
        let entry = &self.entries[handle.0];
        match &entry.content {
            Content::Computed => None,
            Content::Constant(tensor) => Known::of_tensor(tensor),
            Content::Symbolic(values) => {
                let shape = entry.ty.known_shape()?.into_iter().map(|size| size as usize).collect();
                Some(Known { dtype: entry.ty.dtype, shape, values: values.clone() })
            }
        }
    }

    /// Applies an operator: at once where the operands are known and small, else by an operation.
    pub(crate) fn emit(&mut self, operator: &Operator, operands: &[Handle]) -> Result<Vec<Handle>, SemanticError> {
        let types: Vec<TensorType> = operands.iter().map(|handle| self.ty(*handle).clone()).collect();
        let results = operator.infer(&types)?;
        check_size(operator, &results)?;
        if let Operator::DimExtent(DimExtent { axis }) = operator {
            let rank = types[0].rank() as i64;
            let axis = if *axis < 0 { axis + rank } else { *axis } as usize;
            return Ok(vec![self.symbolic(DType::I64, &[], vec![types[0].dims[axis].extent.clone()])]);
        }
        if let Some(results) = self.evaluate(operator, operands, &results) {
            return Ok(results);
        }
        let values = operands.iter().map(|handle| self.materialise(*handle)).collect::<Result<Vec<_>, _>>()?;
        let built = operator.build_as(self.builder, &values, &results)?;
        Ok(results.into_iter().zip(built).map(|(ty, value)| self.push(ty, Content::Computed, Some(value))).collect())
    }

    fn evaluate(&mut self, operator: &Operator, operands: &[Handle], results: &[TensorType]) -> Option<Vec<Handle>> {
        let tensors: Option<Vec<Tensor>> = operands.iter().map(|handle| self.tensor(*handle).cloned()).collect();
        if let Some(tensors) = &tensors
            && let Some(values) = self.folder.fold(operator, tensors, results)
        {
            let source = match operator {
                Operator::Reshape(_) => self.entries[operands[0].0].source.clone(),
                _ => None,
            };
            let handles: Vec<Handle> = values.into_iter().map(|tensor| self.constant(tensor)).collect();
            if let Some(handle) = handles.first() {
                self.entries[handle.0].source = source;
            }
            return Some(handles);
        }
        if operands.iter().any(|handle| matches!(self.entries[handle.0].content, Content::Computed)) {
            return None;
        }
        let known: Option<Vec<Known>> = operands.iter().map(|handle| self.known(*handle)).collect();
        let known = symbolic::evaluate(operator, &known?, results)?;
        let shape: Vec<u64> = known.shape.iter().map(|size| *size as u64).collect();
        Some(vec![self.symbolic(known.dtype, &shape, known.values)])
    }

    /// The value as a result of an operation or an argument.
    fn materialise(&mut self, handle: Handle) -> Result<Value<'m>, SemanticError> {
        if let Some(value) = self.entries[handle.0].value {
            return Ok(value);
        }
        let ty = self.entries[handle.0].ty.clone();
        let value = match self.entries[handle.0].content.clone() {
            Content::Constant(tensor) if tensor.element_count() <= MAX_LITERAL => {
                self.build(Constant { value: tensor }, &[], ty)?
            }
            Content::Constant(tensor) if self.entries[handle.0].source.is_none() && is_uniform(&tensor) => {
                let scalar = self.uniform(&tensor)?;
                let shape = ty.dims.iter().map(|dim| dim.extent.clone()).collect();
                self.build(Broadcast { shape }, &[scalar], ty)?
            }
            Content::Constant(tensor) => self.parameter(tensor, &ty, self.entries[handle.0].source.clone())?,
            Content::Symbolic(values) => self.integers(&values, &ty)?,
            Content::Computed => return Err(structure("a computed value has an operation")),
        };
        self.entries[handle.0].value = Some(value);
        Ok(value)
    }

    /// The element of a tensor of equal elements.
    fn uniform(&mut self, tensor: &Tensor) -> Result<Value<'m>, SemanticError> {
        let element = tensor.bytes()[..tensor.dtype().size()].to_vec();
        let value = Tensor::new(tensor.dtype(), Vec::new(), element).map_err(|error| structure(&error.to_string()))?;
        self.build(Constant { value }, &[], TensorType::fixed(tensor.dtype(), &[]))
    }

    fn build(
        &mut self,
        operator: impl Into<Operator>,
        operands: &[Value<'m>],
        ty: TensorType,
    ) -> Result<Value<'m>, SemanticError> {
        let values = operator.into().build_as(self.builder, operands, &[ty])?;
        values.first().copied().ok_or_else(|| structure("an operator has a result"))
    }

    fn parameter(
        &mut self,
        tensor: Tensor,
        ty: &TensorType,
        source: Option<String>,
    ) -> Result<Value<'m>, SemanticError> {
        let context = self.builder.context();
        let symbol = self.symbol(source.as_deref().unwrap_or("constant"));
        let mlir_type = ty.to_type(context)?;
        let built = self
            .parameters
            .with_location(self.builder.location())
            .op("graph.parameter")
            .attribute("sym_name", context.string(&symbol))
            .attribute("type", context.type_attribute(mlir_type))
            .optional_attribute("source", source.map(|source| context.string(&source)))
            .build()
            .and_then(|_| {
                self.builder
                    .op("graph.get_parameter")
                    .attribute("parameter", context.symbol(&symbol))
                    .results(&[mlir_type])
                    .value()
            });
        self.weights.insert(symbol, tensor);
        built.map_err(|error| structure(&error.to_string()))
    }

    /// A symbol of the module that nothing has yet, as near to a name as symbols may be.
    fn symbol(&mut self, name: &str) -> String {
        const LONGEST: usize = 120;
        let plain = |c: char| if c.is_ascii_graphic() && !matches!(c, '"' | '\\') { c } else { '_' };
        let base: String = name.chars().take(LONGEST).map(plain).collect();
        let base = if base.is_empty() { "constant".to_owned() } else { base };
        let mut symbol = base.clone();
        let mut number = 1;
        while !self.symbols.insert(symbol.clone()) {
            symbol = format!("{base}_{number}");
            number += 1;
        }
        symbol
    }

    /// Known integers as a tensor that is put together from extents of dimensions.
    fn integers(&mut self, values: &[DimExpr], ty: &TensorType) -> Result<Value<'m>, SemanticError> {
        let one = TensorType::fixed(DType::I64, &[1]);
        let mut parts = Vec::with_capacity(values.len());
        for value in values {
            let scalar = self.extent(value)?;
            parts.push(self.build(Reshape { shape: vec![1.into()] }, &[scalar], one.clone())?);
        }
        let mut whole =
            self.build(Concat { axis: 0 }, &parts, TensorType::fixed(DType::I64, &[values.len() as u64]))?;
        let shape: Vec<DimExpr> = ty.dims.iter().map(|dim| dim.extent.clone()).collect();
        whole = self.build(Reshape { shape }, &[whole], TensorType::new(DType::I64, ty.dims.clone()))?;
        if ty.dtype != DType::I64 {
            whole = self.build(Cast { dtype: ty.dtype, saturate: false }, &[whole], ty.clone())?;
        }
        Ok(whole)
    }

    /// An expression as an i64 scalar.
    fn extent(&mut self, value: &DimExpr) -> Result<Value<'m>, SemanticError> {
        let text = value.to_string();
        if let Some(known) = self.extents.get(&text) {
            return Ok(*known);
        }
        let scalar = TensorType::fixed(DType::I64, &[]);
        let result = if let Some(number) = value.as_constant() {
            let tensor = Tensor::from_i64(Vec::new(), &[number]).map_err(|error| structure(&error.to_string()))?;
            self.build(Constant { value: tensor }, &[], scalar)?
        } else {
            let has_it = |(argument, ty): &(Value<'m>, TensorType)| {
                ty.dims.iter().position(|dim| dim.extent == *value).map(|axis| (*argument, axis))
            };
            let (operand, axis) = match self.arguments.iter().find_map(has_it) {
                Some(found) => found,
                None => {
                    // No input has the extent: a tensor that has it is made, of which nothing else is read.
                    let iota = Operator::from(Iota { dtype: DType::I64, shape: vec![value.clone()], axis: 0 });
                    let ty = iota.infer(&[])?;
                    (iota.build_as(self.builder, &[], &ty)?[0], 0)
                }
            };
            self.build(DimExtent { axis: axis as i64 }, &[operand], scalar)?
        };
        self.extents.insert(text, result);
        Ok(result)
    }
}

/// Whether all elements, of which there are some, are the same bits.
fn is_uniform(tensor: &Tensor) -> bool {
    let mut elements = tensor.bytes().chunks_exact(tensor.dtype().size());
    elements.next().is_some_and(|first| elements.all(|element| element == first))
}

/// Refuses results that no memory holds or whose dimensions no reader could follow.
fn check_size(operator: &Operator, results: &[TensorType]) -> Result<(), SemanticError> {
    let refuse =
        |message: &str| Err(SemanticError::new(tenon_graph_dialect::ErrorKind::Shape, operator.name(), message));
    for ty in results {
        let known: Vec<u64> = ty.dims.iter().filter_map(|dim| dim.known()).collect();
        let bytes = match known.contains(&0) {
            true => Some(0),
            false => known.iter().try_fold(ty.dtype.size() as u64, |bytes, size| bytes.checked_mul(*size)),
        };
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return refuse("the result is larger than any memory");
        }
        let too_long = |extent: &DimExpr| extent.as_constant().is_none() && extent.to_string().len() > 2 * MAX_TEXT;
        if ty.dims.iter().any(|dim| too_long(&dim.extent)) {
            return refuse("a dimension of the result is too large an expression");
        }
    }
    Ok(())
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

fn name_attributes<'s>(context: Context<'s>, name: &str) -> tenon_ir::Attribute<'s> {
    context.dictionary(&[("graph.name", context.string(name))])
}

fn structure(message: &str) -> SemanticError {
    SemanticError::new(tenon_graph_dialect::ErrorKind::Structure, "import", message)
}

fn broken(what: &str) -> ImportError {
    ImportError::Unsupported { what: format!("this build of MLIR, where it does not hold that {what},") }
}

fn input_error(name: &str, source: &SemanticError) -> ImportError {
    ImportError::GivenInput { name: name.to_owned(), reason: source.to_string() }
}
