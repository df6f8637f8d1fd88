//! `graph.window`: pooling.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, keywords, push_flag};
use crate::operators::{arity, dtype_error, shape_error, window_attributes, window_count};
use crate::{OperatorKind, SemanticError, TensorType};

keywords! {
    /// How a window becomes one element.
    WindowKind {
        /// Largest; NaN wins; padding never does.
        Max = "max",
        /// Mean of the cells that count.
        Average = "average",
        /// Sum.
        Sum = "sum",
        /// Square root of the sum of squares.
        L2 = "l2",
    }
}

/// Reduction of sliding windows over the spatial dimensions of `[N, C, D…]`.
///
/// Source: ONNX MaxPool, AveragePool, LpPool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// How a window becomes one element.
    pub kind: WindowKind,
    /// Window size, one a spatial dimension.
    pub kernel: Vec<i64>,
    /// Step of the window.
    pub strides: Vec<i64>,
    /// Distance of window elements.
    pub dilations: Vec<i64>,
    /// Padding before.
    pub pad_begin: Vec<i64>,
    /// Padding after.
    pub pad_end: Vec<i64>,
    /// Round the number of windows up.
    pub ceil: bool,
    /// An average divides by the cells inside input plus declared pads, not by those inside the input.
    pub count_include_pad: bool,
}

impl OperatorKind for Window {
    const NAME: &'static str = "graph.window";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Window {
            kind: attributes.keyword("kind")?,
            kernel: attributes.integers("kernel")?,
            strides: attributes.integers("strides")?,
            dilations: attributes.integers("dilations")?,
            pad_begin: attributes.integers("pad_begin")?,
            pad_end: attributes.integers("pad_end")?,
            ceil: attributes.flag("ceil"),
            count_include_pad: attributes.flag("count_include_pad"),
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![
            ("kind", context.string(self.kind.name())),
            ("kernel", context.i64_array(&self.kernel)),
            ("strides", context.i64_array(&self.strides)),
            ("dilations", context.i64_array(&self.dilations)),
            ("pad_begin", context.i64_array(&self.pad_begin)),
            ("pad_end", context.i64_array(&self.pad_end)),
        ];
        push_flag(&mut list, "ceil", self.ceil, context);
        push_flag(&mut list, "count_include_pad", self.count_include_pad, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if input.rank() < 3 {
            return Err(shape_error(Self::NAME, format!("input {input} must have at least rank 3")));
        }
        if !(input.dtype.is_float() || (self.kind == WindowKind::Max && input.dtype.is_integer())) {
            return Err(dtype_error(Self::NAME, "the input", "a float (max: or an integer)", input.dtype));
        }
        let spatial = input.rank() - 2;
        window_attributes(
            Self::NAME,
            spatial,
            [("kernel", &self.kernel, 1), ("strides", &self.strides, 1), ("dilations", &self.dilations, 1)],
            [&self.pad_begin, &self.pad_end],
        )?;
        let mut dims = input.dims[..2].to_vec();
        for index in 0..spatial {
            dims.push(window_count(
                Self::NAME,
                &input.dims[index + 2],
                self.kernel[index],
                self.strides[index],
                self.dilations[index],
                (self.pad_begin[index], self.pad_end[index]),
                self.ceil,
            )?);
        }
        Ok(vec![TensorType::new(input.dtype, dims)])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tenon_tensor::DType;

    #[test]
    fn a_window_that_starts_in_the_padding_is_dropped() {
        let window = |ceil| Window {
            kind: WindowKind::Max,
            kernel: vec![2],
            strides: vec![2],
            dilations: vec![1],
            pad_begin: vec![0],
            pad_end: vec![1],
            ceil,
            count_include_pad: false,
        };
        let infer = |ceil, size| window(ceil).infer(&[TensorType::fixed(DType::F32, &[1, 1, size])]).unwrap()[0].known_shape().unwrap()[2];
        assert_eq!(infer(false, 4), 2);
        // (4 + 1 - 2) / 2 rounds up to 2, three windows; the third starts at 4, in the padding.
        assert_eq!(infer(true, 4), 2);
        assert_eq!(infer(true, 5), 3);
        // ceil((2 + 1 - 5) / 3) + 1 = 1: a window larger than the padded input still has its first place.
        let large = Window { kernel: vec![5], strides: vec![3], ..window(true) };
        let shape = large.infer(&[TensorType::fixed(DType::F32, &[1, 1, 2])]).unwrap()[0].known_shape().unwrap();
        assert_eq!(shape, [1, 1, 1]);
    }
}
