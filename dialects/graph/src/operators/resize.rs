//! `graph.resize`: interpolation.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, dims_attribute, keywords, push_flag};
use crate::operators::{arity, attribute_error, dims_of, dtype_error};
use crate::{DimExpr, OperatorKind, SemanticError, TensorType};

keywords! {
    /// Interpolation.
    ResizeMode {
        /// The nearest element.
        Nearest = "nearest",
        /// Linear in each dimension.
        Linear = "linear",
        /// Cubic convolution in each dimension.
        Cubic = "cubic",
    }
}

keywords! {
    /// Input coordinate of an output position x, with `scale` = output/input size. Source: ONNX Resize.
    CoordinateMode {
        /// (x + 0.5) / scale - 0.5
        HalfPixel = "half_pixel",
        /// As half_pixel, around the centre of the true output size.
        HalfPixelSymmetric = "half_pixel_symmetric",
        /// As half_pixel; 0 for an output of size 1.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// x · (input - 1) / (output - 1)
        AlignCorners = "align_corners",
        /// x / scale
        Asymmetric = "asymmetric",
        /// Within a region of interest.
        TfCropAndResize = "tf_crop_and_resize",
    }
}

keywords! {
    /// Which neighbour `nearest` takes.
    ResizeRounding {
        /// Ties down.
        RoundPreferFloor = "round_prefer_floor",
        /// Ties up.
        RoundPreferCeil = "round_prefer_ceil",
        /// Down.
        Floor = "floor",
        /// Up.
        Ceil = "ceil",
    }
}

/// Interpolation to `sizes`.
#[derive(Debug, Clone, PartialEq)]
pub struct Resize {
    /// Interpolation.
    pub mode: ResizeMode,
    /// Coordinate transformation.
    pub coordinates: CoordinateMode,
    /// Neighbour of `nearest`.
    pub rounding: ResizeRounding,
    /// Result shape.
    pub sizes: Vec<DimExpr>,
    /// Scale of each dimension where given; else output/input size.
    pub scales: Option<Vec<f64>>,
    /// Coefficient of `cubic`.
    pub cubic_coefficient: f64,
    /// Weights of elements outside the input become 0 and the rest is renormalised.
    pub exclude_outside: bool,
    /// Starts then ends of the region of interest, of each dimension, normalised.
    pub region: Option<Vec<f64>>,
    /// Value outside the region of interest.
    pub extrapolation_value: f64,
}

impl OperatorKind for Resize {
    const NAME: &'static str = "graph.resize";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Resize {
            mode: attributes.keyword("mode")?,
            coordinates: attributes.keyword("coordinates")?,
            rounding: attributes.keyword("rounding")?,
            sizes: attributes.dims("sizes")?,
            scales: attributes.floats("scales")?,
            cubic_coefficient: attributes.float("cubic_coefficient")?,
            exclude_outside: attributes.flag("exclude_outside"),
            region: attributes.floats("region")?,
            extrapolation_value: attributes.float("extrapolation_value")?,
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![
            ("mode", context.string(self.mode.name())),
            ("coordinates", context.string(self.coordinates.name())),
            ("rounding", context.string(self.rounding.name())),
            ("sizes", dims_attribute(&self.sizes, context)),
            ("cubic_coefficient", context.f64(self.cubic_coefficient)),
            ("extrapolation_value", context.f64(self.extrapolation_value)),
        ];
        if let Some(scales) = &self.scales {
            list.push(("scales", context.f64_array(scales)));
        }
        if let Some(region) = &self.region {
            list.push(("region", context.f64_array(region)));
        }
        push_flag(&mut list, "exclude_outside", self.exclude_outside, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        let rank = input.rank();
        if self.mode != ResizeMode::Nearest && !input.dtype.is_float() {
            return Err(dtype_error(Self::NAME, "the input of linear and cubic", "a float", input.dtype));
        }
        if self.sizes.len() != rank {
            return Err(attribute_error(Self::NAME, format!("`sizes` has {} entries for rank {rank}", self.sizes.len())));
        }
        if self.scales.as_ref().is_some_and(|scales| scales.len() != rank || scales.iter().any(|s| !s.is_finite() || *s <= 0.0)) {
            return Err(attribute_error(Self::NAME, format!("`scales` must be {rank} positive numbers")));
        }
        if self.region.as_ref().is_some_and(|region| region.len() != 2 * rank) {
            return Err(attribute_error(Self::NAME, format!("`region` must be {} numbers", 2 * rank)));
        }
        let known: Vec<_> = input.dims.iter().collect();
        Ok(vec![TensorType::new(input.dtype, dims_of(Self::NAME, &self.sizes, &known)?)])
    }
}
