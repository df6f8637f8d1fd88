//! Writing by index into a copy.

use tenon_graph_dialect::operators::{Combine, Scatter, ScatterKind};
use tenon_tensor::{DType, Tensor};

use super::{NUMBERS, cycle, types};
use crate::graph_kernels::{F16, F32, case, check_on, op};

const COMBINES: [Combine; 5] = [Combine::Set, Combine::Add, Combine::Multiply, Combine::Max, Combine::Min];

fn check(kind: ScatterKind, axis: i64, combine: Combine, inputs: &[Tensor]) {
    // Every combination rounds to the element type in the reference's order: bit for bit alike.
    check_on(case("scatter", &types(inputs), 0.0), inputs, &|at, v| vec![op(at, Scatter { kind, combine, axis }, v)]);
}

/// Data, indices below ±`size` and updates.
fn operands(dtype: DType, data: &[usize], indices: &[usize], updates: &[usize], size: i64) -> Vec<Tensor> {
    vec![
        cycle(dtype, data, [1, 3, 7, 0]),
        // Negative and repeated ones.
        cycle(DType::I64, indices, [size + 1, 5, 2 * size, size]),
        cycle(dtype, updates, [2, 5, 11, 0]),
    ]
}

#[test]
fn elements_along_every_axis() {
    for combine in COMBINES {
        for (data, indices, axis) in
            [(&[9][..], &[14][..], 0), (&[4, 6], &[3, 5], 0), (&[4, 6], &[3, 9], -1), (&[3, 5, 4], &[2, 7, 4], 1)]
        {
            let size = data[(axis + data.len() as i64) as usize % data.len()] as i64;
            check(ScatterKind::Elements, axis, combine, &operands(F32, data, indices, indices, size));
        }
    }
}

#[test]
fn tuples_of_every_length() {
    for combine in COMBINES {
        for (data, indices, updates) in [
            (&[8][..], &[6, 1][..], &[6][..]),
            (&[4, 4, 3], &[5, 1], &[5, 4, 3]),
            (&[4, 4, 3], &[2, 3, 2], &[2, 3, 3]),
            (&[3, 3, 3], &[7, 3], &[7]),
            (&[2, 3], &[2, 0], &[2, 2, 3]),
        ] {
            check(ScatterKind::Nd, 0, combine, &operands(F32, data, indices, updates, 3));
        }
    }
}

#[test]
fn element_types() {
    for dtype in NUMBERS {
        for combine in [Combine::Set, Combine::Add, Combine::Max] {
            check(ScatterKind::Elements, 0, combine, &operands(dtype, &[40], &[90], &[90], 40));
        }
    }
    check(ScatterKind::Nd, 0, Combine::Set, &operands(DType::Bool, &[20], &[5, 1], &[5], 20));
    let mut narrow = operands(F16, &[5, 7], &[6, 1], &[6, 7], 5);
    narrow[1] = cycle(DType::I32, &[6, 1], [0, 1, 2, 0]);
    for combine in COMBINES {
        check(ScatterKind::Nd, 0, combine, &narrow);
    }
}

/// Sums of half floats round after each update.
#[test]
fn duplicates_in_order() {
    let data = Tensor::from_f64s(F16, vec![2], &[2048.0, 1.0]).unwrap();
    let indices = Tensor::from_i64(vec![4], &[0, 0, 0, 0]).unwrap();
    let updates = Tensor::from_f64s(F16, vec![4], &[1.0, 1.0, 2.0, 1.0]).unwrap();
    check(ScatterKind::Elements, 0, Combine::Add, &[data, indices, updates]);
    let not_a_number = Tensor::from_f64s(F32, vec![3], &[f64::NAN, 1.0, 5.0]).unwrap();
    let data = Tensor::from_f64s(F32, vec![3], &[1.0, f64::NAN, 0.0]).unwrap();
    let indices = Tensor::from_i64(vec![3], &[0, 1, 2]).unwrap();
    for combine in COMBINES {
        check(ScatterKind::Elements, 0, combine, &[data.clone(), indices.clone(), not_a_number.clone()]);
    }
}

#[test]
fn large_and_empty() {
    check(ScatterKind::Elements, 1, Combine::Add, &operands(F32, &[3, 700], &[2, 300], &[2, 300], 700));
    check(ScatterKind::Nd, 0, Combine::Set, &operands(F32, &[50, 1000], &[9, 1], &[9, 1000], 50));
    check(ScatterKind::Elements, 0, Combine::Set, &operands(F32, &[6], &[0], &[0], 6));
    check(ScatterKind::Nd, 0, Combine::Add, &operands(F32, &[6], &[0, 1], &[0], 6));
}
