//! The Debian packages that Tenon builds with, each with the files by which its presence is judged.

use crate::error::{Error, Result};
use crate::programs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A Debian package.
#[derive(Debug)]
pub struct Package {
    /// The name that apt knows.
    pub name: &'static str,
    files: &'static [Found],
}

/// How one file of a package is looked for.
#[derive(Debug)]
enum Found {
    /// A path below the prefix of LLVM.
    Llvm(&'static str),
    /// A path below the root of the file system.
    Root(&'static str),
    /// An executable on `PATH`.
    Program(&'static str),
}

use Found::{Llvm, Program, Root};

/// Every package, in the order in which they are named to apt.
pub const PACKAGES: &[Package] = &[
    Package {
        name: "llvm-22-dev",
        files: &[Llvm("bin/llvm-config"), Llvm("lib/libLLVM.so"), Llvm("include/llvm-c/Core.h")],
    },
    Package {
        name: "libmlir-22-dev",
        files: &[Llvm("lib/libMLIRIR.a"), Llvm("lib/libMLIRCAPIIR.a"), Llvm("include/mlir-c/IR.h")],
    },
    Package { name: "mlir-22-tools", files: &[Llvm("bin/mlir-tblgen"), Llvm("bin/mlir-opt")] },
    Package { name: "libclang-22-dev", files: &[Llvm("lib/libclang.so"), Llvm("include/clang-c/Index.h")] },
    Package { name: "libpolly-22-dev", files: &[Llvm("lib/libPolly.a")] },
    Package { name: "libzstd-dev", files: &[Root("usr/include/zstd.h")] },
    Package { name: "libz3-dev", files: &[Root("usr/include/z3.h")] },
    Package { name: "libxml2-dev", files: &[Root("usr/include/libxml2/libxml/parser.h")] },
    Package { name: "zlib1g-dev", files: &[Root("usr/include/zlib.h")] },
    Package { name: "g++", files: &[Program("g++")] },
];

impl Package {
    /// Whether some of its files are looked for below the prefix of LLVM.
    pub fn in_prefix(&self) -> bool {
        self.files.iter().any(|file| matches!(file, Llvm(_)))
    }
}

/// Where Debian's packages put LLVM 22.
const DEBIAN_PREFIX: &str = "usr/lib/llvm-22";

/// The variables by which the crates that bind LLVM find it; `.cargo/config.toml` sets all three to Debian's prefix.
pub const PREFIX_VARIABLES: [&str; 3] = ["MLIR_SYS_220_PREFIX", "TABLEGEN_220_PREFIX", "LLVM_SYS_221_PREFIX"];

/// The root below which system files are looked for, `/` unless a test sets it.
const ROOT_VARIABLE: &str = "TENON_SETUP_ROOT";

/// The machine that is looked at.
pub struct Host {
    root: PathBuf,
    /// The prefix of LLVM where it is not Debian's.
    prefix: Option<PathBuf>,
    path: OsString,
}

impl Host {
    /// This machine, as the environment describes it.
    pub fn from_environment() -> Result<Host> {
        let set: Vec<PathBuf> = PREFIX_VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
        if set.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(Error::Failed(format!(
                "{} name different folders: the crates that read them must use one LLVM; unset them or make them equal",
                PREFIX_VARIABLES.join(", ")
            )));
        }
        let root = std::env::var_os(ROOT_VARIABLE).map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let prefix = set.into_iter().next().filter(|prefix| *prefix != Path::new("/").join(DEBIAN_PREFIX));
        Ok(Host { root, prefix, path: std::env::var_os("PATH").unwrap_or_default() })
    }

    /// The prefix of LLVM if it is not the one that Debian's packages fill.
    pub fn foreign_prefix(&self) -> Option<&Path> {
        self.prefix.as_deref()
    }

    /// The packages of which a file is not there.
    pub fn missing(&self) -> Vec<&'static Package> {
        PACKAGES.iter().filter(|package| !self.first_missing_file(package).is_empty()).collect()
    }

    /// The first file of `package` that is not there; empty when all are.
    pub fn first_missing_file(&self, package: &Package) -> String {
        package.files.iter().find_map(|file| self.lacks(file)).unwrap_or_default()
    }

    fn lacks(&self, file: &Found) -> Option<String> {
        let path = match file {
            Llvm(path) => self.prefix.clone().unwrap_or_else(|| self.root.join(DEBIAN_PREFIX)).join(path),
            Root(path) => self.root.join(path),
            Program(name) => {
                return programs::find_in(&self.path, name).is_none().then(|| format!("{name} on PATH"));
            }
        };
        (!path.exists()).then(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn each_package_is_missed_by_each_of_its_files() {
        let root = tempfile::tempdir().unwrap();
        let host = Host { root: root.path().into(), prefix: None, path: root.path().join("bin").into() };
        assert_eq!(host.missing().len(), PACKAGES.len());
        for package in PACKAGES {
            for file in package.files {
                assert!(!host.first_missing_file(package).is_empty(), "{} needs all its files", package.name);
                let path = match file {
                    Llvm(path) => root.path().join(DEBIAN_PREFIX).join(path),
                    Root(path) => root.path().join(path),
                    Program(name) => root.path().join("bin").join(name),
                };
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            assert_eq!(host.first_missing_file(package), "", "{}", package.name);
        }
        assert!(host.missing().is_empty());
    }

    #[test]
    fn a_prefix_of_its_own_is_looked_at_instead_of_debians() {
        let host = Host { root: "/".into(), prefix: Some("/nonexistent/llvm".into()), path: OsString::new() };
        let llvm = &PACKAGES[0];
        assert_eq!(host.first_missing_file(llvm), "/nonexistent/llvm/bin/llvm-config");
        assert!(llvm.in_prefix());
    }
}
