//! Weights from safetensors files.

use std::path::Path;

use indexmap::IndexMap;
use safetensors::{Dtype, SafeTensors};
use tenon_mapped_file::MappedFile;
use tenon_tensor::{DType, Tensor};

use crate::{Diagnostic, Failure};

/// Element type of a safetensors file as a tensor's; `None` where Tenon has none.
fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E8M0 => DType::F8E8M0FNU,
        _ => return None,
    })
}

/// All tensors of a safetensors file, by name.
///
/// # Errors
/// The file cannot be read, is damaged, or holds an element type that Tenon does not know.
pub fn read_weights(path: &Path) -> Result<IndexMap<String, Tensor>, Failure> {
    let wrong = |reason: String| {
        Diagnostic::new("E0031", format!("{}: {reason}", path.display()))
            .with_help("write the weights again as a safetensors file")
    };
    let unreadable = |error| Diagnostic::new("E0001", format!("{}: {error}", path.display()));
    let data = MappedFile::open(path).map_err(unreadable)?.bytes();
    let file = SafeTensors::deserialize(&data).map_err(|error| wrong(error.to_string()))?;
    let mut tensors = IndexMap::new();
    for (name, view) in file.tensors() {
        let dtype =
            dtype(view.dtype()).ok_or_else(|| wrong(format!("`{name}` has the element type {:?}", view.dtype())))?;
        let bytes = data.slice_ref(view.data());
        let tensor =
            Tensor::new(dtype, view.shape().to_vec(), bytes).map_err(|error| wrong(format!("`{name}`: {error}")))?;
        tensors.insert(name, tensor);
    }
    tensors.sort_keys();
    Ok(tensors)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_a_damaged_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(&1.0f32.to_le_bytes());
        bytes.extend_from_slice(&2.0f32.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_weights(&path).unwrap()["w"].to_f32_vec().unwrap(), [1.0, 2.0]);
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(read_weights(&path).unwrap_err().0[0].code, "E0031");
        }
        assert_eq!(read_weights(&folder.path().join("none")).unwrap_err().0[0].code, "E0001");
    }
}
