//! Slices, pads, concatenations and the like.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Broadcast, Concat, Pad, PadMode, Slice, Transpose};
use tenon_tensor::DType;

use super::NUMBERS;
use crate::graph_kernels::{F16, F32, case, check, op, t};

fn dims(values: &[i64]) -> Vec<DimExpr> {
    values.iter().map(|value| DimExpr::constant(*value)).collect()
}

#[test]
fn slices_of_any_step() {
    for (shape, starts, sizes, steps) in [
        (&[10][..], &[9][..], &[10][..], &[-1][..]),
        (&[10], &[8], &[3], &[-4]),
        (&[10], &[1], &[5], &[2]),
        (&[10], &[7], &[1], &[-100]),
        (&[6, 8], &[5, 1], &[3, 4], &[-2, 2]),
        (&[6, 8], &[0, 7], &[6, 8], &[1, -1]),
        (&[3, 5, 4], &[2, 0, 3], &[2, 3, 4], &[-2, 2, -1]),
        (&[4, 4], &[1, 2], &[0, 2], &[1, 1]),
    ] {
        check(case("map", &[t(F32, shape)], 0.0), &|at, v| {
            vec![op(at, Slice { starts: dims(starts), sizes: dims(sizes), steps: steps.to_vec() }, v)]
        });
    }
}

#[test]
fn pads_of_every_mode() {
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap] {
        for (shape, low, high) in [
            (&[5][..], &[2][..], &[3][..]),
            (&[5], &[-1], &[2]),
            (&[5], &[3], &[-2]),
            (&[5], &[-1], &[-1]),
            // More than the input is long: it repeats.
            (&[3], &[8], &[7]),
            (&[1], &[2], &[2]),
            (&[4, 3, 5], &[1, 0, 2], &[0, 2, -1]),
        ] {
            check(case("map", &[t(F32, shape), t(F32, &[])], 0.0), &|at, v| {
                vec![op(at, Pad { mode, low: dims(low), high: dims(high) }, v)]
            });
        }
    }
    check(case("map", &[t(DType::Bool, &[4, 5]), t(DType::Bool, &[])], 0.0), &|at, v| {
        vec![op(at, Pad { mode: PadMode::Constant, low: dims(&[1, 2]), high: dims(&[0, 1]) }, v)]
    });
}

#[test]
fn concatenations() {
    for (shapes, axis) in [
        (&[&[3, 4][..], &[2, 4], &[5, 4]][..], 0),
        (&[&[3, 4], &[3, 1], &[3, 0], &[3, 8]], 1),
        (&[&[2, 0, 3], &[2, 0, 3]], 1),
        (&[&[2, 1, 3], &[2, 7, 3]], -2),
        (&[&[6]], 0),
    ] {
        let inputs: Vec<_> = shapes.iter().map(|shape| t(F32, shape)).collect();
        check(case("map", &inputs, 0.0), &|at, v| vec![op(at, Concat { axis }, v)]);
    }
    // One tensor may stand in several places.
    check(case("map", &[t(F16, &[4, 8]), t(F16, &[4, 8])], 0.0), &|at, v| {
        vec![op(at, Concat { axis: 1 }, &[v[0], v[1], v[0]])]
    });
}

#[test]
fn many_operands() {
    for (count, size) in [(40, 3), (512, 1)] {
        let inputs = vec![t(F32, &[2, size]); count];
        check(case("map", &inputs, 0.0), &|at, v| vec![op(at, Concat { axis: 1 }, v)]);
    }
}

#[test]
fn element_types() {
    for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
        check(case("map", &[t(dtype, &[3, 1, 5]), t(dtype, &[3, 2, 5])], 0.0), &|at, v| {
            let turned = op(at, Transpose { permutation: vec![2, 1, 0] }, &v[1..]);
            let whole = op(at, Transpose { permutation: vec![2, 1, 0] }, &[turned]);
            let spread = op(at, Broadcast { shape: dims(&[3, 2, 5]) }, &v[..1]);
            vec![op(at, Concat { axis: 0 }, &[spread, whole])]
        });
    }
}
