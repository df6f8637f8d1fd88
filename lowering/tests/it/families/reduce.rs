//! Reductions, softmax and normalisation.

use tenon_graph_dialect::operators::{ArgReduce, Normalize, NormalizeKind, Reduce, ReduceKind, Softmax};
use tenon_tensor::{DType, Tensor};

use super::{FLOATS, NUMBERS, cycle, rounding, types};
use crate::graph_kernels::{F32, case, check, check_on, op, t};

const KINDS: [ReduceKind; 5] =
    [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Product, ReduceKind::Max, ReduceKind::Min];

#[test]
fn kinds_of_every_type() {
    for dtype in NUMBERS {
        for kind in KINDS {
            let tolerance = 40.0 * rounding(dtype);
            check(case("reduce", &[t(dtype, &[3, 37])], tolerance), &|at, v| {
                vec![op(at, Reduce { kind, axes: vec![1], keep_dims: false }, v)]
            });
        }
    }
    for kind in [ReduceKind::Any, ReduceKind::All, ReduceKind::Max, ReduceKind::Min] {
        check(case("reduce", &[t(DType::Bool, &[9, 3])], 0.0), &|at, v| {
            vec![op(at, Reduce { kind, axes: vec![1], keep_dims: true }, v)]
        });
    }
}

/// Values that use the sign's bit, and more of them than the type can count.
#[test]
fn integers_wrap() {
    for dtype in [DType::I8, DType::U8, DType::U64] {
        let offset = if dtype.is_signed() { 100 } else { 0 };
        let modulus = if dtype == DType::U64 { 1 << 40 } else { 200 };
        let input = [cycle(dtype, &[2, 300], [190, 77, modulus, offset])];
        for kind in KINDS {
            check_on(case("reduce", &types(&input), 0.0), &input, &|at, v| {
                vec![op(at, Reduce { kind, axes: vec![1], keep_dims: false }, v)]
            });
        }
    }
}

#[test]
fn any_axes() {
    for (shape, axes) in [
        (&[3, 4, 5][..], &[0][..]),
        (&[3, 4, 5], &[1]),
        (&[3, 4, 5], &[0, 2]),
        (&[3, 4, 5], &[-1, 0, 1]),
        (&[3, 4], &[]),
        (&[2, 3, 4, 5, 6], &[1, 3]),
        (&[], &[]),
        (&[0, 5], &[1]),
        (&[5000, 2], &[0]),
    ] {
        for keep_dims in [false, true] {
            check(case("reduce", &[t(F32, shape)], 1e-4), &|at, v| {
                vec![op(at, Reduce { kind: ReduceKind::Sum, axes: axes.to_vec(), keep_dims }, v)]
            });
        }
    }
}

#[test]
fn indices_of_extrema() {
    for dtype in NUMBERS {
        let offset = if dtype.is_float() || dtype.is_signed() { 50 } else { 0 };
        for (minimum, last) in [(false, false), (true, true)] {
            let input = [cycle(dtype, &[3, 60], [3, 7, 101, offset])];
            check_on(case("reduce", &types(&input), 0.0), &input, &|at, v| {
                vec![op(at, ArgReduce { minimum, axis: 1, keep_dims: true, last }, v)]
            });
        }
    }
    for axis in [0, 1, -1] {
        check(case("reduce", &[t(DType::I32, &[6, 5, 7])], 0.0), &|at, v| {
            vec![op(at, ArgReduce { minimum: true, axis, keep_dims: false, last: false }, v)]
        });
    }
    let values = [1.0, f64::NAN, 3.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let input = [Tensor::from_f64s(F32, vec![1, 6], &values).unwrap()];
    let all_least = [Tensor::from_f64s(F32, vec![1, 6], &[f64::NEG_INFINITY; 6]).unwrap()];
    for (minimum, last) in [(false, false), (true, false), (false, true), (true, true)] {
        for input in [&input, &all_least] {
            check_on(case("reduce", &types(input), 0.0), input, &|at, v| {
                vec![op(at, ArgReduce { minimum, axis: 1, keep_dims: false, last }, v)]
            });
        }
    }
}

#[test]
fn softmax_of_every_float() {
    for dtype in FLOATS {
        for (shape, axis) in [(&[4, 33][..], 1), (&[3, 5, 6], 0), (&[2, 2500], -1)] {
            for log in [false, true] {
                check(case("reduce", &[t(dtype, shape)], 4.0 * rounding(dtype)), &|at, v| {
                    vec![op(at, Softmax { axis, log }, v)]
                });
            }
        }
    }
}

#[test]
fn normalisation_of_every_float() {
    for dtype in FLOATS {
        for kind in [NormalizeKind::Layer, NormalizeKind::Rms] {
            for (shape, axes, scale) in [
                (&[4, 50][..], &[1][..], &[50][..]),
                // Groups of channels, scaled by channel.
                (&[2, 3, 4, 5], &[2, 3], &[3, 1, 1]),
                (&[2, 3, 40], &[0, 2], &[1, 3, 1]),
                (&[3, 6], &[0, 1], &[3, 6]),
            ] {
                let inputs = [t(dtype, shape), t(dtype, scale), t(dtype, scale)];
                for operands in [1, 2, 3] {
                    check(case("reduce", &inputs[..operands], 20.0 * rounding(dtype)), &|at, v| {
                        vec![op(at, Normalize { kind, axes: axes.to_vec(), epsilon: 1e-5 }, v)]
                    });
                }
            }
        }
    }
}
