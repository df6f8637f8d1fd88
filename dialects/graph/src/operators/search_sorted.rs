//! `graph.search_sorted`: places in a sorted list.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::{arity, dtype_error, shape_error};
use crate::{OperatorKind, SemanticError, TensorType};

/// How many elements of a sorted list are less than each value, i64: operands are the list, ascending, and the values, integers of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchSorted;

impl OperatorKind for SearchSorted {
    const NAME: &'static str = "graph.search_sorted";

    fn read(_: Op<'_>) -> Result<Self, SemanticError> {
        Ok(SearchSorted)
    }

    fn attributes<'s>(&self, _: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        Vec::new()
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [list, values] = arity(Self::NAME, operands)?;
        if list.rank() != 1 {
            return Err(shape_error(Self::NAME, format!("the list must have one dimension, not {list}")));
        }
        if !list.dtype.is_integer() {
            return Err(dtype_error(Self::NAME, "the list", "an integer", list.dtype));
        }
        if values.dtype != list.dtype {
            return Err(dtype_error(Self::NAME, "the values", list.dtype.name(), values.dtype));
        }
        Ok(vec![TensorType::new(DType::I64, values.dims)])
    }
}
