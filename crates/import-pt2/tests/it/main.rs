//! The importer from outside: one binary, since each links all of MLIR.
#![allow(clippy::unwrap_used)]

mod archives;
mod damage;
mod large;
mod operator_table;
mod refusals;

use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pt2")
}
