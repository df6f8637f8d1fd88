//! NVIDIA's assembler and disassembler: where they are, which release they are, and what they say of a module.
//!
//! Invariants: neither tool is needed for anything else; a child process has a time limit; temporary files go when the call returns;
//! messages name no temporary path.

mod child;
mod listing;
mod locate;
mod loops;
mod nvdisasm;
mod ptxas;
mod report;

pub use listing::{Sass, SassInstruction};
pub use loops::Loop;
pub use nvdisasm::Nvdisasm;
pub use ptxas::{Assembly, Ptxas};
pub use report::{FunctionFigures, KernelFigures, Message, Severity};
