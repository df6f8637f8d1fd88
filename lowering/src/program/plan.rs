//! From an `hw.program` to the launch plan.

use std::collections::HashMap;

use tenon_graph_dialect::{DimExpr, Requirement as GraphRequirement, TensorType};
use tenon_ir::{Attribute, Module, Op, Value};
use tenon_runtime::LaunchPlan;
use tenon_runtime::plan::{
    Argument, Buffer, Conditional, Copy, Expr, Launch, Loop, MemoryKind, Memset, Operation, Place, ReadExtent,
    Requirement, Step, TensorMap, TensorSlot,
};

use crate::expand::KernelInfo;
use crate::program::read::bytes_of;
use crate::program::{ALIGNMENT, ProgramError};

/// Reads the `hw.program` of a module as a plan, with the conditions that the module lists (`graph.requirements`), and validates it. `kernels` says of each kernel what expansion found.
///
/// Lifetimes and offsets are taken as written; what an edit broke is found by the plan's validation.
pub fn launch_plan(module: &Module<'_>, kernels: &[KernelInfo]) -> Result<LaunchPlan, ProgramError> {
    let programs: Vec<_> = module.body().ops().into_iter().filter(|op| op.is("hw.program")).collect();
    let [program] = programs[..] else {
        return Err(ProgramError::program("hw.program", format!("the module has {} of them, not one", programs.len())));
    };
    let block = program.region_block(0).ok_or_else(|| ProgramError::program("hw.program", "it has no body"))?;
    let mut plan = LaunchPlan::new(program.string("sym_name").unwrap_or_default());
    plan.arena_bytes = number(program, "arena_bytes")?;
    let infos = kernels.iter().map(|info| (info.name.as_str(), info)).collect();
    let ops = block.ops();
    let mut reader = Reader { plan, infos, places: HashMap::new(), types: HashMap::new(), outputs: HashMap::new() };
    for op in ops.iter().filter(|op| op.is("hw.output")) {
        reader.output(*op)?;
    }
    ops.iter().try_for_each(|op| reader.op(*op))?;
    for GraphRequirement { condition, reason, source } in GraphRequirement::read_all(module.op())? {
        reader.plan.requirements.push(Requirement { condition: condition.to_string(), reason, source_nodes: source });
    }
    reader.plan.validate()?;
    Ok(reader.plan)
}

struct Reader<'a> {
    plan: LaunchPlan,
    infos: HashMap<&'a str, &'a KernelInfo>,
    /// Places by the key of the value.
    places: HashMap<usize, Place>,
    /// Tensor types by the key of the buffer type.
    types: HashMap<usize, TensorType>,
    /// Which output each buffer is, by the key of the value.
    outputs: HashMap<usize, u32>,
}

fn wrong(op: Op<'_>, message: impl Into<String>) -> ProgramError {
    let nodes = op.location().names();
    let suffix = if nodes.is_empty() { String::new() } else { format!(" (node `{}`)", nodes.join("`, `")) };
    ProgramError::program(&op.name(), format!("{}{suffix}", message.into()))
}

fn number(op: Op<'_>, name: &str) -> Result<u64, ProgramError> {
    let value = op.integer(name).and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| wrong(op, format!("`{name}` must be a number that is not negative")))
}

fn step_number(op: Op<'_>, name: &str) -> Result<u32, ProgramError> {
    u32::try_from(number(op, name)?).map_err(|_| wrong(op, format!("`{name}` is no number of a step")))
}

/// An integer attribute, or a string with an expression.
fn expression(op: Op<'_>, attribute: Attribute<'_>) -> Result<Expr, ProgramError> {
    if let Some(text) = attribute.as_string() {
        return Ok(Expr::Text(text));
    }
    let value = attribute.as_integer().and_then(|value| u64::try_from(value).ok());
    value.map(Expr::Number).ok_or_else(|| wrong(op, format!("`{attribute}` is no size")))
}

/// Bytes up to the extents.
fn filled_bytes(op: Op<'_>, ty: &TensorType) -> Result<Expr, ProgramError> {
    let size = i64::try_from(ty.dtype.size()).map(DimExpr::constant).unwrap_or_default();
    let bytes = ty.dims.iter().try_fold(size, |bytes, dim| bytes.mul(&dim.extent));
    bytes.map(|bytes| Expr::from(&bytes)).ok_or_else(|| wrong(op, "its size is too complex an expression"))
}

/// Names of the model's nodes: the attribute, which survives where locations do not, or else the location.
fn source_nodes(op: Op<'_>) -> Vec<String> {
    match op.attribute("source_nodes").and_then(|list| list.as_array()) {
        Some(list) => list.iter().filter_map(|name| name.as_string()).collect(),
        None => op.location().names(),
    }
}

impl Reader<'_> {
    fn tensor(&mut self, op: Op<'_>, value: Value<'_>) -> Result<TensorType, ProgramError> {
        let ty = value.ty();
        if let Some(tensor) = self.types.get(&ty.key()) {
            return Ok(tensor.clone());
        }
        let text = ty.to_string();
        let inner = text.strip_prefix("!hw.buffer<").and_then(|text| text.strip_suffix('>'));
        let inner = inner.ok_or_else(|| wrong(op, format!("`{text}` is no buffer")))?;
        let tensor = TensorType::read(op.context().parse_type(inner)?)?;
        if bytes_of(&tensor).is_none() {
            return Err(wrong(op, format!("`{text}` has no fixed size")));
        }
        self.types.insert(ty.key(), tensor.clone());
        Ok(tensor)
    }

    fn result<'m>(&mut self, op: Op<'m>) -> Result<(Value<'m>, TensorType, Vec<u64>), ProgramError> {
        let value = op.result(0).ok_or_else(|| wrong(op, "it has no result"))?;
        let tensor = self.tensor(op, value)?;
        let shape = tensor.capacities().unwrap_or_default();
        Ok((value, tensor, shape))
    }

    /// A tensor of the caller's. Symbols of its extents become extents of the plan.
    fn slot(&mut self, name: String, tensor: &TensorType) -> TensorSlot {
        let mut slot = TensorSlot::new(name, tensor.dtype, &tensor.capacities().unwrap_or_default());
        if tensor.known_shape().is_none() {
            slot.extents = Some(tensor.dims.iter().map(|dim| Expr::from(&dim.extent)).collect());
            for symbol in tensor.dims.iter().flat_map(|dim| dim.extent.symbols()) {
                if !self.plan.extents.contains(&symbol) {
                    self.plan.extents.push(symbol);
                }
            }
        }
        slot
    }

    fn place(&self, op: Op<'_>, value: Value<'_>) -> Result<Place, ProgramError> {
        self.places.get(&value.key()).copied().ok_or_else(|| wrong(op, "an operand is no buffer of the program"))
    }

    /// Notes which buffer is an output, looking through views.
    fn output(&mut self, op: Op<'_>) -> Result<(), ProgramError> {
        let name = op.string("name").unwrap_or_default();
        let value = op.operand(0).ok_or_else(|| wrong(op, "it has no operand"))?;
        let tensor = self.tensor(op, value)?;
        let mut base = value;
        while let Some((view, _)) = base.defining_op().filter(|(op, _)| op.is("hw.view")) {
            base = view.operand(0).ok_or_else(|| wrong(view, "it has no operand"))?;
        }
        let marked = base.defining_op().is_some_and(|(op, _)| op.is("hw.buffer") && op.attribute("output").is_some());
        if !marked {
            return Err(wrong(op, format!("`{name}` must be a buffer marked `output`")));
        }
        let index = self.plan.outputs.len() as u32;
        if self.outputs.insert(base.key(), index).is_some() {
            return Err(wrong(op, format!("`{name}` has the buffer of another output")));
        }
        let slot = self.slot(name, &tensor);
        self.plan.outputs.push(slot);
        Ok(())
    }

    fn op(&mut self, op: Op<'_>) -> Result<(), ProgramError> {
        match op.name().as_str() {
            "hw.input" | "hw.parameter" => {
                let (value, tensor, _) = self.result(op)?;
                let slot = self.slot(op.string("name").unwrap_or_default(), &tensor);
                let place = if op.is("hw.input") {
                    self.plan.inputs.push(slot);
                    Place::Input(self.plan.inputs.len() as u32 - 1)
                } else {
                    self.plan.parameters.push(slot);
                    Place::Parameter(self.plan.parameters.len() as u32 - 1)
                };
                self.places.insert(value.key(), place);
            }
            "hw.buffer" => self.buffer(op)?,
            "hw.view" => {
                let (value, tensor, _) = self.result(op)?;
                let base = op.operand(0).ok_or_else(|| wrong(op, "it has no operand"))?;
                let base_tensor = self.tensor(op, base)?;
                if bytes_of(&tensor) > bytes_of(&base_tensor) {
                    return Err(wrong(op, format!("{tensor} is larger than {base_tensor}, which it shows")));
                }
                let place = self.place(op, base)?;
                self.places.insert(value.key(), place);
            }
            "hw.launch" => {
                let launch = self.launch(op)?;
                self.step(op, Operation::Launch(launch));
            }
            "hw.copy" => {
                let [source, target] = op.operands()[..] else { return Err(wrong(op, "it must have two operands")) };
                let bytes = filled_bytes(op, &self.tensor(op, target)?)?;
                let copy = Copy { source: self.place(op, source)?, target: self.place(op, target)?, bytes };
                self.step(op, Operation::Copy(copy));
            }
            "hw.memset" => {
                let target = op.operand(0).ok_or_else(|| wrong(op, "it has no operand"))?;
                let byte = u8::try_from(number(op, "byte")?).map_err(|_| wrong(op, "`byte` is above 255"))?;
                let bytes = bytes_of(&self.tensor(op, target)?).unwrap_or(0);
                let memset = Memset { target: self.place(op, target)?, byte, bytes: bytes.into() };
                self.step(op, Operation::Memset(memset));
            }
            "hw.read_extent" => {
                let source = op.operand(0).ok_or_else(|| wrong(op, "it has no operand"))?;
                let name = op.string("name").unwrap_or_default();
                let read = ReadExtent { name, capacity: number(op, "capacity")?, source: self.place(op, source)? };
                if !self.plan.extents.contains(&read.name) {
                    self.plan.extents.push(read.name.clone());
                }
                self.step(op, Operation::ReadExtent(read));
            }
            "hw.if" => {
                let predicate = self.predicate(op)?;
                let (then, otherwise) = (self.body(op, 0)?, self.body(op, 1)?);
                self.step(
                    op,
                    Operation::If(Conditional { predicate, host: op.attribute("host").is_some(), then, otherwise }),
                );
            }
            "hw.while" => {
                let predicate = self.predicate(op)?;
                let limit = op.attribute("limit").map(|_| number(op, "limit")).transpose()?;
                let body = self.body(op, 0)?;
                self.step(op, Operation::While(Loop { predicate, host: op.attribute("host").is_some(), body, limit }));
            }
            "hw.output" | "hw.return" => {}
            _ => return Err(wrong(op, "it cannot stand in a program")),
        }
        Ok(())
    }

    fn predicate(&self, op: Op<'_>) -> Result<Place, ProgramError> {
        let value = op.operand(0).ok_or_else(|| wrong(op, "it has no predicate"))?;
        self.place(op, value)
    }

    /// The steps of a conditional's body.
    fn body(&mut self, op: Op<'_>, region: usize) -> Result<Vec<Step>, ProgramError> {
        let block = op.region_block(region).ok_or_else(|| wrong(op, "it has no body"))?;
        let outer = std::mem::take(&mut self.plan.steps);
        let result = block.ops().into_iter().try_for_each(|inner| match inner.name().as_str() {
            // What is declared has a lifetime over the program's own steps.
            "hw.launch" | "hw.copy" | "hw.memset" | "hw.view" | "hw.if" | "hw.while" => self.op(inner),
            _ => Err(wrong(inner, "it cannot stand in a conditional")),
        });
        let body = std::mem::replace(&mut self.plan.steps, outer);
        result.map(|()| body)
    }

    fn step(&mut self, op: Op<'_>, operation: Operation) {
        self.plan.steps.push(Step { stream: 0, source_nodes: source_nodes(op), operation });
    }

    fn buffer(&mut self, op: Op<'_>) -> Result<(), ProgramError> {
        let (value, tensor, shape) = self.result(op)?;
        if op.attribute("output").is_some() {
            let index = self.outputs.get(&value.key()).copied();
            let index = index.ok_or_else(|| wrong(op, "it is marked `output`, and no `hw.output` takes it"))?;
            self.places.insert(value.key(), Place::Output(index));
            return Ok(());
        }
        let name = op.location().names().join(", ");
        self.plan.buffers.push(Buffer {
            name: if name.is_empty() { format!("buffer{}", self.plan.buffers.len()) } else { name },
            dtype: tensor.dtype,
            shape,
            offset: number(op, "offset")?,
            bytes: number(op, "bytes")?,
            alignment: ALIGNMENT,
            first: step_number(op, "first")?,
            last: step_number(op, "last")?,
            memory: MemoryKind::Device,
            zeroed: op.attribute("zeroed").is_some(),
        });
        self.places.insert(value.key(), Place::Buffer(self.plan.buffers.len() as u32 - 1));
        Ok(())
    }

    fn tensor_map(&mut self, op: Op<'_>, map: Attribute<'_>) -> Result<TensorMap, ProgramError> {
        let entry = |name: &str| map.get(name).ok_or_else(|| wrong(op, format!("a tensor map without `{name}`")));
        let size = |size: Attribute<'_>| size.as_integer().and_then(|size| u32::try_from(size).ok());
        let list = |name: &str| {
            entry(name)?.as_array().ok_or_else(|| wrong(op, format!("`{name}` of a tensor map is no list")))
        };
        let expressions = |name: &str| -> Result<Vec<Expr>, ProgramError> {
            list(name)?.into_iter().map(|size| expression(op, size)).collect()
        };
        let sizes = |name: &str, found: Option<u32>| {
            found.ok_or_else(|| wrong(op, format!("`{name}` of a tensor map is no size")))
        };
        let buffer = sizes("buffer", size(entry("buffer")?))? as usize;
        let buffer = op.operand(buffer).ok_or_else(|| wrong(op, format!("a tensor map of buffer {buffer}")))?;
        let (place, dtype) = (self.place(op, buffer)?, self.tensor(op, buffer)?.dtype);
        Ok(TensorMap {
            place,
            dtype,
            sizes: expressions("sizes")?,
            strides: expressions("strides")?,
            tile: list("box")?.into_iter().map(|along| sizes("box", size(along))).collect::<Result<_, _>>()?,
            swizzle: sizes("swizzle", size(entry("swizzle")?))?,
        })
    }

    fn launch(&mut self, op: Op<'_>) -> Result<Launch, ProgramError> {
        let entry = op.attribute("kernel").and_then(|name| name.as_symbol()).unwrap_or_default();
        let info =
            *self.infos.get(entry.as_str()).ok_or_else(|| ProgramError::UnknownKernel { kernel: entry.clone() })?;
        let list = |name: &str| -> Result<Vec<Expr>, ProgramError> {
            let list = op.attribute(name).and_then(|list| list.as_array()).unwrap_or_default();
            list.into_iter().map(|size| expression(op, size)).collect()
        };
        let mut grid = list("grid")?;
        if grid.is_empty() || grid.len() > 3 {
            return Err(wrong(op, format!("a grid of {} sizes", grid.len())));
        }
        grid.resize(3, Expr::Number(1));
        let grid = grid.try_into().map_err(|_| wrong(op, "`grid` must have one to three sizes"))?;
        let mut arguments = Vec::new();
        for value in op.operands() {
            arguments.push(Argument::from(self.place(op, value)?));
        }
        for map in op.attribute("tensor_maps").and_then(|list| list.as_array()).unwrap_or_default() {
            arguments.push(Argument::TensorMap(self.tensor_map(op, map)?));
        }
        arguments.extend(list("extents")?.into_iter().map(Argument::Extent));
        let dynamic_shared_bytes = u32::try_from(info.shared_bytes)
            .map_err(|_| wrong(op, format!("{} bytes of shared memory", info.shared_bytes)))?;
        Ok(Launch { entry, grid, block: [info.threads, 1, 1], dynamic_shared_bytes, cluster: None, arguments })
    }
}
