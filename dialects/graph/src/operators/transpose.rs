//! `graph.transpose`: dimensions in another order.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::Attributes;
use crate::operators::{arity, attribute_error};
use crate::{OperatorKind, SemanticError, TensorType};

/// Dimension i of the result is dimension `permutation[i]` of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transpose {
    /// A permutation of the input's dimensions.
    pub permutation: Vec<i64>,
}

impl OperatorKind for Transpose {
    const NAME: &'static str = "graph.transpose";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Transpose { permutation: Attributes::of(op).integers("permutation")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("permutation", context.i64_array(&self.permutation))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().ne(0..input.rank() as i64) {
            return Err(attribute_error(Self::NAME, format!("{:?} is no permutation of rank {}", self.permutation, input.rank())));
        }
        let dims = self.permutation.iter().map(|index| input.dims[*index as usize].clone()).collect();
        Ok(vec![TensorType::new(input.dtype, dims)])
    }
}
