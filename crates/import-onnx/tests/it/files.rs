//! External data, tensor files, and real models.

use std::path::{Path, PathBuf};

use crate::common::*;
use bytes::Bytes;
use prost::Message;
use tenon_import_onnx::proto::tensor_proto::{DataLocation, DataType};
use tenon_import_onnx::proto::{ModelProto, StringStringEntryProto, TensorProto};
use tenon_import_onnx::{ImportError, Model, read_tensor_pb};

fn external(entries: &[(&str, &str)]) -> TensorProto {
    let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    TensorProto {
        raw_data: None,
        data_location: Some(DataLocation::External as i32),
        external_data: entries.iter().map(entry).collect(),
        ..ones("w", &[3])
    }
}

fn load(folder: &Path, weights: Vec<TensorProto>) -> Result<Model, ImportError> {
    let mut graph = small_graph();
    graph.initializer = weights;
    let path = folder.join("model.onnx");
    std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
    Model::load(path)
}

#[test]
fn external_data_is_read_once_and_shared() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let values: Vec<u8> = (0..8u8).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    std::fs::write(folder.path().join("sub/weights.bin"), &values).unwrap();
    let first = external(&[("location", "sub/weights.bin"), ("offset", "4"), ("length", "12")]);
    let second =
        TensorProto { name: Some("v".to_owned()), ..external(&[("location", "./sub/weights.bin"), ("offset", "16")]) };
    let model = load(folder.path(), vec![first, second]).unwrap();
    let [w, v] = ["w", "v"].map(|name| &model.graph.initializers[name]);
    assert_eq!(w.to_f32_vec().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(v.to_f32_vec().unwrap(), [4.0, 5.0, 6.0]);
    assert_eq!(v.bytes().as_ptr() as usize - w.bytes().as_ptr() as usize, 12, "both are slices of one buffer");
}

#[test]
fn external_data_stays_inside_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    let secret = outer.path().join("secret.bin");
    std::fs::write(&secret, [0; 12]).unwrap();
    let code = |location: &str| load(&folder, vec![external(&[("location", location)])]).unwrap_err().code();
    assert_eq!(code("../secret.bin"), "E0108");
    assert_eq!(code("a/../../secret.bin"), "E0108");
    assert_eq!(code(secret.to_str().unwrap()), "E0108");
    assert_eq!(code(""), "E0108");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, folder.join("link.bin")).unwrap();
        assert_eq!(code("link.bin"), "E0108");
    }
    assert_eq!(code("absent.bin"), "E0109");
    assert_eq!(code("."), "E0109");
    assert_eq!(code("nul\0.bin"), "E0109");
}

#[test]
fn external_ranges_are_checked_against_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.bin"), [0; 16]).unwrap();
    let code = |offset: &str, length: &str| {
        let tensor = external(&[("location", "w.bin"), ("offset", offset), ("length", length)]);
        load(folder.path(), vec![tensor]).map_err(|error| error.code()).err()
    };
    assert_eq!(code("4", "12"), None);
    assert_eq!(code("5", "12"), Some("E0109"));
    assert_eq!(code("18446744073709551615", "12"), Some("E0109"));
    assert_eq!(code("0", "16"), Some("E0109"));
    assert_eq!(code("-1", "12"), Some("E0109"));
    assert_eq!(code("0", "99999999999999999999999"), Some("E0109"));
}

#[test]
fn tensor_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input_0.pb");
    std::fs::write(&path, ones("x", &[2, 2]).encode_to_vec()).unwrap();
    let (name, tensor) = read_tensor_pb(&path).unwrap();
    assert_eq!((name.as_str(), tensor.shape()), ("x", &[2, 2][..]));
    std::fs::write(&path, b"\xff\xff").unwrap();
    assert_eq!(read_tensor_pb(&path).unwrap_err().code(), "E0101");
    assert_eq!(read_tensor_pb(folder.path().join("absent.pb")).unwrap_err().code(), "E0100");
}

/// Folders that hold a `model.onnx`, in order.
fn folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("model.onnx").is_file());
    folders.sort();
    folders
}

/// Real models and small cases: their test inputs and outputs carry the names and types that the graph declares.
#[test]
fn real_models_are_read() {
    let Some(root) = real_models() else { return };
    let (mut models, mut tensors) = (0, 0);
    for folder in folders(&root.join("models")).into_iter().chain(folders(&root.join("cases"))) {
        let model =
            Model::load(folder.join("model.onnx")).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert!(!model.graph.nodes.is_empty());
        models += 1;
        for (prefix, values) in [("input", &model.graph.inputs), ("output", &model.graph.outputs)] {
            for (index, value) in values.iter().enumerate() {
                let path = folder.join(format!("test_data_set_0/{prefix}_{index}.pb"));
                let (name, tensor) =
                    read_tensor_pb(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(name.is_empty() || name == value.name, "{}: {name}", path.display());
                let declared = value.tensor().unwrap();
                assert_eq!(tensor.dtype(), declared.dtype, "{}", path.display());
                if let Some(dims) = &declared.dims {
                    assert_eq!(tensor.rank(), dims.len(), "{}", path.display());
                }
                tensors += 1;
            }
        }
    }
    println!("{models} models, {tensors} tensors");
    assert!(models > 0);
}

/// Architectures whose weights have dimensions but no data: refused as they are, read once every weight is filled.
#[test]
fn skeletons_are_read_once_filled() {
    let Some(root) = real_models() else { return };
    let Ok(entries) = std::fs::read_dir(root.join("skeletons")) else { return };
    let zeros = Bytes::from(vec![0u8; 1 << 28]);
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "onnx"))
    {
        assert_eq!(Model::load(&path).unwrap_err().code(), "E0107", "{}", path.display());
        let mut proto = ModelProto::decode(Bytes::from(std::fs::read(&path).unwrap())).unwrap();
        for weight in &mut proto.graph.as_mut().unwrap().initializer {
            let typed = weight.int32_data.len() + weight.int64_data.len() + weight.float_data.len();
            if weight.raw_data.is_none() && typed == 0 {
                let count: i64 = weight.dims.iter().product();
                let size = if weight.data_type() == DataType::Float16 as i32 { 2 } else { 4 };
                weight.raw_data = Some(zeros.slice(..count as usize * size));
            }
        }
        let model = Model::from_proto(proto, None).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(model.graph.nodes.len() > 10);
    }
}
