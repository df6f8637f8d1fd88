//! Pooling.

use tenon_graph_dialect::operators::{Window, WindowKind};
use tenon_tensor::{DType, Tensor};

use super::{FLOATS, NUMBERS, cycle, rounding, types};
use crate::graph_kernels::{F32, case, check, check_on, op, t};

const KINDS: [WindowKind; 4] = [WindowKind::Max, WindowKind::Average, WindowKind::Sum, WindowKind::L2];

/// The same along all dimensions.
fn window(kind: WindowKind, rank: usize, kernel: i64, stride: i64, dilation: i64, pads: [i64; 2]) -> Window {
    Window {
        kind,
        kernel: vec![kernel; rank],
        strides: vec![stride; rank],
        dilations: vec![dilation; rank],
        pad_begin: vec![pads[0]; rank],
        pad_end: vec![pads[1]; rank],
        ceil: false,
        count_include_pad: false,
    }
}

#[test]
fn kinds_ranks_and_geometry() {
    for kind in KINDS {
        for (shape, kernel, stride, dilation, pads) in [
            (&[2, 3, 11][..], 3, 2, 1, [1, 1]),
            (&[1, 2, 11], 2, 1, 3, [0, 2]),
            (&[2, 2, 7, 6], 3, 2, 1, [0, 1]),
            (&[1, 2, 9, 8], 2, 1, 2, [1, 0]),
            (&[1, 2, 5, 6, 4], 2, 2, 1, [0, 0]),
            (&[1, 1, 4, 5, 6], 3, 1, 1, [1, 1]),
        ] {
            check(case("map", &[t(F32, shape)], 2e-6), &|at, v| {
                vec![op(at, window(kind, shape.len() - 2, kernel, stride, dilation, pads), v)]
            });
        }
    }
}

#[test]
fn rounding_up_and_counting_pads() {
    for kind in KINDS {
        for (ceil, count_include_pad) in [(true, false), (false, true), (true, true)] {
            for (size, kernel, stride, pads) in [(10, 3, 3, [0, 0]), (10, 3, 3, [1, 1]), (7, 5, 2, [2, 1])] {
                check(case("map", &[t(F32, &[1, 2, size, size + 1])], 2e-6), &|at, v| {
                    let window = Window { ceil, count_include_pad, ..window(kind, 2, kernel, stride, 1, pads) };
                    vec![op(at, window, v)]
                });
            }
        }
    }
}

#[test]
fn element_types() {
    for dtype in NUMBERS {
        check(case("map", &[t(dtype, &[1, 2, 9, 9])], 0.0), &|at, v| {
            vec![op(at, window(WindowKind::Max, 2, 3, 2, 1, [1, 1]), v)]
        });
    }
    for dtype in FLOATS {
        for kind in [WindowKind::Average, WindowKind::L2] {
            check(case("map", &[t(dtype, &[1, 2, 9, 9])], rounding(dtype)), &|at, v| {
                vec![op(at, window(kind, 2, 3, 2, 1, [1, 1]), v)]
            });
        }
    }
    // The sign's bit is a value where there is no sign.
    let large = [cycle(DType::U8, &[1, 1, 30], [3, 37, 256, 0])];
    check_on(case("map", &types(&large), 0.0), &large, &|at, v| {
        vec![op(at, window(WindowKind::Max, 1, 3, 1, 1, [1, 1]), v)]
    });
}

/// NaN wins, and windows over padding alone have no element.
#[test]
fn special_places() {
    let values: Vec<f64> = (0..12).map(|i| if i == 5 { f64::NAN } else { f64::from(i) - 6.0 }).collect();
    let input = [Tensor::from_f64s(F32, vec![1, 1, 12], &values).unwrap()];
    for kind in KINDS {
        check_on(case("map", &types(&input), 1e-6), &input, &|at, v| vec![op(at, window(kind, 1, 3, 2, 1, [1, 0]), v)]);
    }
    for kind in [WindowKind::Max, WindowKind::Sum] {
        check_on(case("map", &types(&input), 1e-6), &input, &|at, v| vec![op(at, window(kind, 1, 2, 4, 1, [4, 3]), v)]);
    }
}
