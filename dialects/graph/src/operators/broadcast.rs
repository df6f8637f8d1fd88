//! `graph.broadcast`: repetition along dimensions.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, dims_attribute};
use crate::operators::{arity, broadcast_dims, dims_of, shape_error};
use crate::requirement::broadcast_requirements;
use crate::{Dim, DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

/// NumPy broadcast to `shape`, two-sided as ONNX Expand: a dimension of 1 in `shape` keeps the input's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// Shape to broadcast with.
    pub shape: Vec<DimExpr>,
}

impl OperatorKind for Broadcast {
    const NAME: &'static str = "graph.broadcast";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Broadcast { shape: Attributes::of(op).dims("shape")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("shape", dims_attribute(&self.shape, context))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if self.shape.len() < input.rank() {
            return Err(shape_error(Self::NAME, format!("{input} has more dimensions than the shape to broadcast to")));
        }
        let known: Vec<_> = input.dims.iter().collect();
        let target = dims_of(Self::NAME, &self.shape, &known)?;
        Ok(vec![TensorType::new(input.dtype, broadcast_dims(Self::NAME, &[&target, &input.dims])?)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let target: Vec<Dim> = self.shape.iter().cloned().map(Dim::of).collect();
        operands.first().map(|input| broadcast_requirements(&[&target, &input.dims])).unwrap_or_default()
    }
}
