//! Products of 8-bit floats by matrix instructions: their products are exact, so that only the order of sums in f32 tells results apart.

use tenon_graph_dialect::operators::Contract;
use tenon_ir::{Builder, Session};
use tenon_lowering::schedule::lower_kernel;
use tenon_target::Target;
use tenon_tensor::{DType, Tensor};

use super::types;
use crate::graph_kernels::{Case, F16, F32, case, check_for, graph_module, op, random, t};

const TYPES: [(DType, &str); 2] = [(DType::F8E4M3FN, "e4m3"), (DType::F8E5M2, "e5m2")];

fn contract(lhs: &str, rhs: &str, dtype: DType) -> Contract {
    Contract { lhs: lhs.into(), rhs: rhs.into(), result: "mn".into(), accumulate: F32, dtype }
}

fn approximate(inputs: &[Tensor], tolerance: f64) -> Case {
    Case { numeric_class: Some("approximates"), ..case("contract", &types(inputs), tolerance) }
}

/// Both types, on every target that multiplies them; every order in memory, and tails of every axis, on one.
#[test]
fn products() {
    for target in ["sm_89", "sm_90a", "sm_120a"] {
        for (dtype, name) in TYPES {
            let orders = [
                ("mk", "nk", [65, 33, 70]),
                ("mk", "kn", [40, 72, 64]),
                ("km", "kn", [72, 40, 40]),
                ("mk", "nk", [64, 64, 256]),
            ];
            for (lhs, rhs, [m, n, k]) in orders.into_iter().take(if target == "sm_89" { 4 } else { 1 }) {
                let size = |label: char| match label {
                    'm' => m,
                    'n' => n,
                    _ => k,
                };
                let shape = |labels: &str| labels.chars().map(size).collect::<Vec<u64>>();
                let inputs = [random(&t(dtype, &shape(lhs)), 1), random(&t(dtype, &shape(rhs)), 2)];
                let ptx = check_for(target, approximate(&inputs, 1e-6), &inputs, &|at, v| {
                    vec![op(at, contract(lhs, rhs, F32), v)]
                });
                let wanted = format!("mma.sync.aligned.m16n8k32.row.col.f32.{name}.{name}.f32");
                assert!(ptx.contains(&wanted), "{target}: {wanted}");
            }
        }
    }
}

/// NaN of both types, infinities of e5m2, zeros with signs, subnormal numbers, and results of f16.
#[test]
fn every_value() {
    for (dtype, _) in TYPES {
        let all = Tensor::from_bits(dtype, vec![256, 1], 0..256u64).unwrap();
        let ones = Tensor::from_f64s(dtype, vec![1, 16], &[1.0; 16]).unwrap();
        for result in [F32, F16] {
            let inputs = [all.clone(), ones.clone()];
            check_for("sm_89", approximate(&inputs, 0.0), &inputs, &|at, v| {
                vec![op(at, contract("mk", "kn", result), v)]
            });
        }
    }
}

/// By a class that sums in f32 alone, and on targets without the instructions.
#[test]
fn what_no_instruction_computes_is_refused() {
    for (target, class, says) in [
        ("sm_89", "reassociates", "`semantic.numerics.rewrites`"),
        ("sm_80", "approximates", "cast them to f16 or i8"),
        ("sm_80", "exact", "cast them to f16 or i8"),
    ] {
        let types = [t(DType::F8E4M3FN, &[16, 32]), t(DType::F8E4M3FN, &[32, 16])];
        let own = Case { numeric_class: Some(class), ..case("contract", &types, 0.0) };
        let session = Session::new();
        let module = graph_module(&session, &own, &|at, v| vec![op(at, contract("mk", "kn", F32), v)]);
        let kernel = module.body().ops()[0].region_block(0).unwrap().ops()[0];
        let hw = session.new_module(session.context().unknown_location()).unwrap();
        let at = Builder::at_end(hw.body()).unwrap().with_location(kernel.location());
        let error = lower_kernel(kernel, at, "k", Target::find(target).unwrap()).err().unwrap();
        assert!(error.code() == "E0501" && error.to_string().contains(says), "{error}");
    }
}
