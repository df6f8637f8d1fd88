//! Quantisation and back.

use tenon_graph_dialect::operators::{Dequantize, Quantize};
use tenon_tensor::{DType, Tensor};

use super::{cycle, types};
use crate::graph_kernels::{F16, F32, case, check_on, op};

const INTEGERS: [DType; 5] = [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32];

fn scales(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|i| 0.125 + i as f64 * 0.25).collect();
    Tensor::from_f64s(dtype, shape.to_vec(), &values).unwrap()
}

/// One scale, one a channel, one a block of a channel.
const LAYOUTS: [(&[usize], i64, i64); 4] = [(&[], 0, 0), (&[4], 1, 0), (&[3], -2, 0), (&[3, 2], 1, 2)];

#[test]
fn to_integers() {
    for dtype in INTEGERS {
        for (shape, axis, block_size) in LAYOUTS {
            for float in [F32, F16] {
                let zero = cycle(dtype, shape, [3, 1, 7, 0]);
                let x = cycle(float, &[3, 4], [0, 41, 300, 120]);
                let inputs = [x, scales(float, shape), zero];
                check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
                    vec![op(at, Quantize { dtype, axis, block_size }, v)]
                });
            }
        }
    }
}

#[test]
fn from_integers() {
    for dtype in INTEGERS {
        for (shape, axis, block_size) in LAYOUTS {
            for float in [F32, F16] {
                let zero = cycle(dtype, shape, [3, 1, 7, 0]);
                let x = cycle(dtype, &[3, 4], [0, 41, 100, 0]);
                let inputs = [x, scales(float, shape), zero];
                check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
                    vec![op(at, Dequantize { dtype: float, axis, block_size }, v)]
                });
            }
        }
    }
}
