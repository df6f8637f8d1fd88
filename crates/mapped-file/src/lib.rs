//! Files as shared byte buffers.
//!
//! A model's file is mostly weights, and a compilation looks at few of them. A large file is therefore mapped: what is not looked at is neither
//! read nor held. A small one is read.
//!
//! A mapped file must not be changed while it is in use: who writes to it changes weights under the compiler, and who shortens it ends the
//! process by `SIGBUS`. Programs that replace a file as a whole (write another, rename it) do no harm.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::{Mmap, UncheckedAdvice};

/// Files of fewer bytes are read.
const LEAST_MAPPED: u64 = 1 << 20;

/// A file's bytes.
pub struct MappedFile {
    bytes: Bytes,
    map: Option<Arc<Mmap>>,
}

/// What keeps a mapping alive for the buffers that show it.
struct Shared(Arc<Mmap>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedFile {
    /// Opens a regular file. Devices and pipes, which may never end, are refused.
    ///
    /// # Errors
    /// The file cannot be opened or read, is no regular file, or is larger than the address space.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        // Before opening: opening a pipe would wait for a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let capacity = usize::try_from(length).map_err(io::Error::other)?;
        if length >= LEAST_MAPPED {
            // SAFETY: the mapping is private and read-only. That nobody changes the file meanwhile cannot be known; the module's documentation
            // demands it of the user, as every program that maps weights does.
            let map = Arc::new(unsafe { Mmap::map(&file)? });
            return Ok(MappedFile { bytes: Bytes::from_owner(Shared(map.clone())), map: Some(map) });
        }
        let mut data = Vec::new();
        data.try_reserve_exact(capacity).map_err(io::Error::other)?;
        file.by_ref().take(length).read_to_end(&mut data)?;
        Ok(MappedFile { bytes: Bytes::from(data), map: None })
    }

    /// The bytes; slices of them share the file.
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Gives the memory of what was looked at so far back to the system. The buffers stay as they are: what is looked at again is read again.
    pub fn release(&self) {
        if let Some(map) = &self.map {
            // SAFETY: pages of a file that are not written to come back as they were.
            // What the system does not take back stays, which harms nothing.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_files_hold_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for length in [0usize, 10, LEAST_MAPPED as usize - 1, LEAST_MAPPED as usize, 3 << 20] {
            let path = folder.path().join("file");
            let data: Vec<u8> = (0..length).map(|index| (index * 7 % 251) as u8).collect();
            std::fs::write(&path, &data).unwrap();
            let file = MappedFile::open(&path).unwrap();
            assert_eq!(file.map.is_some(), length as u64 >= LEAST_MAPPED);
            let bytes = file.bytes();
            assert_eq!(bytes, data);
            file.release();
            assert_eq!(bytes, data);
            drop(file);
            // The buffer keeps the mapping, even when another file takes the name.
            std::fs::remove_file(&path).unwrap();
            assert_eq!(bytes, data);
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(MappedFile::open(folder.path()).is_err());
        assert!(MappedFile::open(Path::new("/dev/zero")).is_err());
        assert!(MappedFile::open(&folder.path().join("none")).is_err());
    }
}
