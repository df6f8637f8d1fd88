//! The importer from outside: one binary, since each links all of MLIR.
#![allow(clippy::unwrap_used)]

mod attention;
mod common;
mod conformance;
mod control_flow;
mod damage;
mod files;
mod import_models;
mod importing;
mod indices;
mod operator_table;
mod reading;
mod refusals;
mod signal;
