//! Reductions, softmax and normalisation.

use tenon_graph_dialect::operators::{ArgReduce, Function, Normalize, NormalizeKind, Reduce, ReduceKind, Softmax};
use tenon_tensor::{DType, Tensor};

use super::{FLOATS, NUMBERS, cycle, rounding, types};
use crate::graph_kernels::{F32, case, check, check_on, ew, op, t};

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
        for (shape, axis) in [(&[4, 33][..], 1), (&[3, 5, 6], 0), (&[2, 4500], -1)] {
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

/// Rows with infinities, NaN, and numbers whose sums or squares overflow: one pass (rows that fit), and chunks.
#[test]
fn extreme_rows() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = |columns: usize| {
        let ordinary = |column: usize| (column % 17) as f64 / 4.0 - 2.0;
        // Sums of them are the same in every order.
        let special: [&[f64]; 8] =
            [&[-inf], &[inf], &[nan], &[inf, -inf], &[3e38], &[2f64.powi(66)], &[-200.0, -87.5, -88.5], &[0.0]];
        let mut values = Vec::new();
        for list in special {
            values.extend(
                (0..columns).map(|column| if column % 5 == 3 { list[column % list.len()] } else { ordinary(column) }),
            );
        }
        // One value throughout: nothing but infinities, nothing but zeros.
        for value in [-inf, inf, 0.0, 2f64.powi(64)] {
            values.extend(vec![value; columns]);
        }
        [Tensor::from_f64s(F32, vec![12, columns], &values).unwrap()]
    };
    for columns in [37, 1024, 5000] {
        let input = rows(columns);
        for log in [false, true] {
            check_on(case("reduce", &types(&input), 1e-6), &input, &|at, v| vec![op(at, Softmax { axis: 1, log }, v)]);
        }
        for kind in [NormalizeKind::Layer, NormalizeKind::Rms] {
            check_on(case("reduce", &types(&input), 2e-5), &input, &|at, v| {
                vec![op(at, Normalize { kind, axes: vec![1], epsilon: 1e-5 }, v)]
            });
        }
        check_on(case("reduce", &types(&input), 1e-5), &input, &|at, v| {
            vec![op(at, Reduce { kind: ReduceKind::Mean, axes: vec![1], keep_dims: false }, v)]
        });
    }
}

/// Rows that take eight warps, with a last access that is not full, and what is added before and after.
#[test]
fn long_rows_in_one_pass() {
    for columns in [1000, 1024, 3000, 4096] {
        let input = [t(F32, &[3, columns]), t(F32, &[3, columns]), t(F32, &[columns]), t(F32, &[columns])];
        check(case("reduce", &input, 1e-5), &|at, v| {
            let sum = ew(at, Function::Add, &v[..2]);
            vec![op(at, Normalize { kind: NormalizeKind::Layer, axes: vec![1], epsilon: 1e-5 }, &[sum, v[2], v[3]])]
        });
        check(case("reduce", &input[..1], 2e-6), &|at, v| vec![op(at, Softmax { axis: 1, log: false }, v)]);
    }
}
