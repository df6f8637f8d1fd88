//! `graph.softmax`: exp(x - max) / sum(exp(x - max)) along an axis.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, push_flag};
use crate::operators::{arity, axis, dtype_error};
use crate::{OperatorKind, SemanticError, TensorType};

/// Softmax, or its logarithm; f16 and bf16 compute in f32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softmax {
    /// The axis.
    pub axis: i64,
    /// Logarithm of the softmax.
    pub log: bool,
}

impl OperatorKind for Softmax {
    const NAME: &'static str = "graph.softmax";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Softmax { axis: attributes.integer("axis")?, log: attributes.flag("log") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("axis", context.i64(self.axis))];
        push_flag(&mut list, "log", self.log, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if !input.dtype.is_float() {
            return Err(dtype_error(Self::NAME, "the input", "a float", input.dtype));
        }
        axis(Self::NAME, self.axis, input.rank())?;
        Ok(vec![TensorType::new(input.dtype, input.dims)])
    }
}
