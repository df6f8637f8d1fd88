//! `graph.pad`. Negative padding crops first; mirroring, repetition and the edge are those of what is left.

use tenon_graph_dialect::operators::{Pad, PadMode};

use crate::ReferenceError;
use crate::array::{Array, Data};
use crate::evaluate::{Call, Evaluate};
use crate::shape::{for_each_index, strides};

impl Evaluate for Pad {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let (input, value, form) = (&call.inputs[0], &call.inputs[1], &call.results[0]);
        let steps = strides(&input.shape);
        // Per dimension, the source of each place; none is the value.
        let sources: Vec<Vec<Option<usize>>> = (0..form.shape.len())
            .map(|dim| (0..form.shape[dim]).map(|place| self.source(dim, place, input.shape[dim])).collect())
            .collect();
        let mut picked: Vec<Option<usize>> = Vec::with_capacity(form.count());
        for_each_index(&form.shape, |index| {
            picked.push(index.iter().enumerate().map(|(dim, place)| Some(sources[dim][*place]? * steps[dim])).sum());
        });
        let data = match (&*input.data, &*value.data) {
            (Data::F32(elements), Data::F32(value)) => Data::F32(filled(elements, value, &picked)),
            (Data::F64(elements), Data::F64(value)) => Data::F64(filled(elements, value, &picked)),
            (Data::Int(elements), Data::Int(value)) => Data::Int(filled(elements, value, &picked)),
            (Data::Complex(elements), Data::Complex(value)) => Data::Complex(filled(elements, value, &picked)),
            _ => return Err(call.unsupported("an input and a value that are stored differently")),
        };
        Ok(vec![Array::new(form, data)])
    }
}

fn filled<T: Copy>(elements: &[T], value: &[T], picked: &[Option<usize>]) -> Vec<T> {
    picked.iter().map(|source| source.map_or(value[0], |source| elements[source])).collect()
}

trait Source {
    fn source(&self, dim: usize, place: usize, size: usize) -> Option<usize>;
}

impl Source for Pad {
    fn source(&self, dim: usize, place: usize, size: usize) -> Option<usize> {
        let low = self.low[dim].as_constant().unwrap_or(0);
        let high = self.high[dim].as_constant().unwrap_or(0);
        let cropped = low.min(0).unsigned_abs() as i64;
        let left = size as i64 - cropped + high.min(0);
        let at = place as i64 - low.max(0);
        let at = match self.mode {
            PadMode::Constant => (0..left).contains(&at).then_some(at)?,
            PadMode::Edge => at.clamp(0, left - 1),
            PadMode::Wrap => at.rem_euclid(left),
            PadMode::Reflect if left == 1 => 0,
            PadMode::Reflect => {
                let period = 2 * (left - 1);
                let phase = at.rem_euclid(period);
                phase.min(period - phase)
            }
        };
        Some((at + cropped) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::DType;

    fn pad(mode: PadMode, low: i64, high: i64, size: usize) -> Vec<f64> {
        let elements: Vec<f64> = (1..=size).map(|i| i as f64).collect();
        let op = Pad { mode, low: vec![low.into()], high: vec![high.into()] };
        values(op, &[f32s(&[size], &elements), f32s(&[], &[9.0])])
    }

    #[test]
    fn modes() {
        assert_eq!(pad(PadMode::Constant, 1, 2, 2), [9.0, 1.0, 2.0, 9.0, 9.0]);
        assert_eq!(pad(PadMode::Edge, 2, 1, 3), [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!(pad(PadMode::Reflect, 2, 2, 3), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
        assert_eq!(pad(PadMode::Wrap, 2, 1, 3), [2.0, 3.0, 1.0, 2.0, 3.0, 1.0]);
        // Further than the mirror is wide.
        assert_eq!(pad(PadMode::Reflect, 3, 0, 2), [2.0, 1.0, 2.0, 1.0, 2.0]);
        assert_eq!(pad(PadMode::Reflect, 1, 1, 1), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn negative_pads_crop_first() {
        assert_eq!(pad(PadMode::Constant, -1, 2, 3), [2.0, 3.0, 9.0, 9.0]);
        assert_eq!(pad(PadMode::Constant, -1, -1, 3), [2.0]);
        assert_eq!(pad(PadMode::Edge, -1, 2, 3), [2.0, 3.0, 3.0, 3.0]);
        assert_eq!(pad(PadMode::Reflect, 1, -1, 3), [2.0, 1.0, 2.0]);
        assert_eq!(pad(PadMode::Wrap, 1, -1, 3), [2.0, 1.0, 2.0]);
        assert_eq!(pad(PadMode::Constant, -5, 4, 3), [9.0, 9.0]);
    }

    #[test]
    fn two_dimensions_and_other_types() {
        let op = Pad { mode: PadMode::Constant, low: vec![1.into(), 0.into()], high: vec![0.into(), 1.into()] };
        let x = tensor(DType::Bool, &[1, 2], &[1.0, 1.0]);
        assert_eq!(values(op, &[x, tensor(DType::Bool, &[], &[0.0])]), [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    }
}
