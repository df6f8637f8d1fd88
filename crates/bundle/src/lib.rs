//! The bundle: one file with everything that a compiled model needs, bound by hashes.
//!
//! - [`Manifest`]: what the bundle was made from and for, and which parts belong together, by content.
//! - `container`: header, manifest and parts in one file. [`Writer`] makes it, whole or not at all; [`Bundle`] maps it and checks it.
//! - [`Weights`]: tensors as one safetensors part, each under the hash of its content, so that equal ones are stored once.
//!
//! Invariants: the bytes of a bundle follow from its manifest and parts alone; every byte of an opened bundle has been checked, so that what
//! is taken from it is what was put in; what differs is named.

mod container;
mod error;
mod manifest;
mod weights;

pub use container::{Bundle, FORMAT, Part, Writer, file_name};
pub use error::BundleError;
pub use manifest::{
    Compiler, CustomOpRecord, Identity, KernelRecord, Manifest, ModelRecord, PartRecord, ProgramRecord, RecipeRecord,
    TargetRecord, WeightRecord,
};
pub use weights::{Weights, read_weights};

use sha2::{Digest, Sha256};

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
