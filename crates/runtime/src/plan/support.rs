//! What of a valid plan this runtime executes.

use crate::plan::{LaunchPlan, Operation, PlanError, Step};

impl LaunchPlan {
    /// Refuses, by name, what the executor does not run: weights with extents, host calls, states, clusters, conditionals and what stands in them on other
    /// streams than the first, and extents that are read inside conditionals. Whether there is pinned memory, and whether there are tensor maps, the
    /// device says.
    pub fn check_supported(&self) -> Result<(), PlanError> {
        if let Some(slot) = self.parameters.iter().find(|slot| slot.extents.is_some()) {
            return Err(PlanError::unsupported(format!("parameter `{}`", slot.name), "`extents` of a parameter"));
        }
        if let Some(state) = self.states.first() {
            return Err(PlanError::unsupported(format!("state `{}`", state.name), "`states`"));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let place = format!("step {index}");
            if step.stream == 0 && matches!(step.operation, Operation::ReadExtent(_)) {
                continue;
            }
            match &step.operation {
                Operation::Launch(_) | Operation::Copy(_) | Operation::Memset(_) => check_step(&place, 0, step)?,
                Operation::Event(_) | Operation::Wait(_) => {}
                _ => check_step(&place, step.stream, step)?,
            }
        }
        Ok(())
    }

    /// Whether some step is a conditional whose predicate the device reads, which not every device does.
    pub fn has_conditionals(&self) -> bool {
        self.steps.iter().any(has_conditional)
    }
}

fn has_conditional(step: &Step) -> bool {
    match &step.operation {
        Operation::If(conditional) => {
            !conditional.host || conditional.then.iter().chain(&conditional.otherwise).any(has_conditional)
        }
        Operation::While(repeat) => !repeat.host || repeat.body.iter().any(has_conditional),
        _ => false,
    }
}

/// Checks a step; those inside conditionals count as the outermost one.
fn check_step(place: &str, stream: u32, step: &Step) -> Result<(), PlanError> {
    let refuse = |what: String| Err(PlanError::unsupported(place.to_owned(), what));
    if stream != 0 {
        return refuse(format!("`{}` on stream {stream}", step.operation.name()));
    }
    match &step.operation {
        Operation::Launch(launch) if launch.cluster.is_some() => refuse("`cluster`".to_owned()),
        Operation::Launch(_) | Operation::Copy(_) | Operation::Memset(_) | Operation::Event(_) | Operation::Wait(_) => {
            Ok(())
        }
        Operation::If(conditional) => conditional
            .then
            .iter()
            .chain(&conditional.otherwise)
            .try_for_each(|step| check_step(place, step.stream, step)),
        Operation::While(repeat) => repeat.body.iter().try_for_each(|step| check_step(place, step.stream, step)),
        other => refuse(format!("`{}`", other.name())),
    }
}
