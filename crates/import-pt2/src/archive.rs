//! The archive: a ZIP file whose entries are stored, so that every weight is a slice of the mapped file.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use tenon_mapped_file::MappedFile;

use crate::error::{Pt2Error, plain};
use crate::zip::{self, Entry};

/// Largest entry of text that is read, in bytes.
const MAX_TEXT: usize = 1 << 30;

/// The entries of an archive by their path below the top folder; each shares the file's bytes.
///
/// What is parsed is held against its checksum. Weights are not, since that would read all of them: a bundle names them by the hash of their content.
pub(crate) struct Archive {
    /// Bytes and CRC-32 of each.
    entries: HashMap<String, (Bytes, u32)>,
    file: Option<MappedFile>,
}

impl Archive {
    pub(crate) fn open(path: &Path) -> Result<Archive, Pt2Error> {
        let file = MappedFile::open(path).map_err(|source| Pt2Error::Io { path: path.to_owned(), source })?;
        let mut archive = Archive::read(file.bytes())?;
        archive.file = Some(file);
        Ok(archive)
    }

    pub(crate) fn read(data: Bytes) -> Result<Archive, Pt2Error> {
        let mut entries = HashMap::new();
        let mut top: Option<String> = None;
        for Entry { name, range, checksum } in zip::entries(&data)? {
            let (folder, path) = name.split_once('/').ok_or_else(|| Pt2Error::Layout {
                reason: format!("the entry `{}` lies in no folder", plain(&name)),
            })?;
            let top = top.get_or_insert_with(|| folder.to_owned());
            if top != folder {
                let reason = format!("the archive has the folders `{}` and `{}`", plain(top), plain(folder));
                return Err(Pt2Error::Layout { reason });
            }
            if entries.insert(path.to_owned(), (data.slice(range), checksum)).is_some() {
                return Err(Pt2Error::Archive { reason: format!("the entry `{}` is there twice", plain(path)) });
            }
        }
        Ok(Archive { entries, file: None })
    }

    /// Bytes of an entry.
    pub(crate) fn get(&self, path: &str) -> Option<&Bytes> {
        self.entries.get(path).map(|(bytes, _)| bytes)
    }

    /// Bytes of an entry that must be there, to be parsed.
    fn entry(&self, path: &str) -> Result<&Bytes, Pt2Error> {
        let missing = || Pt2Error::Layout { reason: format!("the archive has no entry `{}`", plain(path)) };
        let (bytes, checksum) = self.entries.get(path).ok_or_else(missing)?;
        if bytes.len() > MAX_TEXT {
            let reason = "it is larger than a text may be".to_owned();
            return Err(Pt2Error::Json { entry: path.to_owned(), reason });
        }
        let found = crc32fast::hash(bytes);
        if found != *checksum {
            let reason = format!(
                "the entry `{}` has the checksum {found:08x}, and the directory says {checksum:08x}",
                plain(path)
            );
            return Err(Pt2Error::Archive { reason });
        }
        Ok(bytes)
    }

    /// A short text without the white space around it.
    pub(crate) fn text(&self, path: &str) -> Result<&str, Pt2Error> {
        let no_text = |_| Pt2Error::Json { entry: path.to_owned(), reason: "it is no UTF-8".to_owned() };
        std::str::from_utf8(self.entry(path)?).map(str::trim).map_err(no_text)
    }

    /// An entry as JSON.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Pt2Error> {
        let wrong = |reason: String| Pt2Error::Json { entry: path.to_owned(), reason };
        serde_json::from_slice(self.entry(path)?).map_err(|error| wrong(plain(&error.to_string())))
    }

    /// Gives back the memory of what was looked at; the weights are read again when they are used.
    pub(crate) fn release(&self) {
        if let Some(file) = &self.file {
            file.release();
        }
    }
}
