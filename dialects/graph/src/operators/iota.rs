//! `graph.iota`: 0, 1, 2, … along one dimension.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, dims_attribute};
use crate::operators::{arity, axis, dims_of};
use crate::{DimExpr, OperatorKind, SemanticError, TensorType};

/// The index along `axis`, in every place of `shape`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iota {
    /// Element type of the result.
    pub dtype: DType,
    /// Shape of the result.
    pub shape: Vec<DimExpr>,
    /// Dimension that is counted.
    pub axis: i64,
}

impl OperatorKind for Iota {
    const NAME: &'static str = "graph.iota";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Iota { dtype: attributes.result_dtype()?, shape: attributes.dims("shape")?, axis: attributes.integer("axis")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("shape", dims_attribute(&self.shape, context)), ("axis", context.i64(self.axis))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        arity::<0>(Self::NAME, operands)?;
        axis(Self::NAME, self.axis, self.shape.len())?;
        Ok(vec![TensorType::new(self.dtype, dims_of(Self::NAME, &self.shape, &[])?)])
    }
}
