//! The largest and smallest elements.

use tenon_graph_dialect::operators::TopK;
use tenon_tensor::{DType, Tensor};

use super::{NUMBERS, cycle, types};
use crate::graph_kernels::{F32, case, check_on};

fn check(k: i64, axis: i64, input: Tensor) {
    for smallest in [false, true] {
        let inputs = std::slice::from_ref(&input);
        check_on(case("top_k", &types(inputs), 0.0), inputs, &|at, v| {
            tenon_graph_dialect::Operator::from(TopK { k, axis, smallest }).build(at, v).unwrap()
        });
    }
}

#[test]
fn axes_and_lengths() {
    for (shape, axis, k) in [
        (&[1][..], 0, 1),
        (&[7], -1, 3),
        (&[7], 0, 7),
        (&[3, 40], 1, 5),
        (&[40, 3], 0, 40),
        (&[2, 9, 5], 1, 4),
        (&[1, 1000], 1, 10),
        (&[130, 8], -1, 8),
        (&[2, 33], 1, 0),
    ] {
        // Every value several times.
        check(k, axis, cycle(F32, shape, [3, 7, 23, 11]));
    }
}

#[test]
fn element_types() {
    for dtype in NUMBERS {
        let offset = if dtype.is_float() || dtype.is_signed() { 60 } else { 0 };
        check(20, 1, cycle(dtype, &[2, 100], [3, 7, 120, offset]));
    }
    // The sign's bit counts as a value where there is no sign.
    let large = Tensor::from_f64s(DType::U8, vec![4], &[200.0, 100.0, 255.0, 0.0]).unwrap();
    check(4, 0, large);
}

#[test]
fn special_numbers() {
    let values = [0.0, -0.0, f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 1e-40, -1e-40];
    for dtype in [F32, DType::F16, DType::BF16, DType::F64] {
        check(11, 0, Tensor::from_f64s(dtype, vec![11], &values).unwrap());
    }
}
