//! `graph.attention`: scaled dot-product attention.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, push_flag};
use crate::operators::{broadcast_dims, dtype_error, shape_error};
use crate::{ErrorKind, OperatorKind, SemanticError, TensorType};

/// softmax(scale · q kᵀ + mask) v; q `[B, H, T, D]`, k `[B, G, S, D]`, v `[B, G, S, E]`, H a multiple of G, mask broadcast to `[B, H, T, S]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: f64,
    /// Query i sees keys up to i.
    pub causal: bool,
}

impl OperatorKind for Attention {
    const NAME: &'static str = "graph.attention";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Attention { scale: attributes.float("scale")?, causal: attributes.flag("causal") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("scale", context.f64(self.scale))];
        push_flag(&mut list, "causal", self.causal, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let (q, k, v) = match operands {
            [q, k, v] | [q, k, v, _] => (q, k, v),
            _ => return Err(SemanticError::new(ErrorKind::Arity, Self::NAME, "takes q, k, v and optionally a mask")),
        };
        if operands.iter().any(|operand| operand.dtype != q.dtype) || !q.dtype.is_float() {
            return Err(dtype_error(Self::NAME, "every operand", "one float type", q.dtype));
        }
        if [q, k, v].iter().any(|operand| operand.rank() != 4) {
            return Err(shape_error(Self::NAME, "q, k and v must have rank 4"));
        }
        let groups = match (q.dims[1].known(), k.dims[1].known()) {
            (Some(heads), Some(groups)) => groups != 0 && heads % groups == 0,
            _ => !q.dims[1].differs(&k.dims[1]),
        };
        if q.dims[3].differs(&k.dims[3]) || k.dims[2].differs(&v.dims[2]) || k.dims[1].differs(&v.dims[1]) || !groups {
            return Err(shape_error(Self::NAME, format!("q {q}, k {k} and v {v} do not fit together")));
        }
        let dims = vec![q.dims[0].clone(), q.dims[1].clone(), q.dims[2].clone(), v.dims[3].clone()];
        if let Some(mask) = operands.get(3) {
            let scores = [q.dims[0].clone(), q.dims[1].clone(), q.dims[2].clone(), k.dims[2].clone()];
            broadcast_dims(Self::NAME, &[&scores, &mask.dims])?;
        }
        Ok(vec![TensorType::new(q.dtype, dims)])
    }
}
