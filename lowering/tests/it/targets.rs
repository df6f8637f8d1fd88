//! Kernels of the graph dialect on every target: what each multiplies with, and right values everywhere.

use tenon_graph_dialect::operators::Contract;
use tenon_target::{Architecture, Instructions, TensorType};
use tenon_tensor::DType;

use crate::graph_kernels::{case, check_for, check_target, one_multiprocessor, op, random, t};

/// A name in the instruction table as PTX has it.
fn instruction(name: &str) -> String {
    let row = Instructions::table().matrix_instruction(name).unwrap();
    row.ptx.split(' ').next().unwrap().to_owned()
}

/// The table of target facts: what each architecture multiplies with; where nothing fits, CUDA cores do.
#[test]
fn products_by_the_instructions_of_each_target() {
    for architecture in Architecture::all() {
        let name = architecture.llvm.processor.as_str();
        let number = architecture.name.number;
        let half = match number {
            70..75 => "mma.m8n8k4.f32.f16.f16.f32",
            75..80 => "mma.m16n8k8.f32.f16.f16.f32",
            _ => "mma.m16n8k16.f32.f16.f16.f32",
        };
        let brain = (number >= 80).then_some("mma.m16n8k16.f32.bf16.bf16.f32");
        let byte = |signs: &str| match number {
            70..75 => None,
            75..80 => Some(format!("mma.m8n8k16.s32.{signs}.s32")),
            _ => Some(format!("mma.m16n8k32.s32.{signs}.s32")),
        };
        let double = architecture.tensor_rate(TensorType::F64).map(|_| "mma.m8n8k4.f64.f64.f64.f64");
        let (i8, u8) = (DType::I8, DType::U8);
        let types = [
            (DType::F16, DType::F16, Some(half.to_owned()), 5e-3),
            (DType::BF16, DType::BF16, brain.map(str::to_owned), 3e-2),
            (i8, i8, byte("s8.s8"), 0.0),
            (u8, i8, byte("u8.s8"), 0.0),
            (u8, u8, byte("u8.u8"), 0.0),
            (DType::F32, DType::F32, None, 1e-5),
            (DType::F64, DType::F64, double.map(str::to_owned), 1e-13),
        ];
        for (a, b, wanted, tolerance) in types {
            let (accumulate, dtype) = match a {
                DType::I8 | DType::U8 => (DType::I32, DType::I32),
                DType::F64 => (DType::F64, DType::F64),
                _ => (DType::F32, a),
            };
            // Odd sizes; k together in both operands; n together in B; m together in A.
            let shapes = [("mk", "nk", [65, 33, 70]), ("mk", "kn", [40, 72, 64]), ("km", "kn", [72, 40, 40])];
            // From sm_80 on the instructions are the same.
            for (lhs, rhs, [m, n, k]) in shapes.into_iter().take(if number <= 80 { 3 } else { 1 }) {
                let sizes = |labels: &str| -> Vec<u64> {
                    let size = |label: char| match label {
                        'm' => m,
                        'n' => n,
                        _ => k,
                    };
                    labels.chars().map(size).collect()
                };
                let product = Contract { lhs: lhs.into(), rhs: rhs.into(), result: "mn".into(), accumulate, dtype };
                let types = [t(a, &sizes(lhs)), t(b, &sizes(rhs))];
                let inputs = [random(&types[0], 1), random(&types[1], 2)];
                let ptx = check_for(name, case("contract", &types, tolerance), &inputs, &|at, v| {
                    vec![op(at, product.clone(), v)]
                });
                match &wanted {
                    // The instruction of sm_70 is there in each order of the operands.
                    Some(wanted) if number < 75 => {
                        assert!(ptx.contains("mma.sync.aligned.m8n8k4."), "{name}: {wanted}")
                    }
                    Some(wanted) => assert!(ptx.contains(&instruction(wanted)), "{name}: {wanted}"),
                    None => assert!(!ptx.contains("mma.sync"), "{name}: {a}"),
                }
                if a.bits() == 16 && wanted.is_some() {
                    assert_eq!(ptx.contains("ldmatrix"), number >= 75, "{name}: {a}");
                }
                assert!(!ptx.contains("ldmatrix") || number >= 75, "{name}");
                assert!(!ptx.contains("cp.async") || number >= 80, "{name}");
            }
        }
    }
}

/// Where a grid of small tiles takes several waves and one of large tiles a single one, tiles are large: 64 products of a warp for each 32 terms; where one of
/// 128 x 128 does too, eight warps share a tile; where there are few tiles, they are small.
#[test]
fn large_products_take_large_tiles() {
    let product =
        Contract { lhs: "mk".into(), rhs: "kn".into(), result: "mn".into(), accumulate: DType::F32, dtype: DType::F16 };
    for (m, n, k, threads, products) in [(1150, 1152, 72, 128, 64), (1150, 2302, 40, 256, 64), (128, 128, 520, 128, 4)]
    {
        let types = [t(DType::F16, &[m, k]), t(DType::F16, &[k, n])];
        let inputs = [random(&types[0], 3), random(&types[1], 4)];
        let ptx =
            check_for("sm_86", case("contract", &types, 5e-3), &inputs, &|at, v| vec![op(at, product.clone(), v)]);
        assert_eq!(ptx.matches("mma.sync").count(), products, "{m} x {n}");
        assert!(ptx.contains(&format!(".reqntid {threads}")), "{m} x {n}\n{ptx}");
    }
    // On CUDA cores threads then have 64 elements of the result, else 32, and go through 16 terms at a time.
    let product =
        Contract { lhs: "mk".into(), rhs: "kn".into(), result: "mn".into(), accumulate: DType::F32, dtype: DType::F32 };
    for (m, n, k, threads, products) in [(1150, 1152, 20, 256, 1024), (128, 128, 40, 128, 512)] {
        let types = [t(DType::F32, &[m, k]), t(DType::F32, &[k, n])];
        let inputs = [random(&types[0], 3), random(&types[1], 4)];
        let ptx =
            check_for("sm_86", case("contract", &types, 1e-5), &inputs, &|at, v| vec![op(at, product.clone(), v)]);
        assert_eq!(ptx.matches("fma.rn.f32").count(), products, "{m} x {n}");
        assert!(ptx.contains(&format!(".reqntid {threads}")), "{m} x {n}\n{ptx}");
    }
}

/// ptxas holds all rounds of a short loop at once, in twice the registers, unless told not to.
#[test]
fn the_rounds_of_a_short_product_are_not_unrolled() {
    let product =
        Contract { lhs: "mk".into(), rhs: "kn".into(), result: "mn".into(), accumulate: DType::F32, dtype: DType::F16 };
    for (k, pragmas) in [(256, 1), (4096, 0)] {
        let types = [t(DType::F16, &[64, k]), t(DType::F16, &[k, 64])];
        let inputs = [random(&types[0], 5), random(&types[1], 6)];
        let ptx = check_target(&one_multiprocessor("sm_75"), case("contract", &types, 5e-3), &inputs, &|at, v| {
            vec![op(at, product.clone(), v)]
        });
        assert_eq!(ptx.matches(".pragma \"nounroll\"").count(), pragmas, "{k}");
    }
}
