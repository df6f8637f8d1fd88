//! Interpolation.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode, ResizeRounding};
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{F16, F32, case, check as run, check_on, op, t};

const COORDINATES: [CoordinateMode; 6] = [
    CoordinateMode::HalfPixel,
    CoordinateMode::HalfPixelSymmetric,
    CoordinateMode::PytorchHalfPixel,
    CoordinateMode::AlignCorners,
    CoordinateMode::Asymmetric,
    CoordinateMode::TfCropAndResize,
];
const ROUNDINGS: [ResizeRounding; 4] =
    [ResizeRounding::RoundPreferFloor, ResizeRounding::RoundPreferCeil, ResizeRounding::Floor, ResizeRounding::Ceil];

fn resize(mode: ResizeMode, coordinates: CoordinateMode, sizes: &[i64]) -> Resize {
    Resize {
        mode,
        coordinates,
        rounding: ResizeRounding::RoundPreferFloor,
        sizes: sizes.iter().map(|size| DimExpr::constant(*size)).collect(),
        scales: None,
        cubic_coefficient: -0.75,
        exclude_outside: false,
        region: None,
        extrapolation_value: 0.0,
    }
}

fn check(dtype: DType, shape: &[u64], tolerance: f64, resize: &Resize) {
    run(case("map", &[t(dtype, shape)], tolerance), &|at, v| vec![op(at, resize.clone(), v)]);
}

#[test]
fn every_mode_in_every_coordinates() {
    for coordinates in COORDINATES {
        for mode in [ResizeMode::Linear, ResizeMode::Cubic] {
            for sizes in [[2, 14, 9], [2, 3, 1], [2, 7, 6]] {
                check(F32, &[2, 7, 6], 2e-6, &resize(mode, coordinates, &sizes));
            }
        }
        for rounding in ROUNDINGS {
            for sizes in [[14, 9], [3, 1]] {
                let resize = Resize { rounding, ..resize(ResizeMode::Nearest, coordinates, &sizes) };
                check(F32, &[7, 6], 0.0, &resize);
            }
        }
    }
}

/// Scales that the sizes are rounded from: of small quotients, and of none.
#[test]
fn scales() {
    for coordinates in COORDINATES {
        for (scale, size) in [(1.5, 10), (0.6, 4), (0.600_000_023_841_857_9, 4), (2.7, 18), (1.0, 9), (1e-3, 1)] {
            let scales = Some(vec![1.0, scale]);
            for mode in [ResizeMode::Linear, ResizeMode::Cubic, ResizeMode::Nearest] {
                let tolerance = if mode == ResizeMode::Nearest { 0.0 } else { 1e-6 };
                let resize = Resize { scales: scales.clone(), ..resize(mode, coordinates, &[3, size]) };
                check(F32, &[3, 7], tolerance, &resize);
            }
        }
    }
}

#[test]
fn cubic_options() {
    for (exclude_outside, cubic_coefficient) in [(true, -0.75), (true, -0.5), (false, -0.5)] {
        for coordinates in [CoordinateMode::HalfPixel, CoordinateMode::AlignCorners, CoordinateMode::Asymmetric] {
            for mode in [ResizeMode::Cubic, ResizeMode::Linear] {
                let resize = Resize { exclude_outside, cubic_coefficient, ..resize(mode, coordinates, &[9, 3]) };
                check(F32, &[4, 5], 2e-6, &resize);
            }
        }
    }
}

#[test]
fn regions_of_interest() {
    for region in [[0.4, 0.6, 0.6, 0.8], [-0.2, 0.0, 1.3, 1.0], [0.9, 0.0, 0.1, 2.0]] {
        for mode in [ResizeMode::Linear, ResizeMode::Cubic, ResizeMode::Nearest] {
            for sizes in [[5, 6], [1, 3]] {
                let resize = Resize {
                    region: Some(region.to_vec()),
                    extrapolation_value: 7.25,
                    ..resize(mode, CoordinateMode::TfCropAndResize, &sizes)
                };
                check(F32, &[4, 7], 5e-6, &resize);
                check(F16, &[4, 7], 2e-3, &resize);
            }
        }
    }
}

#[test]
fn ranks_and_loops() {
    // Three and four dimensions: more neighbours than are read without a loop.
    check(F32, &[1, 2, 3, 4, 5], 5e-6, &resize(ResizeMode::Cubic, CoordinateMode::HalfPixel, &[1, 2, 5, 7, 3]));
    check(F32, &[1, 2, 3, 4, 5], 5e-6, &resize(ResizeMode::Linear, CoordinateMode::AlignCorners, &[1, 2, 5, 7, 3]));
    check(F32, &[2, 3, 2, 3, 2], 5e-6, &resize(ResizeMode::Linear, CoordinateMode::HalfPixel, &[3, 4, 3, 4, 3]));
    check(F32, &[5], 2e-6, &resize(ResizeMode::Cubic, CoordinateMode::HalfPixel, &[12]));
    check(F32, &[1, 1, 300, 200], 5e-6, &resize(ResizeMode::Linear, CoordinateMode::HalfPixel, &[1, 1, 97, 411]));
}

#[test]
fn element_types() {
    for (dtype, tolerance) in [(F16, 1e-3), (DType::BF16, 8e-3), (DType::F64, 1e-14)] {
        for mode in [ResizeMode::Linear, ResizeMode::Cubic] {
            check(dtype, &[4, 6], tolerance, &resize(mode, CoordinateMode::HalfPixel, &[7, 5]));
        }
    }
    for dtype in super::NUMBERS {
        check(dtype, &[4, 6], 0.0, &resize(ResizeMode::Nearest, CoordinateMode::HalfPixel, &[7, 5]));
    }
}

/// A neighbour without weight takes no part, even if it is no number.
#[test]
fn weights_of_zero() {
    let input = Tensor::from_f64s(F32, vec![4], &[1.0, f64::NAN, 3.0, f64::INFINITY]).unwrap();
    for mode in [ResizeMode::Linear, ResizeMode::Cubic] {
        let inputs = std::slice::from_ref(&input);
        check_on(case("map", &types(inputs), 1e-6), inputs, &|at, v| {
            vec![op(at, resize(mode, CoordinateMode::AlignCorners, &[7]), v)]
        });
    }
}
