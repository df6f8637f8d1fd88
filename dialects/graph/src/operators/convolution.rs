//! `graph.convolution`: convolution and its transpose, 1-D to n-D.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, push_flag};
use crate::operators::{arity, attribute_error, dtype_error, shape_error, too_large, window_attributes, window_count};
use crate::{DimExpr, OperatorKind, SemanticError, TensorType};

/// Input `[N, C, D…]`, weight `[O, C/groups, K…]` (transposed: `[C, O/groups, K…]`), result `[N, O, D'…]`.
///
/// Source: ONNX Conv and ConvTranspose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// Type that products are summed in.
    pub accumulate: DType,
    /// Element type of the result.
    pub dtype: DType,
    /// Step of the window, one a spatial dimension (transposed: of the output).
    pub strides: Vec<i64>,
    /// Distance of window elements.
    pub dilations: Vec<i64>,
    /// Padding before (transposed: cropping of the output); negative crops.
    pub pad_begin: Vec<i64>,
    /// Padding after.
    pub pad_end: Vec<i64>,
    /// Groups of channels that do not mix.
    pub groups: i64,
    /// Whether it is the transpose (gradient) of a convolution.
    pub transposed: bool,
    /// Extra size at the end of a transposed result.
    pub output_padding: Vec<i64>,
}

impl OperatorKind for Convolution {
    const NAME: &'static str = "graph.convolution";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        let strides = attributes.integers("strides")?;
        let output_padding = match op.attribute("output_padding") {
            Some(_) => attributes.integers("output_padding")?,
            None => vec![0; strides.len()],
        };
        Ok(Convolution {
            accumulate: attributes.dtype("accumulate")?,
            dtype: attributes.result_dtype()?,
            strides,
            dilations: attributes.integers("dilations")?,
            pad_begin: attributes.integers("pad_begin")?,
            pad_end: attributes.integers("pad_end")?,
            groups: attributes.integer("groups")?,
            transposed: attributes.flag("transposed"),
            output_padding,
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![
            ("accumulate", context.type_attribute(context.element_type(self.accumulate))),
            ("strides", context.i64_array(&self.strides)),
            ("dilations", context.i64_array(&self.dilations)),
            ("pad_begin", context.i64_array(&self.pad_begin)),
            ("pad_end", context.i64_array(&self.pad_end)),
            ("groups", context.i64(self.groups)),
        ];
        push_flag(&mut list, "transposed", self.transposed, context);
        if self.output_padding.iter().any(|padding| *padding != 0) {
            list.push(("output_padding", context.i64_array(&self.output_padding)));
        }
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input, weight] = arity(Self::NAME, operands)?;
        let name = Self::NAME;
        if input.rank() < 3 || weight.rank() != input.rank() {
            return Err(shape_error(name, format!("input {input} and weight {weight} must have one rank of at least 3")));
        }
        if input.dtype != weight.dtype && !(input.dtype.is_integer() && weight.dtype.is_integer()) {
            return Err(dtype_error(name, "the weight", input.dtype.name(), weight.dtype));
        }
        let spatial = input.rank() - 2;
        let weight_shape = weight.known_shape().ok_or_else(|| shape_error(name, format!("weight {weight} must have a fixed shape")))?;
        let kernel = weight_shape[2..]
            .iter()
            .map(|size| i64::try_from(*size).ok().filter(|size| *size > 0))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| shape_error(name, format!("weight {weight} has an empty window")))?;
        window_attributes(
            name,
            spatial,
            [("strides", &self.strides, 1), ("dilations", &self.dilations, 1), ("output_padding", &self.output_padding, 0)],
            [&self.pad_begin, &self.pad_end],
        )?;
        let groups = u64::try_from(self.groups).ok().filter(|groups| *groups > 0);
        let groups = groups.ok_or_else(|| attribute_error(name, "`groups` must be positive"))?;
        let channels = input.dims[1].known().ok_or_else(|| shape_error(name, format!("the channels of {input} must be fixed")))?;
        let (expected, outputs) = if self.transposed {
            (weight_shape[0], weight_shape[1].checked_mul(groups).ok_or_else(|| too_large(name))?)
        } else {
            (weight_shape[1].checked_mul(groups).ok_or_else(|| too_large(name))?, weight_shape[0])
        };
        if expected != channels || channels % groups != 0 || outputs % groups != 0 {
            return Err(shape_error(name, format!("input {input} and weight {weight} do not fit in {groups} groups")));
        }
        let mut dims = vec![input.dims[0].clone(), crate::Dim::fixed(outputs)];
        for index in 0..spatial {
            let dim = &input.dims[index + 2];
            let (stride, dilation) = (self.strides[index], self.dilations[index]);
            let pads = (self.pad_begin[index], self.pad_end[index]);
            dims.push(if self.transposed {
                let reach = dilation.checked_mul(kernel[index] - 1).ok_or_else(|| too_large(name))?;
                let extra = reach + 1 + self.output_padding[index] - pads.0 - pads.1;
                dim.map(|size| {
                    size.sub(&DimExpr::constant(1))?.mul(&DimExpr::constant(stride))?.add(&DimExpr::constant(extra))
                })
                .ok_or_else(|| too_large(name))?
            } else {
                window_count(name, dim, kernel[index], stride, dilation, pads, false)?
            });
        }
        Ok(vec![TensorType::new(self.dtype, dims)])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dim;

    fn conv() -> Convolution {
        Convolution {
            accumulate: DType::F32,
            dtype: DType::F32,
            strides: vec![2, 2],
            dilations: vec![1, 1],
            pad_begin: vec![3, 3],
            pad_end: vec![3, 3],
            groups: 1,
            transposed: false,
            output_padding: vec![0, 0],
        }
    }

    #[test]
    fn sizes_of_both_directions() {
        let x = TensorType::fixed(DType::F32, &[1, 3, 224, 224]);
        let w = TensorType::fixed(DType::F32, &[64, 3, 7, 7]);
        assert_eq!(conv().infer(&[x.clone(), w.clone()]).unwrap(), [TensorType::fixed(DType::F32, &[1, 64, 112, 112])]);
        let symbolic = TensorType::new(DType::F32, vec![Dim::fixed(1), Dim::fixed(3), Dim::of(DimExpr::symbol("h")), Dim::fixed(8)]);
        let result = conv().infer(&[symbolic, w.clone()]).unwrap();
        assert_eq!(result[0].dims[2].extent, DimExpr::parse("floordiv(h-1,2)+1").unwrap());
        let transposed = Convolution { transposed: true, pad_begin: vec![0, 0], pad_end: vec![0, 0], ..conv() };
        let w = TensorType::fixed(DType::F32, &[3, 5, 2, 2]);
        assert_eq!(transposed.infer(&[x.clone(), w]).unwrap(), [TensorType::fixed(DType::F32, &[1, 5, 448, 448])]);
        let grouped = Convolution { groups: 2, ..conv() };
        let w = TensorType::fixed(DType::F32, &[64, 3, 7, 7]);
        assert_eq!(grouped.infer(&[x, w]).unwrap_err().code(), "E0303");
    }
}
