//! What of a plan is made on a device before it runs: memory, kernels, numbers of events.

use std::collections::HashMap;
use std::sync::Arc;

use crate::RuntimeError;
use crate::device::{Allocation, Device, DeviceError, DevicePointer, KernelHandle, ModuleHandle, Placement};
use crate::plan::{Buffer, Launch, LaunchPlan, MAX_STREAMS, MemoryKind, Operation, Step, TensorSlot};

/// A number on the device for each event of a plan. Instances share the device's events and streams: of a number that is always recorded on one stream, a
/// later mark is never reached before an earlier one, so that it does no harm if another instance has replaced it.
pub(crate) fn events(plan: &LaunchPlan) -> HashMap<u32, u32> {
    let mut numbers = HashMap::new();
    let mut made = [0u32; MAX_STREAMS as usize];
    for step in plan.steps.iter().flat_map(Step::walk) {
        if let (Operation::Event(mark), Some(count)) = (&step.operation, made.get_mut(step.stream as usize)) {
            numbers.insert(mark.event, *count * MAX_STREAMS + step.stream);
            *count += 1;
        }
    }
    numbers
}

/// Refuses a plan with conditional steps on a device that runs none.
pub(crate) fn check_conditionals(device: &Arc<dyn Device>, plan: &LaunchPlan) -> Result<(), DeviceError> {
    // Those that the host decides run everywhere.
    if plan.has_conditionals() && !device.runs_conditionals() {
        let feature = "conditional steps of the launch plan (`if`, `while`)".to_owned();
        return Err(DeviceError::Unsupported { device: device.name(), feature });
    }
    Ok(())
}

/// Every launch of some steps, with the outermost step that it counts as.
fn launches<'a>(steps: &'a [Step], outermost: Option<usize>, found: &mut Vec<(usize, &'a Launch)>) {
    for (index, step) in steps.iter().enumerate() {
        let index = outermost.unwrap_or(index);
        match &step.operation {
            Operation::Launch(launch) => found.push((index, launch)),
            Operation::If(conditional) => {
                launches(&conditional.then, Some(index), found);
                launches(&conditional.otherwise, Some(index), found);
            }
            Operation::While(repeat) => launches(&repeat.body, Some(index), found),
            _ => {}
        }
    }
}

pub(crate) fn find_kernels(
    device: &Arc<dyn Device>,
    plan: &LaunchPlan,
    modules: &[ModuleHandle],
) -> Result<HashMap<String, KernelHandle>, RuntimeError> {
    let mut known: HashMap<String, KernelHandle> = HashMap::new();
    let mut found = Vec::new();
    launches(&plan.steps, None, &mut found);
    for (index, launch) in found {
        if known.contains_key(&launch.entry) {
            continue;
        }
        let mut kernel = None;
        for module in modules {
            kernel = device.kernel(*module, &launch.entry)?;
            if kernel.is_some() {
                break;
            }
        }
        let Some(kernel) = kernel else {
            return Err(RuntimeError::Entry { step: index, entry: launch.entry.clone(), modules: modules.len() });
        };
        known.insert(launch.entry.clone(), kernel);
    }
    Ok(known)
}

pub(crate) fn allocate_slots(device: &Arc<dyn Device>, slots: &[TensorSlot]) -> Result<Vec<Allocation>, RuntimeError> {
    let sizes = slots.iter().map(|slot| slot.bytes().unwrap_or(u64::MAX));
    Ok(sizes.map(|bytes| Allocation::new(device, bytes)).collect::<Result<_, _>>()?)
}

pub(crate) fn allocate_buffers(
    device: &Arc<dyn Device>,
    plan: &LaunchPlan,
    placement: Placement,
) -> Result<(Vec<Allocation>, Vec<DevicePointer>), DeviceError> {
    let pinned = |buffer: &Buffer| buffer.memory == MemoryKind::Pinned;
    if placement == Placement::Arena {
        let mut arenas = vec![Allocation::new(device, plan.arena_bytes)?];
        if plan.buffers.iter().any(pinned) {
            arenas.push(Allocation::of_host(device, plan.pinned_arena_bytes)?);
        }
        let start = |buffer: &Buffer| arenas[usize::from(pinned(buffer))].pointer();
        let buffers = plan.buffers.iter().map(|buffer| start(buffer).offset(buffer.offset)).collect();
        return Ok((arenas, buffers));
    }
    let allocate = |buffer: &Buffer| match buffer.memory {
        MemoryKind::Device => Allocation::new(device, buffer.bytes),
        MemoryKind::Pinned => Allocation::of_host(device, buffer.bytes),
    };
    let allocations = plan.buffers.iter().map(allocate).collect::<Result<Vec<_>, DeviceError>>()?;
    let buffers = allocations.iter().map(Allocation::pointer).collect();
    Ok((allocations, buffers))
}
