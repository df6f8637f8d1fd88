//! Products of f32 that tensor cores read as tf32: in one pass or in three, by the class of the kernel, within the bound of each.

use tenon_graph_dialect::operators::{Contract, Convolution, Function};
use tenon_ir::{Builder, Session};
use tenon_lowering::schedule::lower_kernel;
use tenon_reference::{Mode, run_function};
use tenon_target::Target;
use tenon_tensor::Tensor;

use super::types;
use crate::graph_kernels::{Body, Case, F32, Launched, case, check_for, ew, graph_module, launch_for, op, random, t};
use crate::support::root;

/// Half a unit in the last place of f32.
const U: f64 = 1.0 / (1u64 << 24) as f64;
const INSTRUCTION: &str = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";

fn contract(lhs: &str, rhs: &str, result: &str) -> Contract {
    Contract { lhs: lhs.into(), rhs: rhs.into(), result: result.into(), accumulate: F32, dtype: F32 }
}

/// The largest error of a result, as a part of the sum of its terms without signs.
fn error_of(got: &Tensor, inputs: &[Tensor], family: &'static str, body: &Body<'_>) -> f64 {
    let session = Session::new();
    let module = graph_module(&session, &case(family, &types(inputs), 0.0), body);
    let real = |inputs: &[Tensor]| run_function(&module, "main", inputs, &|_| None, Mode::F64).unwrap().remove(0);
    let magnitude = |tensor: &Tensor| {
        let values: Vec<f64> = (0..tensor.element_count()).map(|i| tensor.get_f64(i).unwrap().abs()).collect();
        Tensor::from_f64s(F32, tensor.shape().to_vec(), &values).unwrap()
    };
    let magnitudes: Vec<Tensor> = inputs.iter().map(magnitude).collect();
    let (sums, sizes) = (real(inputs), real(&magnitudes));
    let error = |i: usize| {
        let (sum, size) = (sums.get_f64(i).unwrap(), sizes.get_f64(i).unwrap());
        if size == 0.0 { 0.0 } else { (got.get_f64(i).unwrap() - sum).abs() / size }
    };
    (0..got.element_count()).map(error).fold(0.0, f64::max)
}

fn launch(target: &str, class: &'static str, family: &'static str, inputs: &[Tensor], body: &Body<'_>) -> Launched {
    let session = Session::new();
    let own = Case { numeric_class: Some(class), ..case(family, &types(inputs), 0.0) };
    let like = run_function(&graph_module(&session, &own, body), "main", inputs, &|_| None, Mode::Typed).unwrap();
    launch_for(target, &own, inputs, &like, 3, body)
}

/// Three passes leave out at most 28 u of each term, and the simulator rounds the sum once for each of three instructions for eight terms. Loops over k are
/// padded to whole tiles with zeros, which round nothing.
fn bound_of_three(terms: u64) -> f64 {
    (28.0 + 3.0 * terms.div_ceil(8) as f64) * U * 1.001
}

/// Multiply-adds of three passes, eight terms in an iteration, given those of one pass, sixteen in an iteration, for the same tiles.
fn three_of_one(macs: u64, terms: u64) -> u64 {
    3 * macs / (16 * terms.div_ceil(16)) * (8 * terms.div_ceil(8))
}

/// One pass leaves out less than 2^-9 of each term.
fn bound_of_one(terms: u64) -> f64 {
    2f64.powi(-9) + terms.div_ceil(8) as f64 * U * 1.001
}

/// Every order of the operands in memory, tails of every axis, batches.
#[test]
fn three_passes_keep_f32() {
    for (lhs, rhs, result, a, b, terms) in [
        ("mk", "kn", "mn", &[65, 130][..], &[130, 33][..], 130),
        ("mk", "nk", "mn", &[40, 112], &[56, 112], 112),
        ("km", "kn", "mn", &[116, 70], &[116, 24], 116),
        ("km", "nk", "mn", &[120, 20], &[131, 120], 120),
        ("mk", "kn", "nm", &[30, 128], &[128, 44], 128),
        ("abmk", "abkn", "abmn", &[2, 2, 16, 113], &[2, 2, 113, 40], 113),
        ("bthd", "bshd", "bhts", &[2, 17, 2, 128], &[2, 24, 2, 128], 128),
        ("mk", "kn", "mn", &[1, 300], &[300, 100], 300),
    ] {
        let inputs = [random(&t(F32, a), 1), random(&t(F32, b), 2)];
        let product = contract(lhs, rhs, result);
        let body: &Body<'_> = &|at, v| vec![op(at, product.clone(), v)];
        let three = launch("sm_80", "reassociates", "contract", &inputs, body);
        let error = error_of(&three.outputs[0], &inputs, "contract", body);
        assert!(three.ptx.contains(INSTRUCTION), "{lhs},{rhs}->{result}");
        assert!(error <= bound_of_three(terms), "{lhs},{rhs}->{result}: {error:e} > {:e}", bound_of_three(terms));
        let one = launch("sm_80", "approximates", "contract", &inputs, body);
        let error = error_of(&one.outputs[0], &inputs, "contract", body);
        assert!(error <= bound_of_one(terms), "{lhs},{rhs}->{result}: {error:e} > {:e}", bound_of_one(terms));
        // What is left out shows: the bound of three passes is one that can be missed.
        assert!(error > bound_of_three(terms), "{lhs},{rhs}->{result}: {error:e}");
        assert_eq!(three.counters.mma_macs, three_of_one(one.counters.mma_macs, terms), "{lhs},{rhs}->{result}");
    }
}

#[test]
fn convolutions_in_three_passes() {
    for (input, weight, stride, pad, groups, terms) in [
        ([1, 16, 14, 15], [20, 16, 3, 3], 1, 1, 1, 144),
        ([2, 128, 7, 7], [24, 128, 1, 1], 1, 0, 1, 128),
        ([1, 26, 10, 10], [16, 13, 3, 3], 2, 1, 2, 117),
    ] {
        let inputs = [random(&t(F32, &input), 1), random(&t(F32, &weight), 2)];
        let convolution = Convolution {
            accumulate: F32,
            dtype: F32,
            strides: vec![stride; 2],
            dilations: vec![1; 2],
            pad_begin: vec![pad; 2],
            pad_end: vec![pad; 2],
            groups,
            transposed: false,
            output_padding: vec![0; 2],
        };
        let body: &Body<'_> = &|at, v| vec![op(at, convolution.clone(), v)];
        let three = launch("sm_80", "reassociates", "convolution", &inputs, body);
        let error = error_of(&three.outputs[0], &inputs, "convolution", body);
        assert!(three.ptx.contains(INSTRUCTION) && error <= bound_of_three(terms), "{weight:?}: {error:e}");
    }
}

/// An element that tf32 does not hold, and one in whose product the low parts meet.
#[test]
fn low_parts_count() {
    let value = |bits: u32| f64::from(f32::from_bits(bits));
    // The low 13 bits all ones: what is left out is largest.
    for bits in [0x3f80_1fff, 0x3f80_0001, 0xbfff_ffff, 0x7f7f_ffff, 0x0d80_1fff] {
        let mut a = vec![0.0; 16 * 112];
        a[5] = value(bits);
        let mut b = vec![0.0; 112 * 16];
        b[5 * 16 + 3] = value(0x3f00_1fff);
        let inputs =
            [Tensor::from_f64s(F32, vec![16, 112], &a).unwrap(), Tensor::from_f64s(F32, vec![112, 16], &b).unwrap()];
        let product = contract("mk", "kn", "mn");
        let body: &Body<'_> = &|at, v| vec![op(at, product.clone(), v)];
        let got = launch("sm_80", "reassociates", "contract", &inputs, body).outputs.remove(0);
        let error = error_of(&got, &inputs, "contract", body);
        assert!(error <= 31.0 * U, "{bits:x}: {error:e}");
        // Every other place is a sum of zeros.
        assert!((0..256).all(|i| i == 3 || got.get_f64(i) == Some(0.0)), "{bits:x}");
    }
}

/// What each target computes products of f32 with, by the class of the kernel.
#[test]
fn the_class_and_the_target_decide() {
    // 256 multiply-adds of tf32 in a clock are a third of 768: CUDA cores with 128 are faster than three passes on sm_89 and sm_120a.
    for (target, three) in [("sm_80", true), ("sm_89", false), ("sm_90a", true), ("sm_100a", true), ("sm_120a", false)]
    {
        let inputs = [random(&t(F32, &[70, 136]), 3), random(&t(F32, &[136, 40]), 4)];
        let short = [random(&t(F32, &[70, 104]), 3), random(&t(F32, &[104, 40]), 4)];
        let product = contract("mk", "kn", "mn");
        let body: &Body<'_> = &|at, v| vec![op(at, product.clone(), v)];
        let used = |class, inputs| {
            let launched = launch(target, class, "contract", inputs, body);
            let error = error_of(&launched.outputs[0], inputs, "contract", body);
            let within = if class == "approximates" { bound_of_one(136) } else { bound_of_three(136) };
            assert!(error <= within, "{target}, {class}: {error:e}");
            launched.counters.mma_macs
        };
        let macs = used("approximates", &inputs);
        assert!(macs > 0, "{target}");
        assert_eq!(used("reassociates", &inputs), if three { three_of_one(macs, 136) } else { 0 }, "{target}");
        assert_eq!(used("exact", &inputs), 0, "{target}");
        assert_eq!(used("reassociates", &short), 0, "{target}: the bound of a short sum is that of f32");
    }
    let inputs = [random(&t(F32, &[20, 136]), 3), random(&t(F32, &[136, 40]), 4)];
    let product = contract("mk", "kn", "mn");
    let before_tf32 = Case { numeric_class: Some("approximates"), ..case("contract", &types(&inputs), 1e-4) };
    let ptx = check_for("sm_75", before_tf32, &inputs, &|at, v| vec![op(at, product.clone(), v)]);
    assert!(!ptx.contains("mma.sync"), "sm_75 has no tf32");
}

/// The tile program: the low parts are taken from the tiles that were read, and the small products are summed before the large one.
#[test]
fn golden() {
    let types = [t(F32, &[32, 128]), t(F32, &[128, 32])];
    let own = Case { numeric_class: Some("reassociates"), ..case("contract", &types, 0.0) };
    let session = Session::new();
    let product = contract("mk", "kn", "mn");
    let module = graph_module(&session, &own, &|at, v| vec![op(at, product.clone(), v)]);
    let kernel = module.body().ops()[0].region_block(0).unwrap().ops()[0];
    let hw = session.new_module(session.context().unknown_location()).unwrap();
    let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
    lower_kernel(kernel, at, "k", Target::find("sm_80").unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let text = hw.to_string();
    let instructions = |line: &&str| line.contains("hw.mma \"mma.m16n8k8.f32.tf32.tf32.f32\"");
    assert_eq!(text.lines().filter(instructions).count(), 3);
    insta::with_settings!({snapshot_path => root().join("testdata/hw"), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("product_three_passes", text);
    });
}

#[test]
fn an_unknown_class_is_refused() {
    let types = [t(F32, &[16, 16]), t(F32, &[16, 16])];
    let own = Case { numeric_class: Some("sloppy"), ..case("contract", &types, 0.0) };
    let session = Session::new();
    let product = contract("mk", "kn", "mn");
    let module = graph_module(&session, &own, &|at, v| vec![op(at, product.clone(), v)]);
    let kernel = module.body().ops()[0].region_block(0).unwrap().ops()[0];
    let hw = session.new_module(session.context().unknown_location()).unwrap();
    let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
    let refused = lower_kernel(kernel, at, "k", Target::find("sm_80").unwrap());
    let error = refused.err().unwrap();
    assert!(error.code() == "E0503" && error.to_string().contains("sloppy"), "{error}");
}

/// An epilogue works on the sums, and results may be read transposed.
#[test]
fn epilogues() {
    let types = [t(F32, &[2, 33, 120]), t(F32, &[120, 48]), t(F32, &[48]), t(F32, &[2, 33, 48])];
    let inputs: Vec<Tensor> = types.iter().zip(1..).map(|(ty, seed)| random(ty, seed)).collect();
    let own = Case { numeric_class: Some("reassociates"), ..case("contract", &types, 1e-4) };
    let product = contract("bmk", "kn", "bmn");
    let ptx = check_for("sm_80", own, &inputs, &|at, v| {
        let sum = op(at, product.clone(), &v[..2]);
        let biased = ew(at, Function::Add, &[sum, v[2]]);
        vec![ew(at, Function::Add, &[ew(at, Function::Tanh, &[biased]), v[3]])]
    });
    assert!(ptx.contains(INSTRUCTION));
}

/// Whole tiles of the largest shape: copied by 16 bytes, read by `ldmatrix` where k lies together, without bank conflicts.
#[test]
fn no_bank_conflicts() {
    for (lhs, rhs, a, b, class, products) in [
        ("mk", "kn", [1280, 112], [112, 1152], "approximates", 64),
        ("mk", "kn", [1280, 112], [112, 1152], "reassociates", 96),
        ("mk", "nk", [1280, 112], [1152, 112], "approximates", 64),
    ] {
        let inputs = [random(&t(F32, &a), 1), random(&t(F32, &b), 2)];
        let own = Case { numeric_class: Some(class), ..case("contract", &types(&inputs), 0.0) };
        let like = [Tensor::from_f64s(F32, vec![1280, 1152], &vec![0.0; 1280 * 1152]).unwrap()];
        let product = contract(lhs, rhs, "mn");
        let launched = launch_for("sm_80", &own, &inputs, &like, 1, &|at, v| vec![op(at, product.clone(), v)]);
        assert_eq!(launched.ptx.matches(INSTRUCTION).count(), products, "{class}");
        assert!(launched.ptx.contains("cp.async.cg.shared.global") && launched.ptx.contains("ldmatrix"), "{class}");
        let in_loop = |line: &&str| line.contains("ld.shared");
        assert_eq!(launched.ptx.lines().filter(in_loop).count() >= 16, rhs == "kn", "{class}");
        let conflicts: Vec<_> = launched.counters.lines.iter().filter(|line| line.extra_wavefronts > 0).collect();
        assert!(launched.counters.shared_requests > 0 && conflicts.is_empty(), "{class}, {lhs},{rhs}: {conflicts:?}");
    }
}
