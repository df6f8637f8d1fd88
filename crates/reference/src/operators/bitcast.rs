//! `graph.bitcast`: the bits of elements as another type of as many. Source: ONNX BitCast, opset 26. Floats of 32 bits and fewer are held as f32,
//! so that a NaN of f16, bf16 or a narrower type has the bits that its type writes NaN with.

use tenon_graph_dialect::operators::Bitcast;
use tenon_tensor::{DType, Tensor};

use crate::array::Array;
use crate::evaluate::{Call, Evaluate};
use crate::{Mode, ReferenceError};

impl Evaluate for Bitcast {
    /// In the f64 mode floats have the bits of their own type, to which they are rounded.
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let input = &call.inputs[0];
        let typed = input.write()?;
        let typed = if typed.dtype() == input.dtype {
            typed
        } else {
            Tensor::from_f64s(input.dtype, input.shape.clone(), &typed.to_f64_vec()?)?
        };
        let bits = (0..typed.element_count()).filter_map(|index| typed.get_bits(index));
        let bits = bits.map(|bits| if self.dtype == DType::Bool { u64::from(bits != 0) } else { bits });
        let tensor = Tensor::from_bits(self.dtype, input.shape.clone(), bits)?;
        Ok(vec![Array::read(&tensor, self.dtype, if call.mode == Mode::F64 { Mode::F64 } else { Mode::Typed })?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::testing::*;

    #[test]
    fn bits_stay() {
        let cast = |dtype, input| values(Bitcast { dtype }, &[input]);
        assert_eq!(
            cast(DType::I32, f32s(&[3], &[1.0, -0.0, f64::INFINITY])),
            [1065353216.0, -2147483648.0, 2139095040.0]
        );
        assert_eq!(cast(DType::F32, tensor(DType::U32, &[1], &[1077936128.0])), [3.0]);
        assert_eq!(cast(DType::U16, tensor(DType::BF16, &[1], &[1.0])), [16256.0]);
        assert_eq!(cast(DType::I4, tensor(DType::U4, &[2], &[7.0, 9.0])), [7.0, -7.0]);
        assert_eq!(cast(DType::F8E4M3FN, tensor(DType::U8, &[1], &[56.0])), [1.0]);
        assert_eq!(cast(DType::U8, tensor(DType::Bool, &[2], &[0.0, 1.0])), [0.0, 1.0]);
        assert_eq!(
            refusal(
                Bitcast { dtype: DType::I16 },
                &[f32s(&[1], &[1.0])],
                tenon_graph_dialect::TensorType::fixed(DType::I16, &[1])
            ),
            "E0302"
        );
    }
}
