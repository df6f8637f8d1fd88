//! `graph.cast`: conversion of the element type.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::arity;
use crate::operators::attributes::{Attributes, push_flag};
use crate::{OperatorKind, SemanticError, TensorType};

/// Conversion to `dtype`: float to integer truncates, float to float rounds to nearest even, anything to `i1` compares with zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// Element type of the result.
    pub dtype: DType,
    /// Clamp to the largest finite value of a float8 type (ONNX Cast, opset 19).
    pub saturate: bool,
}

impl OperatorKind for Cast {
    const NAME: &'static str = "graph.cast";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Cast { dtype: attributes.result_dtype()?, saturate: attributes.flag("saturate") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = Vec::new();
        push_flag(&mut list, "saturate", self.saturate, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [mut input] = arity(Self::NAME, operands)?;
        input.dtype = self.dtype;
        Ok(vec![input])
    }
}
