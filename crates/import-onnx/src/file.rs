//! Files as shared byte buffers.
//!
//! A file is read once into one buffer, and everything that is decoded from it (the bytes of weights above all) is a slice of that
//! buffer. Mapping the file would spare that one copy but cannot be done in safe Rust: whoever truncates a mapped file kills the
//! process that reads it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

/// Reads a regular file. Devices and pipes, which may never end, are refused.
pub(crate) fn read(path: &Path) -> io::Result<Bytes> {
    // Before opening: opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let capacity = usize::try_from(length).map_err(io::Error::other)?;
    let mut data = Vec::new();
    data.try_reserve_exact(capacity).map_err(io::Error::other)?;
    file.by_ref().take(length).read_to_end(&mut data)?;
    Ok(Bytes::from(data))
}
