//! From the inputs of a run to every number that its plan leaves open: extents, grids, arguments, sizes of copies, shapes of outputs.
//!
//! Pure: nothing of a device is known here. Everything is known, and found to fit, before anything runs, but for what depends on extents that
//! the device computes: that is known, and found to fit, once the last of those before it has been read.

use std::collections::{BTreeMap, HashMap};

use tenon_tensor::{Tensor, byte_count};

use crate::RuntimeError;
use crate::device::{DevicePointer, TiledTensor};
use crate::plan::{
    Argument, Expr, Expressions, Launch, LaunchPlan, MAX_GRID, Operation, ReadExtent, Step, TensorMap, TensorSlot,
    Values,
};

/// Extents by name.
pub(crate) type Extents = BTreeMap<String, i64>;

/// Steps with all extents known that they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The numbers of each step.
    pub(crate) steps: Vec<ResolvedStep>,
    /// Shape of each output, if the steps are the plan's last.
    pub(crate) outputs: Vec<Vec<usize>>,
}

/// What a step leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolvedStep {
    /// A launch.
    Launch {
        /// Blocks along x, y, z; 0 where there is nothing to do.
        grid: [u32; 3],
        /// The numbers among the arguments, in order.
        numbers: Vec<i64>,
        /// The tensor maps among the arguments, in order.
        maps: Vec<ResolvedMap>,
    },
    /// Bytes of a copy or fill.
    Bytes(u64),
    /// The steps of each body of a conditional.
    Bodies(Vec<Vec<ResolvedStep>>),
    /// Nothing.
    Fixed,
}

/// Sizes and strides of a tensor map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedMap {
    /// Innermost first.
    pub(crate) sizes: Vec<u32>,
    /// In bytes, of all dimensions but the innermost.
    pub(crate) strides: Vec<u64>,
}

impl ResolvedMap {
    /// The tensor at an address, as a device encodes it.
    pub(crate) fn tensor<'a>(&'a self, map: &'a TensorMap, pointer: DevicePointer) -> TiledTensor<'a> {
        let (dtype, swizzle) = (map.dtype, map.swizzle);
        TiledTensor { pointer, dtype, sizes: &self.sizes, strides: &self.strides, tile: &map.tile, swizzle }
    }
}

/// The tensor of each input, in the plan's order, and the extents that follow from their shapes.
pub(crate) fn bind<'a>(
    plan: &LaunchPlan,
    expressions: &Expressions,
    inputs: &'a [(String, Tensor)],
) -> Result<(Vec<&'a Tensor>, Extents), RuntimeError> {
    let tensors = find_tensors(&plan.inputs, inputs)?;
    let mut extents = Extents::new();
    let mut origins: HashMap<String, String> = HashMap::new();
    for (slot, tensor) in plan.inputs.iter().zip(&tensors) {
        for (dimension, size) in tensor.shape().iter().enumerate() {
            let extent = slot.extent(dimension);
            check_capacity(slot, dimension, *size, &extent)?;
            let Some(name) = extent.as_symbol() else { continue };
            // Capacities are below i64::MAX, or the plan would be too large to address.
            let value = i64::try_from(*size).unwrap_or(i64::MAX);
            let here = format!("dimension {dimension} of input `{}`", slot.name);
            match extents.get(&name) {
                None => {
                    extents.insert(name.clone(), value);
                    origins.insert(name, here);
                }
                Some(known) if *known == value => {}
                Some(known) => {
                    let because = format!("{} has", origins.get(&name).map_or("another", String::as_str));
                    return Err(RuntimeError::ExtentConflict {
                        place: here,
                        extent: name,
                        expected: *known,
                        because,
                        found: value,
                    });
                }
            }
        }
    }
    check_derived(&plan.inputs, &tensors, &expressions.evaluate(&extents), &extents)?;
    check_requirements(plan, expressions, &extents, None)?;
    Ok((tensors, extents))
}

/// Checks the conditions of a plan whose extents are all known; with `read`, only those that name this extent.
pub(crate) fn check_requirements(
    plan: &LaunchPlan,
    expressions: &Expressions,
    extents: &Extents,
    read: Option<&str>,
) -> Result<(), RuntimeError> {
    for (index, condition) in expressions.conditions() {
        let names = condition.symbols();
        if !names.iter().all(|name| extents.contains_key(name)) || read.is_some_and(|read| !names.contains(read)) {
            continue;
        }
        let sides = condition.evaluate(&|name| extents.get(name).copied());
        if sides.is_some_and(|(left, right)| condition.relation.holds(left.cmp(&right))) {
            continue;
        }
        let own: Extents = extents
            .iter()
            .filter(|(name, _)| names.contains(*name))
            .map(|(name, value)| (name.clone(), *value))
            .collect();
        let values = match sides {
            Some((left, right)) => format!("{left} {} {right}", condition.relation.text()),
            None => "beyond the range of i64".to_owned(),
        };
        let requirement = &plan.requirements[index];
        return Err(RuntimeError::Requirement {
            condition: requirement.condition.clone(),
            values: format!("{values} for {}", describe_extents(&own)),
            reason: requirement.reason.clone(),
            source_nodes: requirement.source_nodes.clone(),
        });
    }
    Ok(())
}

/// Finds each input by name and checks element type, rank, and the dimensions of fixed size.
fn find_tensors<'a>(slots: &[TensorSlot], inputs: &'a [(String, Tensor)]) -> Result<Vec<&'a Tensor>, RuntimeError> {
    let mut given: HashMap<&str, &Tensor> = HashMap::new();
    for (name, tensor) in inputs {
        if !slots.iter().any(|slot| slot.name == *name) {
            let known: Vec<_> = slots.iter().map(|slot| format!("`{}`", slot.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(RuntimeError::UnknownInput { name: name.clone(), known });
        }
        if given.insert(name, tensor).is_some() {
            return Err(RuntimeError::DuplicateInput { name: name.clone() });
        }
    }
    slots.iter().map(|slot| check_tensor(slot, given.get(slot.name.as_str()).copied())).collect()
}

fn check_tensor<'a>(slot: &TensorSlot, tensor: Option<&'a Tensor>) -> Result<&'a Tensor, RuntimeError> {
    let name = slot.name.clone();
    let Some(tensor) = tensor else {
        return Err(RuntimeError::MissingInput { name, expected: slot.to_string() });
    };
    if tensor.dtype() != slot.dtype {
        return Err(RuntimeError::InputDType { name, expected: slot.dtype, found: tensor.dtype() });
    }
    let found = tensor.shape().to_vec();
    if slot.shape.len() != found.len() {
        return Err(RuntimeError::InputRank { name, rank: slot.shape.len(), expected: slot.shape_text(), found });
    }
    for (dimension, size) in found.iter().enumerate() {
        if let Some(wanted) = slot.extent(dimension).as_number()
            && wanted != *size as u64
        {
            let expected = slot.shape_text();
            return Err(RuntimeError::InputShape { name, dimension, wanted, expected, found });
        }
    }
    Ok(tensor)
}

fn check_capacity(slot: &TensorSlot, dimension: usize, size: usize, extent: &Expr) -> Result<(), RuntimeError> {
    let capacity = slot.shape[dimension];
    if size as u64 <= capacity {
        return Ok(());
    }
    let place = format!("dimension {dimension} of input `{}`", slot.name);
    Err(RuntimeError::ExtentCapacity { place, extent: extent.to_string(), capacity, found: size as u64 })
}

/// Checks the dimensions of inputs whose extent follows from those of others.
fn check_derived(
    slots: &[TensorSlot],
    tensors: &[&Tensor],
    values: &Values<'_>,
    extents: &Extents,
) -> Result<(), RuntimeError> {
    for (slot, tensor) in slots.iter().zip(tensors) {
        for (dimension, size) in tensor.shape().iter().enumerate() {
            let extent = slot.extent(dimension);
            if extent.as_number().is_some() || extent.as_symbol().is_some() {
                continue;
            }
            let place = format!("dimension {dimension} of input `{}`", slot.name);
            let Some(expected) = values.get(&extent) else {
                return Err(size_error(place, &extent, None, extents, "it leaves the range of i64"));
            };
            if i64::try_from(*size) != Ok(expected) {
                return Err(RuntimeError::ExtentConflict {
                    place,
                    extent: extent.to_string(),
                    expected,
                    because: format!("it follows from {}", describe_extents(extents)),
                    found: i64::try_from(*size).unwrap_or(i64::MAX),
                });
            }
        }
    }
    Ok(())
}

/// Every number that the steps from `first` on need, up to the next that reads an extent, that one included.
pub(crate) fn resolve(
    plan: &LaunchPlan,
    expressions: &Expressions,
    extents: &Extents,
    first: usize,
) -> Result<Resolved, RuntimeError> {
    let values = expressions.evaluate(extents);
    let resolver = Resolver { plan, values, extents };
    let mut steps = Vec::new();
    for (index, step) in plan.steps.iter().enumerate().skip(first) {
        steps.push(resolver.step(index, &step.operation)?);
        if matches!(step.operation, Operation::ReadExtent(_)) {
            return Ok(Resolved { steps, outputs: Vec::new() });
        }
    }
    let outputs = plan.outputs.iter().map(|slot| resolver.shape(slot)).collect::<Result<_, _>>()?;
    Ok(Resolved { steps, outputs })
}

/// Adds an extent that a step has read.
pub(crate) fn add_extent(
    step: usize,
    source_nodes: &[String],
    read: &ReadExtent,
    value: i64,
    extents: &mut Extents,
) -> Result<(), RuntimeError> {
    if u64::try_from(value).is_ok_and(|value| value <= read.capacity) {
        extents.insert(read.name.clone(), value);
        return Ok(());
    }
    let nodes = if source_nodes.is_empty() { String::new() } else { format!(", node `{}`", source_nodes.join("`, `")) };
    let reason = format!("it must be 0 to {}", read.capacity);
    let place = format!("the extent that step {step}{nodes} reads");
    Err(RuntimeError::Size { place, expression: read.name.clone(), value: value.to_string(), reason })
}

struct Resolver<'a> {
    plan: &'a LaunchPlan,
    values: Values<'a>,
    extents: &'a Extents,
}

impl Resolver<'_> {
    fn number(
        &self,
        place: &dyn Fn() -> String,
        expression: &Expr,
        least: u64,
        most: u64,
    ) -> Result<u64, RuntimeError> {
        let value = self.values.get(expression);
        match value.map(u64::try_from) {
            Some(Ok(number)) if (least..=most).contains(&number) => Ok(number),
            _ => Err(size_error(place(), expression, value, self.extents, &format!("it must be {least} to {most}"))),
        }
    }

    fn step(&self, index: usize, operation: &Operation) -> Result<ResolvedStep, RuntimeError> {
        match operation {
            Operation::Launch(launch) => self.launch(index, launch),
            Operation::Copy(copy) => {
                let sizes = [copy.source, copy.target].map(|place| self.plan.place_bytes(place).unwrap_or(0));
                self.bytes(index, &copy.bytes, sizes[0].min(sizes[1]))
            }
            Operation::Memset(memset) => {
                self.bytes(index, &memset.bytes, self.plan.place_bytes(memset.target).unwrap_or(0))
            }
            Operation::If(conditional) => self.bodies(index, &[&conditional.then, &conditional.otherwise]),
            Operation::While(repeat) => self.bodies(index, &[&repeat.body]),
            _ => Ok(ResolvedStep::Fixed),
        }
    }

    /// Steps inside conditionals count as the outermost one.
    fn bodies(&self, index: usize, bodies: &[&[Step]]) -> Result<ResolvedStep, RuntimeError> {
        let body = |steps: &&[Step]| steps.iter().map(|step| self.step(index, &step.operation)).collect();
        bodies.iter().map(body).collect::<Result<_, _>>().map(ResolvedStep::Bodies)
    }

    fn bytes(&self, index: usize, bytes: &Expr, most: u64) -> Result<ResolvedStep, RuntimeError> {
        self.number(&|| format!("the size of step {index}"), bytes, 0, most).map(ResolvedStep::Bytes)
    }

    fn launch(&self, index: usize, launch: &Launch) -> Result<ResolvedStep, RuntimeError> {
        let mut grid = [0; 3];
        for (axis, size) in launch.grid.iter().enumerate() {
            let place = || format!("the grid of step {index} ({}) along axis {axis}", launch.entry);
            // The limits are below 2^31.
            grid[axis] = self.number(&place, size, 0, MAX_GRID[axis])? as u32;
        }
        let mut numbers = Vec::new();
        let mut maps = Vec::new();
        for argument in &launch.arguments {
            if let Argument::TensorMap(map) = argument {
                maps.push(self.tensor_map(index, launch, map)?);
            }
            if let Argument::Extent(extent) = argument {
                let place = || format!("an argument of step {index} ({})", launch.entry);
                let value = self.values.get(extent);
                let refused = |reason| size_error(place(), extent, value, self.extents, reason);
                let number = value.ok_or_else(|| refused("it leaves the range of i64"))?;
                // Sizes and starts count from the beginning: a negative one would read what is not there.
                if number < 0 && grid.iter().all(|size| *size > 0) {
                    return Err(refused("it must not be negative: the model needs a larger size here"));
                }
                numbers.push(number);
            }
        }
        Ok(ResolvedStep::Launch { grid, numbers, maps })
    }

    /// No tensor map has a dimension of no elements: where an extent is 0, no copy asks for any, and one element stands for none.
    fn tensor_map(&self, index: usize, launch: &Launch, map: &TensorMap) -> Result<ResolvedMap, RuntimeError> {
        let place = || format!("a tensor map of step {index} ({})", launch.entry);
        let mut resolved = ResolvedMap { sizes: Vec::new(), strides: Vec::new() };
        for size in &map.sizes {
            let number = self.number(&place, size, 0, u64::from(u32::MAX))?;
            resolved.sizes.push(u32::try_from(number).unwrap_or(u32::MAX).max(1));
        }
        for stride in &map.strides {
            let number = self.number(&place, stride, 0, TensorMap::STRIDE_LIMIT - 1)?;
            if number % TensorMap::ALIGNMENT != 0 {
                let reason = format!("it must be a multiple of {}", TensorMap::ALIGNMENT);
                return Err(size_error(place(), stride, i64::try_from(number).ok(), self.extents, &reason));
            }
            resolved.strides.push(number.max(TensorMap::ALIGNMENT));
        }
        Ok(resolved)
    }

    fn shape(&self, slot: &TensorSlot) -> Result<Vec<usize>, RuntimeError> {
        let mut shape = Vec::with_capacity(slot.shape.len());
        for (dimension, capacity) in slot.shape.iter().enumerate() {
            let place = || format!("dimension {dimension} of output `{}`", slot.name);
            let size = self.number(&place, &slot.extent(dimension), 0, *capacity)?;
            // A plan whose capacities do not fit the address space is not valid.
            shape.push(usize::try_from(size).unwrap_or(usize::MAX));
        }
        Ok(shape)
    }
}

fn size_error(place: String, expression: &Expr, value: Option<i64>, extents: &Extents, reason: &str) -> RuntimeError {
    let value = value.map_or("no number".to_owned(), |value| value.to_string());
    let value = format!("{value} for {}", describe_extents(extents));
    RuntimeError::Size { place, expression: expression.to_string(), value, reason: reason.to_owned() }
}

/// `batch = 2, seq = 5`.
fn describe_extents(extents: &Extents) -> String {
    let list: Vec<_> = extents.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if list.is_empty() { "no extents".to_owned() } else { list.join(", ") }
}

impl TensorSlot {
    /// `[batch≤4, 8]`: each dimension by its extent, with the capacity where that is not the same.
    pub(crate) fn shape_text(&self) -> String {
        let dimension = |(index, capacity): (usize, &u64)| match self.extent(index) {
            Expr::Number(value) => value.to_string(),
            Expr::Text(text) => format!("{text}≤{capacity}"),
        };
        format!("[{}]", self.shape.iter().enumerate().map(dimension).collect::<Vec<_>>().join(", "))
    }

    /// Bytes of a dense value of the slot's type and another shape; the slot's own memory when they overflow.
    pub(crate) fn bytes_of(&self, shape: &[usize]) -> u64 {
        byte_count(self.dtype, shape).map_or(u64::MAX, |bytes| bytes as u64)
    }
}

impl std::fmt::Display for TensorSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape_text())
    }
}
