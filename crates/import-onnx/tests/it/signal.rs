//! Fourier transforms beyond ONNX's own cases, and operators of old operator sets: values against their definitions.

use crate::common::*;
use tenon_import_onnx::proto::tensor_proto::DataType;
use tenon_import_onnx::proto::*;
use tenon_import_onnx::{ImportOptions, import_loaded};
use tenon_ir::Session;
use tenon_reference::{Mode, run_function};
use tenon_tensor::{DType, Tensor};

/// A constant of integers.
fn integers(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::Int64 as i32),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// One operator on `x`, f32, with constants for its other inputs; what it gives, or the code of its refusal.
fn run(
    version: i64,
    operator: &str,
    x: (&[i64], &[f64]),
    others: &[Option<TensorProto>],
    attributes: &[AttributeProto],
    outputs: &[&str],
) -> Result<Vec<Tensor>, &'static str> {
    let names: Vec<String> =
        others.iter().map(|other| other.as_ref().map_or(String::new(), |tensor| tensor.name().to_owned())).collect();
    let inputs: Vec<&str> = std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
    let mut only = node(operator, &inputs, outputs);
    only.attribute = attributes.to_vec();
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![only],
        input: vec![value("x", x.0)],
        initializer: others.iter().flatten().cloned().collect(),
        output: outputs
            .iter()
            .map(|name| ValueInfoProto { name: Some((*name).to_owned()), ..value("", &[]) })
            .collect(),
        ..GraphProto::default()
    };
    let mut proto = model(graph);
    proto.ir_version = Some(13);
    proto.opset_import = vec![opset("", version)];
    proto.graph.as_mut().unwrap().output.iter_mut().for_each(|output| output.r#type = None);
    let read = read(&proto).map_err(|error| error.code())?;
    let session = Session::new();
    let imported =
        import_loaded(&session, &read, "model.onnx", &ImportOptions::default()).map_err(|error| error.code())?;
    let shape = x.0.iter().map(|size| *size as usize).collect();
    let x = Tensor::from_f64s(DType::F32, shape, x.1).unwrap();
    let weights = |name: &str| imported.weights.get(name).cloned();
    Ok(run_function(&imported.module, "main", &[x], &weights, Mode::Typed).unwrap())
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + 11) % 23) as f64 / 8.0 - 1.0).collect()
}

fn assert_close(found: &Tensor, expected: &[f64]) {
    let found = found.to_f64_vec().unwrap();
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-4, "{found:?}, expected {expected:?}");
    }
}

#[test]
fn transforms_back_and_forth() {
    // [3, 5, 2]: over a dimension, and back; a longer one is padded with zeros. The inverse is the transform between conjugates, over N.
    let conjugate = |values: &[f64], scale: f64| -> Vec<f64> {
        values.iter().enumerate().map(|(i, x)| if i % 2 == 0 { x * scale } else { -x * scale }).collect()
    };
    let x = numbers(30);
    for (axis, length) in [(0i64, 3i64), (1, 5), (-2, 7)] {
        let inputs = [Some(integers("n", &[], &[length])), Some(integers("axis", &[], &[axis]))];
        let spectrum = run(20, "DFT", (&[3, 5, 2], &x), &inputs, &[], &["y"]).unwrap().remove(0);
        let dims: Vec<i64> = spectrum.shape().iter().map(|size| *size as i64).collect();
        let values = conjugate(&spectrum.to_f64_vec().unwrap(), 1.0);
        let back = run(20, "DFT", (&dims, &values), &inputs, &[], &["y"]).unwrap().remove(0);
        let back = conjugate(&back.to_f64_vec().unwrap(), 1.0 / length as f64);
        let back = Tensor::from_f64s(DType::F32, vec![back.len()], &back).unwrap();
        let mut expected = x.clone();
        if length == 7 {
            expected = x.chunks(10).flat_map(|row| row.iter().copied().chain([0.0; 4])).collect();
        }
        assert_close(&back, &expected);
    }
    // Half a spectrum of real numbers, an odd number of them, by the attribute of version 17.
    let x = numbers(14);
    let half = [int("onesided", 1), int("axis", 1)];
    let spectrum = run(17, "DFT", (&[2, 7, 1], &x), &[], &half, &["y"]).unwrap().remove(0);
    assert_eq!(spectrum.shape(), [2, 4, 2]);
    let values = spectrum.to_f64_vec().unwrap();
    assert_close(
        &Tensor::from_f64s(DType::F32, vec![2], &[values[0], values[8]]).unwrap(),
        &[x[..7].iter().sum(), x[7..].iter().sum()],
    );
    let length = [Some(integers("n", &[], &[7]))];
    let inverse = [int("onesided", 1), int("axis", 1), int("inverse", 1)];
    let back = run(17, "DFT", (&[2, 4, 2], &values), &length, &inverse, &["y"]).unwrap().remove(0);
    assert_close(&back, &x);
}

#[test]
fn transforms_that_are_refused() {
    let x = numbers(12);
    let transform = |dims: &[i64], inputs: &[Option<TensorProto>], attributes: &[AttributeProto]| {
        run(20, "DFT", (dims, &x), inputs, attributes, &["y"]).unwrap_err()
    };
    let axis = |axis: i64| [None, Some(integers("axis", &[], &[axis]))];
    assert_eq!(transform(&[3, 4], &axis(1), &[]), "E0132");
    assert_eq!(transform(&[3, 4, 1], &axis(-1), &[]), "E0132");
    assert_eq!(transform(&[2, 2, 3], &[], &[]), "E0132");
    assert_eq!(transform(&[2, 3, 2], &[], &[int("onesided", 1)]), "E0132");
    assert_eq!(transform(&[3, 4, 1], &[Some(integers("n", &[], &[0]))], &[]), "E0132");
    assert_eq!(transform(&[3, 4, 1], &[Some(integers("n", &[], &[5000]))], &[]), "E0135");
    assert_eq!(transform(&[-1, 4, 1], &axis(0), &[]), "E0135");
    assert_eq!(transform(&[2, 3, 2], &[], &[int("inverse", 1)]), "E0135");
}

#[test]
fn frames_of_complex_numbers() {
    // Without a window, frames of 4 in steps of 3 over 8 complex numbers: two, each its transform at 0 the sum.
    let x = numbers(16);
    let inputs = [Some(integers("step", &[], &[3])), None, Some(integers("length", &[], &[4]))];
    let found = run(17, "STFT", (&[1, 8, 2], &x), &inputs, &[int("onesided", 0)], &["y"]).unwrap().remove(0);
    assert_eq!(found.shape(), [1, 2, 4, 2]);
    let values = found.to_f64_vec().unwrap();
    for frame in 0..2 {
        for part in 0..2 {
            let sum: f64 = (0..4).map(|i| x[(frame * 3 + i) * 2 + part]).sum();
            assert!((values[frame * 8 + part] - sum).abs() < 1e-5);
        }
    }
}

#[test]
fn operators_of_old_sets() {
    // `Neg` is in set 6 what it is in 7; `Add` is not.
    assert_close(&run(6, "Neg", (&[2], &[1.0, -2.0]), &[], &[], &["y"]).unwrap()[0], &[-1.0, 2.0]);
    assert_eq!(run(6, "Add", (&[2], &[1.0, -2.0]), &[Some(ones("b", &[2]))], &[], &["y"]).unwrap_err(), "E0131");
}

/// Version 10 takes the nearest element from above where a dimension shrinks, from below where it grows: ONNX's example `resize_downsample_nearest`,
/// and places that ONNX Runtime gives.
#[test]
fn nearest_elements_of_version_10() {
    let columns = |from: usize, scale: f32| -> Vec<f64> {
        let x: Vec<f64> = (0..from).map(|i| i as f64).collect();
        let scales = TensorProto {
            name: Some("scales".to_owned()),
            dims: vec![4],
            data_type: Some(DataType::Float as i32),
            float_data: vec![1.0, 1.0, 2.0, scale],
            ..TensorProto::default()
        };
        let found = run(10, "Resize", (&[1, 1, 1, from as i64], &x), &[Some(scales)], &[], &["y"]).unwrap().remove(0);
        let values = found.to_f64_vec().unwrap();
        let (first, second) = values.split_at(values.len() / 2);
        assert_eq!(first, second);
        first.to_vec()
    };
    assert_eq!(columns(4, 0.6), [0.0, 2.0]);
    assert_eq!(columns(7, 0.6), [0.0, 2.0, 4.0, 5.0]);
    assert_eq!(columns(10, 0.3), [0.0, 4.0, 7.0]);
    assert_eq!(columns(20, 0.15), [0.0, 7.0, 14.0]);
    assert_eq!(columns(3, 2.5), [0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
}
