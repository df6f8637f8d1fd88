//! Bundles: from what the driver compiles to one file, and from the file to what the runtime executes.
//!
//! - [`build`]: everything of a model and a recipe, for all targets and buckets.
//! - [`load`]: the programs of a bundle for a target, and the pool that runs them.

mod build;
mod load;

use tenon_bundle::Compiler;

pub(crate) use build::each_launch;
pub use build::{Built, build};
pub use load::{LoadedProgram, load, pool, states};

/// What this program compiles with.
pub fn compiler() -> Compiler {
    Compiler { tenon: env!("CARGO_PKG_VERSION").to_owned(), llvm: tenon_ir::llvm::llvm_version() }
}
