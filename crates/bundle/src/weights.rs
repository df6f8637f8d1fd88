//! Tensors of a bundle: one safetensors part, each tensor under the hash of its content.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tenon_tensor::{DType, Tensor};

use crate::{Bundle, BundleError, Part, WeightRecord, hex};

/// Name of the part.
const PART: &str = "weights.safetensors";

/// Tensors to be written, each once.
#[derive(Debug, Default)]
pub struct Weights {
    tensors: BTreeMap<String, Tensor>,
}

impl Weights {
    /// Takes a tensor in, and gives the key that it is found by: SHA-256 over type, shape and elements.
    pub fn add(&mut self, tensor: &Tensor) -> String {
        let mut digest = Sha256::new();
        digest.update(tensor.dtype().name().as_bytes());
        for size in tensor.shape() {
            digest.update((*size as u64).to_le_bytes());
        }
        // The number of dimensions is part of what is hashed: sizes and elements cannot be taken for one another.
        digest.update((tensor.shape().len() as u64).to_le_bytes());
        digest.update(tensor.bytes());
        let key = hex(&digest.finalize());
        self.tensors.entry(key.clone()).or_insert_with(|| tensor.clone());
        key
    }

    /// Type and shape of each tensor, for the manifest.
    pub fn records(&self) -> BTreeMap<String, WeightRecord> {
        let record = |tensor: &Tensor| WeightRecord {
            dtype: tensor.dtype(),
            shape: tensor.shape().iter().map(|size| *size as u64).collect(),
        };
        self.tensors.iter().map(|(key, tensor)| (key.clone(), record(tensor))).collect()
    }

    /// The part that holds them. Elements are not copied.
    pub fn part(&self) -> Part {
        let mut order: Vec<(&String, &Tensor)> = self.tensors.iter().collect();
        // Wide elements first, so that each tensor is aligned by its element size.
        order.sort_by_key(|(key, tensor)| (std::cmp::Reverse(tensor.dtype().bits()), *key));
        let mut header = Map::new();
        let mut offset = 0;
        for (key, tensor) in &order {
            let end = offset + tensor.bytes().len();
            let (dtype, shape) = stored(tensor);
            header.insert((*key).clone(), json!({"data_offsets": [offset, end], "dtype": dtype, "shape": shape}));
            offset = end;
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        // The elements begin at a multiple of 64, as the part itself does.
        text.resize((text.len() + 8).next_multiple_of(64) - 8, b' ');
        let mut pieces = vec![Bytes::copy_from_slice(&(text.len() as u64).to_le_bytes()), Bytes::from(text)];
        pieces.extend(order.iter().map(|(_, tensor)| tensor.shared_bytes()));
        Part { name: PART.to_owned(), pieces }
    }
}

/// How a tensor is written: safetensors' name for its type and its shape, or bytes where there is none.
fn stored(tensor: &Tensor) -> (&'static str, Vec<usize>) {
    let name = match tensor.dtype() {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::U16 => "U16",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::I32 => "I32",
        DType::U32 => "U32",
        DType::F32 => "F32",
        DType::F64 => "F64",
        DType::I64 => "I64",
        DType::U64 => "U64",
        _ => return ("U8", vec![tensor.bytes().len()]),
    };
    (name, tensor.shape().to_vec())
}

/// The tensors of a bundle, by key. Elements stay in the mapped file.
///
/// # Errors
/// The part is no safetensors, or has not the tensors that the manifest names.
pub fn read_weights(bundle: &Bundle) -> Result<BTreeMap<String, Tensor>, BundleError> {
    let wrong = |reason: String| BundleError::Manifest {
        path: bundle.path().to_owned(),
        reason: format!("part `{PART}`: {reason}"),
    };
    let part = bundle.part(PART)?;
    let length = part.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let start =
        length.and_then(|length| usize::try_from(length).ok()?.checked_add(8)).filter(|start| *start <= part.len());
    let start = start.ok_or_else(|| wrong("its header ends outside".to_owned()))?;
    let header: BTreeMap<String, Entry> =
        serde_json::from_slice(&part[8..start]).map_err(|error| wrong(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (key, record) in &bundle.manifest().weights {
        let entry = header.get(key).ok_or_else(|| wrong(format!("there is no tensor {key}")))?;
        let [from, to] = entry.data_offsets;
        let range = (from <= to).then(|| start.checked_add(to)).flatten().filter(|end| *end <= part.len());
        let end = range.ok_or_else(|| wrong(format!("tensor {key} ends outside")))?;
        let shape: Option<Vec<usize>> = record.shape.iter().map(|size| usize::try_from(*size).ok()).collect();
        let shape = shape.ok_or_else(|| wrong(format!("tensor {key} is too large")))?;
        let tensor = Tensor::new(record.dtype, shape, part.slice(start + from..end));
        tensors.insert(key.clone(), tensor.map_err(|error| wrong(format!("tensor {key}: {error}")))?);
    }
    Ok(tensors)
}

#[derive(serde::Deserialize)]
struct Entry {
    data_offsets: [usize; 2],
}
