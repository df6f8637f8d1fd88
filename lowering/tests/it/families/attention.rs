//! Attention in one launch: masks, groups, tails, widths and element types.

use tenon_graph_dialect::TensorType;
use tenon_graph_dialect::operators::{Attention, Causal, Function, Transpose};
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{F16, F32, case, check, check_for, check_on, ew, op, random, t};

const BF16: DType = DType::BF16;

fn plain(scale: f64) -> Attention {
    Attention { scale, softcap: None, causal: None, plain_softmax: false }
}

/// Results of f16 and bf16 are rounded once, their weights once more.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 5e-6,
    }
}

/// q, k and v: batch, heads, key heads, queries, keys, depth, width.
fn operands(dtype: DType, [b, h, g, q, k, d, e]: [u64; 7]) -> Vec<TensorType> {
    vec![t(dtype, &[b, h, q, d]), t(dtype, &[b, g, k, d]), t(dtype, &[b, g, k, e])]
}

fn run(attention: &Attention, dtype: DType, sizes: [u64; 7], mask: Option<TensorType>) {
    let mut inputs = operands(dtype, sizes);
    inputs.extend(mask);
    check(case("attention", &inputs, tolerance(dtype)), &|at, v| vec![op(at, attention.clone(), v)]);
}

#[test]
fn shapes_and_tails() {
    for dtype in [F16, BF16, F32] {
        for sizes in [
            [1, 1, 1, 64, 64, 64, 64],
            [2, 3, 3, 70, 90, 32, 32],
            [1, 2, 2, 1, 33, 16, 16],
            [1, 1, 1, 17, 5, 24, 40],
            [1, 1, 1, 3, 1, 7, 5],
            [1, 1, 1, 130, 130, 64, 64],
        ] {
            run(&plain(0.3), dtype, sizes, None);
        }
    }
}

#[test]
fn deep_heads() {
    for sizes in [[1, 1, 1, 20, 40, 128, 128], [1, 1, 1, 18, 36, 80, 96], [1, 1, 1, 17, 33, 256, 256]] {
        run(&plain(0.1), F16, sizes, None);
    }
}

#[test]
fn groups_share_keys() {
    for dtype in [F16, F32] {
        run(&plain(0.2), dtype, [2, 6, 2, 9, 20, 16, 16], None);
        run(&plain(0.2), dtype, [1, 4, 1, 33, 65, 32, 16], None);
    }
}

#[test]
fn keys_of_times_to_come_are_hidden() {
    for dtype in [F16, F32] {
        for causal in [Causal::Start, Causal::End] {
            let attention = Attention { causal: Some(causal), ..plain(0.25) };
            for sizes in [
                [1, 2, 2, 150, 150, 32, 32],
                [1, 1, 1, 20, 100, 16, 16],
                // Some queries see no key, where the last of both are of one time.
                [1, 1, 1, 100, 20, 16, 16],
                [1, 1, 1, 128, 128, 64, 64],
            ] {
                run(&attention, dtype, sizes, None);
            }
        }
    }
}

#[test]
fn masks_of_every_shape() {
    for dtype in [F16, F32] {
        let sizes = [2, 3, 3, 18, 41, 16, 16];
        for shape in [&[41][..], &[18, 41], &[18, 1], &[3, 18, 41], &[3, 1, 1], &[2, 1, 1, 41], &[2, 3, 18, 41], &[]] {
            for element in [DType::Bool, dtype, F32] {
                run(&plain(0.3), dtype, sizes, Some(t(element, shape)));
            }
        }
        let attention = Attention { softcap: Some(2.0), causal: Some(Causal::End), ..plain(-0.5) };
        run(&attention, dtype, sizes, Some(t(DType::Bool, &[18, 41])));
        run(&attention, dtype, sizes, Some(t(dtype, &[18, 41])));
    }
}

/// Of every other query all keys are hidden, by false, by -∞, and by the least number, which hides nothing: 0, or NaN of a plain softmax.
#[test]
fn a_query_without_keys_gives_zero_or_nan() {
    let sizes = [1, 1, 1, 6, 70, 16, 16];
    for (dtype, plain_softmax) in [(F16, false), (F32, false), (F16, true), (F32, true)] {
        let attention = Attention { plain_softmax, ..plain(0.4) };
        for (element, hidden) in
            [(DType::Bool, 0.0), (F32, f64::NEG_INFINITY), (dtype, f64::NEG_INFINITY), (F32, f64::from(f32::MIN))]
        {
            let seen = if element == DType::Bool { 1.0 } else { 0.0 };
            let row = |row: usize| vec![if row % 2 == 0 { hidden } else { seen }; 70];
            let values: Vec<f64> = (0..6).flat_map(row).collect();
            let mask = Tensor::from_f64s(element, vec![6, 70], &values).unwrap();
            let mut inputs: Vec<_> =
                operands(dtype, sizes).iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
            inputs.push(mask);
            check_on(case("attention", &types(&inputs), tolerance(dtype)), &inputs, &|at, v| {
                vec![op(at, attention.clone(), v)]
            });
        }
    }
}

/// A plain softmax with causal order, masks and more queries than keys: the first queries see no key and give NaN.
#[test]
fn plain_softmax_with_every_mask() {
    for dtype in [F16, F32] {
        let sizes = [1, 2, 1, 70, 41, 16, 16];
        let attention = Attention { plain_softmax: true, causal: Some(Causal::End), ..plain(0.25) };
        run(&attention, dtype, sizes, None);
        for element in [DType::Bool, dtype, F32] {
            run(&attention, dtype, sizes, Some(t(element, &[70, 41])));
        }
    }
}

/// Scores so large that the running maximum must be taken off, growing from key to key.
#[test]
fn large_scores() {
    for dtype in [F16, F32] {
        let ramp = |shape: &[usize], step: f64| {
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|index| (index / 16) as f64 * step).collect();
            Tensor::from_f64s(dtype, shape.to_vec(), &values).unwrap()
        };
        let inputs = [ramp(&[1, 1, 20, 16], 0.5), ramp(&[1, 1, 200, 16], 0.25), random(&t(dtype, &[1, 1, 200, 16]), 3)];
        check_on(case("attention", &types(&inputs), tolerance(dtype)), &inputs, &|at, v| vec![op(at, plain(0.25), v)]);
    }
}

/// Operands and result lie as projections leave them: positions before heads.
#[test]
fn transposed_operands_and_results() {
    for dtype in [F16, F32] {
        let swap = || Transpose { permutation: vec![0, 2, 1, 3] };
        let inputs = [t(dtype, &[2, 33, 4, 16]), t(dtype, &[2, 50, 4, 16]), t(dtype, &[2, 50, 4, 24])];
        check(case("attention", &inputs, tolerance(dtype)), &|at, v| {
            let moved: Vec<_> = v.iter().map(|value| op(at, swap(), &[*value])).collect();
            let result = op(at, plain(0.25), &moved);
            vec![op(at, swap(), &[result])]
        });
        // Keys whose positions lie together.
        let inputs = [t(dtype, &[1, 2, 40, 32]), t(dtype, &[1, 2, 32, 72]), t(dtype, &[1, 2, 72, 32])];
        check(case("attention", &inputs, tolerance(dtype)), &|at, v| {
            let keys = op(at, Transpose { permutation: vec![0, 1, 3, 2] }, &[v[1]]);
            let result = op(at, plain(0.25), &[v[0], keys, v[2]]);
            vec![ew(at, Function::Tanh, &[result])]
        });
    }
}

#[test]
fn every_target() {
    for target in ["sm_70", "sm_75", "sm_89", "sm_90a", "sm_100a", "sm_120a"] {
        for dtype in [F16, BF16, F32] {
            let inputs = operands(dtype, [1, 2, 1, 35, 70, 64, 64]);
            let values: Vec<_> = inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
            let attention = Attention { causal: Some(Causal::End), ..plain(0.25) };
            check_for(target, case("attention", &inputs, tolerance(dtype)), &values, &|at, v| {
                vec![op(at, attention.clone(), v)]
            });
        }
    }
}

#[test]
fn products_are_by_matrix_instructions() {
    let inputs = operands(F16, [1, 1, 1, 128, 128, 64, 64]);
    let values: Vec<_> = inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
    let ptx =
        check_for("sm_80", case("attention", &inputs, tolerance(F16)), &values, &|at, v| vec![op(at, plain(0.125), v)]);
    for wanted in ["mma.sync.aligned.m16n8k16", "ldmatrix", "cp.async.cg", "ex2.approx.ftz.f32"] {
        assert!(ptx.contains(wanted), "{wanted}\n{ptx}");
    }
}
