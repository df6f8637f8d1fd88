//! Functions of a module.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tenon_flow_dialect::Flow;
use tenon_graph_dialect::operators::SetDimensionSize;
use tenon_graph_dialect::{Dim, DimExpr, Operator, TensorType};
use tenon_ir::{Block, Module, Op, Value};
use tenon_tensor::Tensor;

use crate::array::{Array, Form};
use crate::evaluate::evaluate_arrays;
use crate::{MAX_LIVE_BYTES, Mode, ReferenceError, ReferenceErrorKind};

/// Kernels and derived parameters may nest at most this deep.
pub(crate) const MAX_DEPTH: usize = 32;

/// Called with each result of each operation, and which result it is.
type Observer<'o> = Box<dyn FnMut(Op<'_>, usize, &Tensor) + 'o>;

/// Interpreter of one module.
///
/// Runs `func.func` whose body is one block of graph operators, `graph.get_parameter`, `graph.kernel` and control flow of the flow dialect,
/// ending in `func.return`.
/// `graph.derived_parameter` is evaluated from its region when it is first read, and kept, unless its value is given as that of a parameter is.
pub struct Interpreter<'m, 'o> {
    pub(crate) mode: Mode,
    symbols: BTreeMap<String, Op<'m>>,
    parameters: &'o dyn Fn(&str) -> Option<Tensor>,
    observer: Option<Observer<'o>>,
    derived: HashMap<String, Array>,
    /// Derived parameters being evaluated.
    pending: BTreeSet<String>,
    /// Extents that the function has computed so far, by name.
    extents: BTreeMap<String, i64>,
    live_bytes: u64,
}

/// Values of one region: each with the number of uses still to come.
#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) values: HashMap<usize, (Array, usize)>,
    /// Values of the regions around this one, which keep them.
    pub(crate) captured: HashMap<usize, Array>,
}

/// Runs one function of a module; see [`Interpreter`].
///
/// # Errors
/// As [`Interpreter::run`].
pub fn run_function(
    module: &Module<'_>,
    name: &str,
    inputs: &[Tensor],
    parameters: &dyn Fn(&str) -> Option<Tensor>,
    mode: Mode,
) -> Result<Vec<Tensor>, ReferenceError> {
    Interpreter::new(module, parameters, mode).run(name, inputs)
}

impl<'m, 'o> Interpreter<'m, 'o> {
    /// An interpreter; `parameters` gives the value of each `graph.parameter` by name.
    pub fn new(module: &'m Module<'_>, parameters: &'o dyn Fn(&str) -> Option<Tensor>, mode: Mode) -> Self {
        let named = module.body().ops().into_iter().filter_map(|op| Some((op.string("sym_name")?, op)));
        Interpreter {
            mode,
            symbols: named.collect(),
            parameters,
            observer: None,
            derived: HashMap::new(),
            pending: BTreeSet::new(),
            extents: BTreeMap::new(),
            live_bytes: 0,
        }
    }

    /// Calls `observer` with every value that is computed, in order. Values of the f64 mode are f64 tensors.
    pub fn observe(mut self, observer: impl FnMut(Op<'_>, usize, &Tensor) + 'o) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Runs a function. Inputs have the types of its arguments; in [`Mode::F64`] f64 tensors may stand for any float type.
    ///
    /// # Errors
    /// No such function, inputs of other types, parameters that are missing, operations that are no graph operators, and all that
    /// [`evaluate`](crate::evaluate()) refuses, with the nodes of the operation.
    pub fn run(&mut self, name: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, ReferenceError> {
        let structure = |message: &str| ReferenceError::new(ReferenceErrorKind::Structure, name, message);
        let function = self.symbols.get(name).copied().filter(|op| op.is("func.func"));
        let function = function.ok_or_else(|| structure("the module has no function of this name"))?;
        let block = single_block(function).ok_or_else(|| structure("the body must be one block"))?;
        let arguments = block.arguments();
        if arguments.len() != inputs.len() {
            return Err(structure(&format!("takes {} inputs, not {}", arguments.len(), inputs.len())));
        }
        let mut values = Vec::with_capacity(inputs.len());
        for (index, (argument, tensor)) in arguments.iter().zip(inputs).enumerate() {
            let form = Form::read(name, &TensorType::read(argument.ty())?, self.mode)?;
            values.push(self.checked(&format!("input {index} of {name}"), tensor, &form)?);
        }
        self.live_bytes = self.derived.values().map(Array::bytes).sum();
        self.extents.clear();
        self.block(block, Frame::default(), values, "func.return", 0)?.iter().map(Array::write).collect()
    }

    /// The value of a parameter or derived parameter.
    ///
    /// # Errors
    /// It is not declared, missing, of another type than declared, or computed from itself.
    pub fn parameter(&mut self, name: &str) -> Result<Tensor, ReferenceError> {
        self.live_bytes = self.derived.values().map(Array::bytes).sum();
        self.read_parameter(name, 0)?.write()
    }

    fn checked(&self, what: &str, tensor: &Tensor, form: &Form) -> Result<Array, ReferenceError> {
        let stands_in = self.mode == Mode::F64 && form.dtype.is_float() && tensor.dtype().is_float();
        if tensor.shape() != form.shape || (tensor.dtype() != form.dtype && !stands_in) {
            return Err(ReferenceError::new(
                ReferenceErrorKind::Mismatch,
                what,
                format!("declared is {}{:?}, given {}{:?}", form.dtype, form.shape, tensor.dtype(), tensor.shape()),
            ));
        }
        Array::read(tensor, form.dtype, self.mode)
    }

    fn read_parameter(&mut self, name: &str, depth: usize) -> Result<Array, ReferenceError> {
        let wrong = |message: &str| ReferenceError::new(ReferenceErrorKind::Parameter, &format!("@{name}"), message);
        if let Some(value) = self.derived.get(name) {
            return Ok(value.clone());
        }
        let declared = self.symbols.get(name).copied().ok_or_else(|| wrong("the parameter is not declared"))?;
        let ty = declared
            .attribute("type")
            .and_then(|ty| ty.as_type())
            .ok_or_else(|| wrong("the declaration has no type"))?;
        let form = Form::read(name, &TensorType::read(ty)?, self.mode)?;
        if declared.is("graph.parameter") {
            let tensor = (self.parameters)(name).ok_or_else(|| wrong("no value is given"))?;
            return self.checked(&format!("parameter @{name}"), &tensor, &form);
        }
        if !declared.is("graph.derived_parameter") {
            return Err(wrong("the symbol is no parameter"));
        }
        // A value that is given was computed before.
        if let Some(tensor) = (self.parameters)(name) {
            let value = self.checked(&format!("parameter @{name}"), &tensor, &form)?;
            self.claim(std::slice::from_ref(&value))?;
            self.derived.insert(name.to_owned(), value.clone());
            return Ok(value);
        }
        let block = single_block(declared).ok_or_else(|| wrong("the body must be one block"))?;
        if depth >= MAX_DEPTH || !self.pending.insert(name.to_owned()) {
            return Err(wrong("it is computed from itself, or from parameters that nest too deep"));
        }
        let values = self.block(block, Frame::default(), Vec::new(), "graph.yield", depth + 1);
        self.pending.remove(name);
        let value = match values?.as_slice() {
            [value] if value.dtype == form.dtype && value.shape == form.shape => value.clone(),
            _ => return Err(wrong("the body must yield one value of the declared type")),
        };
        self.claim(std::slice::from_ref(&value))?;
        self.derived.insert(name.to_owned(), value.clone());
        Ok(value)
    }

    /// Runs a block on its arguments; gives the operands of its terminator.
    pub(crate) fn block(
        &mut self,
        block: Block<'m>,
        mut frame: Frame,
        arguments: Vec<Array>,
        terminator: &str,
        depth: usize,
    ) -> Result<Vec<Array>, ReferenceError> {
        for (argument, value) in block.arguments().into_iter().zip(arguments) {
            self.bind(&mut frame, argument, value)?;
        }
        for op in block.ops() {
            let located = |error: ReferenceError| error.with_nodes(op.location().names());
            let mut operands = Vec::with_capacity(op.operand_count());
            for operand in op.operands() {
                let value = self.take(&mut frame, operand).ok_or_else(|| {
                    located(ReferenceError::new(
                        ReferenceErrorKind::Structure,
                        &op.name(),
                        "an operand has no value here",
                    ))
                })?;
                operands.push(value);
            }
            if op.is(terminator) {
                let left: u64 = frame.values.values().map(|(value, _)| value.bytes()).sum();
                self.live_bytes = self.live_bytes.saturating_sub(left);
                return Ok(operands);
            }
            let results = match Flow::read(op).transpose().map_err(|error| {
                let error = ReferenceError::new(ReferenceErrorKind::Structure, &error.operation, error.message);
                located(error)
            })? {
                Some(flow) => self.flow(&flow, &operands, &mut frame, depth),
                None => self.op(op, &operands, depth),
            };
            let results = results.map_err(located)?;
            drop(operands);
            if results.len() != op.result_count() {
                let message = format!("{} results, declared are {}", results.len(), op.result_count());
                return Err(located(ReferenceError::new(ReferenceErrorKind::Structure, &op.name(), message)));
            }
            for (index, (value, result)) in results.into_iter().zip(op.results()).enumerate() {
                if let Some(observer) = &mut self.observer {
                    observer(op, index, &value.write()?);
                }
                self.bind(&mut frame, result, value).map_err(located)?;
            }
        }
        Err(ReferenceError::new(ReferenceErrorKind::Structure, terminator, "the block does not end in this operation"))
    }

    fn op(&mut self, op: Op<'m>, operands: &[Array], depth: usize) -> Result<Vec<Array>, ReferenceError> {
        let name = op.name();
        let refuse = |kind, message: &str| Err(ReferenceError::new(kind, &name, message));
        if let Some(operator) = Operator::read(op) {
            let operator = operator?;
            let types = op.result_types().into_iter().map(TensorType::read).collect::<Result<Vec<_>, _>>()?;
            if let (Operator::SetDimensionSize(set), [input, size]) = (&operator, operands) {
                self.set_extent(&name, set, input, size)?;
            }
            if self.extents.is_empty() {
                return evaluate_arrays(&operator, operands, &types, self.mode);
            }
            let (operator, types) = self.with_extents(&name, &operator, types)?;
            return evaluate_arrays(&operator, operands, &types, self.mode);
        }
        if op.is("graph.get_parameter") {
            let Some(parameter) = op.attribute("parameter").and_then(|symbol| symbol.as_symbol()) else {
                return refuse(ReferenceErrorKind::Structure, "names no parameter");
            };
            let value = self.read_parameter(&parameter, depth)?;
            let read: Vec<_> = op.result_types().into_iter().map(TensorType::read).collect::<Result<_, _>>()?;
            let forms = read.iter().map(|ty| Form::read(&name, ty, self.mode)).collect::<Result<Vec<_>, _>>()?;
            if forms.iter().any(|form| form.dtype != value.dtype || form.shape != value.shape) {
                return refuse(ReferenceErrorKind::Mismatch, "the parameter is declared with another type");
            }
            return Ok(vec![value]);
        }
        if op.is("graph.kernel") {
            let Some(block) = single_block(op).filter(|block| block.arguments().len() == operands.len()) else {
                return refuse(
                    ReferenceErrorKind::Structure,
                    "the body must be one block with an argument for each operand",
                );
            };
            if depth >= MAX_DEPTH {
                return refuse(ReferenceErrorKind::Structure, "kernels nest too deep");
            }
            return self.block(block, Frame::default(), operands.to_vec(), "graph.yield", depth + 1);
        }
        refuse(
            ReferenceErrorKind::Unsupported,
            "the interpreter knows operators of the graph dialect and control flow of the flow dialect alone",
        )
    }

    /// Notes the value of an extent that the function computes.
    fn set_extent(
        &mut self,
        operation: &str,
        set: &SetDimensionSize,
        input: &Array,
        size: &Array,
    ) -> Result<(), ReferenceError> {
        let name = set.extent.as_symbol().unwrap_or_default();
        let size = size.ints().first().copied().unwrap_or(-1);
        let most = input.shape.first().copied().unwrap_or(0);
        if !usize::try_from(size).is_ok_and(|size| size <= most) {
            let message = format!("the extent `{name}` is {size}, outside 0 to {most}");
            return Err(ReferenceError::new(ReferenceErrorKind::Undefined, operation, message));
        }
        self.extents.insert(name.to_owned(), size);
        Ok(())
    }

    /// An operator and its result types with the extents that are known.
    fn with_extents(
        &self,
        operation: &str,
        operator: &Operator,
        mut types: Vec<TensorType>,
    ) -> Result<(Operator, Vec<TensorType>), ReferenceError> {
        let lookup = |name: &str| self.extents.get(name).copied().map(DimExpr::constant);
        let too_large =
            || ReferenceError::new(ReferenceErrorKind::TooLarge, operation, "a dimension is too large to express");
        for dim in types.iter_mut().flat_map(|ty| &mut ty.dims) {
            if dim.extent.as_constant().is_none() {
                *dim = Dim::of(dim.extent.substitute(&lookup).ok_or_else(too_large)?);
            }
        }
        Ok((operator.with_extents(&lookup).ok_or_else(too_large)?, types))
    }

    fn claim(&mut self, values: &[Array]) -> Result<(), ReferenceError> {
        let bytes: u64 = values.iter().map(Array::bytes).sum();
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if self.live_bytes > MAX_LIVE_BYTES {
            let message = format!("the values alive together take more than {MAX_LIVE_BYTES} bytes");
            return Err(ReferenceError::new(ReferenceErrorKind::TooLarge, "module", message));
        }
        Ok(())
    }

    fn bind(&mut self, frame: &mut Frame, value: Value<'m>, array: Array) -> Result<(), ReferenceError> {
        let uses = value.users().len();
        if uses > 0 {
            self.claim(std::slice::from_ref(&array))?;
            frame.values.insert(value.key(), (array, uses));
        }
        Ok(())
    }

    /// The value for one use; forgotten after its last.
    pub(crate) fn take(&mut self, frame: &mut Frame, value: Value<'m>) -> Option<Array> {
        if let Some(array) = frame.captured.get(&value.key()) {
            return Some(array.clone());
        }
        let (array, uses) = frame.values.get_mut(&value.key())?;
        *uses -= 1;
        if *uses > 0 {
            return Some(array.clone());
        }
        let (array, _) = frame.values.remove(&value.key())?;
        self.live_bytes = self.live_bytes.saturating_sub(array.bytes());
        Some(array)
    }
}

fn single_block(op: Op<'_>) -> Option<Block<'_>> {
    match op.region(0)?.blocks().as_slice() {
        [block] => Some(*block),
        _ => None,
    }
}
