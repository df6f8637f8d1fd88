//! Writing the `hw` module.

use std::collections::HashMap;

use tenon_flow_dialect::Placement;
use tenon_graph_dialect::{DimExpr, TensorType, write_dim_expr};
use tenon_ir::{Attribute, Builder, Context, Location, Op, Type, Value};
use tenon_target::Target;

use crate::program::kernels::{KernelCache, Kernels, Sharing, local};
use crate::program::read::{Computed, Origin, Outline, StepOutline, ValueId};
use crate::program::{Lifetime, MemoryPlan, ProgramError};
use crate::schedule::KernelTensorMap;

/// `!hw.buffer<tensor<…>>`.
fn buffer_type<'s>(ty: &TensorType, context: Context<'s>) -> Result<Type<'s>, ProgramError> {
    Ok(context.parse_type(&format!("!hw.buffer<{}>", ty.to_type(context)?))?)
}

/// Tensor maps as a launch describes them; none without any.
fn tensor_maps<'s>(maps: &[KernelTensorMap], context: Context<'s>) -> Result<Option<Attribute<'s>>, ProgramError> {
    if maps.is_empty() {
        return Ok(None);
    }
    let maps = maps.iter().map(|map| {
        let expressions = |list: &[DimExpr]| {
            let list: Vec<_> = list.iter().map(|size| write_dim_expr(size, context).to_string()).collect();
            list.join(", ")
        };
        let (sizes, strides) = (expressions(&map.sizes), expressions(&map.strides));
        let (buffer, tile, swizzle) = (map.buffer, &map.tile, map.swizzle);
        let text = format!(
            "{{buffer = {buffer} : i64, sizes = [{sizes}], strides = [{strides}], box = {tile:?}, swizzle = {swizzle} : i64}}"
        );
        context.parse_attribute(&text)
    });
    Ok(Some(context.array(&maps.collect::<Result<Vec<_>, _>>()?)))
}

/// Whether the host decides what an operation of control flow runs.
fn by_host(op: Op<'_>) -> bool {
    op.string("placement").as_deref() == Some(Placement::Host.name())
}

struct Emitter<'a, 'm> {
    outline: &'a Outline<'a>,
    lifetimes: &'a [Lifetime],
    memory: &'a MemoryPlan,
    kernels: Kernels,
    /// Where buffers and views are declared: in the program itself, before the step that is written.
    at: Builder<'m>,
    /// Where steps are written: in the program, or in the body of a conditional.
    steps: Builder<'m>,
    values: HashMap<ValueId, Value<'m>>,
}

/// Writes the kernels of all steps at the end of a module.
pub(super) fn kernels(
    steps: &[StepOutline<'_>],
    at: Builder<'_>,
    target: &Target,
) -> Result<(Kernels, Sharing), ProgramError> {
    let mut cache = KernelCache::default();
    let mut kernels = HashMap::new();
    lower_kernels(steps, &mut kernels, &mut cache, at, target)?;
    Ok((kernels, cache.sharing()))
}

/// Writes the program at the end of a module, behind its kernels.
pub(super) fn program(
    outline: &Outline<'_>,
    lifetimes: &[Lifetime],
    memory: &MemoryPlan,
    kernels: Kernels,
    at: Builder<'_>,
) -> Result<(), ProgramError> {
    let context = at.context();
    let arena = i64::try_from(memory.arena_bytes).map_err(|_| ProgramError::TooLarge)?;
    let program = at
        .with_location(local(outline.location, at))
        .op("hw.program")
        .attribute("sym_name", context.string("main"))
        .attribute("arena_bytes", context.i64(arena))
        .regions(1)
        .build()?;
    let region = program.region(0).ok_or_else(|| ProgramError::structure("`hw.program` has no region"))?;
    let block = region.append_block(&[])?;
    let at = at.in_block(block);
    let mut emitter = Emitter { outline, lifetimes, memory, kernels, at, steps: at, values: HashMap::new() };
    emitter.named("hw.input", &outline.inputs)?;
    emitter.named("hw.parameter", &outline.parameters)?;
    if let Some(index) = outline.counters {
        emitter.buffer(index, &outline.computed[index])?;
    }
    // Buffers are declared before the step that writes them, those of one launch alone beside it.
    let values = &outline.computed[..outline.values_computed()];
    let mut declared = 0;
    for (index, step) in outline.steps.iter().enumerate() {
        while declared < values.len() && values[declared].first <= index {
            emitter.buffer(declared, &values[declared])?;
            declared += 1;
        }
        emitter.step(step)?;
    }
    for (index, computed) in values.iter().enumerate().skip(declared) {
        emitter.buffer(index, computed)?;
    }
    for (name, id) in &outline.outputs {
        let value = emitter.value(*id)?;
        let op = emitter.at_value(*id).op("hw.output").attribute("name", context.string(name)).operands(&[value]);
        op.build()?;
    }
    emitter.at.op("hw.return").build()?;
    Ok(())
}

/// Lowers the kernels of steps, those in bodies too.
fn lower_kernels(
    steps: &[StepOutline<'_>],
    kernels: &mut Kernels,
    cache: &mut KernelCache,
    at: Builder<'_>,
    target: &Target,
) -> Result<(), ProgramError> {
    for step in steps {
        match step {
            StepOutline::Launch { kernel, .. } => {
                kernels.insert(kernel.key(), cache.get(*kernel, at, target)?);
            }
            StepOutline::If { then, otherwise, .. } => {
                lower_kernels(then, kernels, cache, at, target)?;
                lower_kernels(otherwise, kernels, cache, at, target)?;
            }
            StepOutline::While { body, .. } => lower_kernels(body, kernels, cache, at, target)?,
            StepOutline::Copy { .. } | StepOutline::ReadExtent { .. } => {}
        }
    }
    Ok(())
}

impl<'m> Emitter<'_, 'm> {
    /// A builder of steps.
    fn step_at(&self, location: Location<'_>) -> Builder<'m> {
        self.steps.with_location(local(location, self.steps))
    }

    fn at_location(&self, location: Location<'_>) -> Builder<'m> {
        self.at.with_location(local(location, self.at))
    }

    fn at_value(&self, id: ValueId) -> Builder<'m> {
        self.at_location(self.outline.values[id].location)
    }

    fn ty(&self, id: ValueId) -> Result<Type<'m>, ProgramError> {
        buffer_type(&self.outline.values[id].ty, self.at.context())
    }

    fn named(&mut self, operation: &str, list: &[(String, ValueId)]) -> Result<(), ProgramError> {
        for (name, id) in list {
            let name = self.at.context().string(name);
            let value = self.at_value(*id).op(operation).attribute("name", name).results(&[self.ty(*id)?]).value()?;
            self.values.insert(*id, value);
        }
        Ok(())
    }

    fn buffer(&mut self, index: usize, computed: &Computed) -> Result<(), ProgramError> {
        if computed.replaced {
            return Ok(());
        }
        let context = self.at.context();
        let lifetime = self.lifetimes[index];
        let number =
            |value: u64| i64::try_from(value).map(|value| context.i64(value)).map_err(|_| ProgramError::TooLarge);
        let op = self
            .at_value(computed.value)
            .op("hw.buffer")
            .attribute("offset", number(self.memory.offsets[index])?)
            .attribute("bytes", number(computed.bytes)?)
            .attribute("first", context.i64(i64::from(lifetime.first)))
            .attribute("last", context.i64(i64::from(lifetime.last)))
            .optional_attribute("output", computed.output.map(|_| context.unit()))
            .optional_attribute("zeroed", computed.zeroed.then(|| context.unit()))
            .results(&[self.ty(computed.value)?]);
        self.values.insert(computed.value, op.value()?);
        Ok(())
    }

    /// Declares the memory of a launch; what it is, in the order of the kernel.
    fn workspaces(&mut self, kernel: usize) -> Result<Vec<ValueId>, ProgramError> {
        let outline = self.outline;
        let indices = outline.workspaces.get(&kernel).map(Vec::as_slice).unwrap_or_default();
        for index in indices.iter().filter(|index| Some(**index) != outline.counters) {
            self.buffer(*index, &outline.computed[*index])?;
        }
        Ok(indices.iter().map(|index| outline.computed[*index].value).collect())
    }

    /// The buffer of a value; a view is made before its first use.
    fn value(&mut self, id: ValueId) -> Result<Value<'m>, ProgramError> {
        if let Some(value) = self.values.get(&id) {
            return Ok(*value);
        }
        let base = match self.outline.values[id].origin {
            Origin::View(base) | Origin::Part(base) => self.values.get(&base).copied(),
            _ => None,
        };
        let base = base.ok_or_else(|| ProgramError::structure("a value is used before it is computed"))?;
        if matches!(self.outline.values[id].origin, Origin::Part(_)) {
            return Ok(base);
        }
        let value = self.at_value(id).op("hw.view").operands(&[base]).results(&[self.ty(id)?]).value()?;
        self.values.insert(id, value);
        Ok(value)
    }

    fn sources(&self, location: Location<'_>) -> Attribute<'m> {
        let context = self.at.context();
        let names: Vec<_> = location.names().iter().map(|name| context.string(name)).collect();
        context.array(&names)
    }

    fn step(&mut self, step: &StepOutline<'_>) -> Result<(), ProgramError> {
        let context = self.at.context();
        match step {
            StepOutline::Copy { source, target } => {
                let operands = [self.value(*source)?, self.value(*target)?];
                let location = self.outline.values[*source].location;
                let copy = self.step_at(location).op("hw.copy").operands(&operands);
                copy.attribute("source_nodes", self.sources(location)).build()?;
            }
            StepOutline::ReadExtent { name, capacity, source, location } => {
                let capacity = i64::try_from(*capacity).map_err(|_| ProgramError::TooLarge)?;
                let source = self.value(*source)?;
                self.step_at(*location)
                    .op("hw.read_extent")
                    .operands(&[source])
                    .attribute("name", context.string(name))
                    .attribute("capacity", context.i64(capacity))
                    .attribute("source_nodes", self.sources(*location))
                    .build()?;
            }
            StepOutline::Launch { kernel: graph, operands, results } => {
                let kernel = self.kernels.get(&graph.key()).cloned();
                let kernel = kernel.ok_or_else(|| ProgramError::structure("a launch without a kernel"))?;
                let workspaces = self.workspaces(graph.key())?;
                let buffers = operands
                    .iter()
                    .chain(results)
                    .chain(&workspaces)
                    .map(|id| self.value(*id))
                    .collect::<Result<Vec<_>, ProgramError>>()?;
                let list = |list: &[DimExpr]| {
                    context.array(&list.iter().map(|size| write_dim_expr(size, context)).collect::<Vec<_>>())
                };
                self.step_at(graph.location())
                    .op("hw.launch")
                    .operands(&buffers)
                    .attribute("kernel", context.symbol(&kernel.name))
                    .attribute("grid", list(&kernel.grid))
                    .optional_attribute("extents", (!kernel.extents.is_empty()).then(|| list(&kernel.extents)))
                    .optional_attribute("tensor_maps", tensor_maps(&kernel.tensor_maps, context)?)
                    .attribute("source_nodes", self.sources(graph.location()))
                    .build()?;
            }
            StepOutline::If { op, predicate, then, otherwise } => {
                let predicate = self.value(*predicate)?;
                let conditional = self
                    .step_at(op.location())
                    .op("hw.if")
                    .operands(&[predicate])
                    .optional_attribute("host", by_host(*op).then(|| context.unit()))
                    .attribute("source_nodes", self.sources(op.location()))
                    .regions(2)
                    .build()?;
                self.body(conditional, 0, then)?;
                self.body(conditional, 1, otherwise)?;
            }
            StepOutline::While { op, predicate, body, limit } => {
                let predicate = self.value(*predicate)?;
                let limit = limit.map(i64::try_from).transpose().map_err(|_| ProgramError::TooLarge)?;
                let conditional = self
                    .step_at(op.location())
                    .op("hw.while")
                    .operands(&[predicate])
                    .optional_attribute("limit", limit.map(|limit| context.i64(limit)))
                    .optional_attribute("host", by_host(*op).then(|| context.unit()))
                    .attribute("source_nodes", self.sources(op.location()))
                    .regions(1)
                    .build()?;
                self.body(conditional, 0, body)?;
            }
        }
        Ok(())
    }

    /// Steps in a region of a conditional; what they declare stands before it, in the program itself.
    fn body(&mut self, conditional: Op<'m>, region: usize, steps: &[StepOutline<'_>]) -> Result<(), ProgramError> {
        let missing = || ProgramError::structure("a conditional has no region");
        let block = conditional.region(region).ok_or_else(missing)?.append_block(&[])?;
        let outer = (self.at, self.steps);
        self.steps = self.at.in_block(block);
        if outer.0.block() == outer.1.block() {
            self.at = Builder::before(conditional).ok_or_else(missing)?;
        }
        let result = steps.iter().try_for_each(|step| self.step(step));
        (self.at, self.steps) = outer;
        result
    }
}
