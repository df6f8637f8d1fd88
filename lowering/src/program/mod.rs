//! The host side: from a module of the `fuse` stage to an `hw` module with its `hw.program`, and from there to a launch plan.
//!
//! [`lower_program`] lowers every kernel once however often it occurs, gives each value a place, and orders the launches; [`launch_plan`]
//! reads an `hw.program`, one that a person has edited included, as the plan that devices execute.
//!
//! Invariants of what is made:
//! - one `hw.program @main`; steps (launches, copies, fills) are numbered in the order of the text, and lifetimes count them;
//! - a value of the model that only has another shape is a view: no step, no memory;
//! - outputs have memory of their own outside the arena (`hw.buffer … {output}`), each a different one; what is no kernel's own result (an input,
//!   a weight, a value that is another output already) is copied there;
//! - a kernel whose results have no elements is not launched.

mod content;
mod control;
mod emit;
mod error;
mod kernels;
mod memory;
mod offload;
mod plan;
mod read;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod workspaces;

use tenon_ir::{Builder, Module, Session};
use tenon_target::Target;
use tenon_tensor::Tensor;

pub use content::tile_program_key;
pub use error::ProgramError;
pub use kernels::Sharing;
pub use memory::{ALIGNMENT, Lifetime, MemoryPlan, plan_memory};
pub use offload::{OffloadError, offload};
pub use plan::launch_plan;

/// An `hw` module and what belongs to it.
pub struct Lowered<'s> {
    /// Kernels, then the program.
    pub module: Module<'s>,
    /// Literals of the graph that became parameters of the program, by the parameter's name.
    pub constants: Vec<(String, Tensor)>,
    /// How well buffers were packed.
    pub memory: MemoryUse,
    /// How many kernels were shared.
    pub sharing: Sharing,
}

/// Size of the arena against what it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// The most bytes alive at one step: no arena can be smaller.
    pub lower_bound: u64,
    /// Bytes of all buffers: the arena without reuse.
    pub sum: u64,
}

/// Lowers a module of the `fuse` stage to an `hw` module of `session` for a target.
///
/// `@main` holds `graph.get_parameter`, `graph.constant`, `graph.kernel`, `graph.reshape`, and `flow.if` and `flow.loop` over these; its arguments and results have fixed shapes.
/// They are named by `graph.name`; without it `input0`, `output0` and so on.
pub fn lower_program<'s>(
    module: &Module<'_>,
    session: &'s Session,
    target: &Target,
) -> Result<Lowered<'s>, ProgramError> {
    let mut outline = read::Outline::read(module)?;
    memory::total(&outline.lifetimes()).ok_or(ProgramError::TooLarge)?;
    let lowered = session.new_module(session.context().unknown_location())?;
    let (memory, sharing) = {
        let at =
            Builder::at_end(lowered.body()).ok_or_else(|| ProgramError::structure("the new module has no body"))?;
        let (kernels, sharing) = emit::kernels(&outline.steps, at, target)?;
        // How much memory a launch needs besides its operands is known when its kernel is.
        outline.add_workspaces(&kernels);
        let buffers = outline.lifetimes();
        let memory = plan_memory(&buffers).ok_or(ProgramError::TooLarge)?;
        emit::program(&outline, &buffers, &memory, kernels, at)?;
        (memory, sharing)
    };
    lowered.verify()?;
    let memory = MemoryUse { arena_bytes: memory.arena_bytes, lower_bound: memory.lower_bound, sum: memory.sum };
    Ok(Lowered { module: lowered, constants: outline.constants, memory, sharing })
}
