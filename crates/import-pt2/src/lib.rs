//! The front end for archives of torch.export (`.pt2`).
//!
//! Reading comes first and knows nothing of operators: [`Program::load`] turns a file into a graph and descriptions of weights, or says by
//! code why it cannot. Everything read from a file is untrusted: sizes are checked before anything is allocated, nesting is bounded.
//!
//! - `zip`, `archive`: the file; `schema`: `model.json`; `weights`: slices of the mapped file with strides; `tree`: names of outputs.
//! - `sympy` parses sizes; `schemas` knows the parameters of ATen's operators and their defaults.
//!
//! Then [`import_program`] turns the graph into a module of the graph dialect (`import`), each node by the importer of its operator (`ops`).

mod archive;
mod dtype;
mod error;
mod import;
mod ops;
mod program;
// Messages have what the schema has, used or not.
#[allow(dead_code)]
mod schema;
mod schemas;
mod sympy;
mod tree;
mod weights;
mod zip;

pub use error::{NodeSite, Pt2Error};
pub use import::{ImportOptions, Imported, import_archive, import_program};
pub use ops::{SupportedOperator, operator_table, supported_operators};
pub use program::Program;
