//! A store of kernels under a URL, which the machines of a build farm share. Entries lie as in a folder: `CONTENT/ARCHITECTURE/COMPILER.json`.

use tenon_object_storage::{Storage, StorageError};

use crate::driver::store::{KernelKey, KernelStore, Miss, miss};
use crate::{Diagnostic, Failure};

/// A store of kernels at the place that a URL names.
#[derive(Debug)]
pub struct RemoteStore {
    storage: Storage,
}

fn refused(error: &StorageError) -> Failure {
    let help = "check the URL and what the environment says about the account, or leave --cache out";
    Diagnostic::new("E0053", error.to_string()).with_help(help).into()
}

impl RemoteStore {
    /// Opens the store; nothing is read or written yet.
    ///
    /// # Errors
    /// E0053: the URL names no store.
    pub fn open(url: &str) -> Result<Self, Failure> {
        let storage = Storage::open(url).map_err(|error| refused(&error))?;
        Ok(RemoteStore { storage })
    }
}

impl KernelStore for RemoteStore {
    fn get(&self, key: &KernelKey) -> Result<Result<Vec<u8>, Miss>, Failure> {
        let of_architecture = format!("{}/{}", key.content, key.architecture);
        let place = format!("{of_architecture}/{}.json", key.compiler);
        if let Some(entry) = self.storage.get(&place).map_err(|error| refused(&error))? {
            return Ok(Ok(entry.to_vec()));
        }
        let names = |folder: &str| self.storage.names(folder).map_err(|error| refused(&error));
        miss(key, names(&key.content)?, || names(&of_architecture)).map(Err)
    }

    fn put(&self, key: &KernelKey, entry: &[u8]) -> Result<(), Failure> {
        let place = format!("{}/{}/{}.json", key.content, key.architecture, key.compiler);
        self.storage.put(&place, entry.to_vec().into()).map_err(|error| refused(&error))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_store_says_of_misses_what_is_new() {
        let key = |content: &str, architecture: &str, compiler: &str| KernelKey {
            content: content.into(),
            architecture: architecture.into(),
            compiler: compiler.into(),
        };
        let folder = tempfile::tempdir().unwrap();
        let store = RemoteStore::open(&format!("file://{}", folder.path().display())).unwrap();
        let one = key("c", "sm_80", "t");
        assert_eq!(store.get(&one).unwrap(), Err(Miss::Content));
        store.put(&one, b"entry").unwrap();
        assert_eq!(store.get(&one).unwrap(), Ok(b"entry".to_vec()));
        assert_eq!(store.get(&key("c", "sm_90a", "t")).unwrap(), Err(Miss::Architecture(vec!["sm_80".into()])));
        assert_eq!(store.get(&key("c", "sm_80", "u")).unwrap(), Err(Miss::Compiler));
        assert_eq!(RemoteStore::open("ftp://host").unwrap_err().0[0].code, "E0053");
    }
}
