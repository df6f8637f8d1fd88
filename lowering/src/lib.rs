//! From graph kernels to tile programs, upstream MLIR, LLVM and PTX.

pub mod codegen;
mod error;
pub mod expand;
pub mod schedule;

pub use error::LoweringError;
