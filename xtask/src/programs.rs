//! Programs on `PATH`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whether `path` is a file that may be executed.
pub fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The first executable called `name` in the folders of `search`, a value of the form of `PATH`.
pub fn find_in(search: &OsStr, name: &str) -> Option<PathBuf> {
    std::env::split_paths(search).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// The first executable called `name` on this process's `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH").unwrap_or_default(), name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn only_executables_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find_in(folder.path().as_os_str(), "tool"), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(folder.path().as_os_str(), "tool"), Some(path));
        assert_eq!(find_in(folder.path().as_os_str(), "other"), None);
    }
}
