//! Products by warpgroups of operands that are copied by tensor maps: every storage order, type, tail, epilogue and batch.

use tenon_graph_dialect::operators::{Contract, Function};
use tenon_tensor::DType;

use crate::graph_kernels::{
    Body, Case, F16, F32, case, check_counted, check_target, contract, ew, one_multiprocessor, op, random, t, texts,
};

/// Runs a case for sm_90a, where few multiprocessors do not ask for small tiles, and makes sure that warpgroups computed it.
fn check(case: Case, body: &Body<'_>) {
    let inputs: Vec<_> = case.inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect();
    let ptx = check_target(&one_multiprocessor("sm_90a"), case, &inputs, body);
    assert!(ptx.contains("wgmma.mma_async") && ptx.contains("cp.async.bulk.tensor"), "{ptx}");
}

fn tolerance(dtype: DType) -> f64 {
    // Sums of some hundred products of numbers up to 2, rounded once to the result.
    if dtype == DType::BF16 { 3e-2 } else { 5e-3 }
}

#[test]
fn every_storage_order() {
    for dtype in [F16, DType::BF16] {
        for (lhs, a) in [("mk", [72, 136]), ("km", [136, 72])] {
            for (rhs, b) in [("kn", [136, 104]), ("nk", [104, 136])] {
                check(case("contract", &[t(dtype, &a), t(dtype, &b)], tolerance(dtype)), &|at, v| {
                    vec![op(at, contract(lhs, rhs, "mn", dtype), v)]
                });
            }
        }
        // A result by columns: the operands change roles.
        check(case("contract", &[t(dtype, &[72, 64]), t(dtype, &[64, 80])], tolerance(dtype)), &|at, v| {
            vec![op(at, contract("mk", "kn", "nm", dtype), v)]
        });
    }
}

#[test]
fn tails_and_turns_of_the_slots() {
    // Less than a box, whole boxes, one more; and more tiles along k than slots.
    for (m, n, k) in [(40, 48, 8), (64, 64, 64), (65, 72, 72), (129, 200, 128), (64, 64, 1000)] {
        check(case("contract", &[t(F16, &[m, k]), t(F16, &[k, n])], tolerance(F16)), &|at, v| {
            vec![op(at, contract("mk", "kn", "mn", F16), v)]
        });
    }
}

#[test]
fn batches_are_dimensions_of_the_map() {
    check(case("contract", &[t(F16, &[2, 3, 48, 72]), t(F16, &[2, 3, 72, 64])], tolerance(F16)), &|at, v| {
        vec![op(at, contract("abmk", "abkn", "abmn", F16), v)]
    });
    // Heads between rows and columns; a weight that all of the batch shares.
    check(case("contract", &[t(F16, &[2, 64, 3, 64]), t(F16, &[2, 72, 3, 64])], tolerance(F16)), &|at, v| {
        vec![op(at, contract("bthd", "bshd", "bhts", F16), v)]
    });
    check(case("contract", &[t(F16, &[3, 40, 64]), t(F16, &[64, 72])], tolerance(F16)), &|at, v| {
        vec![op(at, contract("bmk", "kn", "bmn", F16), v)]
    });
}

#[test]
fn epilogues() {
    for dtype in [F16, DType::BF16] {
        let inputs = [t(dtype, &[2, 33, 72]), t(dtype, &[72, 80]), t(dtype, &[80]), t(dtype, &[2, 33, 80])];
        check(case("contract", &inputs, 2.0 * tolerance(dtype)), &|at, v| {
            let product = op(at, contract("bmk", "kn", "bmn", dtype), &v[..2]);
            let biased = ew(at, Function::Add, &[product, v[2]]);
            let active = ew(at, Function::Tanh, &[biased]);
            vec![ew(at, Function::Add, &[active, v[3]])]
        });
    }
    // A result of f32, and rows that are no multiple of 16 bytes.
    check(case("contract", &[t(F16, &[70, 64]), t(F16, &[75, 64])], 1e-3), &|at, v| {
        let product = Contract { lhs: "mk".into(), rhs: "nk".into(), result: "mn".into(), accumulate: F32, dtype: F32 };
        let product = op(at, product, v);
        vec![ew(at, Function::Abs, &[product]), product]
    });
}

/// Sums change threads by shared memory of the slots, and no access there waits for another.
#[test]
fn shared_memory_has_no_bank_conflicts() {
    let target = one_multiprocessor("sm_90a");
    for dtype in [F16, F32] {
        let case = case("contract", &[t(F16, &[128, 64]), t(F16, &[64, 256])], 1e-2);
        let inputs: Vec<_> = case.inputs.iter().map(|ty| random(ty, 3)).collect();
        let (ptx, counters) = check_counted(&target, case, &inputs, &|at, v| {
            let product = Contract { dtype, ..contract("mk", "kn", "mn", F16) };
            vec![op(at, product, v)]
        });
        assert!(ptx.contains("m64n256k16"), "{ptx}");
        assert!(counters.shared_requests > 0);
        assert_eq!(counters.shared_extra_wavefronts, 0, "{:?}", counters.lines);
        // A and B once.
        assert_eq!(counters.async_copy_bytes, (128 + 256) * 64 * 2);
    }
}

#[test]
fn golden_text() {
    let [hw, gpu] = texts(
        &one_multiprocessor("sm_90a"),
        &case("contract", &[t(F16, &[64, 64]), t(F16, &[64, 64])], 0.0),
        &|at, v| vec![op(at, contract("mk", "nk", "mn", F16), v)],
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::support::root().join("testdata/hw"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!("matmul_tma.hw", hw);
        insta::assert_snapshot!("matmul_tma.gpu", gpu);
    });
}

/// Two warpgroups that share a tile of 128 by 256, by rows.
#[test]
fn two_warpgroups() {
    let target = one_multiprocessor("sm_90a");
    for (lhs, a) in [("mk", [200, 200]), ("km", [200, 200])] {
        for (rhs, b) in [("kn", [200, 504]), ("nk", [504, 200])] {
            let case = case("contract", &[t(F16, &a), t(F16, &b), t(F16, &[504])], tolerance(F16));
            let inputs: Vec<_> = case.inputs.iter().map(|ty| random(ty, 7)).collect();
            let ptx = check_target(&target, case, &inputs, &|at, v| {
                let product = op(at, contract(lhs, rhs, "mn", F16), &v[..2]);
                vec![ew(at, Function::Add, &[product, v[2]])]
            });
            assert!(ptx.contains("m64n256k16") && ptx.contains(".reqntid 288"), "{ptx}");
        }
    }
}
