//! `graph.normalize`: layer and root-mean-square normalisation.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, keywords};
use crate::operators::{axes, broadcast_dims, dtype_error, shape_error};
use crate::{ErrorKind, OperatorKind, SemanticError, TensorType};

keywords! {
    /// Which statistics.
    NormalizeKind {
        /// (x - mean) / sqrt(variance + epsilon)
        Layer = "layer",
        /// x / sqrt(mean(x²) + epsilon)
        Rms = "rms",
    }
}

/// Normalisation over `axes`, then an optional scale and bias that broadcast to the input. Statistics are taken in f32 (f64 for f64), and
/// so are scale and bias applied before the result is rounded.
///
/// Source: ONNX LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalize {
    /// Which statistics.
    pub kind: NormalizeKind,
    /// Axes that the statistics are taken over.
    pub axes: Vec<i64>,
    /// Added to the variance or mean square.
    pub epsilon: f64,
}

impl OperatorKind for Normalize {
    const NAME: &'static str = "graph.normalize";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Normalize { kind: attributes.keyword("kind")?, axes: attributes.integers("axes")?, epsilon: attributes.float("epsilon")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("kind", context.string(self.kind.name())),
            ("axes", context.i64_array(&self.axes)),
            ("epsilon", context.f64(self.epsilon)),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        if operands.is_empty() || operands.len() > 3 {
            return Err(SemanticError::new(ErrorKind::Arity, Self::NAME, "takes an input, then optionally scale and bias"));
        }
        let input = &operands[0];
        if !input.dtype.is_float() {
            return Err(dtype_error(Self::NAME, "the input", "a float", input.dtype));
        }
        axes(Self::NAME, &self.axes, input.rank())?;
        for operand in &operands[1..] {
            if operand.dtype != input.dtype {
                return Err(dtype_error(Self::NAME, "scale and bias", input.dtype.name(), operand.dtype));
            }
            if broadcast_dims(Self::NAME, &[&input.dims, &operand.dims])?.len() != input.rank() {
                return Err(shape_error(Self::NAME, format!("{operand} does not broadcast to {input}")));
            }
        }
        Ok(vec![TensorType::new(input.dtype, input.dims.clone())])
    }
}
