//! What a pass is.

use tenon_ir::Module;

use crate::{PassContext, PassError, Property};

/// A transformation of a module.
///
/// A pass keeps no state between runs, asks [`PassContext::rewrite`] before each change that the module's meaning does not depend on, and
/// reports refusals with the names of the model's nodes.
pub trait Pass {
    /// Name on the command line, in remarks, timings and recipes: words joined by `-`.
    fn name(&self) -> &'static str;

    /// What the module must be before the pass runs.
    fn needs(&self) -> &'static [Property] {
        &[]
    }

    /// Whether later stages depend on it, so that it cannot be disabled.
    fn is_required(&self) -> bool {
        false
    }

    /// Transforms the module.
    ///
    /// # Errors
    /// What the pass refuses, by code and node. The module is then in an undefined, but valid state.
    fn run(&self, module: &mut Module<'_>, context: &PassContext) -> Result<(), PassError>;
}
