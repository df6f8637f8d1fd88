//! Quantisation and back.

use tenon_graph_dialect::operators::{Dequantize, Quantize};
use tenon_tensor::{DType, Tensor};

use super::{cycle, types};
use crate::graph_kernels::{F16, F32, case, check_on, op};

const INTEGERS: [DType; 9] =
    [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::I4, DType::U4, DType::I2, DType::U2];
const FLOATS: [DType; 5] = [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1FN];

fn scales(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|i| 0.125 + i as f64 * 0.25).collect();
    Tensor::from_f64s(dtype, shape.to_vec(), &values).unwrap()
}

fn zero_points(dtype: DType, shape: &[usize]) -> Tensor {
    cycle(dtype, shape, [3, 1, if dtype.bits() < 4 { 2 } else { 7 }, 0])
}

/// One scale, one a channel, one a block of a channel.
const LAYOUTS: [(&[usize], i64, i64); 4] = [(&[], 0, 0), (&[4], 1, 0), (&[3], -2, 0), (&[3, 2], 1, 2)];

#[test]
fn to_integers() {
    for dtype in INTEGERS {
        for (shape, axis, block_size) in LAYOUTS {
            for float in [F32, F16] {
                let zero = zero_points(dtype, shape);
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
                let zero = zero_points(dtype, shape);
                let most = if dtype.bits() < 8 { 1 << (dtype.bits() - 1) } else { 100 };
                let x = cycle(dtype, &[3, 4], [0, 41, most, 0]);
                let inputs = [x, scales(float, shape), zero];
                check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
                    vec![op(at, Dequantize { dtype: float, axis, block_size }, v)]
                });
            }
        }
    }
}

#[test]
fn to_floats_and_back() {
    for dtype in FLOATS {
        for (shape, axis, block_size) in LAYOUTS {
            for float in [F32, F16, DType::BF16] {
                let zero = Tensor::zeros(dtype, shape.to_vec()).unwrap();
                let x = cycle(float, &[3, 4], [0, 41, 300, 120]);
                let inputs = [x, scales(float, shape), zero.clone()];
                check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
                    vec![op(at, Quantize { dtype, axis, block_size }, v)]
                });
                let codes = Tensor::from_bits(dtype, vec![3, 4], (0..12).map(|i| (i * 37 + 5) % (1 << dtype.bits())));
                let inputs = [codes.unwrap(), scales(float, shape), zero];
                check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
                    vec![op(at, Dequantize { dtype: float, axis, block_size }, v)]
                });
            }
        }
    }
}

/// The quotient of two f16 is an f16: here it is rounded to a tie, which goes the other way than the exact quotient.
#[test]
fn the_quotient_is_rounded_to_its_own_type() {
    for float in [F16, DType::BF16] {
        let bits = (0..4000u64).map(|i| 0x3000 + i);
        let x = Tensor::from_bits(float, vec![4000], bits).unwrap();
        let scale = Tensor::from_f64s(float, vec![], &[0.0371]).unwrap();
        let inputs = [x, scale, Tensor::zeros(DType::I16, vec![]).unwrap()];
        check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
            vec![op(at, Quantize { dtype: DType::I16, axis: 0, block_size: 0 }, v)]
        });
    }
    let special = Tensor::from_f64s(F32, vec![4], &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]).unwrap();
    for dtype in [DType::U8, DType::I4] {
        let inputs = [special.clone(), scales(F32, &[]), zero_points(dtype, &[])];
        check_on(case("map", &types(&inputs), 0.0), &inputs, &|at, v| {
            vec![op(at, Quantize { dtype, axis: 0, block_size: 0 }, v)]
        });
    }
}
