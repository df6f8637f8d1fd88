//! Memory of launches besides operands and results.
//!
//! Each launch has its own, alive in its step alone, but for memory that holds zeros between runs: steps run one after the other and leave zeros, so that all
//! launches share one range as large as the largest of them needs.

use tenon_graph_dialect::TensorType;
use tenon_ir::Location;

use crate::program::kernels::Kernels;
use crate::program::read::{Computed, Origin, Outline, StepOutline, ValueOutline};
use crate::schedule::KernelWorkspace;

/// The launches of a step, those in its bodies too: the key and the location of each `graph.kernel`.
fn launches<'m>(step: &StepOutline<'m>, found: &mut Vec<(usize, Location<'m>)>) {
    match step {
        StepOutline::Launch { kernel, .. } => found.push((kernel.key(), kernel.location())),
        StepOutline::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).for_each(|step| launches(step, found));
        }
        StepOutline::While { body, .. } => body.iter().for_each(|step| launches(step, found)),
        StepOutline::Copy { .. } | StepOutline::ReadExtent { .. } => {}
    }
}

impl<'m> Outline<'m> {
    /// How many of [`Outline::computed`] are values of the model.
    pub fn values_computed(&self) -> usize {
        let workspaces = self.workspaces.values().flatten().copied();
        workspaces.min().unwrap_or(self.computed.len())
    }

    /// Gives launches the memory that their kernels ask for.
    pub fn add_workspaces(&mut self, kernels: &Kernels) {
        let mut wanted = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let mut found = Vec::new();
            launches(step, &mut found);
            wanted.extend(found.into_iter().map(|(key, location)| (index, key, location)));
        }
        for (step, key, location) in wanted {
            let workspaces = kernels.get(&key).map(|kernel| kernel.workspaces.clone()).unwrap_or_default();
            for workspace in workspaces {
                let index = match self.counters.filter(|_| workspace.zeroed) {
                    Some(counters) => {
                        let known = &mut self.computed[counters];
                        if known.bytes < bytes(&workspace) {
                            known.bytes = bytes(&workspace);
                            self.values[known.value].ty = TensorType::fixed(workspace.element, &[workspace.elements]);
                        }
                        counters
                    }
                    None => self.add_workspace(step, &workspace, location),
                };
                self.workspaces.entry(key).or_default().push(index);
            }
        }
    }

    fn add_workspace(&mut self, step: usize, workspace: &KernelWorkspace, location: Location<'m>) -> usize {
        let index = self.computed.len();
        let ty = TensorType::fixed(workspace.element, &[workspace.elements]);
        self.values.push(ValueOutline { ty, origin: Origin::Step(index), location });
        let (first, last) = if workspace.zeroed { (0, self.steps.len().saturating_sub(1)) } else { (step, step) };
        self.computed.push(Computed {
            value: self.values.len() - 1,
            bytes: bytes(workspace),
            first,
            last,
            output: None,
            replaced: false,
            zeroed: workspace.zeroed,
        });
        if workspace.zeroed {
            self.counters = Some(index);
        }
        index
    }
}

fn bytes(workspace: &KernelWorkspace) -> u64 {
    workspace.elements.saturating_mul(workspace.element.size() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
