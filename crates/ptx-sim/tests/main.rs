//! All integration tests of the simulator, in one binary.

#![allow(clippy::unwrap_used, missing_docs)]

mod compilers;
mod faults;
mod hostile;
mod instructions;
mod support;
