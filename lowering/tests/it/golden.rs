//! Golden text: tile programs of `testdata/hw` and what they expand to.

use crate::kernels;
use crate::support::{compile, root};
use tenon_layout::{MmaShape, SharedLayout, Swizzle, TileLayout};
use tenon_tensor::DType;

/// The programs of `testdata/hw`, by name.
fn programs() -> Vec<(&'static str, String)> {
    let rows = TileLayout::contiguous(&[4, 32], &[1, 0], 2, 2).unwrap();
    let columns = TileLayout::contiguous(&[4, 32], &[0, 1], 2, 2).unwrap();
    let mma = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
    let fragment = mma.operand_a([16, 16], [1, 1]).unwrap();
    let source = TileLayout::contiguous(&[16, 16], &[1, 0], 8, 1).unwrap();
    let swizzle = Swizzle { vec: 8, per_phase: 4, max_phase: 2 };
    let shared = SharedLayout::swizzled(&[16, 16], &[1, 0], swizzle).unwrap();
    vec![
        ("multiply_add", kernels::multiply_add(4)),
        ("convert", kernels::convert(DType::F32, &rows, &columns)),
        ("local", kernels::local(DType::F16, &source, &shared, &fragment)),
        ("sum", kernels::sum(DType::F32, &columns, 1)),
        ("arg_max", kernels::arg_max(&rows, 1)),
        ("scan", kernels::compose(&TileLayout::contiguous(&[256], &[0], 2, 2).unwrap(), 0)),
        ("async_copy", kernels::async_copy(DType::F16, 8)),
        ("transpose_bias", kernels::transpose_bias()),
        ("softmax", kernels::softmax(&rows)),
        ("arrive", kernels::arrive(4)),
        ("matmul_fma", kernels::matmul_fma(DType::F32)),
        ("matmul_mma", kernels::matmul_mma(DType::F32)),
    ]
}

/// `testdata/hw/NAME.mlir` is what the builder makes, and parses back to the same text. `INSTA_UPDATE=always` writes the files anew.
#[test]
fn programs_are_those_of_testdata() {
    let folder = root().join("testdata/hw");
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|mode| mode == "always");
    for (name, text) in programs() {
        let file = folder.join(format!("{name}.mlir"));
        if bless {
            std::fs::write(&file, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(stored, text, "{}: `INSTA_UPDATE=always` writes it", file.display());
        let session = tenon_ir::Session::new();
        let module = session.parse_module(&stored, name).unwrap();
        let again = module.print(tenon_ir::PrintOptions { locations: true, generic: false });
        assert_eq!(again, text);
    }
}

#[test]
fn expansions() {
    for (name, text) in programs() {
        if matches!(name, "multiply_add" | "convert" | "local" | "sum" | "async_copy" | "arrive") {
            let mut settings = insta::Settings::clone_current();
            settings.set_snapshot_path(root().join("testdata/hw"));
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!(format!("{name}.gpu"), compile(&text).gpu));
        }
    }
}
