//! A compiled bucket on a device.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tenon_tensor::Tensor;

use crate::RuntimeError;
use crate::bind::{Extents, Resolved, ResolvedMap, ResolvedStep, add_extent, bind, check_requirements, resolve};
use crate::device::{
    Allocation, Counters, Device, DeviceError, DevicePointer, KernelArgument, KernelHandle, KernelLaunch, ModuleHandle,
    Placement, Stream,
};
use crate::executable::{Executable, same_shape};
use crate::on_device::{allocate_buffers, allocate_slots, check_conditionals, events, find_kernels};
use crate::plan::{Argument, EventMark, Launch, LaunchPlan, Operation, Place, PlanError, ReadExtent, Step, TensorSlot};

/// Weights on a device, shared by all instances that use them.
pub struct DeviceParameters {
    tensors: HashMap<String, Arc<(Tensor, Allocation)>>,
}

impl DeviceParameters {
    /// Uploads weights.
    pub fn upload<'a>(
        device: &Arc<dyn Device>,
        parameters: impl IntoIterator<Item = (&'a String, &'a Tensor)>,
    ) -> Result<Arc<Self>, RuntimeError> {
        let mut tensors = HashMap::new();
        for (name, tensor) in parameters {
            let allocation = Allocation::new(device, tensor.bytes().len() as u64)?;
            device.upload(allocation.pointer(), tensor.bytes(), Stream::default())?;
            tensors.insert(name.clone(), Arc::new((tensor.clone(), allocation)));
        }
        Ok(Arc::new(DeviceParameters { tensors }))
    }

    /// The same weights under other names, each with its name here; what is not here is left out. No memory is used for it.
    pub fn renamed<'a>(&self, names: impl IntoIterator<Item = (&'a String, &'a String)>) -> Arc<Self> {
        let tensors =
            names.into_iter().filter_map(|(name, here)| Some((name.clone(), Arc::clone(self.tensors.get(here)?))));
        Arc::new(DeviceParameters { tensors: tensors.collect() })
    }

    fn pointer(&self, slot: &TensorSlot) -> Result<DevicePointer, RuntimeError> {
        let wrong =
            |found: String| RuntimeError::Parameter { name: slot.name.clone(), expected: slot.to_string(), found };
        match self.tensors.get(&slot.name).map(|entry| (&entry.0, &entry.1)) {
            Some((tensor, allocation)) if tensor.dtype() == slot.dtype && same_shape(&slot.shape, tensor.shape()) => {
                Ok(allocation.pointer())
            }
            Some((tensor, _)) => Err(wrong(format!("{}{:?}", tensor.dtype(), tensor.shape()))),
            None => Err(wrong("nothing".to_owned())),
        }
    }
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Outputs by name, in the model's order, in the shapes that they have for the extents of this run.
    pub outputs: Vec<(String, Tensor)>,
    /// The extents of this run.
    pub extents: BTreeMap<String, i64>,
    /// Launches, copies and fills together.
    pub launches: usize,
    /// What each step did, in order.
    pub steps: Vec<StepReport>,
}

/// What a step did.
#[derive(Debug, Clone)]
pub struct StepReport {
    /// Its operation by the name in the plan's schema: `launch`, `copy`, `memset`.
    pub operation: &'static str,
    /// The entry launched.
    pub entry: Option<String>,
    /// Nodes of the model that it computed.
    pub source_nodes: Vec<String>,
    /// Counters of the launch, where the device counts.
    pub counters: Option<Counters>,
    /// What the steps inside a conditional did, those of all rounds one after another.
    pub inner: Vec<StepReport>,
}

/// The memory of an instance between two steps of a run.
pub struct Memory<'i> {
    instance: &'i Instance,
}

impl Memory<'_> {
    /// The first bytes of a place, once all work before is done.
    ///
    /// # Errors
    /// The place is not that large, or holds nothing there.
    pub fn read(&self, place: Place, bytes: u64) -> Result<Vec<u8>, RuntimeError> {
        let held = self.instance.plan().place_bytes(place).unwrap_or(0);
        let mut content = vec![0; usize::try_from(bytes.min(held)).unwrap_or(0)];
        if self.instance.plan().has_streams() {
            self.instance.device.synchronize()?;
        }
        self.instance.device.download(self.instance.pointer(place), &mut content, Stream::default())?;
        Ok(content)
    }
}

impl StepReport {
    /// This step and those inside it, in order.
    pub fn walk(&self) -> Vec<&StepReport> {
        std::iter::once(self).chain(self.inner.iter().flat_map(StepReport::walk)).collect()
    }

    /// Launches, copies and fills.
    fn launches(&self) -> usize {
        let counts = |report: &&&StepReport| matches!(report.operation, "launch" | "copy" | "memset" | "read_extent");
        self.walk().iter().filter(counts).count()
    }
}

/// Most rounds of a loop without a bound of its own.
const MAX_ROUNDS: u64 = 1 << 24;

/// An executable on a device: memory allocated and weights uploaded once, then run as often as wanted.
pub struct Instance {
    executable: Arc<Executable>,
    parameters: Vec<DevicePointer>,
    inputs: Vec<Allocation>,
    outputs: Vec<Allocation>,
    buffers: Vec<DevicePointer>,
    /// The kernels by their entries.
    kernels: HashMap<String, KernelHandle>,
    /// The device's number of each event of the plan.
    events: HashMap<u32, u32>,
    /// The extents of the last run's inputs and what followed from them.
    resolved: Option<(Extents, Arc<Resolved>)>,
    /// Tensors that the next run takes where the caller gives none; see [`Instance::keep`].
    states: BTreeMap<String, Tensor>,
    /// Whether the buffers that hold zeros between runs do: a run that fails may leave something else.
    zeroed: bool,
    _modules: Vec<Arc<LoadedModule>>,
    _arena: Vec<Allocation>,
    _parameters: Arc<DeviceParameters>,
    device: Arc<dyn Device>,
}

/// A module that unloads itself.
struct LoadedModule {
    device: Arc<dyn Device>,
    handle: ModuleHandle,
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // As for memory: a refusal changes nothing any more.
        let _ = self.device.unload_module(self.handle);
    }
}

/// Modules on a device, each loaded once however many instances use it.
pub struct DeviceModules {
    device: Arc<dyn Device>,
    loaded: HashMap<Arc<str>, Arc<LoadedModule>>,
}

impl DeviceModules {
    /// None yet.
    pub fn new(device: Arc<dyn Device>) -> Self {
        DeviceModules { device, loaded: HashMap::new() }
    }

    /// How many are loaded.
    pub fn count(&self) -> usize {
        self.loaded.len()
    }

    fn get(&mut self, ptx: &Arc<str>) -> Result<Arc<LoadedModule>, DeviceError> {
        if let Some(module) = self.loaded.get(ptx) {
            return Ok(Arc::clone(module));
        }
        let handle = self.device.load_module(ptx)?;
        let module = Arc::new(LoadedModule { device: Arc::clone(&self.device), handle });
        self.loaded.insert(Arc::clone(ptx), Arc::clone(&module));
        Ok(module)
    }
}

impl Instance {
    /// Puts an executable on a device, with its weights.
    pub fn new(device: Arc<dyn Device>, executable: Arc<Executable>) -> Result<Self, RuntimeError> {
        check_conditionals(&device, executable.plan())?;
        let parameters = DeviceParameters::upload(&device, executable.parameters())?;
        let placement = device.placement();
        Instance::with_parameters(device, executable, parameters, placement)
    }

    /// Puts an executable on a device that has its weights already.
    pub fn with_parameters(
        device: Arc<dyn Device>,
        executable: Arc<Executable>,
        parameters: Arc<DeviceParameters>,
        placement: Placement,
    ) -> Result<Self, RuntimeError> {
        let mut modules = DeviceModules::new(Arc::clone(&device));
        Instance::with_modules(device, executable, parameters, placement, &mut modules)
    }

    /// Puts an executable on a device that has its weights already, and some of its modules.
    pub fn with_modules(
        device: Arc<dyn Device>,
        executable: Arc<Executable>,
        parameters: Arc<DeviceParameters>,
        placement: Placement,
        modules: &mut DeviceModules,
    ) -> Result<Self, RuntimeError> {
        let plan = executable.plan();
        check_conditionals(&device, plan)?;
        let modules = executable.modules().iter().map(|ptx| modules.get(ptx)).collect::<Result<Vec<_>, _>>()?;
        let handles: Vec<_> = modules.iter().map(|module| module.handle).collect();
        let kernels = find_kernels(&device, plan, &handles)?;
        let pointers = plan.parameters.iter().map(|slot| parameters.pointer(slot)).collect::<Result<Vec<_>, _>>()?;
        let inputs = allocate_slots(&device, &plan.inputs)?;
        let outputs = allocate_slots(&device, &plan.outputs)?;
        let (arena, buffers) = allocate_buffers(&device, plan, placement)?;
        let mut instance = Instance {
            parameters: pointers,
            inputs,
            outputs,
            buffers,
            kernels,
            events: events(plan),
            resolved: None,
            states: BTreeMap::new(),
            zeroed: false,
            _modules: modules,
            _arena: arena,
            _parameters: parameters,
            device,
            executable,
        };
        instance.zero()?;
        Ok(instance)
    }

    /// Fills the buffers that hold zeros between runs, unless they do.
    fn zero(&mut self) -> Result<(), DeviceError> {
        if self.zeroed {
            return Ok(());
        }
        for (buffer, pointer) in self.executable.plan().buffers.iter().zip(&self.buffers) {
            if buffer.zeroed {
                self.device.memset(*pointer, 0, buffer.bytes, Stream::default())?;
            }
        }
        self.zeroed = true;
        Ok(())
    }

    /// The plan that it runs.
    pub fn plan(&self) -> &LaunchPlan {
        self.executable.plan()
    }

    /// Keeps a tensor between runs, of a program that takes it as an input and gives its next value as an output of the same name (a buffer
    /// that a model writes). A run takes the kept value where the caller gives none, and keeps the one that it gave.
    pub fn keep(&mut self, name: impl Into<String>, first: Tensor) {
        self.states.insert(name.into(), first);
    }

    /// The tensors that are kept, by name, as the next run takes them.
    pub fn kept(&self) -> &BTreeMap<String, Tensor> {
        &self.states
    }

    /// Runs the plan. Inputs are found by name and checked before anything runs; the extents of the plan follow from their shapes.
    ///
    /// Inputs lie dense in memory that has their capacity: row-major by the shapes given here. Outputs come back in the shapes that
    /// their extents have.
    pub fn run(&mut self, inputs: &[(String, Tensor)]) -> Result<RunResult, RuntimeError> {
        self.run_observed(inputs, &mut |_, _| Ok(()))
    }

    /// [`run`](Self::run), and lets a function look at the device's memory after each step, by the step's place in the plan.
    pub fn run_observed(
        &mut self,
        inputs: &[(String, Tensor)],
        observe: &mut dyn FnMut(usize, &Memory<'_>) -> Result<(), RuntimeError>,
    ) -> Result<RunResult, RuntimeError> {
        let result = self.run_steps(inputs, observe);
        if result.is_err() && self.plan().has_streams() {
            // Other streams may still use the memory, which the next run takes anew. The error that is known already says more than this one.
            let _ = self.device.synchronize();
        }
        result
    }

    fn run_steps(
        &mut self,
        inputs: &[(String, Tensor)],
        observe: &mut dyn FnMut(usize, &Memory<'_>) -> Result<(), RuntimeError>,
    ) -> Result<RunResult, RuntimeError> {
        let stream = Stream::default();
        let executable = Arc::clone(&self.executable);
        let plan = executable.plan();
        let kept = self.states.iter().filter(|(name, _)| !inputs.iter().any(|(given, _)| given == *name));
        let inputs: Vec<(String, Tensor)> =
            inputs.iter().cloned().chain(kept.map(|(name, tensor)| (name.clone(), tensor.clone()))).collect();
        let (tensors, mut extents) = bind(plan, executable.expressions(), &inputs)?;
        let mut resolved = self.resolve(&executable, &extents)?;
        self.discard(plan)?;
        self.zero()?;
        self.zeroed = false;
        for (tensor, allocation) in tensors.iter().zip(&self.inputs) {
            self.device.upload(allocation.pointer(), tensor.bytes(), stream)?;
        }
        let mut steps = Vec::with_capacity(plan.steps.len());
        loop {
            let first = steps.len();
            for ((index, step), numbers) in plan.steps.iter().enumerate().skip(first).zip(&resolved.steps) {
                steps.push(match &step.operation {
                    Operation::ReadExtent(read) => self.read_extent(index, step, read, &mut extents)?,
                    _ => self.step(index, step, numbers)?,
                });
                observe(index, &Memory { instance: self })?;
            }
            if steps.len() == plan.steps.len() {
                // Where the last step reads an extent, the shapes of outputs may depend on it.
                let reads = plan.steps.last().is_some_and(|step| matches!(step.operation, Operation::ReadExtent(_)));
                if reads {
                    resolved = Arc::new(resolve(plan, executable.expressions(), &extents, steps.len())?);
                }
                break;
            }
            resolved = Arc::new(resolve(plan, executable.expressions(), &extents, steps.len())?);
        }
        self.device.synchronize()?;
        self.zeroed = true;
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for ((slot, allocation), shape) in plan.outputs.iter().zip(&self.outputs).zip(&resolved.outputs) {
            outputs.push(self.download(slot, allocation, shape)?);
        }
        for (name, tensor) in &outputs {
            if let Some(state) = self.states.get_mut(name) {
                *state = tensor.clone();
            }
        }
        Ok(RunResult { outputs, extents, launches: steps.iter().map(StepReport::launches).sum(), steps })
    }

    /// What follows from extents; kept for the next run, which often has the same.
    fn resolve(&mut self, executable: &Executable, extents: &Extents) -> Result<Arc<Resolved>, RuntimeError> {
        if let Some((known, resolved)) = &self.resolved
            && known == extents
        {
            return Ok(Arc::clone(resolved));
        }
        let resolved = Arc::new(resolve(executable.plan(), executable.expressions(), extents, 0)?);
        self.resolved = Some((extents.clone(), Arc::clone(&resolved)));
        Ok(resolved)
    }

    /// Nothing of an earlier run may be read.
    fn discard(&self, plan: &LaunchPlan) -> Result<(), DeviceError> {
        for allocation in self.inputs.iter().chain(&self.outputs) {
            self.device.discard(allocation.pointer(), allocation.bytes())?;
        }
        for (buffer, pointer) in plan.buffers.iter().zip(&self.buffers).filter(|(buffer, _)| !buffer.zeroed) {
            self.device.discard(*pointer, buffer.bytes)?;
        }
        Ok(())
    }

    fn download(
        &self,
        slot: &TensorSlot,
        allocation: &Allocation,
        shape: &[usize],
    ) -> Result<(String, Tensor), RuntimeError> {
        // The device holds as many bytes, so their number is no danger to the host.
        let mut bytes = vec![0u8; slot.bytes_of(shape).min(allocation.bytes()) as usize];
        self.device.download(allocation.pointer(), &mut bytes, Stream::default())?;
        let tensor = Tensor::new(slot.dtype, shape.to_vec(), bytes)
            .map_err(|source| RuntimeError::Output { name: slot.name.clone(), source })?;
        Ok((slot.name.clone(), tensor))
    }

    /// Waits for an extent that the device computes.
    fn read_extent(
        &self,
        index: usize,
        step: &Step,
        read: &ReadExtent,
        extents: &mut Extents,
    ) -> Result<StepReport, RuntimeError> {
        let failed = |source: DeviceError| RuntimeError::Step {
            step: index,
            what: step.operation.name().to_owned(),
            source_nodes: step.source_nodes.clone(),
            source: Box::new(source),
        };
        let mut bytes = [0u8; 8];
        self.device.synchronize().map_err(failed)?;
        self.device.download(self.pointer(read.source), &mut bytes, Stream(step.stream)).map_err(failed)?;
        add_extent(index, &step.source_nodes, read, i64::from_le_bytes(bytes), extents)?;
        check_requirements(self.plan(), self.executable.expressions(), extents, Some(&read.name))?;
        Ok(StepReport {
            operation: step.operation.name(),
            entry: None,
            source_nodes: step.source_nodes.clone(),
            counters: None,
            inner: Vec::new(),
        })
    }

    fn step(&self, index: usize, step: &Step, numbers: &ResolvedStep) -> Result<StepReport, RuntimeError> {
        let stream = Stream(step.stream);
        let mut entry = None;
        let mut inner = Vec::new();
        let mut what = step.operation.name();
        let done = match (&step.operation, numbers) {
            (Operation::Launch(launch), ResolvedStep::Launch { grid, numbers, maps }) => {
                what = &launch.entry;
                entry = Some(launch.entry.clone());
                self.launch(launch, *grid, numbers, maps, stream)
            }
            (Operation::Copy(copy), ResolvedStep::Bytes(bytes)) => {
                self.device.copy(self.pointer(copy.source), self.pointer(copy.target), *bytes, stream).map(|()| None)
            }
            (Operation::Memset(memset), ResolvedStep::Bytes(bytes)) => {
                self.device.memset(self.pointer(memset.target), memset.byte, *bytes, stream).map(|()| None)
            }
            (Operation::If(conditional), ResolvedStep::Bodies(bodies)) => {
                let holds = self.holds(index, step, conditional.predicate)?;
                let (body, number) = if holds { (&conditional.then, 0) } else { (&conditional.otherwise, 1) };
                self.body(index, body, bodies.get(number), &mut inner)?;
                Ok(None)
            }
            (Operation::While(repeat), ResolvedStep::Bodies(bodies)) => {
                let limit = repeat.limit.unwrap_or(MAX_ROUNDS);
                let mut rounds = 0;
                while self.holds(index, step, repeat.predicate)? {
                    if rounds == limit {
                        let source_nodes = step.source_nodes.clone();
                        return Err(RuntimeError::Rounds { step: index, source_nodes, limit });
                    }
                    self.body(index, &repeat.body, bodies.first(), &mut inner)?;
                    rounds += 1;
                }
                Ok(None)
            }
            (Operation::Event(mark), _) => self.device.record_event(self.event(mark), stream).map(|()| None),
            (Operation::Wait(mark), _) => self.device.wait_event(self.event(mark), stream).map(|()| None),
            (other, _) => {
                // An executable's plan holds nothing of the kind.
                return Err(PlanError::unsupported(format!("step {index}"), format!("`{}`", other.name())).into());
            }
        };
        let counters = done.map_err(|source| RuntimeError::Step {
            step: index,
            what: what.to_owned(),
            source_nodes: step.source_nodes.clone(),
            source: Box::new(source),
        })?;
        Ok(StepReport {
            operation: step.operation.name(),
            entry,
            source_nodes: step.source_nodes.clone(),
            counters,
            inner,
        })
    }

    /// The steps of a conditional's body, once.
    fn body(
        &self,
        index: usize,
        steps: &[Step],
        numbers: Option<&Vec<ResolvedStep>>,
        reports: &mut Vec<StepReport>,
    ) -> Result<(), RuntimeError> {
        for (step, numbers) in steps.iter().zip(numbers.into_iter().flatten()) {
            reports.push(self.step(index, step, numbers)?);
        }
        Ok(())
    }

    /// Whether a predicate holds, which the device has computed.
    fn holds(&self, index: usize, step: &Step, predicate: Place) -> Result<bool, RuntimeError> {
        let mut byte = [0u8];
        let read = self.device.download(self.pointer(predicate), &mut byte, Stream(step.stream));
        read.map_err(|source| RuntimeError::Step {
            step: index,
            what: step.operation.name().to_owned(),
            source_nodes: step.source_nodes.clone(),
            source: Box::new(source),
        })?;
        Ok(byte[0] != 0)
    }

    fn launch(
        &self,
        launch: &Launch,
        grid: [u32; 3],
        numbers: &[i64],
        maps: &[ResolvedMap],
        stream: Stream,
    ) -> Result<Option<Counters>, DeviceError> {
        let unsupported = |feature: String| DeviceError::Unsupported { device: self.device.name(), feature };
        let Some(kernel) = self.kernels.get(&launch.entry).copied() else {
            return Err(unsupported(format!("the entry `{}`", launch.entry)));
        };
        if grid.contains(&0) {
            // No block, no work; devices take no such launch.
            return Ok(None);
        }
        let mut numbers = numbers.iter().copied();
        let mut maps = maps.iter();
        let arguments = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Extent(value) => numbers
                    .next()
                    .map(KernelArgument::I64)
                    .ok_or_else(|| unsupported(format!("the extent expression `{value}`"))),
                Argument::TensorMap(map) => {
                    let sizes = maps.next().ok_or_else(|| unsupported("a tensor map without sizes".to_owned()))?;
                    let tensor = sizes.tensor(map, self.pointer(map.place));
                    self.device.encode_tensor_map(&tensor).map(KernelArgument::TensorMap)
                }
                Argument::Buffer(index) => Ok(KernelArgument::Pointer(self.pointer(Place::Buffer(*index)))),
                Argument::Parameter(index) => Ok(KernelArgument::Pointer(self.pointer(Place::Parameter(*index)))),
                Argument::Input(index) => Ok(KernelArgument::Pointer(self.pointer(Place::Input(*index)))),
                Argument::Output(index) => Ok(KernelArgument::Pointer(self.pointer(Place::Output(*index)))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let launch = KernelLaunch {
            kernel,
            grid,
            block: launch.block,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            cluster: launch.cluster,
            arguments: &arguments,
        };
        self.device.launch(&launch, stream)
    }

    /// The device's number of an event; the plan is valid, so every event is recorded somewhere.
    fn event(&self, mark: &EventMark) -> u32 {
        self.events.get(&mark.event).copied().unwrap_or_default()
    }

    /// Address of a place; the plan is valid, so every index is in range.
    fn pointer(&self, place: Place) -> DevicePointer {
        match place {
            Place::Buffer(index) => self.buffers[index as usize],
            Place::Parameter(index) => self.parameters[index as usize],
            Place::Input(index) => self.inputs[index as usize].pointer(),
            Place::Output(index) => self.outputs[index as usize].pointer(),
        }
    }
}
