//! `graph.top_k`. NaN counts as larger than every number; -0 and +0 are equal; the lower index comes first among equals.

use std::cmp::Ordering;

use rayon::prelude::*;
use tenon_graph_dialect::operators::TopK;

use crate::ReferenceError;
use crate::array::{Array, Data};
use crate::evaluate::{Call, Evaluate};
use crate::number::{Real, widen};
use crate::operators::axis;
use crate::shape::Rows;

impl Evaluate for TopK {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let rows = Rows::new(&input.shape, &[axis(self.axis, input.shape.len())]);
        let k = self.k as usize;
        let (data, indices) = match &*input.data {
            Data::F32(values) => {
                let (values, indices) = select(self, &rows, values, |a, b| compare(*a, *b));
                (Data::F32(values), indices)
            }
            Data::F64(values) => {
                let (values, indices) = select(self, &rows, values, |a, b| compare(*a, *b));
                (Data::F64(values), indices)
            }
            Data::Int(values) => {
                let (values, indices) =
                    select(self, &rows, values, |a, b| widen(input.dtype, *a).cmp(&widen(input.dtype, *b)));
                (Data::Int(values), indices)
            }
            Data::Complex(_) => return Err(call.unsupported("the order of complex numbers")),
        };
        Ok(vec![Array::new(&call.results[0], data), Array::integers(&call.results[1], rows.join(indices, k))])
    }
}

fn compare<T: Real>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn select<T: Copy + Send + Sync>(
    op: &TopK,
    rows: &Rows,
    values: &[T],
    order: impl Fn(&T, &T) -> Ordering + Sync,
) -> (Vec<T>, Vec<i64>) {
    let k = op.k as usize;
    let elements = rows.split(values);
    let pairs: Vec<(T, i64)> = (0..rows.rows)
        .into_par_iter()
        .flat_map_iter(|row| {
            let row = &elements[row * rows.length..][..rows.length];
            let mut indices: Vec<usize> = (0..rows.length).collect();
            // A stable sort keeps the lower index first.
            indices.sort_by(|a, b| if op.smallest { order(&row[*a], &row[*b]) } else { order(&row[*b], &row[*a]) });
            indices.truncate(k);
            indices.into_iter().map(|index| (row[index], index as i64)).collect::<Vec<_>>()
        })
        .collect();
    let (values, indices) = pairs.into_iter().unzip();
    (rows.join(values, k), indices)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::operators::testing::*;
    use tenon_tensor::Tensor;

    fn both(op: TopK, input: Tensor) -> (Vec<f64>, Vec<i64>) {
        let results = run_all(op, &[input], Mode::Typed);
        (results[0].to_f64_vec().unwrap(), results[1].to_i64_vec().unwrap())
    }

    #[test]
    fn order_and_ties() {
        let x = f32s(&[5], &[1.0, 3.0, 2.0, 3.0, 0.0]);
        assert_eq!(both(TopK { k: 3, axis: 0, smallest: false }, x.clone()), (vec![3.0, 3.0, 2.0], vec![1, 3, 2]));
        assert_eq!(both(TopK { k: 2, axis: 0, smallest: true }, x), (vec![0.0, 1.0], vec![4, 0]));
        let zeros = f32s(&[2], &[-0.0, 0.0]);
        assert_eq!(both(TopK { k: 2, axis: 0, smallest: false }, zeros).1, [0, 1]);
    }

    #[test]
    fn nan_is_the_largest() {
        let x = f32s(&[3], &[1.0, f64::NAN, f64::INFINITY]);
        assert_eq!(both(TopK { k: 3, axis: 0, smallest: false }, x.clone()).1, [1, 2, 0]);
        assert_eq!(both(TopK { k: 3, axis: 0, smallest: true }, x).1, [0, 2, 1]);
    }

    #[test]
    fn along_a_leading_axis() {
        let x = i64s(&[3, 2], &[1, 9, 5, 7, 3, 8]);
        assert_eq!(both(TopK { k: 2, axis: -2, smallest: false }, x), (vec![5.0, 9.0, 3.0, 8.0], vec![1, 0, 2, 2]));
        let none = both(TopK { k: 0, axis: 0, smallest: false }, f32s(&[2], &[1.0, 2.0]));
        assert_eq!(none, (vec![], vec![]));
    }
}
