//! Kernels by content: each is lowered, and kept, once.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use tenon_graph_dialect::{DimExpr, destination};
use tenon_ir::{Builder, Location, Op};

use tenon_target::Target;

use crate::LoweringError;
use crate::program::content::{content_key, tile_program_key};
use crate::schedule::{KernelTensorMap, KernelWorkspace, lower_kernel};

/// How many kernels there are of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Launches of kernels.
    pub launches: usize,
    /// Kernels of the graph that differ.
    pub lowered: usize,
    /// Tile programs that differ: what is compiled.
    pub kernels: usize,
}

/// A kernel of the module.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    pub name: String,
    /// Blocks, as expressions of extents.
    pub grid: [DimExpr; 3],
    /// Memory of a launch, whose addresses are passed after those of the results.
    pub workspaces: Vec<KernelWorkspace>,
    /// What is passed by value after the pointers.
    pub tensor_maps: Vec<KernelTensorMap>,
    /// What is passed after these.
    pub extents: Vec<DimExpr>,
}

/// Kernels by the key of the `graph.kernel`.
pub(super) type Kernels = HashMap<usize, Kernel>;

/// The kernels lowered so far.
#[derive(Default)]
pub(super) struct KernelCache {
    by_graph: HashMap<String, Kernel>,
    /// Names of the kernels of the module.
    by_program: HashMap<String, String>,
    names: HashSet<String>,
    launches: usize,
}

impl KernelCache {
    /// The kernel of the module that does what a `graph.kernel` says; lowers it if none does yet.
    pub fn get(&mut self, kernel: Op<'_>, at: Builder<'_>, target: &Target) -> Result<Kernel, LoweringError> {
        self.launches += 1;
        let mut key = content_key(kernel, &["sym_name", "rules", "cost"]);
        for result in kernel.results() {
            let parts = destination(result).map(|destination| destination.parts);
            let _ = write!(key, ";{parts:?}");
        }
        if let Some(kernel) = self.by_graph.get(&key) {
            return Ok(kernel.clone());
        }
        let name = self.free_name(&kernel.string("sym_name").unwrap_or_default());
        let scheduled = lower_kernel(kernel, at.with_location(local(kernel.location(), at)), &name, target)?;
        // Different graphs may give one tile program, such as shapes that differ by ones.
        let program = tile_program_key(scheduled.op);
        let name = match self.by_program.get(&program) {
            Some(name) => {
                scheduled.op.erase()?;
                name.clone()
            }
            None => {
                self.names.insert(name.clone());
                self.by_program.insert(program, name.clone());
                name
            }
        };
        let (workspaces, tensor_maps, extents) = (scheduled.workspaces, scheduled.tensor_maps, scheduled.extents);
        let kernel = Kernel { name, grid: scheduled.shape.grid, workspaces, tensor_maps, extents };
        self.by_graph.insert(key, kernel.clone());
        Ok(kernel)
    }

    /// How much was shared.
    pub fn sharing(&self) -> Sharing {
        Sharing { launches: self.launches, lowered: self.by_graph.len(), kernels: self.by_program.len() }
    }

    /// The name as an identifier of PTX that no other kernel has.
    fn free_name(&self, name: &str) -> String {
        let mut base: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).take(200).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            base.insert(0, 'k');
        }
        // The program is a symbol of the module too.
        let taken = |name: &str| name == "main" || self.names.contains(name);
        if !taken(&base) {
            return base;
        }
        (1usize..).map(|index| format!("{base}_{index}")).find(|name| !taken(name)).unwrap_or(base)
    }
}

/// A location of the builder's session: the same one, or one with the same names.
pub(super) fn local<'m>(location: Location<'_>, at: Builder<'m>) -> Location<'m> {
    let own = at.with_location(location).location();
    if own == location {
        return own;
    }
    let context = at.context();
    let names: Vec<_> =
        location.names().iter().map(|name| context.name_location(name, context.unknown_location())).collect();
    if names.is_empty() { context.unknown_location() } else { context.fused_location(&names) }
}
