//! `graph.normalize`: layer and root-mean-square normalisation.
//!
//! Statistics, scale and bias are in f32 (f64 for f64), each step rounded: mean = Σx / n, variance = Σ(x - mean)² / n, then
//! (x - mean) / √(variance + ε) · scale + bias. One rounding to the element type, at the end.

use rayon::prelude::*;
use tenon_graph_dialect::operators::{Normalize, NormalizeKind};

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::Real;
use crate::operators::axis;
use crate::shape::{Rows, broadcast};

impl Evaluate for Normalize {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        Ok(vec![with_real!(call, T => Array::reals(&call.results[0], call.mode, normalize::<T>(self, call)))])
    }
}

fn normalize<T: Real>(op: &Normalize, call: &Call<'_>) -> Vec<T> {
    let input = &call.inputs[0];
    let mut axes: Vec<usize> = op.axes.iter().map(|a| axis(*a, input.shape.len())).collect();
    axes.sort_unstable();
    let rows = Rows::new(&input.shape, &axes);
    let elements = input.to_reals::<T>();
    let mut values = rows.split(&elements).into_owned();
    let epsilon = T::of(op.epsilon);
    if rows.length > 0 {
        let size = T::of(rows.length as f64);
        values.par_chunks_mut(rows.length).for_each(|row| {
            let mean = |row: &[T], term: fn(T) -> T| row.iter().fold(T::ZERO, |sum, x| sum + term(*x)) / size;
            if op.kind == NormalizeKind::Layer {
                let centre = mean(row, |x| x);
                row.iter_mut().for_each(|x| *x = *x - centre);
            }
            let deviation = (mean(row, |x| x * x) + epsilon).sqrt();
            row.iter_mut().for_each(|x| *x = *x / deviation);
        });
    }
    let mut values = rows.restore(values);
    for (operand, function) in call.inputs[1..].iter().zip([(|a, b| a * b) as fn(T, T) -> T, |a, b| a + b]) {
        let operand_values = operand.to_reals::<T>();
        let spread = broadcast(&operand_values, &operand.shape, &input.shape);
        values.iter_mut().zip(spread.iter()).for_each(|(value, operand)| *value = function(*value, *operand));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    fn op(kind: NormalizeKind, axes: &[i64]) -> Normalize {
        Normalize { kind, axes: axes.to_vec(), epsilon: 0.0 }
    }

    #[test]
    fn layer_and_rms() {
        // Mean 3, variance 4.
        let x = f32s(&[2, 2], &[1.0, 5.0, 5.0, 1.0]);
        assert_eq!(values(op(NormalizeKind::Layer, &[1]), std::slice::from_ref(&x)), [-1.0, 1.0, 1.0, -1.0]);
        let scale = f32s(&[2], &[10.0, 20.0]);
        let bias = f32s(&[1], &[0.5]);
        assert_eq!(values(op(NormalizeKind::Layer, &[-1]), &[x, scale, bias]), [-9.5, 20.5, 10.5, -19.5]);
        // Mean square (9 + 16 + 0 + 0) / 4 = 25 / 4.
        let x = f32s(&[4], &[3.0, 4.0, 0.0, 0.0]);
        close(&values(op(NormalizeKind::Rms, &[0]), std::slice::from_ref(&x)), &[1.2, 1.6, 0.0, 0.0], 1e-6);
        let damped = Normalize { epsilon: 18.75, ..op(NormalizeKind::Rms, &[0]) };
        close(&values(damped, &[x]), &[0.6, 0.8, 0.0, 0.0], 1e-6);
    }

    #[test]
    fn several_axes_and_axes_in_front() {
        let x = f32s(&[2, 2, 1], &[0.0, 2.0, 4.0, 6.0]);
        let root = 5f64.sqrt();
        close(
            &values(op(NormalizeKind::Layer, &[0, 1]), std::slice::from_ref(&x)),
            &[-3.0, -1.0, 1.0, 3.0].map(|v| v / root),
            1e-6,
        );
        assert_eq!(values(op(NormalizeKind::Layer, &[0]), &[x]), [-1.0, -1.0, 1.0, 1.0]);
    }

    #[test]
    fn halves_round_once() {
        // 1/3 · 3 is 1 in f32; rounding 1/3 to f16 first would give 0.99975…, which is 1 - 2⁻¹².
        let x = tensor(DType::F16, &[1], &[1.0]);
        let scale = tensor(DType::F16, &[1], &[3.0]);
        let damped = Normalize { epsilon: 8.0, ..op(NormalizeKind::Rms, &[0]) };
        assert_eq!(values(damped, &[x, scale]), [1.0]);
    }
}
