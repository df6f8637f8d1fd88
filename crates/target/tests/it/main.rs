//! Tests that start ptxas and nvdisasm, real or pretended.
#![allow(clippy::unwrap_used)]

mod probe;
mod tools;

use tenon_target::{Architecture, Ptxas, TargetError};

/// The tool, or `None` with a note where it is not installed.
fn installed<T>(located: Result<T, TargetError>) -> Option<T> {
    match located {
        Ok(tool) => Some(tool),
        Err(error @ TargetError::ToolNotFound { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether ptxas is of a release for `architecture`.
fn fits(ptxas: &Ptxas, architecture: &Architecture) -> bool {
    ptxas.check_release(architecture).inspect_err(|error| println!("skipped: {error}")).is_ok()
}
