//! Cumulative operators.

use tenon_graph_dialect::operators::{Scan, ScanKind};
use tenon_tensor::{DType, Tensor};

use super::NUMBERS;
use crate::graph_kernels::{F16, F32, case, check, check_on, op, t};

const KINDS: [ScanKind; 4] = [ScanKind::Sum, ScanKind::Product, ScanKind::Max, ScanKind::Min];

fn all(dtype: DType, shape: &[u64], axis: i64, kinds: &[ScanKind], tolerance: f64) {
    for kind in kinds {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            check(case("scan", &[t(dtype, shape)], tolerance), &|at, v| {
                vec![op(at, Scan { kind: *kind, axis, exclusive, reverse }, v)]
            });
        }
    }
}

#[test]
fn kinds_and_directions() {
    all(F32, &[3, 37], 1, &KINDS, 1e-5);
    all(DType::I32, &[2, 5, 6], 1, &KINDS, 0.0);
}

#[test]
fn axes_and_lengths() {
    for (shape, axis) in [
        (&[1][..], 0),
        (&[5], -1),
        (&[33, 1], 1),
        (&[4, 1000], 1),
        (&[1, 5000], -1),
        (&[600, 3], 0),
        (&[2, 300, 40], 1),
        (&[3, 4, 5, 6], 2),
        (&[0, 4], 1),
        (&[4, 0], 1),
        (&[8000, 4], 1),
    ] {
        all(DType::I32, shape, axis, &[ScanKind::Sum], 0.0);
    }
    all(F32, &[2, 3000], 1, &[ScanKind::Sum], 1e-4);
}

#[test]
fn element_types() {
    for dtype in NUMBERS {
        let tolerance = match dtype {
            F16 | DType::BF16 => 1e-2,
            F32 => 1e-5,
            _ => 0.0,
        };
        let tolerance = if dtype == DType::F64 { 1e-14 } else { tolerance };
        for kind in [ScanKind::Sum, ScanKind::Max] {
            let scan = Scan { kind, axis: 1, exclusive: kind == ScanKind::Max, reverse: false };
            check(case("scan", &[t(dtype, &[2, 150])], tolerance), &|at, v| vec![op(at, scan.clone(), v)]);
        }
    }
}

/// NaN wins in extrema and stays in sums.
#[test]
fn not_a_number() {
    let values: Vec<f64> =
        (0..300).map(|i| if i == 70 || i == 200 { f64::NAN } else { f64::from(i % 7) - 3.0 }).collect();
    let input = Tensor::from_f64s(F32, vec![300], &values).unwrap();
    for kind in KINDS {
        check_on(case("scan", &[t(F32, &[300])], 1e-5), std::slice::from_ref(&input), &|at, v| {
            vec![op(at, Scan { kind, axis: 0, exclusive: false, reverse: false }, v)]
        });
    }
}
