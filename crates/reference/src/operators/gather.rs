//! `graph.gather`: elements or slices picked by index. Negative indices count from the end; those out of range are clamped.

use tenon_graph_dialect::operators::{Gather, GatherKind};

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};
use crate::operators::axis;
use crate::shape::{count, for_each_index, strides};

impl Evaluate for Gather {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (input, indices) = (&call.inputs[0], &call.inputs[1]);
        let form = &call.results[0];
        let places = indices.ints();
        let shape = &input.shape;
        let steps = strides(shape);
        let mut sources = Vec::with_capacity(form.count());
        if form.count() > 0 && count(shape) == 0 {
            return Err(call.undefined("the input has no elements to pick"));
        }
        match self.kind {
            GatherKind::Take => {
                let axis = axis(self.axis, shape.len());
                let (outer, inner) = (count(&shape[..axis]), steps[axis]);
                for block in 0..outer {
                    for place in places {
                        let start = (block * shape[axis] + clamped(*place, shape[axis])) * inner;
                        sources.extend(start..start + inner);
                    }
                }
            }
            GatherKind::Elements => {
                let axis = axis(self.axis, shape.len());
                let mut next = places.iter();
                for_each_index(&indices.shape, |index| {
                    let place = next.next().map_or(0, |place| clamped(*place, shape[axis]));
                    // Other dimensions of the indices may be smaller than the input's.
                    let along = |dim: usize| if dim == axis { place } else { index[dim] };
                    sources.push((0..shape.len()).map(|dim| along(dim) * steps[dim]).sum());
                });
            }
            GatherKind::Nd => {
                let batch = self.batch_dims as usize;
                let tuple = indices.shape.last().copied().unwrap_or(0);
                let inner = count(&shape[batch + tuple..]);
                let own = strides(&indices.shape);
                let lead = &form.shape[..indices.shape.len() - 1];
                for_each_index(lead, |index| {
                    // A batch dimension of 1 serves all.
                    let broadcast = |size: usize, at: usize| if size == 1 { 0 } else { at };
                    let entry: usize =
                        index.iter().enumerate().map(|(dim, at)| broadcast(indices.shape[dim], *at) * own[dim]).sum();
                    let batched: usize = (0..batch).map(|dim| broadcast(shape[dim], index[dim]) * steps[dim]).sum();
                    let start: usize = batched
                        + (0..tuple)
                            .map(|part| clamped(places[entry + part], shape[batch + part]) * steps[batch + part])
                            .sum::<usize>();
                    sources.extend(start..start + inner);
                });
            }
        }
        Ok(vec![input.picked(form, &sources)])
    }
}

fn clamped(index: i64, size: usize) -> usize {
    let size = size as i64;
    (if index < 0 { index.saturating_add(size) } else { index }).clamp(0, (size - 1).max(0)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::TensorType;
    use tenon_tensor::DType;

    fn gather(kind: GatherKind, axis: i64) -> Gather {
        Gather { kind, axis, batch_dims: 0 }
    }

    #[test]
    fn slices_along_an_axis() {
        let x = f32s(&[2, 3], &[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        let rows = run(gather(GatherKind::Take, 0), &[x.clone(), i64s(&[1, 2], &[-1, 0])]);
        assert_eq!(rows.shape(), [1, 2, 3]);
        assert_eq!(rows.to_f64_vec().ok(), Some(vec![10.0, 11.0, 12.0, 0.0, 1.0, 2.0]));
        let columns = gather(GatherKind::Take, -1);
        assert_eq!(values(columns.clone(), &[x.clone(), i64s(&[2], &[2, 0])]), [2.0, 0.0, 12.0, 10.0]);
        // Out of range: the nearest.
        assert_eq!(values(columns.clone(), &[x.clone(), i64s(&[2], &[i64::MAX, i64::MIN])]), [2.0, 0.0, 12.0, 10.0]);
        assert_eq!(values(columns, &[x, i64s(&[], &[1])]), [1.0, 11.0]);
        let empty = f32s(&[0], &[]);
        assert_eq!(
            refusal(gather(GatherKind::Take, 0), &[empty, i64s(&[1], &[0])], TensorType::fixed(DType::F32, &[1])),
            "E0303"
        );
    }

    #[test]
    fn elements_along_an_axis() {
        // ONNX GatherElements, first example of its page.
        let x = tensor(DType::I32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let indices = i64s(&[2, 2], &[0, 0, 1, 0]);
        assert_eq!(values(gather(GatherKind::Elements, 1), &[x.clone(), indices]), [1.0, 1.0, 4.0, 3.0]);
        assert_eq!(values(gather(GatherKind::Elements, 0), &[x, i64s(&[1, 2], &[-1, 0])]), [3.0, 2.0]);
    }

    #[test]
    fn index_tuples() {
        // ONNX GatherND, examples 1, 2 and 5 of its page.
        let x = i64s(&[2, 2], &[0, 1, 2, 3]);
        assert_eq!(values(gather(GatherKind::Nd, 0), &[x.clone(), i64s(&[2, 2], &[0, 0, 1, 1])]), [0.0, 3.0]);
        assert_eq!(values(gather(GatherKind::Nd, 0), &[x, i64s(&[2, 1], &[1, 0])]), [2.0, 3.0, 0.0, 1.0]);
        let x = i64s(&[2, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7]);
        let batched = Gather { batch_dims: 1, ..gather(GatherKind::Nd, 0) };
        assert_eq!(values(batched, &[x, i64s(&[2, 1], &[1, 0])]), [2.0, 3.0, 4.0, 5.0]);
    }
}
