//! The Tenon compiler as a library, and the command `tenon` on top of it.
//!
//! - [`stage`]: the stages, in one table. [`passes`]: which passes run in which stage, one line a pass.
//! - [`driver`]: from a model or a dump through the stages; dumps; compiled programs.
//! - [`assembly`]: what ptxas makes of a program's kernels.
//! - [`benchmark`]: kernels whose code is compared with published figures.
//! - [`validators`]: rules in code beside the recipe's clauses, one line a rule.
//! - [`bundle`]: one file with everything of a compiled model, written and loaded.
//! - [`verify`]: what is checked of a bundle beside its hashes.
//! - [`bisect`](mod@bisect): the first rewrite after which a graph leaves the numeric promise.
//! - [`diff`]: what differs between two graphs or bundles.
//! - [`Diagnostic`]: what every refusal becomes, for people and for machines.
//! - [`conformance`]: the ONNX backend tests, in worker processes, against expected results.
//! - [`command`]: the command line.
//!
//! Invariant: each fault that an input can cause ends in a [`Diagnostic`] with a stable code.

pub mod assembly;
pub mod benchmark;
pub mod bisect;
pub mod bundle;
pub mod command;
pub mod conformance;
mod diagnostic;
pub mod diff;
pub mod driver;
mod error_pages;
pub mod passes;
pub mod stage;
pub mod validators;
pub mod verify;
mod weights;

pub use diagnostic::{Diagnostic, Failure, SourceText};
pub use error_pages::error_pages;
pub use weights::read_weights;
