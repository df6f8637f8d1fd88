//! Data movement: `graph.reshape`, `graph.transpose`, `graph.broadcast`, `graph.slice`. Elements of every type pass unchanged.

use tenon_graph_dialect::operators::{Broadcast, Reshape, Slice, Transpose};

use crate::ReferenceError;
use crate::array::{Array, Data, map_data};
use crate::evaluate::{Call, Evaluate};
use crate::shape::{broadcast, permuted, strided, strides};

impl Evaluate for Reshape {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        Ok(vec![call.inputs[0].renamed(&call.results[0])])
    }
}

impl Evaluate for Transpose {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let permutation: Vec<usize> = self.permutation.iter().map(|dim| *dim as usize).collect();
        let data = map_data!(&*input.data, elements => permuted(elements, &input.shape, &permutation).into_owned());
        Ok(vec![Array::new(&call.results[0], data)])
    }
}

impl Evaluate for Broadcast {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (input, form) = (&call.inputs[0], &call.results[0]);
        let data = map_data!(&*input.data, elements => broadcast(elements, &input.shape, &form.shape).into_owned());
        Ok(vec![Array::new(form, data)])
    }
}

impl Evaluate for Slice {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (input, form) = (&call.inputs[0], &call.results[0]);
        let own = strides(&input.shape);
        // Inference has shown the first and the last element inside, unless there is none.
        let starts = self.starts.iter().map(|start| start.as_constant().unwrap_or(0));
        let offset: i64 =
            if form.count() == 0 { 0 } else { starts.zip(&own).map(|(start, stride)| start * *stride as i64).sum() };
        let single = |dim: usize| form.shape[dim] == 1;
        let steps: Vec<isize> = (0..own.len())
            .map(|dim| if single(dim) { 0 } else { (own[dim] as i64).wrapping_mul(self.steps[dim]) as isize })
            .collect();
        let data = map_data!(&*input.data, elements => strided(elements, &form.shape, offset as isize, &steps));
        Ok(vec![Array::new(form, data)])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::DimExpr;

    fn dims(values: &[i64]) -> Vec<DimExpr> {
        values.iter().map(|value| (*value).into()).collect()
    }

    #[test]
    fn shapes_change() {
        let x = i64s(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let reshaped = run(Reshape { shape: dims(&[3, 1, 2]) }, std::slice::from_ref(&x));
        assert_eq!((reshaped.shape(), reshaped.bytes()), (&[3, 1, 2][..], x.bytes()));
        assert_eq!(
            values(Transpose { permutation: vec![1, 0] }, std::slice::from_ref(&x)),
            [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
        );
        let cube = i64s(&[2, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(values(Transpose { permutation: vec![2, 0, 1] }, &[cube]), [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]);
        let scalar = run(Transpose { permutation: vec![] }, &[i64s(&[], &[9])]);
        assert_eq!(scalar.to_i64_vec().unwrap(), [9]);
    }

    #[test]
    fn broadcasting_is_two_sided() {
        let x = i64s(&[2, 1], &[1, 2]);
        let found = run(Broadcast { shape: dims(&[2, 1, 3]) }, &[x]);
        assert_eq!(found.shape(), [2, 2, 3]);
        assert_eq!(found.to_i64_vec().unwrap(), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn slices_step_both_ways() {
        let x = i64s(&[2, 5], &[0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
        let slice = |starts: &[i64], sizes: &[i64], steps: &[i64]| {
            values(Slice { starts: dims(starts), sizes: dims(sizes), steps: steps.to_vec() }, std::slice::from_ref(&x))
        };
        assert_eq!(slice(&[0, 1], &[2, 2], &[1, 2]), [1.0, 3.0, 11.0, 13.0]);
        assert_eq!(slice(&[1, 4], &[2, 3], &[-1, -2]), [14.0, 12.0, 10.0, 4.0, 2.0, 0.0]);
        assert_eq!(slice(&[1, 2], &[1, 1], &[i64::MAX, i64::MIN]), [12.0]);
        assert!(slice(&[0, 5], &[2, 0], &[1, 1]).is_empty());
    }
}
