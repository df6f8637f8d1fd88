//! Interpreter of the graph dialect.
//!
//! Two readings of the same program ([`Mode`]):
//!
//! - **Typed**: what a correct compilation computes, up to the order inside sums. Every operator computes in f32 (f64 for f64, integers
//!   modulo their width) and rounds once, to the element type of its result. Contractions and convolutions sum in their `accumulate` type;
//!   reductions, softmax, normalisation and attention of types narrower than f32 sum in f32. The order of every sum is declared: one
//!   term after another, in row-major order of what is summed over, product and sum rounded separately.
//! - **F64**: the function itself. Floats are carried as f64 and never rounded to a narrower type, so results of float types are f64
//!   tensors, whatever type is declared. Integers are as in the typed reading.
//!
//! Elementary functions (exp, erf, …) are evaluated in f64 and rounded; in the typed reading they are therefore within half a unit in
//! the last place and a little.
//!
//! [`evaluate`] runs one operator on tensors, [`Interpreter`] a function of a module. Shapes are fixed numbers; symbolic ones are
//! refused. Invariants: operand and result types are checked against the operator's own inference before anything is computed, so the
//! code of an operator may rely on them; no value is made whose size was not bounded before.

mod array;
mod error;
mod evaluate;
mod flow;
mod interpreter;
mod number;
mod operators;
mod shape;

pub use error::{ReferenceError, ReferenceErrorKind};
pub use evaluate::evaluate;
pub use interpreter::{Interpreter, run_function};

/// How floats are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every operator rounds to the element type of its result.
    Typed,
    /// Floats are f64 throughout, results included.
    F64,
}

/// Largest value, in bytes of the interpreter's own memory (four a float, eight in [`Mode::F64`] and for integers).
pub const MAX_VALUE_BYTES: u64 = 1 << 31;

/// Largest sum of all values that are alive at one time in an [`Interpreter`], in bytes.
pub const MAX_LIVE_BYTES: u64 = 1 << 34;
