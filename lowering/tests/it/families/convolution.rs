//! Convolution and its transpose.

use tenon_graph_dialect::operators::Convolution;
use tenon_tensor::DType;

use super::rounding;
use crate::graph_kernels::{F32, case, check, op, t};

/// The same along all dimensions.
fn plain(rank: usize) -> Convolution {
    Convolution {
        accumulate: F32,
        dtype: F32,
        strides: vec![1; rank],
        dilations: vec![1; rank],
        pad_begin: vec![0; rank],
        pad_end: vec![0; rank],
        groups: 1,
        transposed: false,
        output_padding: vec![0; rank],
    }
}

fn run(input: &[u64], weight: &[u64], convolution: &Convolution) {
    let dtype = if convolution.accumulate == DType::I32 { DType::I8 } else { convolution.dtype };
    let tolerance = 20.0 * rounding(convolution.dtype);
    check(case("convolution", &[t(dtype, input), t(dtype, weight)], tolerance), &|at, v| {
        vec![op(at, convolution.clone(), v)]
    });
}

#[test]
fn one_dimension() {
    for (strides, dilations, pads) in [(1, 1, [0, 0]), (2, 1, [3, 1]), (1, 3, [2, 2]), (3, 2, [0, 4])] {
        let convolution = Convolution {
            strides: vec![strides],
            dilations: vec![dilations],
            pad_begin: vec![pads[0]],
            pad_end: vec![pads[1]],
            ..plain(1)
        };
        run(&[2, 4, 30], &[6, 4, 3], &convolution);
        run(&[2, 4, 30], &[6, 2, 3], &Convolution { groups: 2, ..convolution.clone() });
        run(&[1, 4, 30], &[4, 1, 5], &Convolution { groups: 4, ..convolution.clone() });
        run(&[1, 4, 30], &[8, 1, 5], &Convolution { groups: 4, ..convolution });
    }
}

#[test]
fn two_dimensions() {
    for (strides, dilations, begin, end) in
        [([1, 2], [2, 1], [1, 0], [2, 3]), ([2, 1], [1, 3], [0, 4], [0, 1]), ([3, 3], [1, 1], [2, 2], [1, 1])]
    {
        let convolution = Convolution {
            strides: strides.to_vec(),
            dilations: dilations.to_vec(),
            pad_begin: begin.to_vec(),
            pad_end: end.to_vec(),
            ..plain(2)
        };
        run(&[2, 6, 12, 13], &[9, 6, 3, 2], &convolution);
        run(&[2, 6, 12, 13], &[9, 2, 2, 4], &Convolution { groups: 3, ..convolution.clone() });
        run(&[1, 6, 12, 13], &[12, 1, 3, 3], &Convolution { groups: 6, ..convolution });
    }
}

#[test]
fn three_dimensions() {
    let convolution = Convolution {
        strides: vec![1, 2, 1],
        dilations: vec![1, 1, 2],
        pad_begin: vec![1, 0, 2],
        pad_end: vec![0, 1, 2],
        ..plain(3)
    };
    run(&[1, 4, 5, 7, 6], &[6, 4, 2, 3, 3], &convolution);
    run(&[2, 4, 5, 7, 6], &[6, 2, 2, 3, 3], &Convolution { groups: 2, ..convolution.clone() });
    run(&[2, 4, 5, 7, 6], &[4, 1, 2, 3, 3], &Convolution { groups: 4, ..convolution });
}

#[test]
fn transposed() {
    for (strides, dilations, begin, end, output_padding) in [
        ([2, 2], [1, 1], [0, 0], [0, 0], [0, 0]),
        ([2, 3], [1, 2], [1, 2], [0, 1], [1, 2]),
        ([1, 1], [2, 1], [2, 0], [1, 1], [0, 0]),
        ([3, 2], [1, 1], [1, 1], [1, 1], [2, 1]),
    ] {
        let convolution = Convolution {
            strides: strides.to_vec(),
            dilations: dilations.to_vec(),
            pad_begin: begin.to_vec(),
            pad_end: end.to_vec(),
            output_padding: output_padding.to_vec(),
            transposed: true,
            ..plain(2)
        };
        run(&[1, 4, 5, 6], &[4, 6, 3, 3], &convolution);
        run(&[2, 4, 5, 6], &[4, 3, 3, 2], &Convolution { groups: 2, ..convolution.clone() });
        run(&[1, 4, 5, 6], &[4, 1, 3, 3], &Convolution { groups: 4, ..convolution });
    }
    let line = Convolution { strides: vec![3], output_padding: vec![2], transposed: true, ..plain(1) };
    run(&[2, 3, 7], &[3, 5, 4], &line);
    let solid = Convolution { strides: vec![2, 1, 2], pad_begin: vec![1, 0, 1], transposed: true, ..plain(3) };
    run(&[1, 2, 3, 4, 3], &[2, 3, 2, 3, 3], &solid);
}

#[test]
fn element_types() {
    for (dtype, accumulate) in
        [(DType::F16, F32), (DType::BF16, F32), (DType::F64, DType::F64), (DType::I32, DType::I32)]
    {
        let convolution = Convolution { dtype, accumulate, pad_begin: vec![1, 1], ..plain(2) };
        run(&[1, 16, 9, 9], &[16, 16, 3, 3], &convolution);
        run(&[1, 4, 9, 9], &[4, 1, 3, 3], &Convolution { groups: 4, ..convolution.clone() });
        run(&[1, 4, 9, 9], &[4, 3, 3, 3], &Convolution { transposed: true, strides: vec![2, 2], ..convolution });
    }
}
