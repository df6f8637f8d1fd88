//! Tensor data that lies in files beside the model.
//!
//! A location is accepted when it is relative, climbs nowhere (`..`), and the file it names lies, symbolic links resolved, inside the
//! model's folder. Each file is opened once, however many tensors share it. The optional `checksum` is not verified.
//!
//! Source: ONNX, `TensorProto.external_data`.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use tenon_mapped_file::MappedFile;

use crate::error::ImportError;
use crate::proto::StringStringEntryProto;

/// The folder of a model, and the files already opened.
pub(crate) struct ExternalData {
    folder: Option<PathBuf>,
    files: HashMap<PathBuf, Bytes>,
}

impl ExternalData {
    /// Without a folder every external tensor is refused.
    pub(crate) fn new(folder: Option<&Path>) -> ExternalData {
        ExternalData { folder: folder.map(Path::to_owned), files: HashMap::new() }
    }

    /// The `size` bytes that `entries` point at.
    pub(crate) fn read(
        &mut self,
        entries: &[StringStringEntryProto],
        size: usize,
        owner: &str,
    ) -> Result<Bytes, ImportError> {
        let entry = |key| entries.iter().find(|entry| entry.key() == key).map(StringStringEntryProto::value);
        let location = entry("location").unwrap_or_default().to_owned();
        let wrong =
            |reason: String| ImportError::ExternalData { owner: owner.to_owned(), location: location.clone(), reason };
        let number = |key| match entry(key) {
            None => Ok(None),
            Some(text) => match text.parse::<usize>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(wrong(format!("has the {key} {text:?}, which is no number of bytes"))),
            },
        };
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        if let Some(length) = length.filter(|&length| length != size) {
            return Err(wrong(format!("has {length} bytes where the tensor needs {size}")));
        }
        let data = self.file(&location, owner)?;
        match offset.checked_add(size).filter(|&end| end <= data.len()) {
            Some(end) => Ok(data.slice(offset..end)),
            None => Err(wrong(format!("needs {size} bytes at offset {offset}, but the file has {}", data.len()))),
        }
    }

    fn file(&mut self, location: &str, owner: &str) -> Result<Bytes, ImportError> {
        let refuse = |reason: &str| ImportError::ExternalLocation {
            owner: owner.to_owned(),
            location: location.to_owned(),
            reason: reason.to_owned(),
        };
        let Some(folder) = &self.folder else {
            return Err(refuse("but the model was not read from a folder"));
        };
        let relative = Path::new(location);
        if location.is_empty() {
            return Err(refuse("which is no file"));
        }
        if !relative.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir)) {
            return Err(refuse("which is not a path relative to the model's folder that stays inside it"));
        }
        let missing = |source: std::io::Error| ImportError::ExternalData {
            owner: owner.to_owned(),
            location: location.to_owned(),
            reason: format!("cannot be read: {source}"),
        };
        let root = folder.canonicalize().map_err(missing)?;
        let path = root.join(relative).canonicalize().map_err(missing)?;
        if !path.starts_with(&root) {
            return Err(refuse("which is a link to outside the model's folder"));
        }
        if let Some(data) = self.files.get(&path) {
            return Ok(data.clone());
        }
        let data = MappedFile::open(&path).map_err(missing)?.bytes();
        self.files.insert(path, data.clone());
        Ok(data)
    }
}
