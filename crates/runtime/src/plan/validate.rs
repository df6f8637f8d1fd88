//! Validation of a plan.

use std::collections::{BTreeMap, HashSet};

use tenon_tensor::{Condition, DType};

use crate::plan::lifetime::find_overlap;
use crate::plan::schema::tensor_bytes;
use crate::plan::{
    Argument, Expr, Launch, LaunchPlan, MemoryKind, Operation, Place, PlanError, ReadExtent, SCHEMA_VERSION, Step,
    TensorMap, TensorSlot,
};

/// Most entries of any list of a plan.
const MAX_ENTRIES: usize = 1 << 20;
/// Highest rank of a tensor.
const MAX_RANK: usize = 64;
/// Deepest nesting of conditionals.
const MAX_DEPTH: usize = 16;
/// Longest expression, in bytes.
const MAX_EXPRESSION: usize = 1 << 12;
/// Grid limits of every architecture (CUDA C++ programming guide, compute capabilities).
pub(crate) const MAX_GRID: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];
/// Block limits of every architecture.
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Threads of a block.
const MAX_THREADS: u64 = 1024;
/// Shared memory of a block: beyond the largest of all architectures.
const MAX_SHARED_BYTES: u32 = 256 << 10;
/// Blocks of a cluster.
const MAX_CLUSTER: u64 = 16;
/// Parameters of an entry: 8 bytes each in the 32,764 bytes that PTX allows.
const MAX_ARGUMENTS: usize = 4095;

/// Largest values of extents, by name.
type Largest = BTreeMap<String, i64>;

impl LaunchPlan {
    /// Checks every invariant of a plan; gives the first that is broken.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.version != SCHEMA_VERSION {
            return Err(PlanError::Version(self.version));
        }
        let lists = [
            ("extents", self.extents.len()),
            ("requirements", self.requirements.len()),
            ("inputs", self.inputs.len()),
            ("parameters", self.parameters.len()),
            ("outputs", self.outputs.len()),
            ("states", self.states.len()),
            ("buffers", self.buffers.len()),
            ("steps", self.steps.len()),
        ];
        for (name, count) in lists {
            if count > MAX_ENTRIES {
                return Err(PlanError::structure(
                    format!("`{name}`"),
                    format!("{count} entries are more than {MAX_ENTRIES}"),
                ));
            }
        }
        self.unique("extent", self.extents.iter().map(String::as_str))?;
        let (inputs, all) = self.largest_extents()?;
        for (kind, slots, extents) in [
            ("input", &self.inputs, &inputs),
            ("parameter", &self.parameters, &inputs),
            ("output", &self.outputs, &all),
            ("state", &self.states, &inputs),
        ] {
            self.unique(kind, slots.iter().map(|slot| slot.name.as_str()))?;
            for slot in slots {
                self.slot(kind, slot, extents)?;
            }
        }
        self.requirements()?;
        self.buffers()?;
        // What a step reads is known to the steps behind it only.
        let mut walk = Walk { plan: self, extents: inputs, written: HashSet::new(), events: HashSet::new(), step: 0 };
        for (index, step) in self.steps.iter().enumerate() {
            walk.step = index;
            walk.step(step, 0)?;
        }
        self.check_order()?;
        for (index, slot) in self.outputs.iter().enumerate() {
            if slot.bytes() != Some(0) && !walk.written.contains(&Place::Output(index as u32)) {
                return Err(PlanError::structure(format!("output `{}`", slot.name), "no step writes it"));
            }
        }
        Ok(())
    }

    fn unique<'a>(&self, kind: &str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                return Err(PlanError::structure(format!("{kind} `{name}`"), "the name occurs twice"));
            }
        }
        Ok(())
    }

    /// The capacity of each extent that inputs have, and of each at all; an extent that nothing defines is refused, since no run would
    /// know it.
    fn largest_extents(&self) -> Result<(Largest, Largest), PlanError> {
        let (inputs, mut capacities) = (self.input_capacities(), self.extent_capacities());
        let (mut of_inputs, mut all) = (Largest::new(), Largest::new());
        for name in &self.extents {
            let place = || format!("extent `{name}`");
            let Some(capacity) = capacities.remove(name) else {
                let message = "it is the extent of no input's dimension, and no step reads it";
                return Err(PlanError::structure(place(), message));
            };
            let capacity = i64::try_from(capacity)
                .map_err(|_| PlanError::structure(place(), format!("its capacity {capacity} does not fit i64")))?;
            all.insert(name.clone(), capacity);
            if inputs.contains_key(name) {
                of_inputs.insert(name.clone(), capacity);
            }
        }
        Ok((of_inputs, all))
    }

    fn slot(&self, kind: &str, slot: &TensorSlot, largest: &BTreeMap<String, i64>) -> Result<(), PlanError> {
        let place = || format!("{kind} `{}`", slot.name);
        if slot.shape.len() > MAX_RANK {
            return Err(PlanError::structure(place(), format!("rank {} is above {MAX_RANK}", slot.shape.len())));
        }
        if slot.bytes().is_none() {
            return Err(PlanError::structure(
                place(),
                format!("{} {:?} is too large to address", slot.dtype, slot.shape),
            ));
        }
        if let Some(extents) = &slot.extents {
            if extents.len() != slot.shape.len() {
                return Err(PlanError::structure(
                    place(),
                    format!("{} extents for {} dimensions", extents.len(), slot.shape.len()),
                ));
            }
            for (extent, capacity) in extents.iter().zip(&slot.shape) {
                // What is too large with all extents at their capacities could never be run in full.
                let value = at_capacity(extent, largest, &place)?;
                if u64::try_from(value).map_or(true, |value| value > *capacity) {
                    let reached =
                        if extent.as_number().is_some() { String::new() } else { format!(", which reaches {value},") };
                    let message = format!("extent `{extent}`{reached} is outside the capacity {capacity}");
                    return Err(PlanError::structure(place(), message));
                }
            }
        }
        Ok(())
    }

    fn requirements(&self) -> Result<(), PlanError> {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let text = &requirement.condition;
            let wrong = |message: String| Err(PlanError::structure(format!("requirement {index}"), message));
            if text.len() > 2 * MAX_EXPRESSION {
                return wrong(format!("a condition of {} bytes", text.len()));
            }
            let Some(condition) = Condition::parse(text) else { return wrong(format!("`{text}` is no condition")) };
            if let Some(name) = condition.symbols().into_iter().find(|name| !self.extents.contains(name)) {
                return wrong(format!("`{name}` in `{text}` is no extent of the plan"));
            }
        }
        Ok(())
    }

    fn buffers(&self) -> Result<(), PlanError> {
        for (index, buffer) in self.buffers.iter().enumerate() {
            let place = || format!("buffer {index} (`{}`)", buffer.name);
            if buffer.shape.len() > MAX_RANK {
                return Err(PlanError::structure(place(), format!("rank {} is above {MAX_RANK}", buffer.shape.len())));
            }
            match tensor_bytes(buffer.dtype, &buffer.shape) {
                Some(needed) if needed <= buffer.bytes => {}
                _ => {
                    let message = format!("{} bytes cannot hold {} {:?}", buffer.bytes, buffer.dtype, buffer.shape);
                    return Err(PlanError::memory(place(), message));
                }
            }
            if !buffer.alignment.is_power_of_two() || buffer.offset % buffer.alignment != 0 {
                let message = format!("offset {} is not aligned to {}", buffer.offset, buffer.alignment);
                return Err(PlanError::memory(place(), message));
            }
            let arena = match buffer.memory {
                MemoryKind::Device => self.arena_bytes,
                MemoryKind::Pinned => self.pinned_arena_bytes,
            };
            if buffer.offset.checked_add(buffer.bytes).is_none_or(|end| end > arena) {
                let message =
                    format!("{} bytes at {} end outside the arena of {arena} bytes", buffer.bytes, buffer.offset);
                return Err(PlanError::memory(place(), message));
            }
            // A buffer of a plan without steps has no lifetime to check.
            if buffer.first > buffer.last || (buffer.last as usize >= self.steps.len() && !self.steps.is_empty()) {
                let message =
                    format!("steps {} to {} are no range of the {} steps", buffer.first, buffer.last, self.steps.len());
                return Err(PlanError::memory(place(), message));
            }
            let always = buffer.first == 0 && buffer.last as usize + 1 >= self.steps.len();
            if buffer.zeroed && (buffer.memory != MemoryKind::Device || !always) {
                let message =
                    "it holds zeros between runs, and is not in memory of the device from the first step to the last";
                return Err(PlanError::memory(place(), message));
            }
        }
        match find_overlap(&self.buffers) {
            None => Ok(()),
            Some((a, b)) => {
                let message = format!(
                    "it shares memory with buffer {a} (`{}`), which is alive at the same time",
                    self.buffers[a].name
                );
                Err(PlanError::memory(format!("buffer {b} (`{}`)", self.buffers[b].name), message))
            }
        }
    }

    /// Element type of a place; `None` when the index is out of range.
    pub fn place_dtype(&self, place: Place) -> Option<DType> {
        match place {
            Place::Buffer(index) => self.buffers.get(index as usize).map(|buffer| buffer.dtype),
            Place::Parameter(index) => self.parameters.get(index as usize).map(|slot| slot.dtype),
            Place::Input(index) => self.inputs.get(index as usize).map(|slot| slot.dtype),
            Place::Output(index) => self.outputs.get(index as usize).map(|slot| slot.dtype),
        }
    }

    /// Bytes of a place; `None` when the index is out of range.
    pub fn place_bytes(&self, place: Place) -> Option<u64> {
        match place {
            Place::Buffer(index) => self.buffers.get(index as usize).map(|buffer| buffer.bytes),
            Place::Parameter(index) => self.parameters.get(index as usize)?.bytes(),
            Place::Input(index) => self.inputs.get(index as usize)?.bytes(),
            Place::Output(index) => self.outputs.get(index as usize)?.bytes(),
        }
    }
}

/// The value of an expression with all extents at their capacities; refuses what is no expression over them.
fn at_capacity(
    expression: &Expr,
    largest: &BTreeMap<String, i64>,
    place: &dyn Fn() -> String,
) -> Result<i64, PlanError> {
    let wrong = |message: String| PlanError::structure(place(), message);
    let parsed = match expression {
        Expr::Number(value) => {
            return i64::try_from(*value).map_err(|_| wrong(format!("the number {value} does not fit i64")));
        }
        Expr::Text(text) if text.len() > MAX_EXPRESSION => {
            return Err(wrong(format!("an expression of {} bytes", text.len())));
        }
        Expr::Text(text) => expression.parse().ok_or_else(|| wrong(format!("`{text}` is no expression")))?,
    };
    if let Some(name) = parsed.symbols().into_iter().find(|name| !largest.contains_key(name)) {
        return Err(wrong(format!("`{name}` in `{expression}` is no extent of the plan")));
    }
    parsed
        .evaluate(&|name| largest.get(name).copied())
        .ok_or_else(|| wrong(format!("`{expression}` leaves the range of i64")))
}

/// State of the walk over steps.
struct Walk<'a> {
    plan: &'a LaunchPlan,
    /// Extents at their capacities.
    extents: BTreeMap<String, i64>,
    /// Places that some step may have written.
    written: HashSet<Place>,
    events: HashSet<u32>,
    /// Index of the outermost step.
    step: usize,
}

impl Walk<'_> {
    fn here(&self) -> String {
        let nodes = self.plan.steps.get(self.step).map(|step| step.source_nodes.join("`, `")).unwrap_or_default();
        if nodes.is_empty() { format!("step {}", self.step) } else { format!("step {} (node `{nodes}`)", self.step) }
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::structure(self.here(), message))
    }

    fn step(&mut self, step: &Step, depth: usize) -> Result<(), PlanError> {
        if depth > MAX_DEPTH {
            return self.wrong(format!("conditionals nest deeper than {MAX_DEPTH}"));
        }
        match &step.operation {
            Operation::Launch(launch) => self.launch(launch),
            Operation::Copy(copy) => {
                let source = self.read(copy.source)?;
                let target = self.write(copy.target)?;
                // The source may be memory for more, of which the copy takes the beginning.
                let reads = u64::try_from(self.largest(&copy.bytes)?).is_ok_and(|bytes| bytes <= source);
                if !reads || !self.moves(&copy.bytes, target)? || copy.source == copy.target {
                    return self.wrong(format!("a copy of {} bytes from {source} bytes to {target} bytes", copy.bytes));
                }
                Ok(())
            }
            Operation::Memset(memset) => {
                let target = self.write(memset.target)?;
                if !self.moves(&memset.bytes, target)? {
                    return self.wrong(format!("a fill of {} bytes of {target} bytes", memset.bytes));
                }
                Ok(())
            }
            Operation::Event(mark) => {
                if !self.events.insert(mark.event) {
                    return self.wrong(format!("event {} is recorded twice", mark.event));
                }
                Ok(())
            }
            Operation::Wait(mark) => {
                if !self.events.contains(&mark.event) {
                    return self.wrong(format!("event {} is waited for before it is recorded", mark.event));
                }
                Ok(())
            }
            Operation::If(conditional) => {
                self.predicate(conditional.predicate)?;
                self.body(&conditional.then, depth)?;
                self.body(&conditional.otherwise, depth)
            }
            Operation::While(repeat) => {
                self.predicate(repeat.predicate)?;
                self.body(&repeat.body, depth)
            }
            Operation::HostCall(call) => {
                if call.callee.is_empty() {
                    return self.wrong("a host call without a name");
                }
                call.reads.iter().try_for_each(|place| self.read(*place).map(drop))?;
                call.writes.iter().try_for_each(|place| self.write(*place).map(drop))
            }
            Operation::StateRead(transfer) => {
                let bytes = self.write(transfer.place)?;
                self.state(transfer.state, bytes)
            }
            Operation::StateWrite(transfer) => {
                let bytes = self.read(transfer.place)?;
                self.state(transfer.state, bytes)
            }
            Operation::ReadExtent(read) => self.read_extent(read, depth),
        }
    }

    fn read_extent(&mut self, read: &ReadExtent, depth: usize) -> Result<(), PlanError> {
        let name = &read.name;
        if depth > 0 {
            return self.wrong(format!("the extent `{name}` is read inside a conditional"));
        }
        if !self.plan.extents.contains(name) {
            return self.wrong(format!("`{name}` is no extent of the plan"));
        }
        let bytes = self.read(read.source)?;
        if bytes != 8 || self.plan.place_dtype(read.source) != Some(DType::I64) {
            return self.wrong(format!("the extent `{name}` is no i64"));
        }
        let capacity = i64::try_from(read.capacity).unwrap_or(i64::MAX);
        if self.extents.insert(name.clone(), capacity).is_some() {
            return self.wrong(format!("the extent `{name}` is known before it is read"));
        }
        Ok(())
    }

    fn largest(&self, expression: &Expr) -> Result<i64, PlanError> {
        at_capacity(expression, &self.extents, &|| self.here())
    }

    /// Whether so many bytes are the whole place, or where they depend on extents, fit it.
    fn moves(&self, bytes: &Expr, place: u64) -> Result<bool, PlanError> {
        let largest = u64::try_from(self.largest(bytes)?);
        Ok(largest.is_ok_and(|largest| if bytes.as_number().is_some() { largest == place } else { largest <= place }))
    }

    fn body(&mut self, steps: &[Step], depth: usize) -> Result<(), PlanError> {
        steps.iter().try_for_each(|step| self.step(step, depth + 1))
    }

    fn state(&self, index: u32, bytes: u64) -> Result<(), PlanError> {
        match self.plan.states.get(index as usize) {
            None => self.wrong(format!("state {index} of {}", self.plan.states.len())),
            Some(state) if state.bytes() != Some(bytes) => {
                self.wrong(format!("{bytes} bytes for state `{}`", state.name))
            }
            Some(_) => Ok(()),
        }
    }

    fn predicate(&mut self, place: Place) -> Result<(), PlanError> {
        match self.read(place)? {
            0 => self.wrong("a predicate without elements"),
            _ => Ok(()),
        }
    }

    fn read(&self, place: Place) -> Result<u64, PlanError> {
        let Some(bytes) = self.plan.place_bytes(place) else {
            return self.wrong(format!("{place:?} is out of range"));
        };
        if let Place::Buffer(index) = place {
            let buffer = &self.plan.buffers[index as usize];
            if !(buffer.first as usize..=buffer.last as usize).contains(&self.step) {
                let message = format!(
                    "buffer {index} (`{}`) is alive from step {} to step {} only",
                    buffer.name, buffer.first, buffer.last
                );
                return Err(PlanError::memory(self.here(), message));
            }
        }
        Ok(bytes)
    }

    fn write(&mut self, place: Place) -> Result<u64, PlanError> {
        if let Place::Input(_) | Place::Parameter(_) = place {
            return self.wrong(format!("{place:?} must not be written"));
        }
        if let Place::Buffer(index) = place
            && self.plan.buffers.get(index as usize).is_some_and(|buffer| buffer.zeroed)
        {
            return self.wrong(format!(
                "buffer {index} holds zeros between runs: only kernels, which leave them there, use it"
            ));
        }
        self.written.insert(place);
        self.read(place)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), PlanError> {
        if launch.entry.is_empty() {
            return self.wrong("a launch without an entry");
        }
        for (axis, size) in launch.grid.iter().enumerate() {
            let largest = u64::try_from(self.largest(size)?);
            // An extent of 0 may leave no block; a number is a block at least.
            let least = u64::from(size.as_number().is_some());
            if !largest.is_ok_and(|largest| (least..=MAX_GRID[axis]).contains(&largest)) {
                return self.wrong(format!("a grid of {size} blocks along axis {axis}"));
            }
        }
        let threads: u64 =
            launch.block.iter().map(|size| u64::from(*size)).try_fold(1, u64::checked_mul).unwrap_or(u64::MAX);
        if threads == 0 || threads > MAX_THREADS || launch.block.iter().zip(MAX_BLOCK).any(|(size, most)| *size > most)
        {
            return self.wrong(format!("a block of {:?} threads", launch.block));
        }
        if launch.dynamic_shared_bytes > MAX_SHARED_BYTES {
            return self.wrong(format!("{} bytes of shared memory", launch.dynamic_shared_bytes));
        }
        if let Some(cluster) = launch.cluster {
            let blocks = cluster.iter().map(|size| u64::from(*size)).try_fold(1, u64::checked_mul).unwrap_or(u64::MAX);
            if blocks == 0 || blocks > MAX_CLUSTER {
                return self.wrong(format!("a cluster of {cluster:?} blocks"));
            }
        }
        if launch.arguments.len() > MAX_ARGUMENTS {
            return self.wrong(format!("{} arguments", launch.arguments.len()));
        }
        for argument in &launch.arguments {
            match argument {
                Argument::Extent(extent) => {
                    self.largest(extent)?;
                }
                Argument::TensorMap(map) => self.tensor_map(map)?,
                _ => {}
            }
        }
        for argument in &launch.arguments {
            if let Some(place) = argument.place() {
                self.read(place)?;
                // A kernel may write whatever it gets an address of.
                self.written.insert(place);
            }
        }
        Ok(())
    }

    fn tensor_map(&self, map: &TensorMap) -> Result<(), PlanError> {
        let rank = map.sizes.len();
        let fits = (1..=TensorMap::MAX_RANK).contains(&rank) && map.strides.len() == rank - 1 && map.tile.len() == rank;
        if !fits || map.tile.iter().any(|size| !(1..=TensorMap::MAX_TILE).contains(size)) {
            return self.wrong("a tensor map whose lists do not fit");
        }
        let element = map.dtype.size() as u64;
        let row = u64::from(map.tile[0]) * element;
        let swizzle = u64::from(map.swizzle);
        if ![0, 32, 64, 128].contains(&swizzle) || row % TensorMap::ALIGNMENT != 0 || (swizzle > 0 && row != swizzle) {
            return self.wrong(format!("a tensor map with rows of {row} bytes and a swizzle of {swizzle} bytes"));
        }
        // With all extents at their capacities, the last element must lie inside.
        let sizes = map.sizes.iter().map(|size| self.largest(size)).collect::<Result<Vec<_>, _>>()?;
        let strides = map.strides.iter().map(|stride| self.largest(stride)).collect::<Result<Vec<_>, _>>()?;
        let strides: Vec<u64> = strides.iter().map(|stride| u64::try_from(*stride).unwrap_or(u64::MAX)).collect();
        let sizes: Vec<u64> = sizes.iter().map(|size| u64::try_from(*size).unwrap_or(u64::MAX)).collect();
        if sizes.iter().any(|size| *size > u64::from(u32::MAX))
            || strides.iter().any(|stride| *stride >= TensorMap::STRIDE_LIMIT)
        {
            return self.wrong("a tensor map with a size of 2^32 or a stride of 2^40 bytes");
        }
        if strides
            .iter()
            .zip(&map.strides)
            .any(|(value, stride)| stride.as_number().is_some() && value % TensorMap::ALIGNMENT != 0)
        {
            return self
                .wrong(format!("a tensor map with a stride that is no multiple of {} bytes", TensorMap::ALIGNMENT));
        }
        let along = std::iter::once(element).chain(strides).zip(&sizes);
        let bytes = along
            .map(|(stride, size)| stride.saturating_mul(size.saturating_sub(1)))
            .fold(element, u64::saturating_add);
        let place = self.plan.place_bytes(map.place).unwrap_or(0);
        if !sizes.contains(&0) && bytes > place {
            return self.wrong(format!("a tensor map of {bytes} bytes at a place of {place} bytes"));
        }
        Ok(())
    }
}
