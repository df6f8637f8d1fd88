//! `graph.scan`: cumulative reduction. Floats narrower than f32 accumulate in f32; every element of the result is rounded by itself.

use rayon::prelude::*;
use tenon_graph_dialect::operators::{Scan, ScanKind};

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate, with_real};
use crate::number::{Real, range, widen, wrap};
use crate::operators::axis;
use crate::shape::Rows;

impl Evaluate for Scan {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let form = &call.results[0];
        let rows = Rows::new(&input.shape, &[axis(self.axis, input.shape.len())]);
        if !input.dtype.is_float() {
            let dtype = input.dtype;
            let (least, greatest) = range(dtype);
            let (start, function): (i128, fn(i128, i128) -> i128) = match self.kind {
                ScanKind::Sum => (0, |a, b| a + b),
                ScanKind::Product => (1, i128::wrapping_mul),
                ScanKind::Max => (least, i128::max),
                ScanKind::Min => (greatest, i128::min),
            };
            let step = |a: i64, b: i64| wrap(dtype, function(widen(dtype, a), widen(dtype, b)));
            let values = running(self, &rows, &rows.split(input.ints()), wrap(dtype, start), step);
            return Ok(vec![Array::integers(form, rows.restore(values))]);
        }
        Ok(vec![with_real!(call, T => {
            let (start, step): (T, fn(T, T) -> T) = match self.kind {
                ScanKind::Sum => (T::ZERO, |a, b| a + b),
                ScanKind::Product => (T::ONE, |a, b| a * b),
                ScanKind::Max => (-T::INFINITY, T::larger),
                ScanKind::Min => (T::INFINITY, T::smaller),
            };
            let elements = input.to_reals::<T>();
            let values = running(self, &rows, &rows.split(&elements), start, step);
            Array::reals(form, call.mode, rows.restore(values))
        })])
    }
}

fn running<T: Copy + Send + Sync>(
    scan: &Scan,
    rows: &Rows,
    elements: &[T],
    start: T,
    step: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let mut result = elements.to_vec();
    if rows.length == 0 {
        return result;
    }
    result.par_chunks_mut(rows.length).for_each(|row| {
        if scan.reverse {
            row.reverse();
        }
        let mut value = start;
        for element in row.iter_mut() {
            let next = step(value, *element);
            *element = if scan.exclusive { value } else { next };
            value = next;
        }
        if scan.reverse {
            row.reverse();
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    #[test]
    fn directions_and_kinds() {
        let scan = |kind, exclusive, reverse| Scan { kind, axis: 0, exclusive, reverse };
        let x = f32s(&[3], &[2.0, 1.0, 3.0]);
        let at = |scan: Scan| values(scan, std::slice::from_ref(&x));
        assert_eq!(at(scan(ScanKind::Sum, false, false)), [2.0, 3.0, 6.0]);
        assert_eq!(at(scan(ScanKind::Sum, true, false)), [0.0, 2.0, 3.0]);
        assert_eq!(at(scan(ScanKind::Sum, false, true)), [6.0, 4.0, 3.0]);
        assert_eq!(at(scan(ScanKind::Sum, true, true)), [4.0, 3.0, 0.0]);
        assert_eq!(at(scan(ScanKind::Product, true, false)), [1.0, 2.0, 2.0]);
        assert_eq!(at(scan(ScanKind::Max, true, false)), [f64::NEG_INFINITY, 2.0, 2.0]);
        assert_eq!(at(scan(ScanKind::Min, false, false)), [2.0, 1.0, 1.0]);
        let columns = Scan { kind: ScanKind::Sum, axis: -2, exclusive: false, reverse: false };
        assert_eq!(values(columns.clone(), &[i64s(&[2, 2], &[1, 2, 3, 4])]), [1.0, 2.0, 4.0, 6.0]);
        assert_eq!(values(columns, &[tensor(DType::I8, &[2, 1], &[100.0, 100.0])]), [100.0, -56.0]);
        // The accumulator is f32: the lost half of 2049 comes back.
        assert_eq!(
            values(scan(ScanKind::Sum, false, false), &[tensor(DType::F16, &[3], &[2048.0, 1.0, 1.0])]),
            [2048.0, 2048.0, 2050.0]
        );
    }
}
