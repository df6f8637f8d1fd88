//! `graph.dim`: the extent of a dimension as a value.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::Attributes;
use crate::operators::{arity, axis};
use crate::{OperatorKind, SemanticError, TensorType};

/// Extent of dimension `axis`, an i64 scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimExtent {
    /// The dimension.
    pub axis: i64,
}

impl OperatorKind for DimExtent {
    const NAME: &'static str = "graph.dim";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(DimExtent { axis: Attributes::of(op).integer("axis")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("axis", context.i64(self.axis))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        axis(Self::NAME, self.axis, input.rank())?;
        Ok(vec![TensorType::fixed(DType::I64, &[])])
    }
}
