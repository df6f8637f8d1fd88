//! Runs passes.
//!
//! A [`Pass`] transforms a module and knows nothing else. The [`Runner`] alone decides whether it runs, checks what it needs, verifies the
//! module after it, hands out the text before and after, measures time, and keeps the counters and remarks that the pass left in its
//! [`PassContext`].
//!
//! Invariants: after every pass the module verifies, by MLIR and by the semantic checks of the dialects; a pass asks the context before
//! each rewrite, so that a run can stop after any number of them.

mod check;
mod context;
mod error;
mod pass;
mod property;
mod runner;

pub use check::{Finding, check};
pub use context::{LastRewrite, PassContext, Remark};
pub use error::{PassError, Refusal};
pub use pass::Pass;
pub use property::Property;
pub use runner::{Dump, DumpPoint, Options, Report, Runner, Timing, nearest, verify};
