//! `graph.quantize` and `graph.dequantize`. Source: ONNX QuantizeLinear and DequantizeLinear, opset 25.
//!
//! Quantise: x / scale in the wider of their types, to the nearest integer (ties to even), plus the zero point, clamped to the type; NaN
//! becomes the zero point. To a float type: x / scale plus the zero point, rounded and saturated. Dequantise: the difference exactly for integers, then rounded to
//! f32 and multiplied in f32, then rounded to the result.

use tenon_graph_dialect::operators::{Dequantize, Quantize};
use tenon_tensor::DType;

use crate::ReferenceError;
use crate::array::{Array, Form};
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::{Real, range, round_f64, round_to_odd, widen, wrap};
use crate::operators::{axis, cast};
use crate::shape::{for_each_index, strides};

/// For each element of the input, the index of its scale.
fn scale_indices(call: &Call<'_>, operand_axis: i64, block_size: i64) -> Result<Vec<usize>, ReferenceError> {
    let (shape, scales) = (&call.inputs[0].shape, &call.inputs[1].shape);
    let mut indices = Vec::with_capacity(call.inputs[0].count());
    if block_size > 0 {
        let axis = axis(operand_axis, shape.len());
        let fits = |dim: usize| {
            let covered = if dim == axis { shape[dim].div_ceil(block_size as usize) } else { shape[dim] };
            scales[dim] == covered
        };
        if !(0..shape.len()).all(fits) {
            return Err(
                call.undefined(format!("scales of shape {scales:?} do not cover {shape:?} in blocks of {block_size}"))
            );
        }
        let steps = strides(scales);
        for_each_index(shape, |index| {
            let block = |dim: usize| if dim == axis { index[dim] / block_size as usize } else { index[dim] };
            indices.push((0..shape.len()).map(|dim| block(dim) * steps[dim]).sum());
        });
    } else if scales.iter().product::<usize>() == 1 {
        indices.resize(call.inputs[0].count(), 0);
    } else {
        let axis = axis(operand_axis, shape.len());
        for_each_index(shape, |index| indices.push(index[axis]));
    }
    Ok(indices)
}

/// Type of x / scale: the wider of the two. A scale of `f8E8M0FNU` leaves the type of x.
fn quotient_type(x: DType, scale: DType) -> DType {
    match x {
        DType::F16 | DType::BF16 if scale == x || scale == DType::F8E8M0FNU => x,
        _ => DType::F32,
    }
}

impl Evaluate for Quantize {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let [x, scale, zero] = [0, 1, 2].map(|index| &call.inputs[index]);
        let form = &call.results[0];
        let indices = scale_indices(call, self.axis, self.block_size)?;
        Ok(vec![with_real!(call, T => {
            let scales = scale.to_reals::<T>();
            let precision = quotient_type(x.dtype, scale.dtype);
            let rounded = |value: T| if call.is_wide() { value } else { T::of(round_f64(precision, value.wide())) };
            let x = x.to_reals::<T>();
            let quotients = x.iter().zip(&indices).map(|(x, index)| rounded(*x / scales[*index]));
            if self.dtype.is_float() {
                let zeros = zero.to_reals::<T>();
                let values: Vec<f64> =
                    quotients.zip(&indices).map(|(quotient, index)| rounded(quotient + zeros[*index]).wide()).collect();
                let wide = Form { dtype: DType::F64, shape: form.shape.clone() };
                cast::convert(&Array::reals(&wide, call.mode, values), form, call.mode, true)
            } else {
                let (least, greatest) = range(self.dtype);
                let zeros = zero.ints();
                let values = quotients.zip(&indices).map(|(quotient, index)| {
                    let rounded = quotient.wide().round_ties_even();
                    let sum = (rounded as i128).saturating_add(widen(zero.dtype, zeros[*index]));
                    wrap(self.dtype, sum.clamp(least, greatest))
                });
                Array::integers(form, values.collect())
            }
        })])
    }
}

impl Evaluate for Dequantize {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let [x, scale, zero] = [0, 1, 2].map(|index| &call.inputs[index]);
        let form = &call.results[0];
        let indices = scale_indices(call, self.axis, self.block_size)?;
        if !self.dtype.is_float() {
            return Err(call.unsupported(format!("a dequantised result of {}", self.dtype)));
        }
        Ok(vec![with_real!(call, T => {
            let scales = scale.to_reals::<T>();
            let values: Vec<T> = if x.dtype.is_float() {
                let (x, zeros) = (x.to_reals::<T>(), zero.to_reals::<T>());
                x.iter().zip(&indices).map(|(x, index)| (*x - zeros[*index]) * scales[*index]).collect()
            } else {
                let difference = |x_value: i64, index: usize| T::of(round_to_odd(widen(x.dtype, x_value) - widen(zero.dtype, zero.ints()[index])));
                x.ints().iter().zip(&indices).map(|(x, index)| difference(*x, *index) * scales[*index]).collect()
            };
            Array::reals(form, call.mode, values)
        })])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::Tensor;

    fn quantize(dtype: DType, x: &[f64], scale: f64, zero: f64) -> Vec<f64> {
        let operands = [f32s(&[x.len()], x), f32s(&[], &[scale]), tensor(dtype, &[], &[zero])];
        values(Quantize { dtype, axis: 0, block_size: 0 }, &operands)
    }

    #[test]
    fn rounds_half_to_even_and_saturates_in_every_type() {
        assert_eq!(
            quantize(DType::U8, &[0.0, 1.0, 3.0, 5.0, 1e9, -1e9], 2.0, 128.0),
            [128.0, 128.0, 130.0, 130.0, 255.0, 0.0]
        );
        assert_eq!(quantize(DType::I8, &[-3.0, 1e9, -1e9], 2.0, 1.0), [-1.0, 127.0, -128.0]);
        assert_eq!(quantize(DType::I16, &[1e9, -1e9], 1.0, 0.0), [32767.0, -32768.0]);
        assert_eq!(quantize(DType::U16, &[1e9, -1e9], 1.0, 0.0), [65535.0, 0.0]);
        assert_eq!(quantize(DType::I4, &[100.0, -100.0, 3.0], 1.0, 0.0), [7.0, -8.0, 3.0]);
        assert_eq!(quantize(DType::U4, &[100.0, -100.0, 3.0], 1.0, 1.0), [15.0, 0.0, 4.0]);
        assert_eq!(quantize(DType::I2, &[100.0, -100.0], 1.0, 0.0), [1.0, -2.0]);
        assert_eq!(quantize(DType::U8, &[f64::NAN, f64::INFINITY], 1.0, 9.0), [9.0, 255.0]);
        // The largest of f8E4M3FN is 448, of f8E5M2 57344, of f4E2M1FN 6; 9.5 lies between 9 and 10 of f8E4M3FN and ties to the even 10 · 2⁰.
        assert_eq!(quantize(DType::F8E4M3FN, &[1000.0, 19.0], 2.0, 0.0), [448.0, 10.0]);
        assert_eq!(quantize(DType::F8E5M2, &[1e6], 1.0, 0.0), [57344.0]);
        assert_eq!(quantize(DType::F4E2M1FN, &[100.0, 2.4], 1.0, 0.0), [6.0, 2.0]);
    }

    #[test]
    fn scales_by_axis_and_block() {
        let x = f32s(&[2, 4], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
        let zeros = |shape: &[usize], values: &[f64]| tensor(DType::I8, shape, values);
        let axis = Quantize { dtype: DType::I8, axis: 0, block_size: 0 };
        let operands = [x.clone(), f32s(&[2], &[1.0, 10.0]), zeros(&[2], &[0.0, 1.0])];
        assert_eq!(values(axis, &operands), [1.0, 2.0, 3.0, 4.0, 2.0, 3.0, 4.0, 5.0]);
        let blocked = Quantize { dtype: DType::I8, axis: 1, block_size: 3 };
        let operands = [x, f32s(&[2, 2], &[1.0, 2.0, 10.0, 20.0]), zeros(&[2, 2], &[0.0; 4])];
        assert_eq!(values(blocked.clone(), &operands), [1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
        let short = [operands[0].clone(), f32s(&[2, 1], &[1.0; 2]), zeros(&[2, 1], &[0.0; 2])];
        assert_eq!(refusal(blocked, &short, tenon_graph_dialect::TensorType::fixed(DType::I8, &[2, 4])), "E0904");
    }

    #[test]
    fn dequantises() {
        let dequantize = |dtype, x: Tensor, scale: f64, zero: Tensor| {
            values(Dequantize { dtype, axis: 0, block_size: 0 }, &[x, f32s(&[], &[scale]), zero])
        };
        let bytes = tensor(DType::U8, &[2], &[0.0, 255.0]);
        assert_eq!(dequantize(DType::F32, bytes, 0.5, tensor(DType::U8, &[], &[128.0])), [-64.0, 63.5]);
        let words = tensor(DType::I32, &[1], &[16777217.0]);
        assert_eq!(dequantize(DType::F32, words, 1.0, tensor(DType::I32, &[], &[0.0])), [16777216.0]);
        let f8 = tensor(DType::F8E5M2, &[1], &[1.5]);
        assert_eq!(dequantize(DType::F16, f8, 2.0, tensor(DType::F8E5M2, &[], &[0.0])), [3.0]);
    }
}
