//! All integration tests of the simulator, in one binary.

#![allow(clippy::unwrap_used, missing_docs)]
// Formulas as the ISA writes them; comparisons that must hold for not-a-number too.
#![allow(clippy::precedence, clippy::manual_checked_ops, clippy::neg_cmp_op_on_partial_ord)]

mod compilers;
mod faults;
mod hopper;
mod hostile;
mod instructions;
mod matrices;
mod ordering;
mod support;
mod tensor_copies;
mod wgmma;
