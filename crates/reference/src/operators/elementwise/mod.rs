//! `graph.elementwise`: scalar functions with broadcasting.

mod complex;
pub(crate) use complex::product as complex_product;
mod integer;
mod real;

use rayon::prelude::*;
use tenon_graph_dialect::operators::{Elementwise, Function};
use tenon_tensor::NumberKind;

use crate::ReferenceError;
use crate::array::{Array, Data, Form, map_data};
use crate::evaluate::{Call, Evaluate, with_real};
use crate::shape::broadcast;

impl Evaluate for Elementwise {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let form = &call.results[0];
        let inputs: Vec<Array> = call.inputs.iter().map(|input| spread(input, form)).collect();
        if self.function == Function::Select {
            return Ok(vec![select(form, &inputs)]);
        }
        let result = match inputs[0].dtype.kind() {
            NumberKind::Float => with_real!(call, T => real::apply::<T>(self.function, call, &inputs)),
            NumberKind::Complex => complex::apply(self.function, form, &inputs),
            _ => integer::apply(self.function, form, &inputs),
        };
        result
            .map(|array| vec![array])
            .ok_or_else(|| call.unsupported(format!("`{}` of {}", self.function.name(), inputs[0].dtype)))
    }
}

/// The input broadcast to the result's shape.
fn spread(input: &Array, form: &Form) -> Array {
    if input.shape == form.shape {
        return input.clone();
    }
    let data = map_data!(&*input.data, elements => broadcast(elements, &input.shape, &form.shape).into_owned());
    Array::new(&Form { dtype: input.dtype, shape: form.shape.clone() }, data)
}

fn select(form: &Form, inputs: &[Array]) -> Array {
    fn pick<T: Copy>(condition: &[i64], yes: &[T], no: &[T]) -> Vec<T> {
        condition.iter().zip(yes.iter().zip(no)).map(|(c, (yes, no))| if *c != 0 { *yes } else { *no }).collect()
    }
    let condition = inputs[0].ints();
    let data = match (&*inputs[1].data, &*inputs[2].data) {
        (Data::F32(yes), Data::F32(no)) => Data::F32(pick(condition, yes, no)),
        (Data::F64(yes), Data::F64(no)) => Data::F64(pick(condition, yes, no)),
        (Data::Complex(yes), Data::Complex(no)) => Data::Complex(pick(condition, yes, no)),
        // Two values of one element type have one storage: what is left are integers.
        _ => Data::Int(pick(condition, inputs[1].ints(), inputs[2].ints())),
    };
    Array::new(form, data)
}

/// Elements below this number are not worth another thread.
const SHARE: usize = 1 << 13;

pub(super) fn map<T: Copy + Send + Sync, R: Send>(a: &[T], function: impl Fn(T) -> R + Sync) -> Vec<R> {
    a.par_iter().with_min_len(SHARE).map(|a| function(*a)).collect()
}

pub(super) fn zip<T: Copy + Send + Sync, R: Send>(a: &[T], b: &[T], function: impl Fn(T, T) -> R + Sync) -> Vec<R> {
    a.par_iter().zip(b).with_min_len(SHARE).map(|(a, b)| function(*a, *b)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::{DType, Tensor};

    #[test]
    fn operands_broadcast() {
        let a = f32s(&[2, 1], &[1.0, 2.0]);
        let b = f32s(&[3], &[10.0, 20.0, 30.0]);
        let sum = run(Elementwise { function: Function::Add }, &[a, b]);
        assert_eq!(sum.shape(), [2, 3]);
        assert_eq!(sum.to_f64_vec().unwrap(), [11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
        let empty = run(Elementwise { function: Function::Add }, &[f32s(&[0, 3], &[]), f32s(&[1], &[1.0])]);
        assert_eq!(empty.shape(), [0, 3]);
    }

    #[test]
    fn select_takes_every_type() {
        let condition = Tensor::from_bool(vec![2], &[true, false]).unwrap();
        for dtype in DType::all().filter(|dtype| dtype.kind() != NumberKind::Complex) {
            let (yes, no) = (tensor(dtype, &[1], &[1.0]), tensor(dtype, &[2], &[0.0; 2]));
            let found = run(Elementwise { function: Function::Select }, &[condition.clone(), yes.clone(), no.clone()]);
            assert_eq!((found.get_bits(0), found.get_bits(1)), (yes.get_bits(0), no.get_bits(1)), "{dtype}");
        }
    }
}
