//! `graph.bitcast`: the same bits as another element type.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::Attributes;
use crate::operators::{arity, dtype_error};
use crate::{OperatorKind, SemanticError, TensorType};

/// The bits of each element as an element of `dtype`, which has as many; `i1` counts as eight bits, 0 or 1. Source: ONNX BitCast, opset 26.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitcast {
    /// Element type of the result.
    pub dtype: DType,
}

impl OperatorKind for Bitcast {
    const NAME: &'static str = "graph.bitcast";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Bitcast { dtype: Attributes::of(op).result_dtype()? })
    }

    fn attributes<'s>(&self, _: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        Vec::new()
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [mut input] = arity(Self::NAME, operands)?;
        let bits = |dtype: DType| if dtype == DType::Bool { 8 } else { dtype.bits() };
        if bits(input.dtype) != bits(self.dtype) {
            let expected = format!("of {} bits, as {} is", bits(self.dtype), self.dtype);
            return Err(dtype_error(Self::NAME, "the operand", &expected, input.dtype));
        }
        input.dtype = self.dtype;
        Ok(vec![input])
    }
}
