//! Broken input: a coded refusal each, never a panic, nothing left behind.

use crate::*;

fn model() -> Vec<u8> {
    std::fs::read(testdata("models/ppocrv6_det_tiny/model.onnx")).unwrap()
}

/// Runs the import of some bytes; refused with a code, or done.
fn import(bytes: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "model.onnx", bytes);
    let outcome = tenon(&["lower", &path, "--stage", "import", "-q"]);
    let coded = outcome.stderr.contains("error[E0") || outcome.stderr.contains("E0");
    assert!(outcome.status == 0 || (outcome.status == 1 && coded), "status {}: {}", outcome.status, outcome.stderr);
    assert!(!outcome.stderr.contains("E0099") && !outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert_eq!(names_in(folder.path()), ["model.onnx"]);
    outcome
}

#[test]
fn truncated_models_are_refused() {
    let bytes = model();
    for part in 0..12 {
        let outcome = import(&bytes[..bytes.len() * part / 12]);
        assert_eq!(outcome.status, 1, "a model cut to {part} twelfths is refused");
    }
}

#[test]
fn flipped_bits_are_refused_or_change_the_model() {
    let bytes = model();
    let mut state = 11u64;
    for _ in 0..40 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let place = (state >> 20) as usize % bytes.len();
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (state >> 61);
        import(&flipped);
    }
}

#[test]
fn inputs_with_absurd_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let header = |shape: &str| {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    let model = testdata("models/ppocrv6_det_tiny/model.onnx");
    for bytes in [
        header("(4611686018427387904, 4)"),
        header("(1, 3, 32, 32)"),
        header("(-1,)"),
        b"\x93NUMPY".to_vec(),
        Vec::new(),
    ] {
        let path = write(&folder, "x.npy", bytes);
        let given = format!("x={path}");
        let outcome = tenon(&["run", &model, "--shapes-from-inputs", "--input", &given]);
        assert_eq!(outcome.status, 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("E00"), "{}", outcome.stderr);
    }
}

#[test]
fn llvm_dumps_that_do_not_verify_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = tenon(&["lower", &testdata("command/rows.mlir"), "--stage", "llvm", "-q"]);
    let text = text.done();
    let flag = text.find("!\"Debug Info Version\"").unwrap();
    let behaviour = text[..flag].rfind("i32 ").unwrap() + "i32 ".len();
    let flags = write(&folder, "flags.ll", format!("{}0{}", &text[..behaviour], &text[behaviour + 1..]));
    tenon(&["lower", "--from", &flags, "--stage", "ptx"]).refused("E0406");
    let kind = text.replacen("ret void", "ret i32 0", 1);
    let kind = write(&folder, "kind.ll", kind);
    tenon(&["lower", "--from", &kind, "--stage", "ptx"]).refused("E0406");
}

#[test]
fn a_model_without_anything_to_launch_runs() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(
        &folder,
        "empty.mlir",
        r#"module {
  func.func @main(%x: tensor<0x4xf32> {graph.name = "x"}) -> (tensor<0x4xf32> {graph.name = "y"}) {
    %0 = graph.elementwise abs(%x) : (tensor<0x4xf32>) -> tensor<0x4xf32>
    return %0 : tensor<0x4xf32>
  }
}
"#,
    );
    let given = format!("x={}", write_npy(&folder, "x.npy", &Tensor::from_f32(vec![0, 4], &[]).unwrap()));
    let out = file(&folder, "out");
    tenon(&["run", &model, "--input", &given, "-o", &out]).done();
    assert_eq!(tenon_tensor::read_npy(file(&folder, "out/y.npy")).unwrap().shape(), [0, 4]);
}
