//! One operator on tensors.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_tensor::{DType, Tensor};

use crate::array::{Array, Form};
use crate::operators::dispatch;
use crate::{Mode, ReferenceError, ReferenceErrorKind};

/// An operator being evaluated; the types agree with the operator's own inference.
pub(crate) struct Call<'a> {
    pub(crate) operator: &'static str,
    pub(crate) mode: Mode,
    pub(crate) inputs: &'a [Array],
    pub(crate) results: &'a [Form],
}

impl Call<'_> {
    /// Whether floats are computed in f64: in the f64 mode, and where an f64 takes part.
    pub(crate) fn is_wide(&self) -> bool {
        self.mode == Mode::F64
            || self.inputs.iter().any(|input| input.dtype == DType::F64)
            || self.results.iter().any(|result| result.dtype == DType::F64)
    }

    pub(crate) fn undefined(&self, message: impl Into<String>) -> ReferenceError {
        ReferenceError::new(ReferenceErrorKind::Undefined, self.operator, message)
    }

    pub(crate) fn unsupported(&self, message: impl Into<String>) -> ReferenceError {
        ReferenceError::new(ReferenceErrorKind::Unsupported, self.operator, message)
    }
}

/// What every operator defines here.
pub(crate) trait Evaluate {
    /// Computes the results, one for each of `call.results`, of exactly that form.
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError>;
}

/// Computes with the type that the call's floats are computed in: `with_real!(call, T => …)`.
macro_rules! with_real {
    ($call:expr, $real:ident => $body:expr) => {
        if $call.is_wide() {
            type $real = f64;
            $body
        } else {
            type $real = f32;
            $body
        }
    };
}
pub(crate) use with_real;

/// Evaluates one operator. `result_types` are those written on the operation; dimensions must be numbers.
///
/// In [`Mode::F64`] an f64 tensor is taken for an operand of any float type, and float results are f64 tensors.
///
/// # Errors
/// Operands or results that do not fit the operator (by the code of the dialect's rule), symbolic dimensions, values above the limit on
/// memory, and operands for which the operator is undefined.
pub fn evaluate(
    operator: &Operator,
    inputs: &[Tensor],
    result_types: &[TensorType],
    mode: Mode,
) -> Result<Vec<Tensor>, ReferenceError> {
    let mut operands = Vec::with_capacity(inputs.len());
    // Only the operator knows the element type that an f64 tensor stands for; in the f64 mode it makes no difference.
    let stands_for = operand_type(result_types, inputs);
    for tensor in inputs {
        let carried = mode == Mode::F64 && tensor.dtype() == DType::F64;
        operands.push(Array::read(tensor, if carried { stands_for } else { tensor.dtype() }, mode)?);
    }
    evaluate_arrays(operator, &operands, result_types, mode)?.iter().map(Array::write).collect()
}

/// The float type that f64 operands of the f64 mode are taken to have: that of another operand, else of the result.
fn operand_type(result_types: &[TensorType], inputs: &[Tensor]) -> DType {
    let narrow = |dtype: &DType| dtype.is_float() && *dtype != DType::F64;
    let operands = inputs.iter().map(Tensor::dtype).find(narrow);
    operands.or_else(|| result_types.iter().map(|ty| ty.dtype).find(narrow)).unwrap_or(DType::F64)
}

pub(crate) fn evaluate_arrays(
    operator: &Operator,
    inputs: &[Array],
    result_types: &[TensorType],
    mode: Mode,
) -> Result<Vec<Array>, ReferenceError> {
    let name = operator.name();
    let types: Vec<TensorType> = inputs
        .iter()
        .map(|input| TensorType::fixed(input.dtype, &input.shape.iter().map(|size| *size as u64).collect::<Vec<_>>()))
        .collect();
    let results = result_types.iter().map(|ty| Form::read(name, ty, mode)).collect::<Result<Vec<_>, _>>()?;
    let inferred = operator.infer(&types)?;
    let inferred = inferred.iter().map(|ty| Form::read(name, ty, mode)).collect::<Result<Vec<_>, _>>()?;
    if inferred != results {
        let list = |forms: &[Form]| {
            forms.iter().map(|form| format!("{}{:?}", form.dtype, form.shape)).collect::<Vec<_>>().join(", ")
        };
        return Err(ReferenceError::new(
            ReferenceErrorKind::Mismatch,
            name,
            format!("the operands give {}, declared is {}", list(&inferred), list(&results)),
        ));
    }
    dispatch(operator, &Call { operator: name, mode, inputs, results: &results })
}
