//! A compiled bucket on a device.

use std::collections::HashMap;
use std::sync::Arc;

use tenon_tensor::Tensor;

use crate::RuntimeError;
use crate::device::{
    Allocation, Counters, Device, DeviceError, DevicePointer, KernelArgument, KernelHandle, KernelLaunch, ModuleHandle,
    Placement, Stream,
};
use crate::executable::{Executable, describe, same_shape};
use crate::plan::{Argument, Launch, LaunchPlan, Operation, Place, PlanError, Step, TensorSlot};

/// Weights on a device, shared by all instances that use them.
pub struct DeviceParameters {
    tensors: HashMap<String, (Tensor, Allocation)>,
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
            tensors.insert(name.clone(), (tensor.clone(), allocation));
        }
        Ok(Arc::new(DeviceParameters { tensors }))
    }

    fn pointer(&self, slot: &TensorSlot) -> Result<DevicePointer, RuntimeError> {
        let wrong =
            |found: String| RuntimeError::Parameter { name: slot.name.clone(), expected: describe(slot), found };
        match self.tensors.get(&slot.name) {
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
    /// Outputs by name, in the model's order.
    pub outputs: Vec<(String, Tensor)>,
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
}

/// An executable on a device: memory allocated and weights uploaded once, then run as often as wanted.
pub struct Instance {
    executable: Arc<Executable>,
    parameters: Vec<DevicePointer>,
    inputs: Vec<Allocation>,
    outputs: Vec<Allocation>,
    buffers: Vec<DevicePointer>,
    /// The kernel of each step that launches one.
    kernels: Vec<Option<KernelHandle>>,
    _modules: LoadedModules,
    _arena: Vec<Allocation>,
    _parameters: Arc<DeviceParameters>,
    device: Arc<dyn Device>,
}

/// Modules that unload themselves.
struct LoadedModules {
    device: Arc<dyn Device>,
    handles: Vec<ModuleHandle>,
}

impl Drop for LoadedModules {
    fn drop(&mut self) {
        for handle in self.handles.drain(..) {
            // As for memory: a refusal changes nothing any more.
            let _ = self.device.unload_module(handle);
        }
    }
}

impl Instance {
    /// Puts an executable on a device, with its weights.
    pub fn new(device: Arc<dyn Device>, executable: Arc<Executable>) -> Result<Self, RuntimeError> {
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
        let plan = executable.plan();
        let mut modules = LoadedModules { device: Arc::clone(&device), handles: Vec::new() };
        for ptx in executable.modules() {
            modules.handles.push(device.load_module(ptx)?);
        }
        let kernels = find_kernels(&device, plan, &modules.handles)?;
        let pointers = plan.parameters.iter().map(|slot| parameters.pointer(slot)).collect::<Result<Vec<_>, _>>()?;
        let inputs = allocate_slots(&device, &plan.inputs)?;
        let outputs = allocate_slots(&device, &plan.outputs)?;
        let (arena, buffers) = allocate_buffers(&device, plan, placement)?;
        Ok(Instance {
            parameters: pointers,
            inputs,
            outputs,
            buffers,
            kernels,
            _modules: modules,
            _arena: arena,
            _parameters: parameters,
            device,
            executable,
        })
    }

    /// The plan that it runs.
    pub fn plan(&self) -> &LaunchPlan {
        self.executable.plan()
    }

    /// Runs the plan. Inputs are found by name and checked before anything runs.
    pub fn run(&mut self, inputs: &[(String, Tensor)]) -> Result<RunResult, RuntimeError> {
        let stream = Stream::default();
        let executable = Arc::clone(&self.executable);
        let plan = executable.plan();
        let tensors = check_inputs(&plan.inputs, inputs)?;
        for (tensor, allocation) in tensors.iter().zip(&self.inputs) {
            self.device.upload(allocation.pointer(), tensor.bytes(), stream)?;
        }
        let mut steps = Vec::with_capacity(plan.steps.len());
        for (index, step) in plan.steps.iter().enumerate() {
            steps.push(self.step(index, step)?);
        }
        self.device.synchronize()?;
        let outputs = plan
            .outputs
            .iter()
            .zip(&self.outputs)
            .map(|(slot, allocation)| self.download(slot, allocation))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(RunResult { outputs, launches: plan.launch_count(), steps })
    }

    fn download(&self, slot: &TensorSlot, allocation: &Allocation) -> Result<(String, Tensor), RuntimeError> {
        // The device holds as many bytes, so their number is no danger to the host.
        let mut bytes = vec![0u8; allocation.bytes() as usize];
        self.device.download(allocation.pointer(), &mut bytes, Stream::default())?;
        let shape = slot.shape.iter().map(|size| *size as usize).collect();
        let tensor = Tensor::new(slot.dtype, shape, bytes)
            .map_err(|source| RuntimeError::Output { name: slot.name.clone(), source })?;
        Ok((slot.name.clone(), tensor))
    }

    fn step(&self, index: usize, step: &Step) -> Result<StepReport, RuntimeError> {
        let stream = Stream(step.stream);
        let mut entry = None;
        let mut what = step.operation.name();
        let done = match &step.operation {
            Operation::Launch(launch) => {
                what = &launch.entry;
                entry = Some(launch.entry.clone());
                self.launch(index, launch, stream)
            }
            Operation::Copy(copy) => self
                .device
                .copy(self.pointer(copy.source), self.pointer(copy.target), copy.bytes, stream)
                .map(|()| None),
            Operation::Memset(memset) => {
                self.device.memset(self.pointer(memset.target), memset.byte, memset.bytes, stream).map(|()| None)
            }
            other => {
                // An executable's plan holds nothing of the kind.
                return Err(PlanError::unsupported(format!("step {index}"), format!("`{}`", other.name())).into());
            }
        };
        let counters = done.map_err(|source| RuntimeError::Step {
            step: index,
            what: what.to_owned(),
            source_nodes: step.source_nodes.clone(),
            source,
        })?;
        Ok(StepReport { operation: step.operation.name(), entry, source_nodes: step.source_nodes.clone(), counters })
    }

    fn launch(&self, index: usize, launch: &Launch, stream: Stream) -> Result<Option<Counters>, DeviceError> {
        let unsupported = |feature: String| DeviceError::Unsupported { device: self.device.name(), feature };
        let Some(kernel) = self.kernels.get(index).copied().flatten() else {
            return Err(unsupported(format!("the entry `{}`", launch.entry)));
        };
        let mut grid = [1; 3];
        for (axis, size) in launch.grid.iter().enumerate() {
            grid[axis] = size
                .as_number()
                .and_then(|size| u32::try_from(size).ok())
                .ok_or_else(|| unsupported(format!("the grid expression `{size}`")))?;
        }
        let arguments = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Extent(value) => value
                    .as_number()
                    .and_then(|value| i64::try_from(value).ok())
                    .map(KernelArgument::I64)
                    .ok_or_else(|| unsupported(format!("the extent expression `{value}`"))),
                Argument::TensorMap(_) => Err(unsupported("the argument `tensor_map`".to_owned())),
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

fn find_kernels(
    device: &Arc<dyn Device>,
    plan: &LaunchPlan,
    modules: &[ModuleHandle],
) -> Result<Vec<Option<KernelHandle>>, RuntimeError> {
    let mut known: HashMap<&str, KernelHandle> = HashMap::new();
    let mut kernels = Vec::with_capacity(plan.steps.len());
    for (index, step) in plan.steps.iter().enumerate() {
        let Operation::Launch(launch) = &step.operation else {
            kernels.push(None);
            continue;
        };
        let mut kernel = known.get(launch.entry.as_str()).copied();
        for module in modules {
            if kernel.is_some() {
                break;
            }
            kernel = device.kernel(*module, &launch.entry)?;
        }
        let Some(kernel) = kernel else {
            return Err(RuntimeError::Entry { step: index, entry: launch.entry.clone(), modules: modules.len() });
        };
        known.insert(&launch.entry, kernel);
        kernels.push(Some(kernel));
    }
    Ok(kernels)
}

fn allocate_slots(device: &Arc<dyn Device>, slots: &[TensorSlot]) -> Result<Vec<Allocation>, RuntimeError> {
    let sizes = slots.iter().map(|slot| slot.bytes().unwrap_or(u64::MAX));
    Ok(sizes.map(|bytes| Allocation::new(device, bytes)).collect::<Result<_, _>>()?)
}

fn allocate_buffers(
    device: &Arc<dyn Device>,
    plan: &LaunchPlan,
    placement: Placement,
) -> Result<(Vec<Allocation>, Vec<DevicePointer>), DeviceError> {
    if placement == Placement::Arena {
        let arena = Allocation::new(device, plan.arena_bytes)?;
        let buffers = plan.buffers.iter().map(|buffer| arena.pointer().offset(buffer.offset)).collect();
        return Ok((vec![arena], buffers));
    }
    let allocations = plan
        .buffers
        .iter()
        .map(|buffer| Allocation::new(device, buffer.bytes))
        .collect::<Result<Vec<_>, DeviceError>>()?;
    let buffers = allocations.iter().map(Allocation::pointer).collect();
    Ok((allocations, buffers))
}

/// The tensor of each slot, in order.
fn check_inputs<'a>(slots: &[TensorSlot], inputs: &'a [(String, Tensor)]) -> Result<Vec<&'a Tensor>, RuntimeError> {
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
    slots.iter().map(|slot| check_input(slot, given.get(slot.name.as_str()).copied())).collect()
}

fn check_input<'a>(slot: &TensorSlot, tensor: Option<&'a Tensor>) -> Result<&'a Tensor, RuntimeError> {
    let name = slot.name.clone();
    let Some(tensor) = tensor else {
        return Err(RuntimeError::MissingInput { name, expected: describe(slot) });
    };
    if tensor.dtype() != slot.dtype {
        return Err(RuntimeError::InputDType { name, expected: slot.dtype, found: tensor.dtype() });
    }
    let (expected, found) = (slot.shape.clone(), tensor.shape().to_vec());
    if expected.len() != found.len() {
        return Err(RuntimeError::InputRank { name, expected, found });
    }
    match expected.iter().zip(&found).position(|(a, b)| *a != *b as u64) {
        Some(dimension) => Err(RuntimeError::InputShape { name, dimension, expected, found }),
        None => Ok(tensor),
    }
}
