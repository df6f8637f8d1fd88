//! From graph kernels to tile programs, upstream MLIR, LLVM and PTX.

pub mod codegen;
pub mod expand;
