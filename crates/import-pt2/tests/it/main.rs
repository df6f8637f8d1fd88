//! The importer from outside: one binary, since each links all of MLIR.
#![allow(clippy::unwrap_used)]

mod archives;
mod damage;
mod guards;
mod large;
mod operator_table;
mod quantized;
mod refusals;
mod regions;

use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pt2")
}
