//! The values of a model and the module being built.
//!
//! A value is held by a [`Handle`]. It is *computed* (a result of an operation), *constant* (a tensor), or *symbolic* (integers known as
//! expressions over the symbols of the inputs). Constants and symbolic values become operations when one that computes needs them.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use tenon_graph_dialect::operators::{Broadcast, Cast, Concat, Constant, DimExtent, Iota, Reshape, SetDimensionSize};
use tenon_graph_dialect::{DimExpr, ErrorKind, Operator, Relation, Requirement, SemanticError, TensorType};
use tenon_ir::{Attribute, Block, Builder, Context, Location, Module, Op, Value};
use tenon_tensor::{DType, Tensor};

use crate::counter::Counters;
use crate::fold::Folder;
use crate::symbolic::{self, Known, MAX_TEXT};

/// Constants of at most this many elements are literals, larger ones parameters.
pub(crate) const MAX_LITERAL: usize = 16;

/// Parameters of a module by name, in order of first use. A weight that a file stores as it is used shares the file's bytes.
pub type Weights = IndexMap<String, Tensor>;

/// A value of the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(usize);

/// An argument of `@main`.
pub struct Argument<'m> {
    /// Its name, the attribute `graph.name`.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// Where the model declares it.
    pub location: Location<'m>,
    /// Further attributes.
    pub attributes: Vec<(&'static str, Attribute<'m>)>,
}

/// A result of `@main`.
pub struct Output<'m> {
    /// Its name, the attribute `graph.name`.
    pub name: String,
    /// The value.
    pub value: Handle,
    /// Where the model declares it.
    pub location: Location<'m>,
    /// Further attributes.
    pub attributes: Vec<(&'static str, Attribute<'m>)>,
}

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
    /// Name of the weight that a constant comes from.
    source: Option<String>,
    /// The parameter that holds it, once there is one.
    parameter: Option<String>,
}

/// What was before a region was entered.
struct Around<'m> {
    builder: Builder<'m>,
    extents: HashMap<String, Value<'m>>,
    /// Known values that became operations inside the region, which nothing outside can use.
    inside: Vec<Handle>,
}

/// A module of the graph dialect being built: one function, `@main`.
pub struct GraphBuilder<'m> {
    module: Op<'m>,
    function: Op<'m>,
    requirements: Vec<Requirement>,
    builder: Builder<'m>,
    /// Where parameters go: before the function.
    parameters: Builder<'m>,
    entries: Vec<Entry<'m>>,
    weights: Weights,
    symbols: HashSet<String>,
    folder: Folder,
    /// Extents that are values already.
    extents: HashMap<String, Value<'m>>,
    /// Names of extents that the program computes.
    computed_extents: HashSet<String>,
    pub(crate) counters: Counters,
    arguments: Vec<(Value<'m>, TensorType)>,
    around: Vec<Around<'m>>,
}

impl<'m> GraphBuilder<'m> {
    /// Fills an empty module with a function `@main` of these arguments; gives their values. `model` is the attribute `graph.model`.
    ///
    /// # Errors
    /// A type that MLIR refuses.
    pub fn new(
        module: &'m Module<'_>,
        model: &str,
        arguments: &[Argument<'m>],
    ) -> Result<(Self, Vec<Handle>), SemanticError> {
        let context = module.op().context();
        module
            .op()
            .set_attribute("graph.model", context.string(model))
            .map_err(|error| structure(&error.to_string()))?;
        let top = Builder::at_end(module.body()).ok_or_else(|| structure("the module has no body"))?;
        let mut block_arguments = Vec::new();
        for argument in arguments {
            block_arguments.push((argument.ty.to_type(context)?, argument.location));
        }
        let types: Vec<_> = block_arguments.iter().map(|(ty, _)| *ty).collect();
        let mut function = top
            .op("func.func")
            .attribute("sym_name", context.string("main"))
            .attribute("function_type", context.type_attribute(context.function_type(&types, &[])))
            .regions(1);
        if !arguments.is_empty() {
            let named = arguments.iter().map(|argument| attributes(context, &argument.name, &argument.attributes));
            function = function.attribute("arg_attrs", context.array(&named.collect::<Vec<_>>()));
        }
        let function = function.build().map_err(|error| structure(&error.to_string()))?;
        let region = function.region(0).ok_or_else(|| structure("a function has no region"))?;
        let block = region.append_block(&block_arguments).map_err(|error| structure(&error.to_string()))?;
        let mut graph = GraphBuilder {
            module: module.op(),
            function,
            requirements: Vec::new(),
            builder: Builder::at_end(block).ok_or_else(|| structure("a block is in no function"))?,
            parameters: Builder::before(function).ok_or_else(|| structure("a function is in no module"))?,
            entries: Vec::new(),
            weights: Weights::new(),
            symbols: HashSet::from(["main".to_owned()]),
            folder: Folder::new(),
            extents: HashMap::new(),
            computed_extents: HashSet::new(),
            counters: Counters::default(),
            arguments: Vec::new(),
            around: Vec::new(),
        };
        let mut handles = Vec::new();
        for (argument, value) in arguments.iter().zip(block.arguments()) {
            graph.arguments.push((value, argument.ty.clone()));
            handles.push(graph.push(argument.ty.clone(), Content::Computed, Some(value)));
        }
        Ok((graph, handles))
    }

    /// Ends the function with its results; gives the parameters' values.
    ///
    /// # Errors
    /// A value that cannot become an operation; with the output's name.
    pub fn finish(mut self, outputs: &[Output<'m>]) -> Result<Weights, (String, SemanticError)> {
        let context = self.context();
        Requirement::write_all(self.module, &self.requirements).map_err(|error| (String::new(), error))?;
        let mut results = Vec::new();
        for output in outputs {
            self.set_location(output.location);
            results.push(self.materialise(output.value).map_err(|error| (output.name.clone(), error))?);
        }
        let types: Vec<_> = results.iter().map(|value| value.ty()).collect();
        let arguments: Vec<_> = self.arguments.iter().map(|(value, _)| value.ty()).collect();
        let set = || {
            self.builder.with_location(context.unknown_location()).op("func.return").operands(&results).build()?;
            let ty = context.type_attribute(context.function_type(&arguments, &types));
            self.function.set_attribute("function_type", ty)?;
            if !outputs.is_empty() {
                let named = outputs.iter().map(|output| attributes(context, &output.name, &output.attributes));
                self.function.set_attribute("res_attrs", context.array(&named.collect::<Vec<_>>()))?;
            }
            Ok::<_, tenon_ir::IrError>(())
        };
        match set() {
            Ok(()) => Ok(self.weights),
            Err(error) => Err((String::new(), structure(&error.to_string()))),
        }
    }

    /// The module's context.
    pub fn context(&self) -> Context<'m> {
        self.builder.context()
    }

    /// Where operations go, for those that are no operators of the graph dialect.
    pub fn builder(&self) -> Builder<'m> {
        self.builder
    }

    /// The location that operations get from here on.
    pub fn set_location(&mut self, location: Location<'_>) {
        self.builder = self.builder.with_location(location);
    }

    /// Puts what is emitted from here on into a block of a region at this place; gives the values of its arguments.
    ///
    /// # Errors
    /// A block that is in no operation, or has arguments that are no tensors.
    pub fn enter(&mut self, block: Block<'m>) -> Result<Vec<Handle>, SemanticError> {
        let mut arguments = Vec::new();
        for value in block.arguments() {
            let ty = TensorType::read(value.ty())?;
            arguments.push(self.push(ty, Content::Computed, Some(value)));
        }
        let inner = self.builder.in_block(block);
        let around = Around { builder: self.builder, extents: self.extents.clone(), inside: Vec::new() };
        self.around.push(around);
        self.builder = inner;
        Ok(arguments)
    }

    /// Goes back to where [`Self::enter`] was called. Values of the region must not be used outside of it.
    pub fn leave(&mut self) {
        let Some(around) = self.around.pop() else { return };
        let location = self.builder.location();
        self.builder = around.builder.with_location(location);
        self.extents = around.extents;
        for handle in around.inside {
            self.entries[handle.0].value = None;
        }
    }

    /// A value computed by an operation that is no operator of the graph dialect.
    ///
    /// # Errors
    /// A value that is no tensor.
    pub fn computed(&mut self, value: Value<'m>) -> Result<Handle, SemanticError> {
        let ty = TensorType::read(value.ty())?;
        Ok(self.push(ty, Content::Computed, Some(value)))
    }

    fn push(&mut self, ty: TensorType, content: Content, value: Option<Value<'m>>) -> Handle {
        self.entries.push(Entry { ty, content, value, source: None, parameter: None });
        Handle(self.entries.len() - 1)
    }

    /// A weight, which keeps its name as a parameter.
    pub fn weight(&mut self, name: &str, tensor: Tensor) -> Handle {
        let handle = self.constant(tensor);
        self.entries[handle.0].source = Some(name.to_owned());
        handle
    }

    /// A constant.
    pub fn constant(&mut self, tensor: Tensor) -> Handle {
        let shape: Vec<u64> = tensor.shape().iter().map(|size| *size as u64).collect();
        self.push(TensorType::fixed(tensor.dtype(), &shape), Content::Constant(tensor), None)
    }

    /// Integers known as expressions; `shape` is a number of elements or empty for a scalar.
    pub fn symbolic(&mut self, dtype: DType, shape: &[u64], values: Vec<DimExpr>) -> Handle {
        let known = Known { dtype, shape: shape.iter().map(|size| *size as usize).collect(), values };
        match known.to_tensor() {
            Some(tensor) => self.constant(tensor),
            None => self.push(TensorType::fixed(dtype, shape), Content::Symbolic(known.values), None),
        }
    }

    /// Type of a value.
    pub fn ty(&self, handle: Handle) -> &TensorType {
        &self.entries[handle.0].ty
    }

    /// The tensor, where a value is a constant.
    pub fn tensor(&self, handle: Handle) -> Option<&Tensor> {
        match &self.entries[handle.0].content {
            Content::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The elements in row-major order, where they are known integers or expressions.
    pub fn dims(&self, handle: Handle) -> Option<Vec<DimExpr>> {
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

    /// A name for an extent that the program computes, which nothing has yet: neither an argument nor another operation.
    pub fn extent_name(&mut self, base: &str) -> String {
        let taken: HashSet<String> =
            self.arguments.iter().flat_map(|(_, ty)| &ty.dims).flat_map(|dim| dim.extent.symbols()).collect();
        let mut number = 0;
        loop {
            let name = format!("{base}_{number}");
            if !taken.contains(&name) && self.computed_extents.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }

    /// Whether an expression depends on an extent that the program computes, which may be 0 where an input's would not.
    pub fn is_computed(&self, extent: &DimExpr) -> bool {
        extent.symbols().iter().any(|name| self.computed_extents.contains(name))
    }

    /// Says which value, an i64 scalar, is the extent of a name.
    ///
    /// # Errors
    /// A value that MLIR refuses.
    pub fn set_extent(&mut self, name: &str, value: Handle) -> Result<(), SemanticError> {
        let value = self.materialise(value)?;
        self.extents.insert(DimExpr::symbol(name).to_string(), value);
        Ok(())
    }

    /// Demands a relation between sizes, for the nodes that operations are emitted for: of every request, where it does not hold always.
    ///
    /// # Errors
    /// A relation that holds of no sizes.
    pub fn require(
        &mut self,
        left: DimExpr,
        relation: Relation,
        right: DimExpr,
        reason: &str,
    ) -> Result<(), SemanticError> {
        let source = self.builder.location().names();
        self.require_all([Requirement { source, ..Requirement::new(left, relation, right, reason) }])
    }

    /// Demands what the model says of its sizes itself.
    ///
    /// # Errors
    /// A requirement that no sizes fulfil.
    pub fn require_all(&mut self, list: impl IntoIterator<Item = Requirement>) -> Result<(), SemanticError> {
        for requirement in list {
            match requirement.condition.decide() {
                Some(true) => {}
                None => self.requirements.push(requirement),
                Some(false) => {
                    let message = format!("{}: {} does not hold", requirement.reason, requirement.condition);
                    return Err(SemanticError::new(ErrorKind::Shape, "the model", message));
                }
            }
        }
        Ok(())
    }

    /// Demands that a value, an i64 scalar that the program computes, is 1. It is read while the program runs, and a run where it is not is refused.
    ///
    /// # Errors
    /// A value of another type.
    pub fn require_one(&mut self, value: Handle, reason: &str) -> Result<(), SemanticError> {
        // The value becomes an extent, since that is what the host reads and holds against requirements.
        let name = self.extent_name("assertion");
        let list = self.integers(&[1])?;
        let extent = DimExpr::symbol(&name);
        self.emit(&SetDimensionSize { extent: extent.clone() }.into(), &[list, value])?;
        self.require(extent, Relation::Equal, DimExpr::constant(1), reason)
    }

    /// Applies an operator: at once where the operands are known and small, else by an operation.
    ///
    /// # Errors
    /// Operands that the operator does not take, or a result that no memory holds.
    pub fn emit(&mut self, operator: &Operator, operands: &[Handle]) -> Result<Vec<Handle>, SemanticError> {
        let types: Vec<TensorType> = operands.iter().map(|handle| self.ty(*handle).clone()).collect();
        let results = operator.infer(&types)?;
        check_size(operator, &results)?;
        self.counters.check(operator, &results)?;
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
        let known = symbolic::evaluate(operator, &known?, results, &self.counters)?;
        let shape: Vec<u64> = known.shape.iter().map(|size| *size as u64).collect();
        Some(vec![self.symbolic(known.dtype, &shape, known.values)])
    }

    /// The value as a result of an operation or an argument.
    ///
    /// # Errors
    /// A value that MLIR refuses.
    pub fn materialise(&mut self, handle: Handle) -> Result<Value<'m>, SemanticError> {
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
            Content::Constant(tensor) => self.parameter(tensor, &ty, handle)?,
            Content::Symbolic(values) => self.extents_tensor(&values, &ty)?,
            Content::Computed => return Err(structure("a computed value has an operation")),
        };
        self.entries[handle.0].value = Some(value);
        if let Some(around) = self.around.last_mut() {
            around.inside.push(handle);
        }
        Ok(value)
    }

    /// The element of a tensor of equal elements.
    fn uniform(&mut self, tensor: &Tensor) -> Result<Value<'m>, SemanticError> {
        let element = tensor.bytes()[..tensor.dtype().size()].to_vec();
        let value = Tensor::new(tensor.dtype(), Vec::new(), element).map_err(|error| structure(&error.to_string()))?;
        self.build(Constant { value }, &[], TensorType::fixed(tensor.dtype(), &[]))
    }

    pub(crate) fn build(
        &mut self,
        operator: impl Into<Operator>,
        operands: &[Value<'m>],
        ty: TensorType,
    ) -> Result<Value<'m>, SemanticError> {
        let values = operator.into().build_as(self.builder, operands, &[ty])?;
        values.first().copied().ok_or_else(|| structure("an operator has a result"))
    }

    /// The parameter of a constant, one for all regions that use it.
    fn parameter(&mut self, tensor: Tensor, ty: &TensorType, handle: Handle) -> Result<Value<'m>, SemanticError> {
        let context = self.builder.context();
        let mlir_type = ty.to_type(context)?;
        let refused = |error: tenon_ir::IrError| structure(&error.to_string());
        let symbol = match self.entries[handle.0].parameter.clone() {
            Some(symbol) => symbol,
            None => {
                let source = self.entries[handle.0].source.clone();
                let symbol = self.symbol(source.as_deref().unwrap_or("constant"));
                self.parameters
                    .with_location(self.builder.location())
                    .op("graph.parameter")
                    .attribute("sym_name", context.string(&symbol))
                    .attribute("type", context.type_attribute(mlir_type))
                    .optional_attribute("source", source.map(|source| context.string(&source)))
                    .build()
                    .map_err(refused)?;
                self.weights.insert(symbol.clone(), tensor);
                self.entries[handle.0].parameter = Some(symbol.clone());
                symbol
            }
        };
        let parameter = context.symbol(&symbol);
        let read = self.builder.op("graph.get_parameter").attribute("parameter", parameter).results(&[mlir_type]);
        read.value().map_err(refused)
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
    fn extents_tensor(&mut self, values: &[DimExpr], ty: &TensorType) -> Result<Value<'m>, SemanticError> {
        let shape: Vec<DimExpr> = ty.dims.iter().map(|dim| dim.extent.clone()).collect();
        if values.len() > MAX_LITERAL && values.iter().all(|value| *value == values[0]) {
            let mut scalar = self.extent(&values[0])?;
            if ty.dtype != DType::I64 {
                let cast = Cast { dtype: ty.dtype, saturate: false };
                scalar = self.build(cast, &[scalar], TensorType::fixed(ty.dtype, &[]))?;
            }
            return self.build(Broadcast { shape }, &[scalar], ty.clone());
        }
        let one = TensorType::fixed(DType::I64, &[1]);
        let mut parts = Vec::with_capacity(values.len());
        for value in values {
            let scalar = self.extent(value)?;
            parts.push(self.build(Reshape { shape: vec![1.into()] }, &[scalar], one.clone())?);
        }
        let mut whole =
            self.build(Concat { axis: 0 }, &parts, TensorType::fixed(DType::I64, &[values.len() as u64]))?;
        whole = self.build(Reshape { shape }, &[whole], TensorType::new(DType::I64, ty.dims.clone()))?;
        if ty.dtype != DType::I64 {
            whole = self.build(Cast { dtype: ty.dtype, saturate: false }, &[whole], ty.clone())?;
        }
        Ok(whole)
    }

    /// An expression as an i64 scalar.
    pub(crate) fn extent(&mut self, value: &DimExpr) -> Result<Value<'m>, SemanticError> {
        let text = value.to_string();
        if let Some(known) = self.extents.get(&text) {
            return Ok(*known);
        }
        let scalar = TensorType::fixed(DType::I64, &[]);
        let result = if let Some(number) = value.as_constant() {
            let tensor = Tensor::from_i64(Vec::new(), &[number]).map_err(|error| structure(&error.to_string()))?;
            self.build(Constant { value: tensor }, &[], scalar)?
        } else if self.is_counted(value) {
            self.counted_value(value)?
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
    let refuse = |message: &str| Err(SemanticError::new(ErrorKind::Shape, operator.name(), message));
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

fn attributes<'s>(context: Context<'s>, name: &str, further: &[(&'static str, Attribute<'s>)]) -> Attribute<'s> {
    let mut entries = vec![("graph.name", context.string(name))];
    entries.extend_from_slice(further);
    context.dictionary(&entries)
}

pub(crate) fn structure(message: &str) -> SemanticError {
    SemanticError::new(ErrorKind::Structure, "import", message)
}
