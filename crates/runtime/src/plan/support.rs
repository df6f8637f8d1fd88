//! What of a valid plan this runtime executes.

use crate::plan::{Argument, LaunchPlan, Operation, PlanError};

impl LaunchPlan {
    /// Refuses, by name, what the executor does not run: weights with extents, streams, conditionals, host calls, states, clusters
    /// and tensor maps. Whether there is pinned memory, the device says.
    pub fn check_supported(&self) -> Result<(), PlanError> {
        if let Some(slot) = self.parameters.iter().find(|slot| slot.extents.is_some()) {
            return Err(PlanError::unsupported(format!("parameter `{}`", slot.name), "`extents` of a parameter"));
        }
        if let Some(state) = self.states.first() {
            return Err(PlanError::unsupported(format!("state `{}`", state.name), "`states`"));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let place = format!("step {index}");
            if step.stream != 0 {
                return Err(PlanError::unsupported(place, format!("stream {}", step.stream)));
            }
            match &step.operation {
                Operation::Copy(_)
                | Operation::Memset(_)
                | Operation::Event(_)
                | Operation::Wait(_)
                | Operation::ReadExtent(_) => {}
                Operation::Launch(launch) => {
                    if launch.cluster.is_some() {
                        return Err(PlanError::unsupported(place, "`cluster`"));
                    }
                    if launch.arguments.iter().any(|argument| matches!(argument, Argument::TensorMap(_))) {
                        return Err(PlanError::unsupported(place, "the argument `tensor_map`"));
                    }
                }
                other => return Err(PlanError::unsupported(place, format!("`{}`", other.name()))),
            }
        }
        Ok(())
    }
}
