//! `graph.resize`: interpolation, dimension by dimension from the last to the first.
//!
//! Coordinates and weights are computed in f64; the weights are rounded to the type that is computed in, and terms are added in order of
//! the neighbours. Neighbours outside are the edge. Only the last result is rounded to the element type. Source: ONNX Resize, opset 19.

use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode, ResizeRounding};

use crate::ReferenceError;
use crate::array::{Array, Form};
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::Real;
use crate::shape::{count, for_each_index, strides};

/// What one place of a resized dimension is made of.
struct Place {
    /// Neighbours with their weights; weights of 0 are left out.
    neighbours: Vec<(usize, f64)>,
    /// Outside of the region of interest.
    outside: bool,
}

impl Evaluate for Resize {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let form = &call.results[0];
        if count(&input.shape) == 0 && form.count() > 0 {
            return Err(call.undefined("there is nothing to interpolate between"));
        }
        if form.count() == 0 {
            return Ok(vec![Array {
                dtype: form.dtype,
                shape: form.shape.clone(),
                data: input.picked(form, &[]).data,
            }]);
        }
        let rank = form.shape.len();
        let places: Vec<Vec<Place>> = (0..rank)
            .map(|dim| (0..form.shape[dim]).map(|x| place(self, dim, x, input.shape[dim], form.shape[dim])).collect())
            .collect();
        let outside = |index: &[usize]| index.iter().enumerate().any(|(dim, x)| places[dim][*x].outside);
        let any_outside = places.iter().flatten().any(|place| place.outside);
        if self.mode == ResizeMode::Nearest {
            if any_outside && !input.dtype.is_float() {
                return Err(call.unsupported(format!("an extrapolated value of {}", input.dtype)));
            }
            let steps = strides(&input.shape);
            let mut indices = Vec::with_capacity(form.count());
            for_each_index(&form.shape, |index| {
                indices
                    .push(index.iter().enumerate().map(|(dim, x)| places[dim][*x].neighbours[0].0 * steps[dim]).sum());
            });
            let picked = input.picked(form, &indices);
            if !any_outside {
                return Ok(vec![picked]);
            }
            return Ok(vec![with_real!(call, T => {
                let values = picked.to_reals::<T>().into_owned();
                Array::reals(form, call.mode, extrapolated(self, form, values, outside))
            })]);
        }
        Ok(vec![with_real!(call, T => {
            let mut values = input.to_reals::<T>().into_owned();
            let mut shape = input.shape.clone();
            for dim in (0..rank).rev() {
                values = along(&values, &shape, dim, &places[dim]);
                shape[dim] = form.shape[dim];
            }
            Array::reals(form, call.mode, extrapolated(self, form, values, outside))
        })])
    }
}

fn extrapolated<T: Real>(op: &Resize, form: &Form, mut values: Vec<T>, outside: impl Fn(&[usize]) -> bool) -> Vec<T> {
    let mut slots = values.iter_mut();
    for_each_index(&form.shape, |index| {
        if let Some(slot) = slots.next()
            && outside(index)
        {
            *slot = T::of(op.extrapolation_value);
        }
    });
    values
}

/// Interpolates one dimension.
fn along<T: Real>(values: &[T], shape: &[usize], dim: usize, places: &[Place]) -> Vec<T> {
    let inner: usize = shape[dim + 1..].iter().product();
    let outer: usize = shape[..dim].iter().product();
    let size = shape[dim];
    let mut result = Vec::with_capacity(outer * places.len() * inner);
    for block in 0..outer {
        for place in places {
            for element in 0..inner {
                let mut terms = place
                    .neighbours
                    .iter()
                    .map(|(index, weight)| values[(block * size + index) * inner + element] * T::of(*weight));
                let first = terms.next().unwrap_or(T::ZERO);
                result.push(terms.fold(first, |sum, term| sum + term));
            }
        }
    }
    result
}

/// Input coordinate of an output place.
fn coordinate(op: &Resize, dim: usize, x: usize, size: usize, result: usize) -> f64 {
    let (x, size_f, result_f) = (x as f64, size as f64, result as f64);
    let scale = op.scales.as_ref().map_or(result_f / size_f, |scales| scales[dim]);
    let half_pixel = (x + 0.5) / scale - 0.5;
    match op.coordinates {
        CoordinateMode::HalfPixel => half_pixel,
        CoordinateMode::HalfPixelSymmetric => size_f / 2.0 * (1.0 - result_f / (scale * size_f)) + half_pixel,
        CoordinateMode::PytorchHalfPixel => {
            if result > 1 {
                half_pixel
            } else {
                0.0
            }
        }
        CoordinateMode::AlignCorners => {
            if result > 1 {
                x * (size_f - 1.0) / (result_f - 1.0)
            } else {
                0.0
            }
        }
        CoordinateMode::Asymmetric => x / scale,
        CoordinateMode::TfCropAndResize => {
            let region = op.region.as_deref().unwrap_or(&[]);
            let start = region.get(dim).copied().unwrap_or(0.0);
            let end = region.get(dim + region.len() / 2).copied().unwrap_or(1.0);
            if result > 1 {
                start * (size_f - 1.0) + x * (end - start) * (size_f - 1.0) / (result_f - 1.0)
            } else {
                0.5 * (start + end) * (size_f - 1.0)
            }
        }
    }
}

fn place(op: &Resize, dim: usize, x: usize, size: usize, result: usize) -> Place {
    let at = coordinate(op, dim, x, size, result);
    let last = size as i64 - 1;
    let outside = op.coordinates == CoordinateMode::TfCropAndResize && !(0.0..=last as f64).contains(&at);
    // A coordinate that is no number, from a region that is none, reads the first element.
    let at = if at.is_nan() { 0.0 } else { at.clamp(-(1i64 << 40) as f64, (1i64 << 40) as f64) };
    let floor = at.floor();
    let ratio = at - floor;
    let whole = floor as i64;
    let neighbours: Vec<(i64, f64)> = match op.mode {
        ResizeMode::Nearest => {
            let index = match op.rounding {
                ResizeRounding::RoundPreferFloor => (at - 0.5).ceil(),
                ResizeRounding::RoundPreferCeil => (at + 0.5).floor(),
                ResizeRounding::Floor => floor,
                ResizeRounding::Ceil => at.ceil(),
            };
            vec![(index as i64, 1.0)]
        }
        ResizeMode::Linear => vec![(whole, 1.0 - ratio), (whole + 1, ratio)],
        ResizeMode::Cubic => {
            (-1..3).map(|step| (whole + step, cubic((step as f64 - ratio).abs(), op.cubic_coefficient))).collect()
        }
    };
    let inside = |index: i64| (0..=last).contains(&index);
    let total: f64 = neighbours.iter().filter(|(index, _)| inside(*index)).map(|(_, weight)| weight).sum();
    let neighbours = neighbours
        .into_iter()
        .filter_map(|(index, weight)| {
            let weight = match op.exclude_outside && op.mode != ResizeMode::Nearest {
                true if inside(index) => weight / total,
                true => 0.0,
                false => weight,
            };
            (weight != 0.0).then(|| (index.clamp(0, last) as usize, weight))
        })
        .collect();
    Place { neighbours, outside }
}

/// Keys' cubic convolution kernel at a distance.
fn cubic(distance: f64, a: f64) -> f64 {
    let d = distance;
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    fn resize(mode: ResizeMode, coordinates: CoordinateMode, sizes: &[i64]) -> Resize {
        Resize {
            mode,
            coordinates,
            rounding: ResizeRounding::RoundPreferFloor,
            sizes: sizes.iter().map(|size| (*size).into()).collect(),
            scales: None,
            cubic_coefficient: -0.75,
            exclude_outside: false,
            region: None,
            extrapolation_value: 0.0,
        }
    }

    #[test]
    fn linear_in_every_coordinate_mode() {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let at = |coordinates| values(resize(ResizeMode::Linear, coordinates, &[2, 4]), std::slice::from_ref(&x));
        // Coordinates along the row: -0.25, 0.25, 0.75, 1.25; 0, 1/3, 2/3, 1; 0, 0.5, 1, 1.5.
        assert_eq!(at(CoordinateMode::HalfPixel), [1.0, 1.25, 1.75, 2.0, 3.0, 3.25, 3.75, 4.0]);
        assert_eq!(at(CoordinateMode::PytorchHalfPixel), [1.0, 1.25, 1.75, 2.0, 3.0, 3.25, 3.75, 4.0]);
        assert_eq!(at(CoordinateMode::HalfPixelSymmetric), [1.0, 1.25, 1.75, 2.0, 3.0, 3.25, 3.75, 4.0]);
        let third = 1.0 / 3.0;
        close(
            &at(CoordinateMode::AlignCorners),
            &[1.0, 1.0 + third, 2.0 - third, 2.0, 3.0, 3.0 + third, 4.0 - third, 4.0],
            1e-6,
        );
        assert_eq!(at(CoordinateMode::Asymmetric), [1.0, 1.5, 2.0, 2.0, 3.0, 3.5, 4.0, 4.0]);
    }

    #[test]
    fn one_element_results() {
        let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
        let at = |coordinates| values(resize(ResizeMode::Linear, coordinates, &[1]), std::slice::from_ref(&x));
        assert_eq!(at(CoordinateMode::HalfPixel), [2.5]);
        assert_eq!(at(CoordinateMode::PytorchHalfPixel), [1.0]);
        assert_eq!(at(CoordinateMode::AlignCorners), [1.0]);
        assert_eq!(at(CoordinateMode::TfCropAndResize), [2.5]);
    }

    #[test]
    fn nearest_in_every_rounding() {
        let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
        // Coordinates 0.5, 2.5 are ties.
        let at = |rounding| {
            values(
                Resize { rounding, ..resize(ResizeMode::Nearest, CoordinateMode::HalfPixel, &[2]) },
                std::slice::from_ref(&x),
            )
        };
        assert_eq!(at(ResizeRounding::RoundPreferFloor), [1.0, 3.0]);
        assert_eq!(at(ResizeRounding::RoundPreferCeil), [2.0, 4.0]);
        assert_eq!(at(ResizeRounding::Floor), [1.0, 3.0]);
        assert_eq!(at(ResizeRounding::Ceil), [2.0, 4.0]);
        let ints = tensor(DType::U8, &[2], &[7.0, 9.0]);
        assert_eq!(
            values(resize(ResizeMode::Nearest, CoordinateMode::Asymmetric, &[4]), &[ints]),
            [7.0, 7.0, 9.0, 9.0]
        );
    }

    #[test]
    fn cubic_agrees_with_the_onnx_reference() {
        // onnx.reference 1.23.2: Resize(mode="cubic", coordinate_transformation_mode="half_pixel") of 1, 2, 4, 8 to 7 elements, with
        // exclude_outside 0 and 1, and cubic_coeff_a -0.5.
        let x = f32s(&[4], &[1.0, 2.0, 4.0, 8.0]);
        let op = resize(ResizeMode::Cubic, CoordinateMode::HalfPixel, &[7]);
        close(&values(op.clone(), std::slice::from_ref(&x)), CUBIC, 2e-6);
        close(&values(Resize { exclude_outside: true, ..op.clone() }, std::slice::from_ref(&x)), CUBIC_EXCLUDED, 2e-6);
        close(&values(Resize { cubic_coefficient: -0.5, ..op }, &[x]), CUBIC_HALF, 2e-6);
    }

    #[test]
    fn given_scales_and_a_region() {
        let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
        // Scale 0.6 maps 0, 1 to 1/3, 2 where the sizes alone would map them to 0.5, 2.5.
        let op = Resize { scales: Some(vec![0.6]), ..resize(ResizeMode::Linear, CoordinateMode::HalfPixel, &[2]) };
        close(&values(op.clone(), std::slice::from_ref(&x)), &[4.0 / 3.0, 3.0], 1e-6);
        // The true size would be 2.4: the centre moves by 4/2 · (1 - 2/2.4) = 1/3.
        let op = Resize { coordinates: CoordinateMode::HalfPixelSymmetric, ..op };
        close(&values(op, std::slice::from_ref(&x)), &[4.0 / 3.0 + 1.0 / 3.0, 3.0 + 1.0 / 3.0], 1e-6);
        // From 0.5·3 to 1.5·3: 1.5, 3, 4.5, the last outside.
        let op = Resize {
            region: Some(vec![0.5, 1.5]),
            extrapolation_value: -9.0,
            ..resize(ResizeMode::Linear, CoordinateMode::TfCropAndResize, &[3])
        };
        assert_eq!(values(op.clone(), std::slice::from_ref(&x)), [2.5, 4.0, -9.0]);
        assert_eq!(values(Resize { mode: ResizeMode::Nearest, ..op }, &[x]), [2.0, 4.0, -9.0]);
    }

    const CUBIC: &[f64] = &[0.90078372, 1.2177464, 1.8504, 2.71875, 4.3212464, 6.760021, 8.3968644];
    const CUBIC_EXCLUDED: &[f64] = &[0.87747559, 1.1960454, 1.8473894, 2.71875, 4.334272, 6.8836041, 8.4900976];
    const CUBIC_HALF: &[f64] = &[0.93385559, 1.2423482, 1.8954086, 2.8125, 4.2336016, 6.7846208, 8.2645783];
}
