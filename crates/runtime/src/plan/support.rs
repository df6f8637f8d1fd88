//! What of a valid plan this runtime executes.

use crate::plan::{Argument, LaunchPlan, MemoryKind, Operation, PlanError};

impl LaunchPlan {
    /// Refuses, by name, what the executor does not run: expressions over extents, streams, events, conditionals, host calls, states,
    /// pinned memory, clusters and tensor maps.
    pub fn check_supported(&self) -> Result<(), PlanError> {
        if let Some(name) = self.extents.first() {
            return Err(PlanError::unsupported(format!("extent `{name}`"), "an extent given at run time"));
        }
        for (list, slots) in [("input", &self.inputs), ("parameter", &self.parameters), ("output", &self.outputs)] {
            if let Some(slot) = slots.iter().find(|slot| slot.extents.is_some()) {
                return Err(PlanError::unsupported(format!("{list} `{}`", slot.name), "`extents`"));
            }
        }
        if let Some(state) = self.states.first() {
            return Err(PlanError::unsupported(format!("state `{}`", state.name), "`states`"));
        }
        if let Some(index) = self.buffers.iter().position(|buffer| buffer.memory == MemoryKind::Pinned) {
            return Err(PlanError::unsupported(format!("buffer {index}"), "`pinned` memory"));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let place = format!("step {index}");
            if step.stream != 0 {
                return Err(PlanError::unsupported(place, format!("stream {}", step.stream)));
            }
            match &step.operation {
                Operation::Copy(_) | Operation::Memset(_) => {}
                Operation::Launch(launch) => {
                    if let Some(expression) = launch.grid.iter().find(|expression| expression.as_number().is_none()) {
                        return Err(PlanError::unsupported(place, format!("the grid expression `{expression}`")));
                    }
                    if launch.cluster.is_some() {
                        return Err(PlanError::unsupported(place, "`cluster`"));
                    }
                    for argument in &launch.arguments {
                        match argument {
                            Argument::TensorMap(_) => {
                                return Err(PlanError::unsupported(place, "the argument `tensor_map`"));
                            }
                            Argument::Extent(expression) if expression.as_number().is_none() => {
                                return Err(PlanError::unsupported(
                                    place,
                                    format!("the extent expression `{expression}`"),
                                ));
                            }
                            _ => {}
                        }
                    }
                }
                other => return Err(PlanError::unsupported(place, format!("`{}`", other.name()))),
            }
        }
        Ok(())
    }
}
