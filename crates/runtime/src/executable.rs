//! A compiled bucket, ready to be put on a device.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_tensor::Tensor;

use crate::bind::check_requirements;
use crate::plan::{Expressions, LaunchPlan, TensorSlot};
use crate::{PlanError, RuntimeError};

/// A launch plan with the PTX and the weights that it uses.
///
/// Invariants: the plan is valid and supported; every weight that it names is there, with its type and shape.
#[derive(Debug, Clone)]
pub struct Executable {
    plan: LaunchPlan,
    modules: Vec<Arc<str>>,
    parameters: BTreeMap<String, Tensor>,
    expressions: Expressions,
}

impl Executable {
    /// Checks that plan and weights fit. `modules` are PTX texts; an entry is taken from the first that defines it. Weights that the plan
    /// does not use are left out.
    pub fn new(
        plan: LaunchPlan,
        modules: impl IntoIterator<Item = impl Into<Arc<str>>>,
        parameters: impl IntoIterator<Item = (String, Tensor)>,
    ) -> Result<Self, RuntimeError> {
        Executable::check_plan(&plan)?;
        let mut given: BTreeMap<String, Tensor> = parameters.into_iter().collect();
        let mut used = BTreeMap::new();
        for slot in &plan.parameters {
            let tensor = given.remove(&slot.name);
            check_parameter(slot, tensor.as_ref())?;
            if let Some(tensor) = tensor {
                used.insert(slot.name.clone(), tensor);
            }
        }
        let expressions = Expressions::of(&plan);
        let modules = modules.into_iter().map(Into::into).collect();
        Ok(Executable { plan, modules, parameters: used, expressions })
    }

    fn check_plan(plan: &LaunchPlan) -> Result<(), PlanError> {
        plan.validate()?;
        plan.check_supported()
    }

    /// The plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// PTX texts.
    pub fn modules(&self) -> &[Arc<str>] {
        &self.modules
    }

    /// The weights that the plan uses, by name.
    pub fn parameters(&self) -> &BTreeMap<String, Tensor> {
        &self.parameters
    }

    /// Whether the plan's conditions hold for values of extents; those that name another extent are left out.
    ///
    /// # Errors
    /// [`RuntimeError::Requirement`], for the first that does not hold.
    pub fn check_requirements(&self, extents: &BTreeMap<String, i64>) -> Result<(), RuntimeError> {
        check_requirements(&self.plan, &self.expressions, extents, None)
    }

    pub(crate) fn expressions(&self) -> &Expressions {
        &self.expressions
    }
}

fn check_parameter(slot: &TensorSlot, tensor: Option<&Tensor>) -> Result<(), RuntimeError> {
    let found = match tensor {
        Some(tensor) if tensor.dtype() == slot.dtype && same_shape(&slot.shape, tensor.shape()) => return Ok(()),
        Some(tensor) => format!("{}{:?}", tensor.dtype(), tensor.shape()),
        None => "nothing".to_owned(),
    };
    Err(RuntimeError::Parameter { name: slot.name.clone(), expected: slot.to_string(), found })
}

pub(crate) fn same_shape(expected: &[u64], found: &[usize]) -> bool {
    expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| *a == *b as u64)
}
