//! From graph kernels to tile programs, upstream MLIR, LLVM and PTX.

pub mod codegen;
pub mod elementary;
mod error;
pub mod expand;
mod fragments;
pub mod program;
pub mod schedule;

pub use error::LoweringError;
