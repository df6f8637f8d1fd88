//! The type that products are summed in, for contractions and convolutions.
//!
//! Typed: product and sum are each rounded to the accumulator's type; the sum is rounded once more to the result's. Integer accumulators
//! wrap. In the f64 mode float sums are in f64 whatever the accumulator is.

use tenon_tensor::{DType, NumberKind};

use crate::array::{Array, Data, Form};
use crate::evaluate::Call;
use crate::number::{round_f32, wrap};
use crate::operators::cast::{complex, convert};
use crate::operators::elementwise::complex_product;
use crate::{Mode, ReferenceError};

/// A loop over products, generic over what is multiplied.
pub(crate) trait Products {
    /// Sums products of elements of both operands, each sum starting at `zero`; `step(sum, a, b)` is the new sum.
    fn sums<T, F>(&self, lhs: &[T], rhs: &[T], zero: T, step: F) -> Vec<T>
    where
        T: Copy + Send + Sync,
        F: Fn(T, T, T) -> T + Sync;
}

/// Runs the loop on the call's two operands with the right kind of numbers.
pub(crate) fn accumulate(
    call: &Call<'_>,
    accumulate: DType,
    products: &impl Products,
) -> Result<Array, ReferenceError> {
    let [lhs, rhs] = call.inputs else {
        return Err(call.unsupported("products of two operands alone"));
    };
    let form = &call.results[0];
    let sums = Form { dtype: accumulate, shape: form.shape.clone() };
    let inexact = [lhs, rhs].iter().any(|operand| operand.dtype.is_float());
    let data = match accumulate.kind() {
        NumberKind::Complex => {
            let pair = |operand: &Array| {
                let pairs = Form { dtype: accumulate, shape: operand.shape.clone() };
                convert(operand, &pairs, call.mode, false)
            };
            let (lhs, rhs) = (pair(lhs), pair(rhs));
            let (Data::Complex(lhs), Data::Complex(rhs)) = (&*lhs.data, &*rhs.data) else {
                return Err(call.unsupported(format!("products summed in {accumulate}")));
            };
            Data::Complex(products.sums(lhs, rhs, [0.0; 2], |sum, a, b| {
                let product = complex(accumulate, complex_product(a, b));
                complex(accumulate, [sum[0] + product[0], sum[1] + product[1]])
            }))
        }
        _ if [lhs, rhs].iter().any(|operand| operand.dtype.kind() == NumberKind::Complex) => {
            return Err(call.unsupported(format!("complex products summed in {accumulate}")));
        }
        NumberKind::Float if call.mode == Mode::F64 || accumulate == DType::F64 => {
            Data::F64(products.sums(&lhs.to_reals::<f64>(), &rhs.to_reals(), 0.0, |sum, a, b| sum + a * b))
        }
        NumberKind::Float if accumulate == DType::F32 => {
            Data::F32(products.sums(&lhs.to_reals::<f32>(), &rhs.to_reals(), 0.0, |sum, a, b| sum + a * b))
        }
        NumberKind::Float => Data::F32(products.sums(&lhs.to_reals::<f32>(), &rhs.to_reals(), 0.0, |sum, a, b| {
            round_f32(accumulate, sum + round_f32(accumulate, a * b))
        })),
        _ if inexact => return Err(call.unsupported(format!("products of floats summed in {accumulate}"))),
        _ => {
            // Modulo 2⁶⁴, and at the end modulo the accumulator's width: the same residue as wrapping at each step.
            let step = |sum: i64, a: i64, b: i64| sum.wrapping_add(a.wrapping_mul(b));
            let wide = products.sums(lhs.ints(), rhs.ints(), 0, step);
            Data::Int(wide.into_iter().map(|sum| wrap(accumulate, i128::from(sum))).collect())
        }
    };
    Ok(convert(&Array::new(&sums, data), form, call.mode, form.dtype.bits() <= 8))
}
