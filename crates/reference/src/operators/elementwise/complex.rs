//! Functions of complex numbers: computed in pairs of f64, each result rounded to the type.

use tenon_graph_dialect::operators::Function;

use super::{map, zip};
use crate::array::{Array, Data, Form};
use crate::operators::cast::complex;

pub(super) fn apply(function: Function, form: &Form, inputs: &[Array]) -> Option<Array> {
    let parts = |input: usize| match inputs.get(input).map(|input| &*input.data) {
        Some(Data::Complex(values)) => Some(values),
        _ => None,
    };
    let a = parts(0)?;
    let Some(b) = parts(1) else {
        let negated = map(a, |[re, im]: [f64; 2]| [-re, -im]);
        return (function == Function::Negate).then(|| Array::new(form, Data::Complex(negated)));
    };
    let computed = |function: fn([f64; 2], [f64; 2]) -> [f64; 2]| {
        Some(Array::new(form, Data::Complex(zip(a, b, |a, b| complex(form.dtype, function(a, b))))))
    };
    match function {
        Function::Add => computed(|a, b| [a[0] + b[0], a[1] + b[1]]),
        Function::Subtract => computed(|a, b| [a[0] - b[0], a[1] - b[1]]),
        Function::Multiply => computed(product),
        Function::Divide => computed(|a, b| {
            let norm = b[0] * b[0] + b[1] * b[1];
            product(a, [b[0] / norm, -b[1] / norm])
        }),
        Function::Equal => Some(Array::integers(form, zip(a, b, |a, b| i64::from(a == b)))),
        Function::NotEqual => Some(Array::integers(form, zip(a, b, |a, b| i64::from(a != b)))),
        _ => None,
    }
}

pub(crate) fn product(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::operators::Elementwise;
    use tenon_tensor::{DType, Tensor};

    #[test]
    fn field_operations() {
        let number = |re: f64, im: f64| {
            let bytes: Vec<u8> = [re, im].iter().flat_map(|part| part.to_le_bytes()).collect();
            Tensor::new(DType::Complex128, vec![], bytes).unwrap()
        };
        let at = |function, a: (f64, f64), b: (f64, f64)| {
            run(Elementwise { function }, &[number(a.0, a.1), number(b.0, b.1)])
        };
        let parts = |tensor: Tensor| tensor.to_complex_vec().unwrap()[0];
        assert_eq!(parts(at(Function::Add, (1.0, 2.0), (3.0, -5.0))), (4.0, -3.0));
        assert_eq!(parts(at(Function::Subtract, (1.0, 2.0), (3.0, -5.0))), (-2.0, 7.0));
        assert_eq!(parts(at(Function::Multiply, (1.0, 2.0), (3.0, -5.0))), (13.0, 1.0));
        assert_eq!(parts(at(Function::Divide, (13.0, 1.0), (0.0, 2.0))), (0.5, -6.5));
        assert_eq!(at(Function::Equal, (1.0, 2.0), (1.0, 2.0)).to_i64_vec().unwrap(), [1]);
        assert_eq!(parts(run(Elementwise { function: Function::Negate }, &[number(1.0, -2.0)])), (-1.0, 2.0));
    }
}
