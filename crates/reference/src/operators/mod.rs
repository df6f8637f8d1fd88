//! One file a family of operators, one line that registers each.

mod attention;
mod bitcast;
mod cast;
mod concat;
mod contract;
mod convolution;
mod elementwise;
mod gather;
mod literal;
mod movement;
mod non_max_suppression;
mod normalize;
mod pad;
mod product;
mod quantize;
mod recurrence;
mod reduce;
mod resize;
mod scan;
mod scatter;
mod search_sorted;
mod set_dimension_size;
mod softmax;
mod top_k;
mod window;

use tenon_graph_dialect::Operator;

use crate::ReferenceError;
use crate::array::Array;
use crate::evaluate::{Call, Evaluate};

macro_rules! register {
    ($($name:ident),*) => {
        pub(crate) fn dispatch(operator: &Operator, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
            match operator { $(Operator::$name(operator) => operator.evaluate(call),)* }
        }
    };
}

register!(
    Constant,
    Iota,
    DimExtent,
    Elementwise,
    Cast,
    Bitcast,
    Contract,
    Convolution,
    Window,
    Reduce,
    ArgReduce,
    Scan,
    Softmax,
    Normalize,
    Attention,
    Recurrence,
    Resize,
    Gather,
    Scatter,
    TopK,
    Quantize,
    Dequantize,
    Reshape,
    Transpose,
    Broadcast,
    Slice,
    Pad,
    Concat,
    SearchSorted,
    NonMaxSuppression,
    SetDimensionSize
);

/// An axis that inference has checked, counted from the front.
pub(crate) fn axis(axis: i64, rank: usize) -> usize {
    (if axis < 0 { axis + rank as i64 } else { axis }) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod testing {
    //! What the tests of operators share.

    use tenon_graph_dialect::{Operator, TensorType};
    use tenon_tensor::{DType, Tensor};

    use crate::{Mode, evaluate};

    /// A tensor of any real type.
    pub(crate) fn tensor(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
        Tensor::from_f64s(dtype, shape.to_vec(), values).unwrap()
    }

    /// An f32 tensor.
    pub(crate) fn f32s(shape: &[usize], values: &[f64]) -> Tensor {
        tensor(DType::F32, shape, values)
    }

    /// An i64 tensor.
    pub(crate) fn i64s(shape: &[usize], values: &[i64]) -> Tensor {
        Tensor::from_i64(shape.to_vec(), values).unwrap()
    }

    /// All results, of inferred types.
    pub(crate) fn run_all(operator: impl Into<Operator>, inputs: &[Tensor], mode: Mode) -> Vec<Tensor> {
        let operator = operator.into();
        let types: Vec<_> = inputs
            .iter()
            .map(|input| {
                TensorType::fixed(input.dtype(), &input.shape().iter().map(|size| *size as u64).collect::<Vec<_>>())
            })
            .collect();
        let results = operator.infer(&types).unwrap();
        evaluate(&operator, inputs, &results, mode).unwrap()
    }

    /// The only result in the typed mode.
    pub(crate) fn run(operator: impl Into<Operator>, inputs: &[Tensor]) -> Tensor {
        run_all(operator, inputs, Mode::Typed).remove(0)
    }

    /// The only result in the typed mode, as numbers.
    pub(crate) fn values(operator: impl Into<Operator>, inputs: &[Tensor]) -> Vec<f64> {
        run(operator, inputs).to_f64_vec().unwrap()
    }

    /// The code of the refusal.
    pub(crate) fn refusal(operator: impl Into<Operator>, inputs: &[Tensor], result: TensorType) -> &'static str {
        evaluate(&operator.into(), inputs, &[result], Mode::Typed).unwrap_err().code()
    }

    /// Asserts that all pairs differ by at most `tolerance`.
    pub(crate) fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= tolerance || (found.is_nan() && expected.is_nan()),
                "{found} is not {expected}"
            );
        }
    }
}
