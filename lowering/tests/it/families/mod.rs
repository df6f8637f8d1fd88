//! Families of kernels, one file a family: every option and element type through PTX on the simulator, against the reference interpreter.

mod scan;

use tenon_tensor::DType;

/// Every element type of numbers that kernels take.
pub const NUMBERS: [DType; 12] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];
