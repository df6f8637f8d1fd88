//! Resize with `antialias` = 1: the interpolation kernel is stretched where an image shrinks. Weights are known before the model runs, so that
//! each axis is a product with a matrix.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Contract, CoordinateMode, ResizeMode};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, product};

/// Most weights of one axis.
const MAX_WEIGHTS: i64 = 1 << 24;

/// How one axis is resized.
pub(super) struct Antialias {
    /// Linear or cubic.
    pub(super) mode: ResizeMode,
    pub(super) coordinates: CoordinateMode,
    pub(super) cubic_coefficient: f64,
    pub(super) exclude_outside: bool,
}

impl Antialias {
    /// Where place `place` of an axis of `outputs` places lies among `inputs` elements.
    fn source(&self, place: i64, inputs: i64, outputs: i64, scale: f64) -> f64 {
        let (x, width) = (place as f64, inputs as f64);
        let centre = (x + 0.5) / scale - 0.5;
        match self.coordinates {
            CoordinateMode::AlignCorners if width * scale == 1.0 => 0.0,
            CoordinateMode::AlignCorners => x * (width - 1.0) / (width * scale - 1.0),
            CoordinateMode::Asymmetric => x / scale,
            CoordinateMode::PytorchHalfPixel if width * scale == 1.0 => -0.5,
            CoordinateMode::HalfPixelSymmetric => width / 2.0 * (1.0 - outputs as f64 / (width * scale)) + centre,
            _ => centre,
        }
    }

    /// The kernel at a distance, without its normalisation.
    fn kernel(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic_coefficient);
        match self.mode {
            ResizeMode::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            ResizeMode::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            ResizeMode::Cubic => 0.0,
            _ => (1.0 - x).max(0.0),
        }
    }

    /// The weight of each input element in each output: `[outputs, inputs]`. Elements outside are those of the border.
    fn weights(&self, inputs: i64, outputs: i64, scale: f64) -> Vec<f64> {
        let shrink = scale.min(1.0);
        let reach = if self.mode == ResizeMode::Cubic { 2.0 } else { 1.0 };
        let first = (-reach / shrink).floor() as i64 + 1;
        let mut weights = vec![0.0; (inputs * outputs) as usize];
        for place in 0..outputs {
            let x = self.source(place, inputs, outputs, scale);
            // The last element before it, never itself.
            let base = x.ceil() - 1.0;
            let ratio = x - base;
            let cells = first..2 - first;
            let mut kernel: Vec<f64> = cells.clone().map(|cell| self.kernel((cell as f64 - ratio) * shrink)).collect();
            let places: Vec<i64> = cells.map(|cell| base as i64 + cell).collect();
            if self.exclude_outside {
                for (weight, place) in kernel.iter_mut().zip(&places) {
                    *weight = if (0..inputs).contains(place) { *weight } else { 0.0 };
                }
            }
            let sum: f64 = kernel.iter().sum();
            for (weight, from) in kernel.iter().zip(places) {
                weights[(place * inputs + from.clamp(0, inputs - 1)) as usize] += weight / sum;
            }
        }
        weights
    }

    /// `x`, f32 or f64, at the given sizes.
    pub(super) fn apply(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        x: Handle,
        sizes: &[DimExpr],
        scales: Option<&[f64]>,
    ) -> Result<Handle, ImportError> {
        if self.coordinates == CoordinateMode::TfCropAndResize {
            return Err(op.unsupported("`antialias` = 1 with tf_crop_and_resize"));
        }
        let dtype = op.dtype(x);
        let mut result = x;
        for (axis, size) in sizes.iter().enumerate() {
            let inputs = op.fixed_dim(x, axis, "`antialias` = 1")?;
            let outputs = size.as_constant().ok_or_else(|| op.unsupported("`antialias` = 1 to a free size"))?;
            let scale = scales.map_or(outputs as f64 / inputs as f64, |scales| scales[axis]);
            if inputs == outputs && scale == 1.0 {
                continue;
            }
            if inputs.checked_mul(outputs).is_none_or(|count| count > MAX_WEIGHTS) || scale * (1 << 20) as f64 <= 1.0 {
                return Err(op.unsupported(format!("`antialias` = 1 from {inputs} to {outputs} elements")));
            }
            let weights = if inputs == 0 { Vec::new() } else { self.weights(inputs, outputs, scale) };
            let weights = op.literal(dtype, &[outputs as usize, inputs as usize], &weights)?;
            result = contract_axis(op, result, axis, weights, dtype)?;
        }
        Ok(result)
    }
}

/// Replaces an axis by its products with the rows of a matrix.
fn contract_axis(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    axis: usize,
    matrix: Handle,
    dtype: DType,
) -> Result<Handle, ImportError> {
    let too_large = || op.unsupported("an image this large");
    let mut shape = op.extents(x);
    let before = product(&shape[..axis]).ok_or_else(too_large)?;
    let after = product(&shape[axis + 1..]).ok_or_else(too_large)?;
    let x = op.reshape(x, vec![before, shape[axis].clone(), after])?;
    let (lhs, rhs, result) = ("oi".to_owned(), "bic".to_owned(), "boc".to_owned());
    let product = op.emit(Contract { lhs, rhs, result, accumulate: dtype, dtype }, &[matrix, x])?;
    shape[axis] = op.dim(matrix, 0).extent.clone();
    op.reshape(product, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear() -> Antialias {
        let coordinates = CoordinateMode::HalfPixel;
        Antialias { mode: ResizeMode::Linear, coordinates, cubic_coefficient: -0.75, exclude_outside: false }
    }

    #[test]
    fn weights_are_those_of_the_stretched_kernel() {
        // From 4 to 2 elements at the scale 0.6: the first lies at 1/3, and elements -1, 0, 1 weigh 0.2, 0.8, 0.6 of 1.6; -1 is 0 again.
        let weights = linear().weights(4, 2, 0.6);
        let expected = [1.0 / 1.6, 0.6 / 1.6, 0.0, 0.0];
        assert!(weights[..4].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{weights:?}");
        // Every row is a mean.
        assert!(weights.chunks(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    }

    #[test]
    fn enlarging_is_plain_interpolation() {
        let weights = linear().weights(2, 4, 2.0);
        assert_eq!(weights, [1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0]);
    }
}
