//! Values while they are computed with.

use std::borrow::Cow;
use std::sync::Arc;

use tenon_graph_dialect::TensorType;
use tenon_tensor::{DType, NumberKind, Overflow, Tensor, element_count, encode_float_with};

use crate::number::{Real, round_f32, round_f64, wrap};
use crate::shape::count;
use crate::{MAX_VALUE_BYTES, Mode, ReferenceError, ReferenceErrorKind};

/// Elements in C order.
///
/// Typed: floats of at most 32 bits are `F32` and hold values of their type, f64 is `F64`. In [`Mode::F64`] all floats are `F64`.
/// Integers and `i1` are `Int` in the form of [`wrap`].
#[derive(Debug)]
pub(crate) enum Data {
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
    Complex(Vec<[f64; 2]>),
}

/// A tensor in the interpreter; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Arc<Data>,
}

/// Applies one generic expression to the elements, whatever they are.
macro_rules! map_data {
    ($data:expr, $elements:ident => $body:expr) => {
        match $data {
            Data::F32($elements) => Data::F32($body),
            Data::F64($elements) => Data::F64($body),
            Data::Int($elements) => Data::Int($body),
            Data::Complex($elements) => Data::Complex($body),
        }
    };
}
pub(crate) use map_data;

/// Element type and shape of a value, as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl Form {
    /// Reads a type; refuses symbols and values above the limit.
    pub(crate) fn read(operation: &str, ty: &TensorType, mode: Mode) -> Result<Self, ReferenceError> {
        let shape = ty.known_shape().ok_or_else(|| {
            ReferenceError::new(
                ReferenceErrorKind::Symbolic,
                operation,
                format!("type {ty} has a dimension that is no number"),
            )
        })?;
        let too_large = || {
            ReferenceError::new(
                ReferenceErrorKind::TooLarge,
                operation,
                format!("a value of type {ty} takes more than {MAX_VALUE_BYTES} bytes"),
            )
        };
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
        let form = Form { dtype: ty.dtype, shape };
        let elements = element_count(&form.shape).ok_or_else(too_large)? as u64;
        if elements > MAX_VALUE_BYTES / 4 || elements * form.element_bytes(mode) > MAX_VALUE_BYTES {
            return Err(too_large());
        }
        Ok(form)
    }

    /// Bytes of one element here.
    pub(crate) fn element_bytes(&self, mode: Mode) -> u64 {
        match self.dtype.kind() {
            NumberKind::Complex => 16,
            NumberKind::Float if mode == Mode::Typed && self.dtype != DType::F64 => 4,
            _ => 8,
        }
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        count(&self.shape)
    }
}

impl Array {
    pub(crate) fn new(form: &Form, data: Data) -> Self {
        Array { dtype: form.dtype, shape: form.shape.clone(), data: Arc::new(data) }
    }

    /// An integer or `i1` array; elements are wrapped already.
    pub(crate) fn integers(form: &Form, values: Vec<i64>) -> Self {
        Array::new(form, Data::Int(values))
    }

    /// A float array from computed values, rounded to its type unless the mode carries f64.
    pub(crate) fn reals<T: Real>(form: &Form, mode: Mode, values: Vec<T>) -> Self {
        let dtype = form.dtype;
        let data = if mode == Mode::F64 || dtype == DType::F64 {
            Data::F64(values.into_iter().map(Real::wide).collect())
        } else if std::mem::size_of::<T>() == 4 {
            Data::F32(values.into_iter().map(|value| round_f32(dtype, value.wide() as f32)).collect())
        } else {
            Data::F32(values.into_iter().map(|value| round_f64(dtype, value.wide()) as f32).collect())
        };
        Array::new(form, data)
    }

    pub(crate) fn count(&self) -> usize {
        count(&self.shape)
    }

    /// Bytes of the elements here.
    pub(crate) fn bytes(&self) -> u64 {
        match &*self.data {
            Data::F32(values) => values.len() as u64 * 4,
            Data::F64(values) => values.len() as u64 * 8,
            Data::Int(values) => values.len() as u64 * 8,
            Data::Complex(values) => values.len() as u64 * 16,
        }
    }

    /// Elements of a float (or integer, rounded) array in the type that is computed in.
    pub(crate) fn to_reals<T: Real>(&self) -> Cow<'_, [T]> {
        use std::any::Any;
        let same: Option<&Vec<T>> = match &*self.data {
            Data::F32(values) => (values as &dyn Any).downcast_ref(),
            Data::F64(values) => (values as &dyn Any).downcast_ref(),
            _ => None,
        };
        if let Some(values) = same {
            return Cow::Borrowed(values);
        }
        Cow::Owned(match &*self.data {
            Data::F32(values) => values.iter().map(|value| T::of(f64::from(*value))).collect(),
            Data::F64(values) => values.iter().map(|value| T::of(*value)).collect(),
            Data::Int(values) => values
                .iter()
                .map(|value| T::of(crate::number::round_to_odd(crate::number::widen(self.dtype, *value))))
                .collect(),
            Data::Complex(values) => values.iter().map(|value| T::of(value[0])).collect(),
        })
    }

    /// Elements of an integer or `i1` array; empty for others.
    pub(crate) fn ints(&self) -> &[i64] {
        match &*self.data {
            Data::Int(values) => values,
            _ => &[],
        }
    }

    /// The same elements under another shape of as many elements, or another type of the same storage.
    pub(crate) fn renamed(&self, form: &Form) -> Self {
        Array { dtype: form.dtype, shape: form.shape.clone(), data: Arc::clone(&self.data) }
    }

    /// Elements by linear source index, one an element of the result.
    pub(crate) fn picked(&self, form: &Form, indices: &[usize]) -> Self {
        let data = map_data!(&*self.data, elements => indices.iter().map(|index| elements[*index]).collect());
        Array::new(form, data)
    }

    /// Reads a tensor. In [`Mode::F64`] a tensor of f64 is a value of any float type.
    pub(crate) fn read(tensor: &Tensor, dtype: DType, mode: Mode) -> Result<Self, ReferenceError> {
        let form = Form { dtype, shape: tensor.shape().to_vec() };
        let data = match dtype.kind() {
            NumberKind::Float if mode == Mode::F64 || dtype == DType::F64 => Data::F64(tensor.to_f64_vec()?),
            NumberKind::Float => Data::F32(tensor.to_f32_vec()?),
            NumberKind::Complex => {
                Data::Complex(tensor.to_complex_vec()?.into_iter().map(|(re, im)| [re, im]).collect())
            }
            _ => {
                let bits = (0..tensor.element_count()).filter_map(|index| tensor.get_bits(index));
                Data::Int(bits.map(|bits| wrap(dtype, i128::from(bits))).collect())
            }
        };
        Ok(Array::new(&form, data))
    }

    /// Writes a tensor: floats of [`Mode::F64`] as f64.
    pub(crate) fn write(&self) -> Result<Tensor, ReferenceError> {
        let shape = self.shape.clone();
        Ok(match &*self.data {
            Data::F64(values) => Tensor::from_f64(shape, values)?,
            Data::F32(values) => match self.dtype {
                DType::F32 => Tensor::from_f32(shape, values)?,
                DType::F16 => Tensor::from_f16_bits(
                    shape,
                    &values.iter().map(|v| half::f16::from_f32(*v).to_bits()).collect::<Vec<_>>(),
                )?,
                DType::BF16 => Tensor::from_bf16_bits(
                    shape,
                    &values.iter().map(|v| half::bf16::from_f32(*v).to_bits()).collect::<Vec<_>>(),
                )?,
                dtype => Tensor::from_bits(
                    dtype,
                    shape,
                    values.iter().map(|v| encode_float_with(dtype, f64::from(*v), Overflow::Special)),
                )?,
            },
            Data::Int(values) => {
                let mask = u64::MAX >> (64 - self.dtype.bits().clamp(1, 64));
                Tensor::from_bits(self.dtype, shape, values.iter().map(|value| *value as u64 & mask))?
            }
            Data::Complex(values) => {
                let bytes: Vec<u8> = if self.dtype == DType::Complex64 {
                    values.iter().flatten().flat_map(|part| (*part as f32).to_le_bytes()).collect()
                } else {
                    values.iter().flatten().flat_map(|part| part.to_le_bytes()).collect()
                };
                Tensor::new(self.dtype, shape, bytes)?
            }
        })
    }
}
