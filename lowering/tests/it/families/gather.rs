//! Reading by index.

use tenon_graph_dialect::operators::{Gather, GatherKind};
use tenon_tensor::{DType, Tensor};

use super::{NUMBERS, cycle, types};
use crate::graph_kernels::{F32, case, check_on, op};

fn check(kind: GatherKind, axis: i64, batch_dims: i64, inputs: &[Tensor]) {
    check_on(case("map", &types(inputs), 0.0), inputs, &|at, v| vec![op(at, Gather { kind, axis, batch_dims }, v)]);
}

/// Negative and repeated indices, some out of range.
fn indices(dtype: DType, shape: &[usize], size: i64) -> Tensor {
    cycle(dtype, shape, [1, 5, 2 * size + 3, size + 1])
}

fn data(shape: &[usize]) -> Tensor {
    cycle(F32, shape, [0, 1, 1 << 20, 0])
}

#[test]
fn slices_along_every_axis() {
    for (shape, places, axis) in [
        (&[7][..], &[4][..], 0),
        (&[5, 6], &[3], 0),
        (&[5, 6], &[3], -1),
        (&[3, 5, 4], &[2, 3], 1),
        (&[3, 5, 4], &[], 1),
        (&[3, 5, 4], &[1, 2, 1], -1),
    ] {
        for dtype in [DType::I32, DType::I64] {
            let size = shape[(axis + shape.len() as i64) as usize % shape.len()] as i64;
            check(GatherKind::Take, axis, 0, &[data(shape), indices(dtype, places, size)]);
        }
    }
}

#[test]
fn elements_along_every_axis() {
    for (shape, places, axis) in
        [(&[7][..], &[9][..], 0), (&[4, 6], &[3, 5], 0), (&[4, 6], &[4, 9], 1), (&[3, 5, 4], &[2, 8, 3], -2)]
    {
        let size = shape[(axis + shape.len() as i64) as usize % shape.len()] as i64;
        check(GatherKind::Elements, axis, 0, &[data(shape), indices(DType::I64, places, size)]);
    }
}

#[test]
fn index_tuples() {
    for (shape, places, batch) in [
        (&[5][..], &[4, 1][..], 0),
        (&[4, 5, 3], &[6, 1], 0),
        (&[4, 5, 3], &[2, 3, 2], 0),
        (&[4, 5, 3], &[7, 3], 0),
        (&[2, 5, 3], &[2, 4, 1], 1),
        (&[2, 3, 5], &[2, 3, 2, 1], 2),
        (&[2, 3, 5], &[2, 3, 1], 2),
        (&[2, 3], &[2, 0], 0),
        // A batch dimension of 1 serves all.
        (&[1, 5, 3], &[4, 2, 1], 1),
        (&[4, 5, 3], &[1, 2, 1], 1),
    ] {
        check(GatherKind::Nd, 0, batch, &[data(shape), indices(DType::I64, places, 3)]);
    }
}

#[test]
fn element_types() {
    for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
        let modulus = if dtype == DType::Bool { 2 } else { 100 };
        check(GatherKind::Take, 0, 0, &[cycle(dtype, &[9, 3], [1, 7, modulus, 0]), indices(DType::I64, &[6], 9)]);
    }
}
