//! Whole models.

use std::path::Path;

use bytes::Bytes;
use prost::Message;
use tenon_mapped_file::MappedFile;

use crate::build::{Builder, Place};
use crate::error::ImportError;
use crate::external::ExternalData;
use crate::function::{Functions, Scope};
use crate::graph::Graph;
use crate::opsets::Opsets;
use crate::proto::ModelProto;
use crate::wire::{self, Kind};

/// Oldest file format read: the first that names operator sets.
const OLDEST_IR: i64 = 3;
/// Newest file format read: that of onnx 1.23.
const NEWEST_IR: i64 = 14;

/// A model as read: functions inlined, tensors decoded, names resolved. Nothing is said yet about operators.
#[derive(Debug)]
pub struct Model {
    /// Version of the file format.
    pub ir_version: i64,
    /// Name and version of the program that wrote the model.
    pub producer: String,
    /// Operator sets that the main graph imports.
    pub opsets: Opsets,
    /// The main graph. Training information is left out.
    pub graph: Graph,
    /// Free-form properties.
    pub metadata: Vec<(String, String)>,
}

impl Model {
    /// Reads a model and the external data beside it.
    ///
    /// # Errors
    /// A file cannot be read, is damaged, or describes no graph.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, ImportError> {
        let path = path.as_ref();
        let file = MappedFile::open(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let model = Model::decode(file.bytes(), Some(folder));
        // What was looked at is the structure, which the model now holds; of the weights at most the ends.
        file.release();
        model
    }

    /// Decodes a model. Without `folder`, external data is refused. Tensors share `data`.
    ///
    /// # Errors
    /// The model is damaged or describes no graph, or its external data cannot be read.
    pub fn decode(data: Bytes, folder: Option<&Path>) -> Result<Model, ImportError> {
        let locate = |error: ImportError| match error {
            ImportError::Decode { reason } => ImportError::Decode {
                reason: match wire::damaged_part(&data) {
                    Some(part) => format!("{part}: {reason}"),
                    None => reason,
                },
            },
            other => other,
        };
        wire::check(&data, Kind::Model).map_err(locate)?;
        let proto = ModelProto::decode(data.clone())
            .map_err(|error| locate(ImportError::Decode { reason: error.to_string() }))?;
        Model::from_proto(proto, folder)
    }

    /// Builds a model from its messages, as [`Model::decode`] does after decoding.
    ///
    /// # Errors
    /// The model describes no graph, or its external data cannot be read.
    pub fn from_proto(proto: ModelProto, folder: Option<&Path>) -> Result<Model, ImportError> {
        let Some(graph) = proto.graph else { return Err(ImportError::NoGraph) };
        let ir_version = proto.ir_version.unwrap_or(0);
        if !(OLDEST_IR..=NEWEST_IR).contains(&ir_version) {
            return Err(ImportError::IrVersion { found: ir_version, oldest: OLDEST_IR, newest: NEWEST_IR });
        }
        let opsets = Opsets::read(&proto.opset_import, "the model")?;
        let functions = Functions::read(proto.functions)?;
        let mut builder = Builder { external: ExternalData::new(folder), functions: &functions, nodes: 0, inlined: 0 };
        let (graph, uses) = builder.graph(graph, &mut Scope::model(&opsets), &Place::main())?;
        if let Some((name, what)) = uses.into_iter().next() {
            return Err(ImportError::Undefined { what, name });
        }
        let producer = [proto.producer_name, proto.producer_version];
        Ok(Model {
            ir_version,
            producer: producer.into_iter().flatten().collect::<Vec<_>>().join(" ").trim().to_owned(),
            opsets,
            graph,
            metadata: proto
                .metadata_props
                .into_iter()
                .map(|entry| (entry.key.unwrap_or_default(), entry.value.unwrap_or_default()))
                .collect(),
        })
    }
}
