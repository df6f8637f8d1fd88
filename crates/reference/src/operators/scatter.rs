//! `graph.scatter`: a copy of the input with updates combined in, one after another in the order of the indices, each combination rounded
//! to the element type. Negative indices count from the end; an index out of range is refused.

use tenon_graph_dialect::operators::{Combine, Scatter, ScatterKind};

use crate::array::{Array, Data};
use crate::evaluate::{Call, Evaluate};
use crate::number::{Real, round_f32, widen, wrap};
use crate::operators::axis;
use crate::shape::{count, for_each_index, strides};
use crate::{Mode, ReferenceError};

impl Evaluate for Scatter {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let targets = self.targets(call)?;
        let (input, updates) = (&call.inputs[0], &call.inputs[2]);
        let form = &call.results[0];
        let dtype = input.dtype;
        let data = match (&*input.data, &*updates.data) {
            (Data::F32(elements), Data::F32(updates)) => {
                Data::F32(applied(elements, updates, &targets, |a, b| round_f32(dtype, real(self.combine, a, b))))
            }
            (Data::F64(elements), Data::F64(updates)) => {
                debug_assert!(call.mode == Mode::F64 || dtype == tenon_tensor::DType::F64);
                Data::F64(applied(elements, updates, &targets, |a, b| real(self.combine, a, b)))
            }
            (Data::Int(elements), Data::Int(updates)) => Data::Int(applied(elements, updates, &targets, |a, b| {
                let (a, b) = (widen(dtype, a), widen(dtype, b));
                wrap(
                    dtype,
                    match self.combine {
                        Combine::Set => b,
                        Combine::Add => a + b,
                        Combine::Multiply => a.wrapping_mul(b),
                        Combine::Max => a.max(b),
                        Combine::Min => a.min(b),
                    },
                )
            })),
            (Data::Complex(elements), Data::Complex(updates)) if self.combine == Combine::Set => {
                Data::Complex(applied(elements, updates, &targets, |_, b| b))
            }
            _ => return Err(call.unsupported(format!("`{}` of {dtype}", self.combine.name()))),
        };
        Ok(vec![Array::new(form, data)])
    }
}

fn real<T: Real>(combine: Combine, a: T, b: T) -> T {
    match combine {
        Combine::Set => b,
        Combine::Add => a + b,
        Combine::Multiply => a * b,
        Combine::Max => a.larger(b),
        Combine::Min => a.smaller(b),
    }
}

fn applied<T: Copy>(elements: &[T], updates: &[T], targets: &[usize], combine: impl Fn(T, T) -> T) -> Vec<T> {
    let mut result = elements.to_vec();
    for (target, update) in targets.iter().zip(updates) {
        result[*target] = combine(result[*target], *update);
    }
    result
}

trait Targets {
    /// Linear index in the result of each update.
    fn targets(&self, call: &Call<'_>) -> Result<Vec<usize>, ReferenceError>;
}

impl Targets for Scatter {
    fn targets(&self, call: &Call<'_>) -> Result<Vec<usize>, ReferenceError> {
        let (shape, indices) = (&call.inputs[0].shape, &call.inputs[1]);
        let places = indices.ints();
        let steps = strides(shape);
        let mut targets = Vec::with_capacity(call.inputs[2].count());
        let mut refused = None;
        let mut inside = |index: i64, dim: usize| {
            let size = shape[dim] as i64;
            let place = if index < 0 { index.saturating_add(size) } else { index };
            if !(0..size).contains(&place) {
                refused.get_or_insert((index, dim));
                return 0;
            }
            place as usize
        };
        match self.kind {
            ScatterKind::Elements => {
                let axis = axis(self.axis, shape.len());
                let mut next = places.iter();
                for_each_index(&indices.shape, |index| {
                    let place = next.next().copied().unwrap_or(0);
                    let along =
                        |dim: usize| if dim == axis { inside(place, dim) } else { inside(index[dim] as i64, dim) };
                    targets.push((0..shape.len()).map(along).zip(&steps).map(|(place, step)| place * step).sum());
                });
            }
            ScatterKind::Nd => {
                let tuple = indices.shape.last().copied().unwrap_or(0);
                let inner = count(&shape[tuple..]);
                for entry in 0..count(&indices.shape[..indices.shape.len() - 1]) {
                    let parts = (0..tuple).map(|part| inside(places[entry * tuple + part], part) * steps[part]);
                    let start: usize = parts.sum();
                    targets.extend(start..start + inner);
                }
            }
        }
        match refused {
            Some((index, dim)) => {
                Err(call.undefined(format!("index {index} lies outside dimension {dim} of size {}", shape[dim])))
            }
            None => Ok(targets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::TensorType;
    use tenon_tensor::DType;

    fn scatter(kind: ScatterKind, combine: Combine) -> Scatter {
        Scatter { kind, combine, axis: 0 }
    }

    #[test]
    fn elements_and_duplicates() {
        let x = f32s(&[3], &[1.0, 2.0, 3.0]);
        let indices = i64s(&[3], &[1, -2, 0]);
        let updates = f32s(&[3], &[5.0, 7.0, -4.0]);
        let at =
            |combine| values(scatter(ScatterKind::Elements, combine), &[x.clone(), indices.clone(), updates.clone()]);
        assert_eq!(at(Combine::Set), [-4.0, 7.0, 3.0]);
        assert_eq!(at(Combine::Add), [-3.0, 14.0, 3.0]);
        assert_eq!(at(Combine::Multiply), [-4.0, 70.0, 3.0]);
        assert_eq!(at(Combine::Max), [1.0, 7.0, 3.0]);
        assert_eq!(at(Combine::Min), [-4.0, 2.0, 3.0]);
        let columns = Scatter { axis: 1, ..scatter(ScatterKind::Elements, Combine::Set) };
        assert_eq!(
            values(columns, &[i64s(&[2, 2], &[0; 4]), i64s(&[1, 2], &[1, 0]), i64s(&[1, 2], &[8, 9])]),
            [9.0, 8.0, 0.0, 0.0]
        );
    }

    #[test]
    fn index_tuples() {
        // ONNX ScatterND, examples 1 (elements) and a slice.
        let x = f32s(&[8], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let op = scatter(ScatterKind::Nd, Combine::Set);
        let operands = [x, i64s(&[4, 1], &[4, 3, 1, 7]), f32s(&[4], &[9.0, 10.0, 11.0, 12.0])];
        assert_eq!(values(op.clone(), &operands), [1.0, 11.0, 3.0, 10.0, 9.0, 6.0, 7.0, 12.0]);
        let operands = [i64s(&[2, 2], &[1, 2, 3, 4]), i64s(&[1, 1], &[-1]), i64s(&[1, 2], &[8, 9])];
        assert_eq!(values(op, &operands), [1.0, 2.0, 8.0, 9.0]);
    }

    #[test]
    fn every_combination_rounds_and_outside_is_refused() {
        let x = tensor(DType::F16, &[1], &[2048.0]);
        let op = scatter(ScatterKind::Elements, Combine::Add);
        assert_eq!(
            values(op.clone(), &[x.clone(), i64s(&[2], &[0, 0]), tensor(DType::F16, &[2], &[1.0, 1.0])]),
            [2048.0]
        );
        let operands = [x, i64s(&[1], &[1]), tensor(DType::F16, &[1], &[1.0])];
        assert_eq!(refusal(op, &operands, TensorType::fixed(DType::F16, &[1])), "E0904");
        let bytes = scatter(ScatterKind::Elements, Combine::Add);
        assert_eq!(
            values(bytes, &[tensor(DType::U8, &[1], &[250.0]), i64s(&[1], &[0]), tensor(DType::U8, &[1], &[10.0])]),
            [4.0]
        );
    }
}
