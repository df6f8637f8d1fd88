//! Kernels that were compiled before, by content.
//!
//! The key of a kernel is the hash of its tile program as bytecode, with the names of the model's nodes that its PTX refers to; beside it stand the architecture and the compiler,
//! which is this very program. So that what comes out of a store is what compiling would have given, and a miss can say which of the three is new.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tenon_lowering::codegen::{CompiledKernel, KernelTimes};
use tenon_lowering::expand::KernelInfo;

use crate::{Diagnostic, Failure};

/// What a kernel is stored under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelKey {
    /// SHA-256 of the tile program.
    pub content: String,
    /// Architecture with its suffix, and the version of the PTX: `sm_90a-ptx8.0`.
    pub architecture: String,
    /// SHA-256 of the program that compiles, with its libraries.
    pub compiler: String,
}

/// Why a store does not have a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// No kernel of this content was compiled before.
    Content,
    /// It was, for other architectures.
    Architecture(Vec<String>),
    /// It was, by another build of the compiler.
    Compiler,
    /// What is stored is not whole.
    Damaged(String),
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Miss::Content => f.write_str("no kernel of this content was compiled before"),
            Miss::Architecture(others) => write!(f, "it was compiled for {} alone", others.join(", ")),
            Miss::Compiler => f.write_str("it was compiled by another build of the compiler"),
            Miss::Damaged(reason) => write!(f, "its entry is damaged: {reason}"),
        }
    }
}

/// Somewhere that compiled kernels are kept.
pub trait KernelStore: Send + Sync {
    /// The entry of a key, or why there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    fn get(&self, key: &KernelKey) -> Result<Result<Vec<u8>, Miss>, Failure>;

    /// Keeps an entry. Others may put the same one at the same time.
    ///
    /// # Errors
    /// The store cannot be written.
    fn put(&self, key: &KernelKey, entry: &[u8]) -> Result<(), Failure>;
}

/// A store in a folder: `CONTENT/ARCHITECTURE/COMPILER.json`.
#[derive(Debug, Clone)]
pub struct FolderStore {
    folder: PathBuf,
}

impl FolderStore {
    /// A store in a folder, which is made when something is put there.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        FolderStore { folder: folder.into() }
    }

    fn place(&self, key: &KernelKey) -> PathBuf {
        self.folder.join(&key.content).join(&key.architecture).join(format!("{}.json", key.compiler))
    }
}

fn refused(path: &Path, error: std::io::Error) -> Failure {
    let message = format!("{}: {error}", path.display());
    Diagnostic::new("E0053", message).with_help("name another folder with --cache, or leave it out").into()
}

/// Why there is no entry, by the architectures that there are entries of the same content for, and the compilers of those for the key's.
pub(super) fn miss(
    key: &KernelKey,
    architectures: Vec<String>,
    compilers: impl FnOnce() -> Result<Vec<String>, Failure>,
) -> Result<Miss, Failure> {
    Ok(if architectures.contains(&key.architecture) && !compilers()?.is_empty() {
        Miss::Compiler
    } else if architectures.is_empty() {
        Miss::Content
    } else {
        Miss::Architecture(architectures)
    })
}

/// Names in a folder; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

impl KernelStore for FolderStore {
    fn get(&self, key: &KernelKey) -> Result<Result<Vec<u8>, Miss>, Failure> {
        let place = self.place(key);
        match std::fs::read(&place) {
            Ok(bytes) => return Ok(Ok(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&place, error)),
        }
        let content = self.folder.join(&key.content);
        miss(key, names(&content), || Ok(names(&content.join(&key.architecture)))).map(Err)
    }

    fn put(&self, key: &KernelKey, entry: &[u8]) -> Result<(), Failure> {
        let place = self.place(key);
        let write = || -> std::io::Result<()> {
            let folder = place.parent().unwrap_or(&self.folder);
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::Builder::new().prefix(".tenon-").tempfile_in(folder)?;
            file.write_all(entry)?;
            file.persist(&place)?;
            Ok(())
        };
        write().map_err(|error| refused(&place, error))
    }
}

/// What is stored of a kernel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: KernelKey,
    name: String,
    threads: u32,
    shared_bytes: u64,
    ptx: String,
}

/// A kernel as an entry: the hash of what follows, a newline, JSON.
pub(super) fn encode(key: &KernelKey, kernel: &CompiledKernel) -> Vec<u8> {
    let entry = Entry {
        key: key.clone(),
        name: kernel.info.name.clone(),
        threads: kernel.info.threads,
        shared_bytes: kernel.info.shared_bytes,
        ptx: kernel.ptx.clone(),
    };
    let json = serde_json::to_string(&entry).unwrap_or_default();
    format!("{}\n{json}", tenon_bundle::sha256(&json)).into_bytes()
}

/// The kernel of an entry, if it is whole and that of the key.
pub(super) fn decode(key: &KernelKey, bytes: &[u8]) -> Result<CompiledKernel, Miss> {
    let damaged = |reason: &str| Miss::Damaged(reason.to_owned());
    let (hash, json) = bytes.split_at_checked(64).ok_or_else(|| damaged("it is too short"))?;
    let json = json.strip_prefix(b"\n").ok_or_else(|| damaged("it is no entry"))?;
    if tenon_bundle::sha256(json).as_bytes() != hash {
        return Err(damaged("it is not what was stored"));
    }
    let entry: Entry = serde_json::from_slice(json).map_err(|error| Miss::Damaged(error.to_string()))?;
    if entry.key != *key {
        return Err(damaged("it is the entry of another kernel"));
    }
    let info = KernelInfo { name: entry.name, threads: entry.threads, shared_bytes: entry.shared_bytes };
    Ok(CompiledKernel { info, ptx: entry.ptx, times: KernelTimes::default() })
}

/// SHA-256 of the program that runs, once; its version where the file cannot be read.
pub(super) fn compiler_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        let program = std::env::current_exe().and_then(|path| tenon_mapped_file::MappedFile::open(&path));
        match program {
            Ok(file) => tenon_bundle::sha256(file.bytes()),
            Err(_) => tenon_bundle::sha256(crate::bundle::compiler().to_string()),
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key(content: &str, architecture: &str, compiler: &str) -> KernelKey {
        KernelKey { content: content.into(), architecture: architecture.into(), compiler: compiler.into() }
    }

    #[test]
    fn misses_say_what_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::new(folder.path().join("cache"));
        let one = key("c", "sm_80", "t");
        assert_eq!(store.get(&one).unwrap(), Err(Miss::Content));
        store.put(&one, b"entry").unwrap();
        assert_eq!(store.get(&one).unwrap(), Ok(b"entry".to_vec()));
        assert_eq!(store.get(&key("c", "sm_90a", "t")).unwrap(), Err(Miss::Architecture(vec!["sm_80".into()])));
        assert_eq!(store.get(&key("c", "sm_80", "u")).unwrap(), Err(Miss::Compiler));
        assert_eq!(store.get(&key("d", "sm_80", "t")).unwrap(), Err(Miss::Content));
        let file = FolderStore::new(folder.path().join("cache/c/sm_80/t.json"));
        assert_eq!(file.put(&one, b"").unwrap_err().0[0].code, "E0053");
    }

    #[test]
    fn entries_that_are_not_whole_are_not_taken() {
        let info = KernelInfo { name: "k".into(), threads: 32, shared_bytes: 0 };
        let kernel = CompiledKernel { info, ptx: ".version 7.8".into(), times: KernelTimes::default() };
        let own = key("c", "sm_80", "t");
        let entry = encode(&own, &kernel);
        assert_eq!(decode(&own, &entry).unwrap().ptx, kernel.ptx);
        assert!(matches!(decode(&key("d", "sm_80", "t"), &entry), Err(Miss::Damaged(_))));
        for length in 0..entry.len() {
            assert!(decode(&own, &entry[..length]).is_err());
        }
        for place in 0..entry.len() {
            let mut bytes = entry.clone();
            bytes[place] ^= 2;
            assert!(decode(&own, &bytes).is_err(), "byte {place}");
        }
    }
}
