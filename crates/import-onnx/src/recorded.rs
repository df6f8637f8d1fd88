//! Recorded values of inputs and outputs: tensors, sequences of them, optionals.
//!
//! Source: ONNX, `onnx-data.proto`, which the generated messages do not include.

use std::path::Path;

use prost::Message;
use tenon_mapped_file::MappedFile;
use tenon_tensor::Tensor;

use crate::error::{ImportError, quoted};
use crate::external::ExternalData;
use crate::import::element_name;
use crate::proto::TensorProto;
use crate::tensor::decode;
use crate::value::ValueType;
use crate::wire::{self, Kind};

/// `SequenceProto`, as far as its elements are tensors.
#[derive(Clone, PartialEq, prost::Message)]
struct SequenceProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(message, repeated, tag = "3")]
    tensor_values: Vec<TensorProto>,
}

/// `OptionalProto`, of a tensor or a sequence of tensors.
#[derive(Clone, PartialEq, prost::Message)]
struct OptionalProto {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    tensor_value: Option<TensorProto>,
    #[prost(message, optional, tag = "5")]
    sequence_value: Option<SequenceProto>,
}

/// Reads a recorded value of the declared type: its name, and its tensors by the names that they have as inputs and outputs of a module
/// for an input or output `name`: `name` itself, `name[0]` and so on for a sequence, none for an optional that holds nothing.
///
/// # Errors
/// The file cannot be read, is damaged, or holds tensors of unsupported elements.
pub fn read_value_pb(
    path: impl AsRef<Path>,
    name: &str,
    declared: &ValueType,
) -> Result<Vec<(String, Tensor)>, ImportError> {
    let path = path.as_ref();
    let file = MappedFile::open(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
    let data = file.bytes();
    let damaged = |error: prost::DecodeError| ImportError::Decode { reason: error.to_string() };
    let mut external = ExternalData::new(path.parent());
    let mut tensor = |proto: TensorProto| {
        let owner = format!("tensor {} in {}", quoted(proto.name()), path.display());
        decode(proto, &mut external, &owner)
    };
    let mut sequence = |proto: SequenceProto| -> Result<Vec<(String, Tensor)>, ImportError> {
        let elements = proto.tensor_values.into_iter().enumerate();
        elements.map(|(index, proto)| Ok((element_name(name, index), tensor(proto)?))).collect()
    };
    match declared {
        ValueType::Sequence(_) => {
            wire::check(&data, Kind::Sequence)?;
            sequence(SequenceProto::decode(data).map_err(damaged)?)
        }
        ValueType::Optional(_) => {
            wire::check(&data, Kind::Optional)?;
            let proto = OptionalProto::decode(data).map_err(damaged)?;
            match (proto.tensor_value, proto.sequence_value) {
                (Some(value), _) => Ok(vec![(name.to_owned(), tensor(value)?)]),
                (None, Some(value)) => sequence(value),
                (None, None) => Ok(Vec::new()),
            }
        }
        _ => {
            wire::check(&data, Kind::Tensor)?;
            let proto = TensorProto::decode(data).map_err(damaged)?;
            Ok(vec![(name.to_owned(), tensor(proto)?)])
        }
    }
}
