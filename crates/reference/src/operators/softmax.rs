//! `graph.softmax`. Sums run along the axis; f16 and narrower compute in f32 and round once.

use rayon::prelude::*;
use tenon_graph_dialect::operators::Softmax;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::Real;
use crate::operators::axis;
use crate::shape::Rows;

impl Evaluate for Softmax {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let rows = Rows::new(&input.shape, &[axis(self.axis, input.shape.len())]);
        Ok(vec![with_real!(call, T => {
            let elements = input.to_reals::<T>();
            let mut values = rows.split(&elements).into_owned();
            if rows.length > 0 {
                values.par_chunks_mut(rows.length).for_each(|row| softmax(row, self.log));
            }
            Array::reals(&call.results[0], call.mode, rows.restore(values))
        })])
    }
}

/// Softmax of one row in place, or its logarithm `x - max - ln Σ exp(x - max)`.
pub(crate) fn softmax<T: Real>(row: &mut [T], log: bool) {
    let largest = row.iter().fold(-T::INFINITY, |a, b| a.larger(*b));
    let mut sum = T::ZERO;
    for x in row.iter_mut() {
        *x = *x - largest;
        let power = x.through(f64::exp);
        sum = sum + power;
        if !log {
            *x = power;
        }
    }
    if log {
        let logarithm = sum.through(f64::ln);
        row.iter_mut().for_each(|x| *x = *x - logarithm);
    } else {
        row.iter_mut().for_each(|x| *x = *x / sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    #[test]
    fn known_rows() {
        let ln = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<_>>();
        let x = f32s(&[2, 3], &ln(&[1.0, 2.0, 5.0, 3.0, 3.0, 2.0]));
        // exp undoes ln: the weights are in the ratio of the numbers.
        let expected = [0.125, 0.25, 0.625, 0.375, 0.375, 0.25];
        close(&values(Softmax { axis: -1, log: false }, std::slice::from_ref(&x)), &expected, 1e-6);
        close(&values(Softmax { axis: 1, log: true }, std::slice::from_ref(&x)), &ln(&expected), 1e-6);
        close(&values(Softmax { axis: 0, log: false }, &[x]), &[0.25, 0.4, 5.0 / 7.0, 0.75, 0.6, 2.0 / 7.0], 1e-6);
    }

    #[test]
    fn large_values_do_not_overflow_and_results_round_to_their_type() {
        assert_eq!(values(Softmax { axis: 0, log: false }, &[f32s(&[2], &[1e4, 1e4])]), [0.5, 0.5]);
        assert_eq!(values(Softmax { axis: 0, log: false }, &[f32s(&[2], &[0.0, f64::NEG_INFINITY])]), [1.0, 0.0]);
        // 1/3 in f16 is 0x3555.
        assert_eq!(
            values(Softmax { axis: 0, log: false }, &[tensor(DType::F16, &[3], &[7.0; 3])]),
            [0.333251953125; 3]
        );
        assert!(values(Softmax { axis: 1, log: false }, &[f32s(&[2, 0], &[])]).is_empty());
    }
}
