//! `@main` of the `fuse` stage as plain data: values with their places, and steps.

use std::collections::{HashMap, HashSet};

use tenon_flow_dialect::Flow;
use tenon_graph_dialect::operators::{Concat, Constant, SetDimensionSize};
use tenon_graph_dialect::{Destination, OperatorKind, TensorType, destination, is_written_in_parts};
use tenon_ir::{Location, Module, Op, Value};
use tenon_tensor::{DType, Tensor};

use crate::program::{Lifetime, ProgramError};

/// Index of a value in [`Outline::values`].
pub(super) type ValueId = usize;

/// Where a value's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The caller.
    Input,
    /// A weight or a literal.
    Parameter,
    /// A step; index into [`Outline::computed`].
    Step(usize),
    /// The same bytes as another value, which is no view itself.
    View(ValueId),
    /// Some of the bytes of a concatenation, which is no view itself: a kernel writes them where they lie.
    Part(ValueId),
}

/// A value of the program.
pub(super) struct ValueOutline<'m> {
    pub ty: TensorType,
    pub origin: Origin,
    pub location: Location<'m>,
}

/// Memory that a step writes.
pub(super) struct Computed {
    pub value: ValueId,
    pub bytes: u64,
    /// The step that writes it; for a value without elements, the step before which it would be written.
    pub first: usize,
    /// The last step that uses it.
    pub last: usize,
    /// The output that it is.
    pub output: Option<usize>,
    /// Whether the value lies in the memory of another one, so that none is taken here.
    pub replaced: bool,
    /// Whether it holds zeros between runs.
    pub zeroed: bool,
}

/// A step.
pub(super) enum StepOutline<'m> {
    /// A kernel with its operands and results.
    Launch { kernel: Op<'m>, operands: Vec<ValueId>, results: Vec<ValueId> },
    /// A copy of one value's bytes to another.
    Copy { source: ValueId, target: ValueId },
    /// An extent read from the value that holds it.
    ReadExtent { name: String, capacity: u64, source: ValueId, location: Location<'m> },
    /// One of two lists of steps, by a truth value.
    If { op: Op<'m>, predicate: ValueId, then: Vec<StepOutline<'m>>, otherwise: Vec<StepOutline<'m>> },
    /// Steps that run as long as a truth value holds.
    While { op: Op<'m>, predicate: ValueId, body: Vec<StepOutline<'m>>, limit: Option<u64> },
}

/// A function as steps over values.
pub(super) struct Outline<'m> {
    pub values: Vec<ValueOutline<'m>>,
    pub computed: Vec<Computed>,
    pub inputs: Vec<(String, ValueId)>,
    pub parameters: Vec<(String, ValueId)>,
    pub outputs: Vec<(String, ValueId)>,
    pub steps: Vec<StepOutline<'m>>,
    pub constants: Vec<(String, Tensor)>,
    pub location: Location<'m>,
    /// Memory of launches besides operands and results: places in `computed`, behind those of values, by the key of the `graph.kernel`.
    pub workspaces: HashMap<usize, Vec<usize>>,
    /// That of them all which holds zeros between runs.
    pub counters: Option<usize>,
}

/// Bytes of a value in memory: what its capacities take.
pub(super) fn bytes_of(ty: &TensorType) -> Option<u64> {
    let shape = ty.capacities()?;
    if shape.contains(&0) {
        return Some(0);
    }
    let count = shape.iter().try_fold(1u64, |count, size| count.checked_mul(*size))?;
    count.checked_mul(ty.dtype.size() as u64).filter(|bytes| i64::try_from(*bytes).is_ok())
}

/// A literal by what it holds.
type Content = (DType, Vec<usize>, Vec<u8>);

pub(super) struct Reader<'m> {
    pub(super) outline: Outline<'m>,
    pub(super) by_key: HashMap<usize, ValueId>,
    parameters: HashMap<String, ValueId>,
    literals: HashMap<Content, ValueId>,
    /// Names of all parameters of the module, used or not.
    declared: HashSet<String>,
    /// Steps of the bodies of conditionals that are being read, the innermost last. They count as the conditional, which is the next
    /// step of the outline.
    pub(super) bodies: Vec<Vec<StepOutline<'m>>>,
}

impl<'m> Outline<'m> {
    /// Reads `@main`.
    pub fn read(module: &'m Module<'_>) -> Result<Self, ProgramError> {
        let mut declared = HashSet::new();
        let mut main = None;
        for op in module.body().ops() {
            let name = op.string("sym_name").unwrap_or_default();
            if op.is("graph.parameter") || op.is("graph.derived_parameter") {
                declared.insert(name);
            } else if op.is("func.func") && name == "main" {
                main = Some(op);
            } else {
                return Err(wrong(op, format!("`{}` cannot stand beside `@main`", op.name())));
            }
        }
        let main = main.ok_or_else(|| ProgramError::structure("the module has no function `@main`"))?;
        let block = main.region_block(0).ok_or_else(|| ProgramError::structure("`@main` has no body"))?;
        let outline = Outline {
            values: Vec::new(),
            computed: Vec::new(),
            inputs: Vec::new(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            steps: Vec::new(),
            constants: Vec::new(),
            location: main.location(),
            workspaces: HashMap::new(),
            counters: None,
        };
        let mut reader = Reader {
            outline,
            by_key: HashMap::new(),
            parameters: HashMap::new(),
            literals: HashMap::new(),
            declared,
            bodies: Vec::new(),
        };
        let arguments = block.arguments();
        for (argument, name) in arguments.iter().zip(names(main, "arg_attrs", "input", arguments.len())?) {
            let id = reader.value(*argument, Origin::Input, main.location())?;
            reader.outline.inputs.push((name, id));
        }
        let mut returned = None;
        for op in block.ops() {
            if op.is("func.return") {
                returned = Some(op);
            } else {
                reader.op(op)?;
            }
        }
        let returned = returned.ok_or_else(|| ProgramError::structure("`@main` does not return"))?;
        let results = names(main, "res_attrs", "output", returned.operand_count())?;
        for (index, (value, name)) in returned.operands().into_iter().zip(results).enumerate() {
            reader.output(index, name, value)?;
        }
        Ok(reader.outline)
    }

    /// The value that owns a value's bytes.
    pub fn root(&self, value: ValueId) -> ValueId {
        match self.values[value].origin {
            Origin::View(base) | Origin::Part(base) => base,
            _ => value,
        }
    }

    /// Lifetimes of [`Outline::computed`] in the arena; outputs, which lie outside, have no bytes.
    pub fn lifetimes(&self) -> Vec<Lifetime> {
        let last_step = self.steps.len().saturating_sub(1);
        let step = |step: usize| u32::try_from(step.min(last_step)).unwrap_or(u32::MAX);
        self.computed
            .iter()
            .map(|computed| {
                // An output stays alive until the caller has it.
                let last = if computed.output.is_some() { last_step } else { computed.last };
                let bytes = if computed.output.is_some() || computed.replaced { 0 } else { computed.bytes };
                Lifetime { bytes, first: step(computed.first), last: step(last.max(computed.first)) }
            })
            .collect()
    }
}

pub(super) fn wrong(op: Op<'_>, message: impl Into<String>) -> ProgramError {
    ProgramError::Structure { nodes: op.location().names(), message: message.into() }
}

/// `graph.name` of each argument or result.
fn names(function: Op<'_>, attribute: &str, kind: &'static str, count: usize) -> Result<Vec<String>, ProgramError> {
    let list = function.attribute(attribute).and_then(|list| list.as_array()).unwrap_or_default();
    let mut seen = HashSet::new();
    (0..count)
        .map(|index| {
            let name = list.get(index).and_then(|entry| entry.get("graph.name")).and_then(|name| name.as_string());
            let name = name.unwrap_or_else(|| format!("{kind}{index}"));
            if seen.insert(name.clone()) { Ok(name) } else { Err(ProgramError::Name { kind, name }) }
        })
        .collect()
}

impl<'m> Reader<'m> {
    pub(super) fn add(&mut self, ty: TensorType, origin: Origin, location: Location<'m>) -> ValueId {
        self.outline.values.push(ValueOutline { ty, origin, location });
        self.outline.values.len() - 1
    }

    fn value(&mut self, value: Value<'m>, origin: Origin, location: Location<'m>) -> Result<ValueId, ProgramError> {
        let ty = TensorType::read(value.ty())?;
        if bytes_of(&ty).is_none() {
            let message = format!("{ty} has a dimension without a largest size, or 2^63 bytes or more");
            return Err(ProgramError::Shape { nodes: location.names(), message });
        }
        if ty.order.as_ref().is_some_and(|order| !order.is_sorted()) && !matches!(origin, Origin::Step(_)) {
            let message = format!("`{}` is not in row-major order", value.ty());
            return Err(ProgramError::Shape { nodes: location.names(), message });
        }
        let id = self.add(ty, origin, location);
        self.by_key.insert(value.key(), id);
        Ok(id)
    }

    pub(super) fn operand(&self, op: Op<'m>, value: Value<'m>) -> Result<ValueId, ProgramError> {
        self.by_key.get(&value.key()).copied().ok_or_else(|| wrong(op, "an operand is no value of `@main`"))
    }

    pub(super) fn op(&mut self, op: Op<'m>) -> Result<(), ProgramError> {
        if op.is("graph.kernel") {
            return self.kernel(op);
        }
        if let Some(flow) = Flow::read(op) {
            return self.flow(flow.map_err(|error| wrong(op, error.to_string()))?);
        }
        let result = op.result(0).ok_or_else(|| wrong(op, format!("`{}` cannot stand in `@main`", op.name())))?;
        if op.is("graph.get_parameter") {
            let name = op.attribute("parameter").and_then(|name| name.as_symbol()).unwrap_or_default();
            return match self.parameters.get(&name) {
                Some(id) => {
                    self.by_key.insert(result.key(), *id);
                    Ok(())
                }
                None if !self.declared.contains(&name) => {
                    Err(wrong(op, format!("parameter `@{name}` is not declared")))
                }
                None => {
                    let id = self.value(result, Origin::Parameter, op.location())?;
                    self.parameters.insert(name.clone(), id);
                    self.outline.parameters.push((name, id));
                    Ok(())
                }
            };
        }
        if op.is("graph.constant") {
            return self.constant(op, result);
        }
        if op.is("graph.reshape") {
            let operand = op.operand(0).ok_or_else(|| wrong(op, "a reshape without an operand"))?;
            let base = self.operand(op, operand)?;
            let base_type = self.outline.values[base].ty.clone();
            if base_type.order.as_ref().is_some_and(|order| !order.is_sorted()) {
                let message = "a reshape of a value that is not in row-major order is no view".to_owned();
                return Err(ProgramError::Shape { nodes: op.location().names(), message });
            }
            let base = self.outline.root(base);
            let id = self.value(result, Origin::View(base), op.location())?;
            let ty = &self.outline.values[id].ty;
            // Extents of both have as many elements, by a condition of the program where types do not show it; capacities may differ.
            if ty.dtype != base_type.dtype || bytes_of(ty) > bytes_of(&base_type) {
                return Err(wrong(op, format!("a reshape of {base_type} to {ty}, which may be larger")));
            }
            return Ok(());
        }
        if op.is(SetDimensionSize::NAME) {
            return self.set_dimension_size(op, result);
        }
        if op.is(Concat::NAME) {
            return self.concatenation(op, result);
        }
        Err(wrong(op, format!("`{}` cannot stand in `@main`: every operator that computes is in a kernel", op.name())))
    }

    /// The extent is read; the result is the beginning of the operand's memory.
    fn set_dimension_size(&mut self, op: Op<'m>, result: Value<'m>) -> Result<(), ProgramError> {
        if !self.bodies.is_empty() {
            return Err(wrong(op, "an extent that is computed inside a conditional step"));
        }
        let [input, size] = op.operands()[..] else { return Err(wrong(op, "it must have two operands")) };
        let (input, size) = (self.operand(op, input)?, self.operand(op, size)?);
        let root = self.outline.root(input);
        let id = self.value(result, Origin::View(root), op.location())?;
        let ty = &self.outline.values[id].ty;
        let capacity = ty.dims.first().and_then(|dim| dim.capacity);
        let capacity = capacity.ok_or_else(|| wrong(op, format!("{ty} has no dimension of a largest size")))?;
        let name = SetDimensionSize::read(op)?.extent.to_string();
        self.used(size);
        self.outline.steps.push(StepOutline::ReadExtent { name, capacity, source: size, location: op.location() });
        Ok(())
    }

    fn constant(&mut self, op: Op<'m>, result: Value<'m>) -> Result<(), ProgramError> {
        let tensor = Constant::read(op)?.value;
        let content = (tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().to_vec());
        if let Some(id) = self.literals.get(&content) {
            self.by_key.insert(result.key(), *id);
            return Ok(());
        }
        let name = (self.outline.constants.len()..)
            .map(|index| format!("constant_{index}"))
            .find(|name| !self.declared.contains(name))
            .unwrap_or_default();
        self.declared.insert(name.clone());
        let id = self.value(result, Origin::Parameter, op.location())?;
        self.literals.insert(content, id);
        self.outline.parameters.push((name.clone(), id));
        self.outline.constants.push((name, tensor));
        Ok(())
    }

    /// Memory for a value that the next step writes.
    pub(super) fn computed(&mut self, bytes: u64, output: Option<usize>) -> usize {
        let step = self.outline.steps.len();
        let (replaced, zeroed) = (false, false);
        self.outline.computed.push(Computed { value: 0, bytes, first: step, last: step, output, replaced, zeroed });
        self.outline.computed.len() - 1
    }

    pub(super) fn step(&mut self, step: StepOutline<'m>) {
        match self.bodies.last_mut() {
            Some(body) => body.push(step),
            None => self.outline.steps.push(step),
        }
    }

    pub(super) fn used(&mut self, value: ValueId) {
        let step = self.outline.steps.len();
        if let Origin::Step(index) = self.outline.values[self.outline.root(value)].origin {
            self.outline.computed[index].last = step;
        }
    }

    /// A concatenation whose parts kernels have written where they lie.
    fn concatenation(&mut self, op: Op<'m>, result: Value<'m>) -> Result<(), ProgramError> {
        let whole = destination(result).map_or(result, |destination| destination.whole);
        let in_parts = is_written_in_parts(op);
        let Some(id) = self.by_key.get(&whole.key()).copied().filter(|_| in_parts) else {
            return Err(wrong(
                op,
                "a concatenation outside of kernels must be of results of kernels that nothing else reads",
            ));
        };
        if whole != result {
            self.value(result, Origin::Part(id), op.location())?;
        }
        Ok(())
    }

    /// The concatenation that a kernel's result is a part of, in memory that the first of these kernels begins.
    fn whole(&mut self, result: Value<'m>) -> Result<Option<ValueId>, ProgramError> {
        let Some(Destination { whole, .. }) = destination(result) else { return Ok(None) };
        if let Some(id) = self.by_key.get(&whole.key()) {
            return Ok(Some(*id));
        }
        let location = whole.defining_op().map_or(self.outline.location, |(op, _)| op.location());
        Ok(Some(self.written(whole, location)?))
    }

    /// A value with memory of its own that the next step writes.
    fn written(&mut self, value: Value<'m>, location: Location<'m>) -> Result<ValueId, ProgramError> {
        let index = self.computed(0, None);
        let id = self.value(value, Origin::Step(index), location)?;
        self.outline.computed[index].value = id;
        self.outline.computed[index].bytes = bytes_of(&self.outline.values[id].ty).unwrap_or(0);
        Ok(id)
    }

    fn kernel(&mut self, op: Op<'m>) -> Result<(), ProgramError> {
        let operands = op.operands().into_iter().map(|value| self.operand(op, value)).collect::<Result<Vec<_>, _>>()?;
        let mut results = Vec::new();
        for value in op.results() {
            if let Some(whole) = self.whole(value)? {
                results.push(self.value(value, Origin::Part(whole), op.location())?);
                self.used(whole);
                continue;
            }
            results.push(self.written(value, op.location())?);
        }
        if results.iter().all(|id| bytes_of(&self.outline.values[*id].ty) == Some(0)) {
            return Ok(());
        }
        operands.iter().for_each(|id| self.used(*id));
        self.step(StepOutline::Launch { kernel: op, operands, results });
        Ok(())
    }

    fn output(&mut self, index: usize, name: String, value: Value<'m>) -> Result<(), ProgramError> {
        let id = self.by_key.get(&value.key()).copied();
        let id = id.ok_or_else(|| ProgramError::structure(format!("output `{name}` is no value of `@main`")))?;
        let outline = &self.outline;
        let (ty, location) = (outline.values[id].ty.clone(), outline.values[id].location);
        if ty.order.as_ref().is_some_and(|order| !order.is_sorted()) {
            let message = format!("output `{name}` is not in row-major order");
            return Err(ProgramError::Shape { nodes: location.names(), message });
        }
        if let Origin::Step(computed) = outline.values[outline.root(id)].origin
            && outline.computed[computed].output.is_none()
            && bytes_of(&ty) == Some(outline.computed[computed].bytes)
        {
            self.outline.computed[computed].output = Some(index);
            self.outline.outputs.push((name, id));
            return Ok(());
        }
        let bytes = bytes_of(&ty).unwrap_or(0);
        let computed = self.computed(bytes, Some(index));
        let target = self.add(ty, Origin::Step(computed), location);
        self.outline.computed[computed].value = target;
        if bytes > 0 {
            self.used(id);
            self.step(StepOutline::Copy { source: id, target });
        }
        self.outline.outputs.push((name, target));
        Ok(())
    }
}
