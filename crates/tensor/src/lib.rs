//! Element types, host tensors, `.npy` files, and expressions over named dimensions.
//!
//! This crate knows nothing of graphs, IR or devices: it is the vocabulary that the importer, the reference interpreter, the runtime
//! and the command share when they speak of values.

mod condition;
mod dim_bounds;
mod dim_expr;
mod dtype;
mod error;
mod npy;
mod npy_header;
mod scalar;
mod tensor;

pub use condition::{Condition, Relation};
pub use dim_expr::DimExpr;
pub use dtype::{DType, NumberKind, UnknownDType};
pub use error::{NpyError, TensorError};
pub use npy::{read_npy, read_npy_as, read_npy_from, write_npy, write_npy_to};
pub use scalar::{E8m0Rounding, Overflow, decode_float, encode_e8m0, encode_float, encode_float_with};
pub use tensor::{Tensor, byte_count, element_count};
