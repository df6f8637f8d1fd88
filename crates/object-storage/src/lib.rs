//! Small objects kept by name under a URL: `file:///folder`, and with the feature `cloud` `s3://bucket/prefix`, `gs://`, `az://`, `https://`.
//!
//! A name is a relative path of plain segments. An object appears under its name whole or not at all; of two that are put at once one stays.
//! Calls block until they are done, from any number of threads. A request takes at most half a minute before it counts as failed. What opens a store of a cloud comes
//! from the environment, under the names that the cloud's own tools use (`AWS_ACCESS_KEY_ID`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`, …).

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// How long a request and a connection may take.
const LIMITS: [(&str, &str); 2] = [("timeout", "30s"), ("connect_timeout", "10s")];

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The URL is none, or of a kind that this build has no store for.
    #[error("`{url}` names no store: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store refuses, or cannot be reached.
    #[error("{url}: {reason}")]
    Refused {
        /// The store.
        url: String,
        /// What it says.
        reason: String,
    },
}

/// Objects under a URL.
#[derive(Debug)]
pub struct Storage {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
    url: String,
}

impl Storage {
    /// Opens the store that a URL names. Nothing is read or written yet.
    ///
    /// # Errors
    /// [`StorageError::Url`]; [`StorageError::Refused`] where what the environment says does not open the store.
    pub fn open(url: &str) -> Result<Self, StorageError> {
        let no_store = |reason: String| StorageError::Url { url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|error| no_store(error.to_string()))?;
        let is_of_cloud = |name: &str| ["aws_", "azure_", "google_"].iter().any(|cloud| name.starts_with(cloud));
        let options = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.to_str()?.to_ascii_lowercase(), value.into_string().ok()?)))
            .filter(|(name, _)| is_of_cloud(name))
            .chain(LIMITS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let (store, prefix) =
            object_store::parse_url_opts(&parsed, options).map_err(|error| no_store(error.to_string()))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| StorageError::Refused { url: url.to_owned(), reason: error.to_string() })?;
        Ok(Storage { store, prefix, runtime, url: url.to_owned() })
    }

    /// The URL that it was opened by.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn place(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn refused(&self, error: &object_store::Error) -> StorageError {
        StorageError::Refused { url: self.url.clone(), reason: error.to_string() }
    }

    /// An object, or nothing where there is none of that name.
    ///
    /// # Errors
    /// [`StorageError::Refused`].
    pub fn get(&self, name: &str) -> Result<Option<Bytes>, StorageError> {
        let read = async { self.store.get(&self.place(name)).await?.bytes().await };
        match self.runtime.block_on(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Keeps an object, in place of one of the same name.
    ///
    /// # Errors
    /// [`StorageError::Refused`].
    pub fn put(&self, name: &str, bytes: Bytes) -> Result<(), StorageError> {
        let place = self.place(name);
        let write = self.store.put(&place, bytes.into());
        self.runtime.block_on(write).map(|_| ()).map_err(|error| self.refused(&error))
    }

    /// Names directly under `folder`, of objects and of folders, in order. None where there is no such folder.
    ///
    /// # Errors
    /// [`StorageError::Refused`].
    pub fn names(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let place = self.place(folder);
        match self.runtime.block_on(self.store.list_with_delimiter(Some(&place))) {
            Ok(found) => {
                let objects = found.objects.iter().map(|object| &object.location);
                let mut names: Vec<String> = objects
                    .chain(&found.common_prefixes)
                    .filter_map(|path| Some(path.filename()?.to_owned()))
                    .collect();
                names.sort();
                Ok(names)
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.refused(&error)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_kept_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Storage::open(&format!("file://{}/cache", folder.path().display())).unwrap();
        assert_eq!(store.get("a/b.json").unwrap(), None);
        assert_eq!(store.names("a").unwrap(), Vec::<String>::new());
        store.put("a/b.json", Bytes::from_static(b"one")).unwrap();
        store.put("a/b.json", Bytes::from_static(b"two")).unwrap();
        store.put("a/c/d.json", Bytes::from_static(b"three")).unwrap();
        assert_eq!(store.get("a/b.json").unwrap().unwrap(), "two");
        assert_eq!(store.names("a").unwrap(), ["b.json", "c"]);
        assert_eq!(std::fs::read(folder.path().join("cache/a/c/d.json")).unwrap(), b"three");
    }

    #[test]
    fn many_threads_use_one_store() {
        let store = Storage::open("memory:///").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    for index in 0..32 {
                        let name = format!("{}/{index}", thread % 2);
                        store.put(&name, Bytes::from(name.clone())).unwrap();
                        assert_eq!(store.get(&name).unwrap().unwrap(), name);
                    }
                });
            }
        });
        assert_eq!(store.names("1").unwrap().len(), 32);
    }

    #[test]
    fn what_cannot_be_opened_or_written_is_refused() {
        for url in ["", "cache", "ftp://host/x"] {
            assert!(matches!(Storage::open(url), Err(StorageError::Url { .. })), "{url}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let store = Storage::open(&format!("file://{}/file", folder.path().display())).unwrap();
        assert!(matches!(store.put("a/b", Bytes::new()), Err(StorageError::Refused { .. })));
    }
}
