//! Products of quantised integers, through PTX, against their definition: `generate.py` beside the cases computes it.

use std::path::PathBuf;

use crate::{file, names_in, tenon, testdata, write, write_npy};

fn cases() -> Vec<PathBuf> {
    let root = PathBuf::from(testdata("quantized"));
    names_in(&root)
        .into_iter()
        .map(|name| root.join(name))
        .filter(|folder| folder.join("model.onnx").is_file())
        .collect()
}

fn pb(folder: &std::path::Path, kind: &str, index: usize) -> tenon_tensor::Tensor {
    let path = folder.join(format!("test_data_set_0/{kind}_{index}.pb"));
    tenon_import_onnx::read_tensor_pb(path).unwrap().1
}

fn agrees_on(architecture: &str) {
    let cases = cases();
    assert!(cases.len() >= 9, "{cases:?}");
    for folder in &cases {
        let model = folder.join("model.onnx");
        let scratch = tempfile::tempdir().unwrap();
        let out = file(&scratch, "out");
        let mut arguments: Vec<String> =
            ["run", model.to_str().unwrap(), "--target", architecture, "-o", &out, "--seed", "5"]
                .map(str::to_owned)
                .into();
        for (index, input) in tenon_import_onnx::Model::load(&model).unwrap().graph.inputs.iter().enumerate() {
            let path = write_npy(&scratch, &format!("{index}.npy"), &pb(folder, "input", index));
            arguments.extend(["--input".to_owned(), format!("{}={path}", input.name)]);
        }
        tenon(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).done();
        let found = tenon_tensor::read_npy(std::path::Path::new(&out).join("y.npy")).unwrap();
        let expected = pb(folder, "output", 0);
        assert_eq!((found.dtype(), found.shape()), (expected.dtype(), expected.shape()), "{}", folder.display());
        let (found, expected) = (found.to_i64_vec_of_any(), expected.to_i64_vec_of_any());
        assert_eq!(found, expected, "{}", folder.display());
    }
}

/// Elements of any integer type.
trait AnyInteger {
    fn to_i64_vec_of_any(&self) -> Vec<i64>;
}

impl AnyInteger for tenon_tensor::Tensor {
    fn to_i64_vec_of_any(&self) -> Vec<i64> {
        self.iter_f64().unwrap().map(|value| value as i64).collect()
    }
}

#[test]
fn integer_products_are_exact_by_matrix_instructions() {
    agrees_on("sm_80");
}

#[test]
fn integer_products_are_exact_on_turing() {
    agrees_on("sm_75");
}

#[test]
fn integer_products_are_exact_without_matrix_instructions() {
    agrees_on("sm_70");
}

/// Bytes reach the matrix instructions whatever their zero points are.
#[test]
fn bytes_reach_the_matrix_instructions() {
    for (case, instruction) in [
        ("matmul_u8_i8", "m16n8k32.row.col.s32.u8.s8.s32"),
        ("matmul_u8_u8_weights", "m16n8k32.row.col.s32.u8.s8.s32"),
        ("matmul_columns", "m16n8k32.row.col.s32.u8.s8.s32"),
        ("conv_padded", "m16n8k32.row.col.s32.s8.u8.s32"),
        ("qlinear_matmul", "m16n8k32.row.col.s32.u8.s8.s32"),
        ("qlinear_conv", "m16n8k32.row.col.s32.s8.u8.s32"),
        ("qdq_matmul", "m16n8k32.row.col.s32.u8.s8.s32"),
        ("qdq_matmul_u8_weights", "m16n8k32.row.col.s32.u8.s8.s32"),
    ] {
        let model = testdata(&format!("quantized/{case}/model.onnx"));
        let ptx = tenon(&["lower", &model, "--target", "sm_80", "--stage", "ptx"]);
        let plain = ptx.done().replace(".satfinite", "");
        assert!(plain.contains(&format!("mma.sync.aligned.{instruction}")), "{case}");
        assert!(!ptx.stdout.contains(".satfinite"), "sums wrap as ONNX's do");
    }
}

/// A product between dequantising and quantising is one kernel of bytes; a recipe that wants every rounding keeps it a product of floats.
#[test]
fn products_of_dequantised_values_are_integer_products_where_rewrites_may_reassociate() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = write(&folder, "exact.toml", "recipe = 1\n[semantic.numerics]\nrewrites = \"exact\"\n");
    for case in ["qdq_matmul", "qdq_matmul_u8_weights"] {
        let model = testdata(&format!("quantized/{case}/model.onnx"));
        let fused = tenon(&["lower", &model, "--stage", "fuse"]).done().to_owned();
        assert_eq!(fused.matches("graph.kernel ").count(), 1, "{fused}");
        assert!(fused.contains("accumulate i32") && fused.contains("\"integer-product\""), "{fused}");
        let exact = tenon(&["lower", &model, "--recipe", &recipe, "--stage", "fuse"]).done().to_owned();
        assert!(exact.contains("accumulate f32") && !exact.contains("accumulate i32"), "{exact}");
        let disabled = tenon(&["lower", &model, "--disable", "integer-product", "--stage", "fuse"]).done().to_owned();
        assert!(!disabled.contains("accumulate i32"), "{disabled}");
    }
}
