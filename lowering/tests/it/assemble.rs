//! Every kernel assembles, without a message and without spills.

use tenon_layout::{MmaShape, SharedLayout, Swizzle, TileLayout};
use tenon_tensor::DType;

use crate::kernels;
use crate::layouts::{self, Random};
use crate::support::{assemble, compile, compile_for, expanded, nvptx, on};
use tenon_lowering::codegen;

fn check(text: &str) -> String {
    let compiled = compile(text);
    assemble(&compiled.info.name, &compiled.ptx, "sm_80");
    if std::env::var_os("TENON_SHOW").is_some() {
        println!("{text}\n{}\n{}", compiled.gpu, compiled.ptx);
    }
    compiled.ptx
}

#[test]
fn multiply_add() {
    let ptx = check(&kernels::multiply_add(4));
    assert!(ptx.contains("ld.global.v4.b32") && ptx.contains("st.global.v4.b32"));
    assert!(ptx.contains("mul.rn.f32") && ptx.contains("add.rn.f32"), "sums are not fused with products");
    assert!(
        ptx.contains(".file\t1 \"model.onnx\"") && ptx.contains(".loc\t1 1 1"),
        "lines of the model's file are kept"
    );
    check(&kernels::multiply_add(1));
}

/// Kernels compiled by several threads are those compiled by one; together they are one file.
#[test]
fn a_file_of_kernels() {
    let rows = TileLayout::contiguous(&[4, 128], &[1, 0], 4, 4).unwrap();
    let columns = TileLayout::contiguous(&[4, 128], &[0, 1], 2, 4).unwrap();
    let texts = [kernels::multiply_add(4), kernels::softmax(&columns), kernels::convert(DType::F32, &rows, &columns)];
    let texts = texts.map(|text| expanded(&text));
    let one = codegen::compile_kernels(&texts, &nvptx(), 1).unwrap();
    let several = codegen::compile_kernels(&texts, &nvptx(), 2).unwrap();
    assert_eq!(one, several);
    let ptx: Vec<_> = one.into_iter().map(|(_, ptx)| ptx).collect();
    let file = codegen::concatenate_ptx(&ptx).unwrap();
    assert_eq!(file.matches(".entry").count(), 3);
    assemble("a_file_of_kernels", &file, "sm_80");
    let module = tenon_ptx_sim::Module::parse(&file).unwrap_or_else(|error| panic!("{error}"));
    assert!(["multiply_add", "softmax", "convert"].iter().all(|name| module.entry(name).is_some()));
}

#[test]
fn copies_of_every_element() {
    use DType::*;
    for element in [Bool, I8, I16, I32, I64, F16, BF16, F32, F64] {
        for vector in [1, 16 / element.size() as u32] {
            check(&kernels::copy(element, vector));
        }
    }
}

#[test]
fn conversions() {
    let mut random = Random(1);
    for element in [DType::Bool, DType::F16, DType::F32, DType::F64] {
        for _ in 0..4 {
            let shape = [1 << random.below(6), 1 << random.below(6)];
            let warps = 1 << random.below(3);
            let (source, target) =
                (layouts::tile(&shape, warps, &mut random), layouts::tile(&shape, warps, &mut random));
            check(&kernels::convert(element, &source, &target));
        }
    }
}

#[test]
fn local_memory() {
    let mut random = Random(2);
    for element in [DType::Bool, DType::F16, DType::F32, DType::F64] {
        let shape = [16, 32];
        let (source, target) = (layouts::tile(&shape, 2, &mut random), layouts::tile(&shape, 2, &mut random));
        check(&kernels::local(element, &source, &layouts::shared(&shape, &mut random), &target));
    }
    let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
    let a = mma.operand_a([64, 64], [2, 1]).unwrap();
    let source = TileLayout::contiguous(&[64, 64], &[1, 0], 8, 2).unwrap();
    let swizzle = Swizzle { vec: 8, per_phase: 1, max_phase: 8 };
    for (order, wanted) in [([1, 0], ".x4.shared"), ([0, 1], ".x4.trans")] {
        let shared = SharedLayout::swizzled(&[64, 64], &order, swizzle).unwrap();
        let ptx = check(&kernels::local(DType::F16, &source, &shared, &a));
        assert!(ptx.contains(wanted), "{ptx}");
    }
}

#[test]
fn asynchronous_copies() {
    assert!(check(&kernels::async_copy(DType::F16, 8)).contains("cp.async.cg.shared.global"));
    assert!(check(&kernels::async_copy(DType::F32, 1)).contains("cp.async.ca.shared.global"));
    assert!(!check(&kernels::async_copy(DType::F16, 1)).contains("cp.async.ca"));
}

#[test]
fn reductions() {
    let mut random = Random(3);
    for element in [DType::I32, DType::F16, DType::F32, DType::F64] {
        let layout = layouts::tile(&[8, 64], 4, &mut random);
        check(&kernels::sum(element, &layout, 0));
        check(&kernels::sum(element, &layout, 1));
    }
    check(&kernels::arg_max(&TileLayout::contiguous(&[4, 256], &[1, 0], 4, 4).unwrap(), 1));
}

#[test]
fn renaming() {
    check(&kernels::transpose_bias());
}

#[test]
fn products() {
    check(&kernels::matmul_fma(DType::F32));
    check(&kernels::matmul_fma(DType::I32));
    let ptx = check(&kernels::matmul_mma(DType::F32));
    assert!(ptx.contains("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") && ptx.contains("ldmatrix"));
    check(&kernels::matmul_mma(DType::F16));
}

/// Kernels without matrix instructions, for every architecture.
#[test]
fn every_architecture() {
    let rows = TileLayout::contiguous(&[4, 128], &[1, 0], 4, 4).unwrap();
    let columns = TileLayout::contiguous(&[4, 128], &[0, 1], 2, 4).unwrap();
    let texts = [
        kernels::softmax(&rows),
        kernels::convert(DType::BF16, &rows, &columns),
        kernels::sum(DType::F16, &columns, 1),
        kernels::async_copy(DType::F16, 8),
        kernels::matmul_fma(DType::F16),
        kernels::elementary("math.sin", 1, DType::BF16),
        kernels::elementary("arith.maximumf", 2, DType::F16),
        kernels::elementary("arith.maximumf", 2, DType::BF16),
    ];
    for architecture in tenon_target::Architecture::all() {
        let processor = &architecture.llvm.processor;
        let (target, nvptx) = on(processor);
        for text in &texts {
            let compiled = compile_for(text, &target, &nvptx);
            assemble(&format!("{}.{processor}", compiled.info.name), &compiled.ptx, processor);
        }
    }
}
