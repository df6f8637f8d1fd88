//! `graph.quantize` and `graph.dequantize`.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::Attributes;
use crate::operators::{axis, dtype_error, shape_error};
use crate::{ErrorKind, OperatorKind, SemanticError, TensorType};

/// saturate(round_half_even(x / scale) + zero_point); operands x, scale, zero point. Source: ONNX QuantizeLinear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantize {
    /// Element type of the result.
    pub dtype: DType,
    /// Axis of per-axis and blocked scales.
    pub axis: i64,
    /// Elements along the axis that share a scale; 0: per axis, or per tensor for scalar scales.
    pub block_size: i64,
}

/// (x - zero_point) · scale; operands x, scale, zero point. Source: ONNX DequantizeLinear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequantize {
    /// Element type of the result.
    pub dtype: DType,
    /// Axis of per-axis and blocked scales.
    pub axis: i64,
    /// Elements along the axis that share a scale; 0: per axis, or per tensor for scalar scales.
    pub block_size: i64,
}

fn check(operator: &str, operands: &[TensorType], operand_axis: i64, block_size: i64) -> Result<TensorType, SemanticError> {
    let [input, scale, zero_point] = operands else {
        return Err(SemanticError::new(ErrorKind::Arity, operator, "takes x, scale and zero point"));
    };
    if !scale.dtype.is_float() {
        return Err(dtype_error(operator, "the scale", "a float", scale.dtype));
    }
    if scale.dims != zero_point.dims {
        return Err(shape_error(operator, format!("scale {scale} and zero point {zero_point} differ in shape")));
    }
    let fits = if block_size > 0 {
        axis(operator, operand_axis, input.rank())?;
        scale.rank() == input.rank()
    } else {
        match scale.rank() {
            0 => true,
            1 => {
                let axis = axis(operator, operand_axis, input.rank().max(1));
                scale.dims[0].is_one() || axis.is_ok_and(|axis| input.dims.get(axis).is_some_and(|dim| !dim.differs(&scale.dims[0])))
            }
            _ => false,
        }
    };
    if fits { Ok(input.clone()) } else { Err(shape_error(operator, format!("scale {scale} does not fit input {input}"))) }
}

macro_rules! quantization {
    ($name:ident, $op:literal, $quantized:expr) => {
        impl OperatorKind for $name {
            const NAME: &'static str = $op;

            fn read(op: Op<'_>) -> Result<Self, SemanticError> {
                let attributes = Attributes::of(op);
                Ok($name {
                    dtype: attributes.result_dtype()?,
                    axis: attributes.integer("axis")?,
                    block_size: attributes.integer("block_size")?,
                })
            }

            fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
                vec![("axis", context.i64(self.axis)), ("block_size", context.i64(self.block_size))]
            }

            fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
                let input = check(Self::NAME, operands, self.axis, self.block_size)?;
                let quantized = if $quantized { self.dtype } else { input.dtype };
                if operands[2].dtype != quantized {
                    return Err(dtype_error(Self::NAME, "the zero point", quantized.name(), operands[2].dtype));
                }
                Ok(vec![TensorType::new(self.dtype, input.dims)])
            }
        }
    };
}

quantization!(Quantize, "graph.quantize", true);
quantization!(Dequantize, "graph.dequantize", false);
