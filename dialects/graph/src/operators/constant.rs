//! `graph.constant`: a small literal.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::Tensor;

use crate::operators::arity;
use crate::{ErrorKind, OperatorKind, SemanticError, TensorType};

/// A literal tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    /// Its value.
    pub value: Tensor,
}

impl OperatorKind for Constant {
    const NAME: &'static str = "graph.constant";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let wrong = || SemanticError::new(ErrorKind::Attribute, Self::NAME, "`value` must be dense elements of the result's type");
        let attribute = op.attribute("value").ok_or_else(wrong)?;
        let ty = TensorType::read(op.result(0).ok_or_else(wrong)?.ty())?;
        let written = TensorType::read(attribute.ty())?;
        if ty.dtype != written.dtype || ty.known_shape() != written.known_shape() {
            return Err(wrong());
        }
        let shape = ty.known_shape().ok_or_else(wrong)?.into_iter().map(|size| size as usize).collect();
        let bytes = attribute.dense_bytes().ok_or_else(wrong)?;
        Ok(Constant { value: Tensor::new(ty.dtype, shape, bytes).map_err(|_| wrong())? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let shape: Vec<u64> = self.value.shape().iter().map(|size| *size as u64).collect();
        TensorType::fixed(self.value.dtype(), &shape)
            .to_type(context)
            .ok()
            .and_then(|ty| context.dense(ty, self.value.bytes()))
            .map(|value| ("value", value))
            .into_iter()
            .collect()
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        arity::<0>(Self::NAME, operands)?;
        let shape: Vec<u64> = self.value.shape().iter().map(|size| *size as u64).collect();
        Ok(vec![TensorType::fixed(self.value.dtype(), &shape)])
    }
}
