//! `graph.reduce` and `graph.arg_reduce`. Elements are combined in row-major order of the reduced axes.

use rayon::prelude::*;
use tenon_graph_dialect::operators::{ArgReduce, Reduce, ReduceKind};

use crate::ReferenceError;
use crate::array::{Array, Data};
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::{Real, range, widen, wrap};
use crate::operators::axis;
use crate::shape::Rows;

impl Evaluate for Reduce {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let form = &call.results[0];
        let mut axes: Vec<usize> = self.axes.iter().map(|a| axis(*a, input.shape.len())).collect();
        axes.sort_unstable();
        let rows = Rows::new(&input.shape, &axes);
        if !input.dtype.is_float() {
            return Ok(vec![Array::integers(form, integers(self.kind, input, &rows))]);
        }
        Ok(vec![with_real!(call, T => Array::reals(form, call.mode, reals::<T>(self.kind, input, &rows)))])
    }
}

/// One result a row.
fn per_row<T: Copy + Send + Sync, R: Send>(rows: &Rows, elements: &[T], function: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let length = rows.length;
    (0..rows.rows).into_par_iter().with_min_len(16).map(|row| function(&elements[row * length..][..length])).collect()
}

fn reals<T: Real>(kind: ReduceKind, input: &Array, rows: &Rows) -> Vec<T> {
    let all = input.to_reals::<T>();
    let elements = rows.split(&all);
    let sum = |row: &[T]| row.iter().fold(T::ZERO, |sum, x| sum + *x);
    match kind {
        ReduceKind::Sum => per_row(rows, &elements, sum),
        ReduceKind::Mean => per_row(rows, &elements, |row| sum(row) / T::of(row.len() as f64)),
        ReduceKind::Product => per_row(rows, &elements, |row| row.iter().fold(T::ONE, |product, x| product * *x)),
        ReduceKind::Max | ReduceKind::Any => {
            per_row(rows, &elements, |row| row.iter().fold(-T::INFINITY, |a, b| a.larger(*b)))
        }
        ReduceKind::Min | ReduceKind::All => {
            per_row(rows, &elements, |row| row.iter().fold(T::INFINITY, |a, b| a.smaller(*b)))
        }
    }
}

/// Integers and `i1`: sums and products wrap, a mean is their truncated quotient (0 of nothing).
fn integers(kind: ReduceKind, input: &Array, rows: &Rows) -> Vec<i64> {
    let dtype = input.dtype;
    let elements = rows.split(input.ints());
    let (least, greatest) = range(dtype);
    let fold = |row: &[i64], start: i128, function: fn(i128, i128) -> i128| {
        row.iter().fold(wrap(dtype, start), |value, x| wrap(dtype, function(widen(dtype, value), widen(dtype, *x))))
    };
    per_row(rows, &elements, |row| match kind {
        ReduceKind::Sum => fold(row, 0, |a, b| a + b),
        ReduceKind::Mean => {
            let sum = widen(dtype, fold(row, 0, |a, b| a + b));
            if row.is_empty() { 0 } else { wrap(dtype, sum / row.len() as i128) }
        }
        ReduceKind::Product => fold(row, 1, i128::wrapping_mul),
        ReduceKind::Max | ReduceKind::Any => fold(row, least, i128::max),
        ReduceKind::Min | ReduceKind::All => fold(row, greatest, i128::min),
    })
}

impl Evaluate for ArgReduce {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let rows = Rows::new(&input.shape, &[axis(self.axis, input.shape.len())]);
        if rows.length == 0 && rows.rows > 0 {
            return Err(call.undefined("the axis is empty: there is no extremum"));
        }
        let indices = match &*input.data {
            Data::F32(values) => extrema(&rows, values, |a, b| self.beats(*a, *b)),
            Data::F64(values) => extrema(&rows, values, |a, b| self.beats(*a, *b)),
            Data::Int(values) => extrema(&rows, values, |a, b| {
                let (a, b) = (widen(input.dtype, *a), widen(input.dtype, *b));
                (if self.minimum { a < b } else { a > b }) || (self.last && a == b)
            }),
            Data::Complex(_) => return Err(call.unsupported("the order of complex numbers")),
        };
        Ok(vec![Array::integers(&call.results[0], indices)])
    }
}

trait Beats {
    /// Whether a later element takes the place of an earlier one.
    fn beats<T: Real>(&self, later: T, earlier: T) -> bool;
}

impl Beats for ArgReduce {
    fn beats<T: Real>(&self, later: T, earlier: T) -> bool {
        match (later.is_nan(), earlier.is_nan()) {
            (true, true) => self.last,
            (true, false) => true,
            (false, true) => false,
            _ => (if self.minimum { later < earlier } else { later > earlier }) || (self.last && later == earlier),
        }
    }
}

fn extrema<T: Copy + Send + Sync>(rows: &Rows, values: &[T], beats: impl Fn(&T, &T) -> bool + Sync) -> Vec<i64> {
    per_row(rows, &rows.split(values), |row| {
        let mut best = 0;
        for index in 1..row.len() {
            if beats(&row[index], &row[best]) {
                best = index;
            }
        }
        best as i64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::TensorType;
    use tenon_tensor::DType;

    fn reduce(kind: ReduceKind, axes: &[i64]) -> Reduce {
        Reduce { kind, axes: axes.to_vec(), keep_dims: false }
    }

    #[test]
    fn kinds_over_axes() {
        let x = f32s(&[2, 3], &[1.0, -2.0, 4.0, 0.5, 3.0, 2.0]);
        let at = |kind, axes: &[i64]| values(reduce(kind, axes), std::slice::from_ref(&x));
        assert_eq!(at(ReduceKind::Sum, &[1]), [3.0, 5.5]);
        assert_eq!(at(ReduceKind::Sum, &[0]), [1.5, 1.0, 6.0]);
        assert_eq!(at(ReduceKind::Sum, &[0, -1]), [8.5]);
        assert_eq!(at(ReduceKind::Sum, &[]), [1.0, -2.0, 4.0, 0.5, 3.0, 2.0]);
        assert_eq!(at(ReduceKind::Mean, &[1]), [1.0, f64::from(5.5f32 / 3.0)]);
        assert_eq!(at(ReduceKind::Product, &[1]), [-8.0, 3.0]);
        assert_eq!(at(ReduceKind::Max, &[0]), [1.0, 3.0, 4.0]);
        assert_eq!(at(ReduceKind::Min, &[0]), [0.5, -2.0, 2.0]);
        let kept = run(Reduce { keep_dims: true, ..reduce(ReduceKind::Sum, &[0]) }, &[x]);
        assert_eq!(kept.shape(), [1, 3]);
    }

    #[test]
    fn reductions_of_nothing() {
        let empty = f32s(&[2, 0], &[]);
        let at = |kind| values(reduce(kind, &[1]), std::slice::from_ref(&empty));
        assert_eq!(at(ReduceKind::Sum), [0.0; 2]);
        assert_eq!(at(ReduceKind::Product), [1.0; 2]);
        assert_eq!(at(ReduceKind::Max), [f64::NEG_INFINITY; 2]);
        assert_eq!(at(ReduceKind::Min), [f64::INFINITY; 2]);
        assert!(at(ReduceKind::Mean)[0].is_nan());
        assert_eq!(values(reduce(ReduceKind::Max, &[0]), &[tensor(DType::I8, &[0], &[])]), [-128.0]);
        assert_eq!(values(reduce(ReduceKind::Min, &[0]), &[tensor(DType::U8, &[0], &[])]), [255.0]);
        assert_eq!(values(reduce(ReduceKind::All, &[0]), &[tensor(DType::Bool, &[0], &[])]), [1.0]);
        assert_eq!(values(reduce(ReduceKind::Any, &[0]), &[tensor(DType::Bool, &[0], &[])]), [0.0]);
    }

    #[test]
    fn accumulators_integers_and_truth() {
        // In f16 the sum would stay at 2048; it is taken in f32 and rounded once.
        assert_eq!(values(reduce(ReduceKind::Sum, &[0]), &[tensor(DType::F16, &[3], &[2048.0, 1.0, 1.0])]), [2050.0]);
        assert_eq!(values(reduce(ReduceKind::Sum, &[0]), &[f32s(&[3], &[16777216.0, 1.0, 1.0])]), [16777216.0]);
        assert_eq!(values(reduce(ReduceKind::Sum, &[0]), &[tensor(DType::I8, &[2], &[100.0, 100.0])]), [-56.0]);
        assert_eq!(values(reduce(ReduceKind::Mean, &[0]), &[tensor(DType::I32, &[2], &[-3.0, -4.0])]), [-3.0]);
        assert_eq!(values(reduce(ReduceKind::Any, &[0]), &[tensor(DType::Bool, &[2], &[0.0, 1.0])]), [1.0]);
        assert_eq!(values(reduce(ReduceKind::All, &[0]), &[tensor(DType::Bool, &[2], &[0.0, 1.0])]), [0.0]);
        assert!(values(reduce(ReduceKind::Max, &[0]), &[f32s(&[2], &[1.0, f64::NAN])])[0].is_nan());
    }

    #[test]
    fn indices_of_extrema() {
        let op = |minimum, last| ArgReduce { minimum, axis: 1, keep_dims: false, last };
        let x = f32s(&[3, 4], &[1.0, 3.0, 3.0, 0.0, f64::NAN, 9.0, f64::NAN, 0.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(values(op(false, false), std::slice::from_ref(&x)), [1.0, 0.0, 0.0]);
        assert_eq!(values(op(false, true), std::slice::from_ref(&x)), [2.0, 2.0, 3.0]);
        assert_eq!(values(op(true, false), std::slice::from_ref(&x)), [3.0, 0.0, 0.0]);
        assert_eq!(values(op(true, true), &[i64s(&[1, 3], &[5, -1, -1])]), [2.0]);
        let columns = ArgReduce { axis: 0, keep_dims: true, ..op(false, false) };
        assert_eq!(values(columns.clone(), &[i64s(&[2, 2], &[1, 5, 3, 5])]), [1.0, 0.0]);
        assert_eq!(refusal(columns, &[i64s(&[0, 2], &[])], TensorType::fixed(DType::I64, &[1, 2])), "E0303");
    }
}
