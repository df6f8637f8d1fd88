//! Attention by warpgroups, of operands that are copied by tensor maps: every order of storage, mask, tail, group of heads and type.

use tenon_graph_dialect::TensorType;
use tenon_graph_dialect::operators::{Attention, Causal, Function, Transpose};
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{
    Body, Case, F16, F32, case, check_counted, check_for, check_target, ew, one_multiprocessor, op, random, t, texts,
};

const BF16: DType = DType::BF16;

/// Runs a case for sm_90a, where few multiprocessors do not ask for small tiles, and makes sure that warpgroups computed it.
fn check_on(case: Case, inputs: &[Tensor], body: &Body<'_>) -> String {
    let ptx = check_target(&one_multiprocessor("sm_90a"), case, inputs, body);
    assert!(ptx.contains("wgmma.mma_async") && ptx.contains("cp.async.bulk.tensor"), "{ptx}");
    assert!(!ptx.contains("mma.sync"), "{ptx}");
    ptx
}

fn check(case: Case, body: &Body<'_>) -> String {
    let inputs: Vec<_> = case.inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
    check_on(case, &inputs, body)
}

fn plain(scale: f64) -> Attention {
    Attention { scale, softcap: None, causal: None, plain_softmax: false }
}

/// Results are rounded once, their weights once more.
fn tolerance(dtype: DType) -> f64 {
    if dtype == BF16 { 1.6e-2 } else { 2e-3 }
}

/// q, k and v: batch, heads, key heads, queries, keys, depth, width.
fn operands(dtype: DType, [b, h, g, q, k, d, e]: [u64; 7]) -> Vec<TensorType> {
    vec![t(dtype, &[b, h, q, d]), t(dtype, &[b, g, k, d]), t(dtype, &[b, g, k, e])]
}

fn run(attention: &Attention, dtype: DType, sizes: [u64; 7], mask: Option<TensorType>) -> String {
    let mut inputs = operands(dtype, sizes);
    inputs.extend(mask);
    check(case("attention", &inputs, tolerance(dtype)), &|at, v| vec![op(at, attention.clone(), v)])
}

#[test]
fn shapes_and_tails() {
    for dtype in [F16, BF16] {
        for sizes in [
            [1, 1, 1, 64, 64, 64, 64],
            [2, 3, 3, 70, 90, 64, 64],
            [1, 1, 1, 130, 300, 64, 64],
            [1, 2, 2, 150, 200, 128, 128],
            [1, 1, 1, 40, 20, 64, 128],
        ] {
            run(&plain(0.2), dtype, sizes, None);
        }
    }
    // Two warpgroups share keys and values; a head of fewer elements than a box leaves zeros.
    assert!(run(&plain(0.2), F16, [1, 1, 1, 256, 256, 64, 64], None).contains(".reqntid 288"));
    for sizes in
        [[1, 1, 1, 100, 70, 32, 48], [1, 1, 1, 33, 130, 80, 96], [1, 1, 1, 65, 70, 256, 256], [1, 1, 1, 64, 40, 192, 8]]
    {
        run(&plain(0.1), F16, sizes, None);
    }
}

#[test]
fn groups_share_keys() {
    for dtype in [F16, BF16] {
        run(&plain(0.2), dtype, [2, 6, 2, 65, 40, 64, 64], None);
        run(&plain(0.1), dtype, [1, 4, 1, 33, 65, 128, 64], None);
    }
}

#[test]
fn keys_of_times_to_come_are_hidden() {
    for dtype in [F16, BF16] {
        for causal in [Causal::Start, Causal::End] {
            let attention = Attention { causal: Some(causal), ..plain(0.2) };
            for sizes in [
                [1, 2, 2, 150, 150, 64, 64],
                [1, 1, 1, 70, 200, 128, 128],
                // Some queries see no key, where the last of both are of one time.
                [1, 1, 1, 200, 70, 64, 64],
                [1, 1, 1, 256, 256, 64, 64],
            ] {
                run(&attention, dtype, sizes, None);
            }
        }
    }
}

#[test]
fn masks_of_every_shape() {
    let sizes = [2, 2, 2, 66, 140, 64, 64];
    let shapes = [&[140][..], &[66, 140], &[66, 1], &[2, 66, 140], &[2, 1, 1], &[2, 1, 1, 140], &[2, 2, 66, 140], &[]];
    for shape in shapes {
        for element in [DType::Bool, F16, F32] {
            run(&plain(0.2), F16, sizes, Some(t(element, shape)));
        }
    }
    for element in [DType::Bool, BF16, F32] {
        run(&plain(0.2), BF16, sizes, Some(t(element, &[66, 140])));
    }
}

/// All at once needs the most registers; none is spilled.
#[test]
fn masks_caps_and_an_order_of_times() {
    for (queries, keys, depth) in [(130, 150, 64), (130, 150, 128), (65, 70, 256)] {
        let sizes = [1, 2, 1, queries, keys, depth, depth];
        for (softcap, causal) in [(Some(2.0), None), (None, Some(Causal::End)), (Some(2.0), Some(Causal::End))] {
            let attention = Attention { softcap, causal, ..plain(-0.5) };
            run(&attention, F16, sizes, None);
            for element in [DType::Bool, F16, F32] {
                run(&attention, F16, sizes, Some(t(element, &[queries, keys])));
            }
        }
    }
}

/// Of every other query all keys are hidden: 0, or NaN of a plain softmax.
#[test]
fn a_query_without_keys_gives_zero_or_nan() {
    let sizes = [1, 1, 1, 66, 140, 64, 64];
    for plain_softmax in [false, true] {
        let attention = Attention { plain_softmax, ..plain(0.4) };
        for (element, hidden) in
            [(DType::Bool, 0.0), (F32, f64::NEG_INFINITY), (F16, f64::NEG_INFINITY), (F32, f64::from(f32::MIN))]
        {
            let seen = if element == DType::Bool { 1.0 } else { 0.0 };
            let row = |row: usize| vec![if row % 2 == 0 { hidden } else { seen }; 140];
            let values: Vec<f64> = (0..66).flat_map(row).collect();
            let mask = Tensor::from_f64s(element, vec![66, 140], &values).unwrap();
            let mut inputs: Vec<_> =
                operands(F16, sizes).iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
            inputs.push(mask);
            check_on(case("attention", &types(&inputs), tolerance(F16)), &inputs, &|at, v| {
                vec![op(at, attention.clone(), v)]
            });
        }
        let attention = Attention { causal: Some(Causal::End), ..attention };
        run(&attention, F16, [1, 2, 1, 140, 41, 64, 64], None);
    }
}

/// Scores so large that the running maximum must be taken off, growing from key to key.
#[test]
fn large_scores() {
    for dtype in [F16, BF16] {
        let ramp = |shape: &[usize], step: f64| {
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|index| (index / 64) as f64 * step).collect();
            Tensor::from_f64s(dtype, shape.to_vec(), &values).unwrap()
        };
        let inputs =
            [ramp(&[1, 1, 80, 64], 0.125), ramp(&[1, 1, 200, 64], 0.125), random(&t(dtype, &[1, 1, 200, 64]), 3)];
        check_on(case("attention", &types(&inputs), tolerance(dtype)), &inputs, &|at, v| vec![op(at, plain(0.25), v)]);
    }
}

/// Operands and result lie as projections leave them, positions before heads; or positions lie together.
#[test]
fn every_storage_order() {
    let moved = |permutation: [i64; 4]| Transpose { permutation: permutation.to_vec() };
    for dtype in [F16, BF16] {
        let inputs = [t(dtype, &[2, 70, 3, 64]), t(dtype, &[2, 90, 3, 64]), t(dtype, &[2, 90, 3, 64])];
        check(case("attention", &inputs, tolerance(dtype)), &|at, v| {
            let v: Vec<_> = v.iter().map(|value| op(at, moved([0, 2, 1, 3]), &[*value])).collect();
            let result = op(at, plain(0.2), &v);
            vec![op(at, moved([0, 2, 1, 3]), &[result])]
        });
        for turned in [[true, false, false], [false, true, false], [false, false, true], [true, true, true]] {
            for (depth, keys) in [(64, 136), (128, 40)] {
                let shape = |positions: u64, turned: bool| {
                    if turned { t(dtype, &[1, 2, depth, positions]) } else { t(dtype, &[1, 2, positions, depth]) }
                };
                let inputs = [shape(72, turned[0]), shape(keys, turned[1]), shape(keys, turned[2])];
                check(case("attention", &inputs, tolerance(dtype)), &|at, v| {
                    let operand = |index: usize| {
                        if turned[index] { op(at, moved([0, 1, 3, 2]), &[v[index]]) } else { v[index] }
                    };
                    let result = op(at, plain(0.1), &[operand(0), operand(1), operand(2)]);
                    vec![ew(at, Function::Tanh, &[result])]
                });
            }
        }
    }
}

/// What boxes cannot be copied of, and few queries, whose tile would be mostly empty, are left to the instructions of a warp.
#[test]
fn other_schedules_take_the_rest() {
    let by_warps = |sizes: [u64; 7]| {
        let inputs = operands(F16, sizes);
        let values: Vec<_> = inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
        let ptx = check_for("sm_90a", case("attention", &inputs, tolerance(F16)), &values, &|at, v| {
            vec![op(at, plain(0.2), v)]
        });
        assert!(ptx.contains("mma.sync") && !ptx.contains("wgmma"), "{ptx}");
    };
    // Rows of 36 elements are no multiple of 16 bytes.
    by_warps([1, 1, 1, 70, 64, 36, 64]);
    by_warps([1, 1, 1, 1, 200, 64, 64]);
}

/// Results change threads by shared memory of the slots, and no access there waits for another; queries, keys and values are copied once a block.
#[test]
fn shared_memory_has_no_bank_conflicts() {
    for (depth, blocks) in [(64, 1), (128, 1)] {
        let inputs = operands(F16, [1, 1, 1, 128, 256, depth, depth]);
        let values: Vec<_> = inputs.iter().map(|ty| random(ty, 3)).collect();
        let case = case("attention", &inputs, tolerance(F16));
        let (ptx, counters) =
            check_counted(&one_multiprocessor("sm_90a"), case, &values, &|at, v| vec![op(at, plain(0.1), v)]);
        assert!(ptx.contains(".reqntid 288"), "{ptx}");
        assert!(counters.shared_requests > 0);
        assert_eq!(counters.shared_extra_wavefronts, 0, "{:?}", counters.lines);
        assert_eq!(counters.async_copy_bytes, blocks * (128 + 2 * 256) * depth * 2);
        // Weights stay where scores are: what is shuffled is the maxima and sums of rows alone.
        let loops = ptx.matches("shfl.sync").count();
        assert!(loops > 0 && loops <= 2 * 2 * 2 * 2, "{loops} shuffles\n{ptx}");
    }
}

#[test]
fn golden_text() {
    let [hw, gpu] = texts(
        &one_multiprocessor("sm_90a"),
        &case("attention", &operands(F16, [1, 1, 1, 64, 16, 64, 64]), 0.0),
        &|at, v| vec![op(at, plain(0.125), v)],
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::support::root().join("testdata/hw"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!("attention_tma.hw", hw);
        insta::assert_snapshot!("attention_tma.gpu", gpu);
    });
}
