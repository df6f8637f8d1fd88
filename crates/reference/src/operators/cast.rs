//! `graph.cast`: conversion of the element type.
//!
//! Float to float rounds once to nearest even; past the largest value the 8- and 4-bit floats saturate where asked to, else they become
//! infinity or NaN. Float to integer truncates and clamps to the range, NaN to 0. Integers wrap. Anything to `i1` asks whether it is not 0.
//! Real to complex has no imaginary part; complex to real drops it. Source: ONNX Cast, opset 25; PTX `cvt`.

use tenon_graph_dialect::operators::Cast;
use tenon_tensor::{DType, NumberKind, Overflow, decode_float, encode_float_with};

use crate::array::{Array, Data, Form};
use crate::evaluate::{Call, Evaluate};
use crate::number::{range, round_f64, round_to_odd, widen, wrap};
use crate::{Mode, ReferenceError};

impl Evaluate for Cast {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        Ok(vec![convert(&call.inputs[0], &call.results[0], call.mode, self.saturate)])
    }
}

/// Converts elements to the type of `form`, which has the array's shape.
pub(crate) fn convert(input: &Array, form: &Form, mode: Mode, saturate: bool) -> Array {
    let from = input.dtype;
    let to = form.dtype;
    if from == to {
        return input.renamed(form);
    }
    let data = match to.kind() {
        NumberKind::Float => match &*input.data {
            Data::F32(values) => floats(values.iter().map(|value| f64::from(*value)), to, mode, saturate),
            Data::F64(values) => floats(values.iter().copied(), to, mode, saturate),
            Data::Int(values) => floats(values.iter().map(|value| exact(from, *value, to, mode)), to, mode, saturate),
            Data::Complex(values) => floats(values.iter().map(|value| value[0]), to, mode, saturate),
        },
        NumberKind::Complex => Data::Complex(match &*input.data {
            Data::F32(values) => values.iter().map(|value| complex(to, [f64::from(*value), 0.0])).collect(),
            Data::F64(values) => values.iter().map(|value| complex(to, [*value, 0.0])).collect(),
            Data::Int(values) => {
                values.iter().map(|value| complex(to, [round_to_odd(widen(from, *value)), 0.0])).collect()
            }
            Data::Complex(values) => values.iter().map(|value| complex(to, *value)).collect(),
        }),
        NumberKind::Bool => Data::Int(match &*input.data {
            Data::F32(values) => values.iter().map(|value| i64::from(*value != 0.0)).collect(),
            Data::F64(values) => values.iter().map(|value| i64::from(*value != 0.0)).collect(),
            Data::Int(values) => values.iter().map(|value| i64::from(*value != 0)).collect(),
            Data::Complex(values) => values.iter().map(|value| i64::from(*value != [0.0, 0.0])).collect(),
        }),
        NumberKind::SignedInteger | NumberKind::UnsignedInteger => Data::Int(match &*input.data {
            Data::F32(values) => values.iter().map(|value| truncate(to, f64::from(*value))).collect(),
            Data::F64(values) => values.iter().map(|value| truncate(to, *value)).collect(),
            Data::Int(values) => values.iter().map(|value| wrap(to, widen(from, *value))).collect(),
            Data::Complex(values) => values.iter().map(|value| truncate(to, value[0])).collect(),
        }),
    };
    Array::new(form, data)
}

/// Truncated, clamped to the range of the type; NaN is 0.
pub(crate) fn truncate(dtype: DType, value: f64) -> i64 {
    let (least, greatest) = range(dtype);
    wrap(dtype, (value as i128).clamp(least, greatest))
}

/// Rounds both parts to those of the complex type.
pub(crate) fn complex(dtype: DType, value: [f64; 2]) -> [f64; 2] {
    if dtype == DType::Complex64 { value.map(|part| f64::from(part as f32)) } else { value }
}

fn exact(from: DType, value: i64, to: DType, mode: Mode) -> f64 {
    let value = widen(from, value);
    if mode == Mode::F64 || to == DType::F64 { value as f64 } else { round_to_odd(value) }
}

fn floats(values: impl Iterator<Item = f64>, dtype: DType, mode: Mode, saturate: bool) -> Data {
    if mode == Mode::F64 || dtype == DType::F64 {
        return Data::F64(values.collect());
    }
    if dtype.bits() > 8 {
        return Data::F32(values.map(|value| round_f64(dtype, value) as f32).collect());
    }
    let overflow = if saturate { Overflow::Saturate } else { Overflow::Special };
    Data::F32(values.map(|value| decode_float(dtype, encode_float_with(dtype, value, overflow)) as f32).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_tensor::Tensor;

    fn cast(dtype: DType, input: &Tensor) -> Vec<f64> {
        values(Cast { dtype, saturate: true }, std::slice::from_ref(input))
    }

    #[test]
    fn float_to_integer_truncates_and_clamps() {
        let input = f32s(&[6], &[1.9, -1.9, 300.0, -300.0, f64::NAN, f64::INFINITY]);
        assert_eq!(cast(DType::I8, &input), [1.0, -1.0, 127.0, -128.0, 0.0, 127.0]);
        assert_eq!(cast(DType::U8, &input), [1.0, 0.0, 255.0, 0.0, 0.0, 255.0]);
        assert_eq!(cast(DType::Bool, &input), [1.0; 6]);
        assert_eq!(cast(DType::U4, &input), [1.0, 0.0, 15.0, 0.0, 0.0, 15.0]);
    }

    #[test]
    fn integers_wrap_and_round_once() {
        assert_eq!(cast(DType::I8, &i64s(&[3], &[200, -129, 256])), [-56.0, 127.0, 0.0]);
        assert_eq!(cast(DType::U16, &i64s(&[1], &[-1])), [65535.0]);
        let value = (1i64 << 60) + (1 << 36) + 1;
        assert_eq!(cast(DType::F32, &i64s(&[1], &[value])), [((1u64 << 60) + (1 << 37)) as f64]);
        assert_eq!(cast(DType::F64, &Tensor::from_u64(vec![1], &[u64::MAX]).unwrap()), [18446744073709551616.0]);
    }

    #[test]
    fn narrow_floats_saturate_where_asked() {
        // The table of ONNX's Cast for values out of range: the largest is 448 for f8E4M3FN and 57344 for f8E5M2.
        let input = f32s(&[3], &[1e6, -1e6, 17.0]);
        assert_eq!(cast(DType::F8E4M3FN, &input), [448.0, -448.0, 16.0]);
        let special = values(Cast { dtype: DType::F8E5M2, saturate: false }, std::slice::from_ref(&input));
        assert_eq!(special, [f64::INFINITY, f64::NEG_INFINITY, 16.0]);
        let special = values(Cast { dtype: DType::F8E4M3FN, saturate: false }, &[input]);
        assert!(special[0].is_nan() && special[1].is_nan());
        assert_eq!(cast(DType::F16, &f32s(&[3], &[65520.0, 1.0009765, 1e-8])), [f64::INFINITY, 1.0009765625, 0.0]);
    }

    #[test]
    fn every_pair_of_real_types_keeps_one() {
        let real = |dtype: &DType| dtype.kind() != NumberKind::Complex;
        for from in DType::all().filter(real) {
            for to in DType::all().filter(real) {
                // 1 is a value of every type.
                assert_eq!(cast(to, &tensor(from, &[2], &[1.0, 1.0])), [1.0, 1.0], "{from} to {to}");
            }
        }
        let complex = run(Cast { dtype: DType::Complex64, saturate: false }, &[f32s(&[1], &[2.5])]);
        assert_eq!(complex.to_complex_vec().unwrap(), [(2.5, 0.0)]);
        assert_eq!(cast(DType::F32, &complex), [2.5]);
    }

    #[test]
    fn the_oracle_does_not_round() {
        let input = Tensor::from_f64(vec![1], &[1.0 + 1e-12]).unwrap();
        let result = run_all(Cast { dtype: DType::F16, saturate: false }, &[input], Mode::F64).remove(0);
        assert_eq!(result.to_f64_vec().unwrap(), [1.0 + 1e-12]);
    }
}
