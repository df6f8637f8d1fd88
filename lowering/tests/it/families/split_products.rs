//! Products whose sums several blocks share: every way to multiply, tails, epilogues, batches, and that the result is always the same.

use tenon_graph_dialect::operators::{Contract, Convolution, Function};
use tenon_ptx_sim::Counters;
use tenon_reference::{Mode, run_function};
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

use crate::graph_kernels::{
    Body, Case, F16, F32, case, check_counted, contract, ew, graph_module, launch_for, multiprocessors, op, random, t,
    texts,
};

/// The arrival of a block at a tile's counter.
const ARRIVAL: &str = "atom.acq_rel.gpu.global.inc.u32";

fn inputs(case: &Case) -> Vec<Tensor> {
    case.inputs.iter().enumerate().map(|(index, ty)| random(ty, index as u64 + 1)).collect()
}

/// Checks a case under several schedules, and that it is split.
fn check(target: &str, case: Case, body: &Body<'_>) -> (String, Counters) {
    let inputs = inputs(&case);
    let (ptx, counters) = check_counted(Target::find(target).unwrap(), case, &inputs, body);
    assert!(ptx.contains(ARRIVAL), "the product is not split\n{ptx}");
    (ptx, counters)
}

fn reassociating(inputs: &[tenon_graph_dialect::TensorType], tolerance: f64) -> Case {
    Case { numeric_class: Some("reassociates"), ..case("contract", inputs, tolerance) }
}

/// Sums of some thousand products of numbers up to 2, rounded once to the result; results are up to some hundred.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        DType::F64 => 1e-12,
        // Eight units in the last place of the sum of magnitudes, some two thousand.
        _ => 1e-3,
    }
}

#[test]
fn every_way_to_multiply() {
    for (target, dtype, instruction) in [
        ("sm_80", F16, "mma.sync.aligned.m16n8k16.row.col.f32.f16"),
        ("sm_80", DType::BF16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16"),
        ("sm_80", F32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32"),
        ("sm_80", DType::F64, "mma.sync.aligned.m8n8k4.row.col.f64"),
        ("sm_90a", F16, "mma.sync.aligned.m16n8k16.row.col.f32.f16"),
        ("sm_75", F16, "mma.sync.aligned.m16n8k8.row.col.f32.f16"),
        ("sm_75", F32, "fma.rn.f32"),
        ("sm_70", F16, "mma.sync.aligned.m8n8k4"),
        ("sm_120a", DType::BF16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16"),
    ] {
        let accumulate = if dtype == DType::F64 { DType::F64 } else { F32 };
        let types = [t(dtype, &[24, 2048]), t(dtype, &[2048, 64])];
        let (ptx, _) = check(target, reassociating(&types, tolerance(dtype)), &|at, v| {
            vec![op(at, Contract { accumulate, ..contract("mk", "kn", "mn", dtype) }, v)]
        });
        assert!(ptx.contains(instruction), "{target} {dtype}: {instruction}\n{ptx}");
    }
    // One pass of tf32: an element is read with eleven bits.
    let approximates =
        Case { numeric_class: Some("approximates"), ..reassociating(&[t(F32, &[24, 4096]), t(F32, &[4096, 64])], 0.2) };
    check("sm_80", approximates, &|at, v| vec![op(at, contract("mk", "kn", "mn", F32), v)]);
}

#[test]
fn sums_of_integers_are_split_in_every_class() {
    for class in [None, Some("reassociates")] {
        let case = Case {
            numeric_class: class,
            ..case("contract", &[t(DType::I8, &[8, 4096]), t(DType::I8, &[40, 4096])], 0.0)
        };
        check("sm_80", case, &|at, v| {
            let product = Contract { accumulate: DType::I32, ..contract("mk", "nk", "mn", DType::I32) };
            vec![op(at, product, v)]
        });
    }
}

/// A recipe that wants sums as they are written gets them.
#[test]
fn sums_of_floats_are_not_split_where_rounding_is_exact() {
    let exact = case("contract", &[t(F16, &[24, 2048]), t(F16, &[2048, 64])], 0.0);
    let [hw, _] =
        texts(Target::find("sm_80").unwrap(), &exact, &|at, v| vec![op(at, contract("mk", "kn", "mn", F16), v)]);
    assert!(!hw.contains("hw.arrive"), "{hw}");
    let reassociates = Case { numeric_class: Some("reassociates"), ..exact };
    let [hw, _] =
        texts(Target::find("sm_80").unwrap(), &reassociates, &|at, v| vec![op(at, contract("mk", "kn", "mn", F16), v)]);
    assert!(hw.contains("hw.arrive"), "{hw}");
}

#[test]
fn tails_of_rows_columns_and_terms() {
    // Runs that do not divide the tiles along k, terms that do not fill a tile, rows of odd length that are copied through registers.
    for (m, n, k) in [(1, 64, 2048), (17, 50, 2144), (33, 72, 1503), (16, 40, 2040), (70, 33, 1999)] {
        for (target, dtype) in [("sm_80", F16), ("sm_80", F32), ("sm_90a", F16), ("sm_75", F32)] {
            // The faster a target multiplies, the longer a sum that is worth it.
            let k = if target == "sm_90a" { 2 * k } else { k };
            check(target, reassociating(&[t(dtype, &[m, k]), t(dtype, &[k, n])], tolerance(dtype)), &|at, v| {
                vec![op(at, contract("mk", "kn", "mn", dtype), v)]
            });
        }
    }
}

#[test]
fn batches_and_epilogues() {
    for (target, dtype) in [("sm_80", F16), ("sm_90a", F16), ("sm_80", F32)] {
        let types = [t(dtype, &[2, 24, 2048]), t(dtype, &[2, 2048, 40]), t(dtype, &[40]), t(dtype, &[2, 24, 40])];
        check(target, reassociating(&types, 2.0 * tolerance(dtype)), &|at, v| {
            let product = op(at, contract("bmk", "bkn", "bmn", dtype), &v[..2]);
            let sum = ew(at, Function::Add, &[product, v[2]]);
            let zero = ew(at, Function::Subtract, &[v[2], v[2]]);
            let positive = ew(at, Function::Max, &[sum, zero]);
            vec![ew(at, Function::Add, &[positive, v[3]]), sum]
        });
    }
}

/// Products by tensor maps and warpgroups: the producer copies the run of its block, and what lies beyond the last term is zero.
#[test]
fn by_warpgroups() {
    let target = multiprocessors("sm_90a", 8);
    // A sum that is whole, one whose last run is shorter, one that ends inside a tile; rows and columns that do not fill a tile; a batch.
    for (batch, m, n, k) in [(1, 64, 64, 8192), (1, 64, 64, 6464), (1, 40, 56, 8136), (2, 64, 64, 8192)] {
        let types = [t(F16, &[batch, m, k]), t(F16, &[batch, k, n]), t(F16, &[n])];
        let case = reassociating(&types, 2.0 * tolerance(F16));
        let inputs = inputs(&case);
        let (ptx, _) = check_counted(&target, case, &inputs, &|at, v| {
            let product = op(at, contract("bmk", "bkn", "bmn", F16), &v[..2]);
            vec![ew(at, Function::Add, &[product, v[2]])]
        });
        assert!(ptx.contains(ARRIVAL) && ptx.contains("wgmma.mma_async"), "{m} {n} {k}\n{ptx}");
    }
}

/// A late layer of a residual network: seven by seven places, a sum over channels and a window that reaches outside.
#[test]
fn convolutions_with_few_places() {
    for (target, dtype, strides) in [("sm_80", F32, 1), ("sm_80", F16, 2), ("sm_75", F32, 1), ("sm_90a", F16, 1)] {
        let convolution = Convolution {
            accumulate: F32,
            dtype,
            strides: vec![strides; 2],
            dilations: vec![1; 2],
            pad_begin: vec![1; 2],
            pad_end: vec![1; 2],
            groups: 1,
            transposed: false,
            output_padding: vec![0; 2],
        };
        // The faster a target multiplies, the longer a sum that is worth it.
        let channels = if dtype == F16 { 256 } else { 128 };
        let types = [t(dtype, &[1, channels, 7, 7]), t(dtype, &[40, channels, 3, 3]), t(dtype, &[40, 1, 1])];
        let case = Case { family: "convolution", ..reassociating(&types, tolerance(dtype)) };
        check(target, case, &|at, v| {
            let product = op(at, convolution.clone(), &v[..2]);
            vec![ew(at, Function::Add, &[product, v[2]])]
        });
    }
}

/// Whichever block is last, under whatever schedule and on however many host threads.
#[test]
fn results_do_not_depend_on_the_schedule() {
    for (target, dtype) in [("sm_80", F16), ("sm_80", F32), ("sm_90a", F16), ("sm_75", F32)] {
        let case = reassociating(&[t(dtype, &[40, 1536]), t(dtype, &[1536, 48])], tolerance(dtype));
        let body: &Body<'_> = &|at, v| vec![op(at, contract("mk", "kn", "mn", dtype), v)];
        let inputs = inputs(&case);
        let session = tenon_ir::Session::new();
        let like = run_function(&graph_module(&session, &case, body), "main", &inputs, &|_| None, Mode::Typed).unwrap();
        let launched = launch_for(target, &case, &inputs, &like, 12, body);
        assert!(launched.ptx.contains(ARRIVAL), "{}", launched.ptx);
    }
}

#[test]
fn golden() {
    let case = reassociating(&[t(F16, &[32, 2048]), t(F16, &[2048, 32])], 0.0);
    let [hw, _] =
        texts(Target::find("sm_80").unwrap(), &case, &|at, v| vec![op(at, contract("mk", "kn", "mn", F16), v)]);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::support::root().join("testdata/hw"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("product_split", hw));
}
