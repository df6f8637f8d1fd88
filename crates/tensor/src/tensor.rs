//! Tensors in host memory.
//!
//! Invariants, checked where a tensor is made:
//! - `bytes().len()` is the number of elements times [`DType::size`]; the product of the dimensions does not overflow.
//! - Elements lie in C order, little endian, without gaps.
//! - Elements narrower than eight bits take one byte each, in the low bits; the other bits are 0 (two's complement is cut, not
//!   extended: −1 as `i4` is `0x0f`). A boolean is the byte 0 or 1. So equal tensors have equal bytes, NaN payloads and signed
//!   zeros apart.
//!
//! The bytes are shared: cloning costs a reference count, and a tensor can be a slice of a larger file buffer.

use bytes::Bytes;

use crate::{DType, NumberKind, TensorError, decode_float, encode_float};

/// Number of elements of a shape; `None` when it overflows.
///
/// A shape with a zero dimension has no elements, however large its other dimensions are.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// Bytes of a tensor of this type and shape; `None` when they overflow `isize`, the largest allocation.
pub fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    element_count(shape)?.checked_mul(dtype.size()).filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// An immutable tensor in host memory: element type, shape, elements in C order.
#[derive(Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    data: Bytes,
}

impl Tensor {
    /// A tensor over `data`: C order, little endian, one element a byte for types narrower than eight bits.
    ///
    /// # Errors
    /// The shape overflows, the data has another size, or a narrow element has stray bits.
    pub fn new(dtype: DType, shape: Vec<usize>, data: impl Into<Bytes>) -> Result<Tensor, TensorError> {
        let data = data.into();
        let Some(expected) = byte_count(dtype, &shape) else {
            return Err(TensorError::TooLarge { dtype, shape });
        };
        if data.len() != expected {
            return Err(TensorError::WrongSize { dtype, shape, expected, found: data.len() });
        }
        if dtype.bits() < 8 {
            let mask = narrow_mask(dtype);
            if let Some(index) = data.iter().position(|byte| byte & !mask != 0) {
                return Err(TensorError::StrayBits { dtype, index, byte: data[index] });
            }
        }
        Ok(Tensor { dtype, shape, data })
    }

    /// A tensor whose every bit is 0. For `f8E8M0FNU`, which has no zero, that is 2⁻¹²⁷.
    ///
    /// # Errors
    /// The shape overflows.
    pub fn zeros(dtype: DType, shape: Vec<usize>) -> Result<Tensor, TensorError> {
        match byte_count(dtype, &shape) {
            Some(bytes) => Ok(Tensor { dtype, shape, data: Bytes::from(vec![0; bytes]) }),
            None => Err(TensorError::TooLarge { dtype, shape }),
        }
    }

    /// A tensor of any real type from f64 values, each converted as [`Tensor::encode`] says.
    ///
    /// # Errors
    /// As [`Tensor::new`]; complex types are refused.
    pub fn from_f64s(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Result<Tensor, TensorError> {
        Tensor::from_bits(dtype, shape, values.iter().map(|&value| Tensor::encode(dtype, value)))
    }

    /// A tensor of any real type of at most 64 bits from the bits of its elements (the low [`DType::bits`] of each).
    ///
    /// # Errors
    /// As [`Tensor::new`]; `complex<f64>` is refused.
    pub fn from_bits(
        dtype: DType,
        shape: Vec<usize>,
        elements: impl IntoIterator<Item = u64>,
    ) -> Result<Tensor, TensorError> {
        let size = dtype.size();
        if size > 8 {
            return Err(TensorError::NoConversion { dtype, wanted: "64 bits" });
        }
        let mask = if dtype.bits() < 8 { u64::from(narrow_mask(dtype)) } else { u64::MAX };
        let mut data = Vec::new();
        for element in elements {
            data.extend_from_slice(&(element & mask).to_le_bytes()[..size]);
        }
        Tensor::new(dtype, shape, data)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements: the product of the dimensions.
    pub fn element_count(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// The elements' bytes, in C order, little endian.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The elements' bytes, shared with this tensor.
    pub fn shared_bytes(&self) -> Bytes {
        self.data.clone()
    }

    /// The same elements under another shape, sharing the bytes.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn reshaped(&self, shape: Vec<usize>) -> Result<Tensor, TensorError> {
        if element_count(&shape) != Some(self.element_count()) {
            return Err(TensorError::Reshape { from: self.shape.clone(), to: shape });
        }
        Ok(Tensor { dtype: self.dtype, shape, data: self.data.clone() })
    }

    /// Bits of element `index` in C order, zero-extended; of a `complex<f32>`, the imaginary part is the high half.
    ///
    /// Returns `None` past the end and for `complex<f64>`, whose elements are wider than the result.
    pub fn get_bits(&self, index: usize) -> Option<u64> {
        let size = self.dtype.size();
        if size > 8 {
            return None;
        }
        let start = index.checked_mul(size)?;
        let bytes = self.data.get(start..start.checked_add(size)?)?;
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    /// Element `index` in C order as f64: floats and integers by value (integers beyond 2⁵³ rounded to nearest even), booleans
    /// as 0 and 1. `None` past the end and for complex types.
    pub fn get_f64(&self, index: usize) -> Option<f64> {
        let bits = self.get_bits(index)?;
        decode(self.dtype, bits)
    }

    /// Element `index` in C order as i64, exactly; booleans as 0 and 1. `None` past the end, for floats and complex types, and for
    /// a `ui64` beyond `i64::MAX`.
    pub fn get_i64(&self, index: usize) -> Option<i64> {
        decode_integer(self.dtype, self.get_bits(index)?)
    }

    /// All elements as f64, as [`Tensor::get_f64`] reads them.
    ///
    /// # Errors
    /// The type is complex.
    pub fn iter_f64(&self) -> Result<impl Iterator<Item = f64> + '_, TensorError> {
        if self.dtype.kind() == NumberKind::Complex {
            return Err(TensorError::NoConversion { dtype: self.dtype, wanted: "f64" });
        }
        Ok((0..self.element_count()).filter_map(|index| self.get_f64(index)))
    }

    /// All elements as f64, as [`Tensor::get_f64`] reads them.
    ///
    /// # Errors
    /// The type is complex.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, TensorError> {
        Ok(self.iter_f64()?.collect())
    }

    /// All elements as f32: f64 and wide integers are rounded to nearest even once.
    ///
    /// # Errors
    /// The type is complex.
    pub fn to_f32_vec(&self) -> Result<Vec<f32>, TensorError> {
        if self.dtype == DType::F32 {
            return Ok(self.data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect());
        }
        // Going through f64 would round 64-bit integers twice.
        let narrow = |index| match self.dtype {
            DType::I64 => self.get_bits(index).map(|bits| bits as i64 as f32),
            DType::U64 => self.get_bits(index).map(|bits| bits as f32),
            _ => self.get_f64(index).map(|value| value as f32),
        };
        let values: Vec<f32> = (0..self.element_count()).filter_map(narrow).collect();
        if self.dtype.kind() == NumberKind::Complex {
            return Err(TensorError::NoConversion { dtype: self.dtype, wanted: "f32" });
        }
        Ok(values)
    }

    /// All elements as i64, exactly.
    ///
    /// # Errors
    /// The type is a float or complex, or an element exceeds `i64::MAX`.
    pub fn to_i64_vec(&self) -> Result<Vec<i64>, TensorError> {
        let refuse = || TensorError::NoConversion { dtype: self.dtype, wanted: "i64" };
        if !self.dtype.is_integer() && self.dtype != DType::Bool {
            return Err(refuse());
        }
        (0..self.element_count()).map(|index| self.get_i64(index).ok_or_else(refuse)).collect()
    }

    /// All elements as pairs of real and imaginary part.
    ///
    /// # Errors
    /// The type is not complex.
    pub fn to_complex_vec(&self) -> Result<Vec<(f64, f64)>, TensorError> {
        let part: fn(&[u8]) -> f64 = match self.dtype {
            DType::Complex64 => |b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            DType::Complex128 => |b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            dtype => return Err(TensorError::NoConversion { dtype, wanted: "complex" }),
        };
        let size = self.dtype.size();
        Ok(self.data.chunks_exact(size).map(|b| (part(&b[..size / 2]), part(&b[size / 2..]))).collect())
    }

    /// Bits of `value` in a real type: floats by [`encode_float`]; integers truncated towards zero and clamped to the type's range
    /// (NaN gives 0); booleans 1 for anything but 0. Complex types give 0.
    pub fn encode(dtype: DType, value: f64) -> u64 {
        let bits = dtype.bits();
        match dtype.kind() {
            NumberKind::Bool => u64::from(value != 0.0),
            NumberKind::Float => encode_float(dtype, value),
            NumberKind::SignedInteger => {
                let limit = 1i128 << (bits - 1);
                let clamped = (value as i128).clamp(-limit, limit - 1);
                (clamped as u64) & (u64::MAX >> (64 - bits))
            }
            NumberKind::UnsignedInteger => (value as u64).min(u64::MAX >> (64 - bits)),
            NumberKind::Complex => 0,
        }
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 16;
        write!(f, "Tensor {{ {} {:?}: ", self.dtype, self.shape)?;
        let shown = self.element_count().min(SHOWN);
        let mut list = f.debug_list();
        if self.dtype.kind() == NumberKind::Complex {
            list.entries(self.to_complex_vec().unwrap_or_default().iter().take(shown));
        } else if self.dtype.is_float() {
            list.entries((0..shown).filter_map(|index| self.get_f64(index)));
        } else {
            list.entries((0..shown).filter_map(|index| self.get_i64(index)));
        }
        list.finish()?;
        f.write_str(if shown < self.element_count() { " … }" } else { " }" })
    }
}

fn narrow_mask(dtype: DType) -> u8 {
    ((1u16 << dtype.bits().min(8)) - 1) as u8
}

fn decode(dtype: DType, bits: u64) -> Option<f64> {
    match dtype.kind() {
        NumberKind::Float => Some(decode_float(dtype, bits)),
        NumberKind::UnsignedInteger => Some(bits as f64),
        NumberKind::Bool | NumberKind::SignedInteger => decode_integer(dtype, bits).map(|value| value as f64),
        NumberKind::Complex => None,
    }
}

fn decode_integer(dtype: DType, bits: u64) -> Option<i64> {
    match dtype.kind() {
        NumberKind::Bool => Some(i64::from(bits != 0)),
        NumberKind::SignedInteger => {
            let unused = 64 - dtype.bits();
            Some(((bits << unused) as i64) >> unused)
        }
        NumberKind::UnsignedInteger => i64::try_from(bits).ok(),
        NumberKind::Float | NumberKind::Complex => None,
    }
}

macro_rules! constructors {
    ($($(#[$meta:meta])* $name:ident($type:ty) = $dtype:ident;)*) => {
        impl Tensor {
            $(
                $(#[$meta])*
                ///
                /// # Errors
                /// The shape has another number of elements.
                pub fn $name(shape: Vec<usize>, values: &[$type]) -> Result<Tensor, TensorError> {
                    let mut data = Vec::with_capacity(std::mem::size_of_val(values));
                    values.iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
                    Tensor::new(DType::$dtype, shape, data)
                }
            )*
        }
    };
}

constructors! {
    /// A tensor of f32.
    from_f32(f32) = F32;
    /// A tensor of f64.
    from_f64(f64) = F64;
    /// A tensor of f16 from the bits of its elements.
    from_f16_bits(u16) = F16;
    /// A tensor of bf16 from the bits of its elements.
    from_bf16_bits(u16) = BF16;
    /// A tensor of i8.
    from_i8(i8) = I8;
    /// A tensor of i16.
    from_i16(i16) = I16;
    /// A tensor of i32.
    from_i32(i32) = I32;
    /// A tensor of i64.
    from_i64(i64) = I64;
    /// A tensor of ui8.
    from_u8(u8) = U8;
    /// A tensor of ui16.
    from_u16(u16) = U16;
    /// A tensor of ui32.
    from_u32(u32) = U32;
    /// A tensor of ui64.
    from_u64(u64) = U64;
}

impl Tensor {
    /// A tensor of i1.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn from_bool(shape: Vec<usize>, values: &[bool]) -> Result<Tensor, TensorError> {
        Tensor::new(DType::Bool, shape, values.iter().map(|&value| u8::from(value)).collect::<Vec<u8>>())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn zero_dimensions_win_over_overflow() {
        assert_eq!(element_count(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[usize::MAX, 2]), None);
        assert_eq!(byte_count(DType::F32, &[usize::MAX / 4]), None);
    }

    #[test]
    fn wrong_data_is_refused_by_code() {
        let code =
            |dtype, shape: &[usize], data: &[u8]| Tensor::new(dtype, shape.to_vec(), data.to_vec()).unwrap_err().code();
        assert_eq!(code(DType::F32, &[1 << 40, 1 << 40], &[]), "E0010");
        assert_eq!(code(DType::F32, &[2], &[0; 7]), "E0011");
        assert_eq!(code(DType::I4, &[2], &[1, 0x10]), "E0012");
        assert_eq!(code(DType::Bool, &[1], &[2]), "E0012");
        let floats = Tensor::from_f32(vec![1], &[1.5]).unwrap();
        assert_eq!(floats.to_i64_vec().unwrap_err().code(), "E0013");
        assert_eq!(floats.to_complex_vec().unwrap_err().code(), "E0013");
        assert_eq!(Tensor::from_u64(vec![1], &[u64::MAX]).unwrap().to_i64_vec().unwrap_err().code(), "E0013");
        assert_eq!(floats.reshaped(vec![2]).unwrap_err().code(), "E0014");
        for error in [floats.reshaped(vec![2]).unwrap_err(), Tensor::new(DType::F32, vec![2], vec![0]).unwrap_err()] {
            assert!(error.help().is_some());
        }
    }

    #[test]
    fn narrow_integers_extend_their_sign() {
        let nibbles = Tensor::new(DType::I4, vec![3], vec![0xf, 7, 8]).unwrap();
        assert_eq!(nibbles.to_i64_vec().unwrap(), [-1, 7, -8]);
        let pairs = Tensor::new(DType::U2, vec![2], vec![3, 0]).unwrap();
        assert_eq!(pairs.to_i64_vec().unwrap(), [3, 0]);
        assert_eq!(
            Tensor::from_f64s(DType::I2, vec![3], &[-2.0, 9.0, -1.7]).unwrap().to_i64_vec().unwrap(),
            [-2, 1, -1]
        );
    }

    #[test]
    fn values_survive_every_real_type() {
        for dtype in DType::all().filter(|dtype| dtype.kind() != NumberKind::Complex) {
            // 1 is a value of every real type.
            let ones = Tensor::from_f64s(dtype, vec![2, 2], &[1.0; 4]).unwrap();
            assert_eq!(ones.to_f64_vec().unwrap(), [1.0; 4], "{dtype}");
            assert_eq!(ones.to_f32_vec().unwrap(), [1.0; 4], "{dtype}");
            assert_eq!(ones.element_count(), 4);
            assert_eq!(ones.bytes().len(), 4 * dtype.size());
        }
    }

    #[test]
    fn wide_integers_round_once() {
        // Halfway between two f32 but for the last bit, which rounding to f64 first would lose.
        let value = (1i64 << 60) + (1 << 36) + 1;
        let tensor = Tensor::from_i64(vec![1], &[value]).unwrap();
        assert_eq!(tensor.to_f32_vec().unwrap(), [((1u64 << 60) + (1 << 37)) as f32]);
    }

    #[test]
    fn clones_and_reshapes_share_bytes() {
        let tensor = Tensor::zeros(DType::F32, vec![2, 3]).unwrap();
        let other = tensor.clone().reshaped(vec![6]).unwrap();
        assert_eq!(tensor.bytes().as_ptr(), other.bytes().as_ptr());
    }

    #[test]
    fn complex_numbers_are_pairs() {
        let bytes: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|part| part.to_le_bytes()).collect();
        let tensor = Tensor::new(DType::Complex64, vec![], bytes).unwrap();
        assert_eq!(tensor.to_complex_vec().unwrap(), [(1.0, -2.0)]);
        assert!(tensor.to_f64_vec().is_err() && tensor.to_f32_vec().is_err());
    }
}
