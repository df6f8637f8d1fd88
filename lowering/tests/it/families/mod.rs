//! Families of kernels, one file a family: every option and element type through PTX on the simulator, against the reference interpreter.

mod attention;
mod attention_tma;
mod casts;
mod convolution;
mod elementary;
mod float8;
mod gather;
mod moved_results;
mod movement;
mod narrow_types;
mod pointwise;
mod quantize;
mod recurrence;
mod reduce;
mod resize;
mod scan;
mod scatter;
mod split_products;
mod tf32;
mod tma_products;
mod top_k;
mod window;

use tenon_graph_dialect::TensorType;
use tenon_tensor::{DType, Tensor};

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

/// Whole numbers `start, start + step, …` modulo `modulus`, less `offset`: indices and values with chosen repetitions.
pub fn cycle(dtype: DType, shape: &[usize], [start, step, modulus, offset]: [i64; 4]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> =
        (0..count as i64).map(|i| ((start + i * step).rem_euclid(modulus) - offset) as f64).collect();
    Tensor::from_f64s(dtype, shape.to_vec(), &values).unwrap()
}

/// Types of tensors.
pub fn types(tensors: &[Tensor]) -> Vec<TensorType> {
    let sizes = |tensor: &Tensor| tensor.shape().iter().map(|size| *size as u64).collect::<Vec<_>>();
    tensors.iter().map(|tensor| TensorType::fixed(tensor.dtype(), &sizes(tensor))).collect()
}

/// What results of a float type may differ by where an operator rounds in another order: some units in its last place.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        DType::F32 => 2e-6,
        DType::F64 => 1e-14,
        _ => 0.0,
    }
}

/// Floats that kernels take.
pub const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
