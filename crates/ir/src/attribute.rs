//! Attributes.

use std::fmt;
use std::marker::PhantomData;

use mlir_sys::*;

use crate::text::{collect, read_string};
use crate::{Context, Type};

/// Literals that expand to more are not read: a few bytes of text can say any number of elements.
const MAX_DENSE_BYTES: usize = 1 << 30;

/// An attribute; unique in its session, compared by identity.
#[derive(Clone, Copy)]
pub struct Attribute<'s> {
    raw: MlirAttribute,
    _session: PhantomData<&'s ()>,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the attribute is alive for 's, and its kind is asked first.
impl<'s> Attribute<'s> {
    pub(crate) unsafe fn from_raw(raw: MlirAttribute) -> Self {
        Attribute { raw, _session: PhantomData }
    }

    pub(crate) fn to_raw(self) -> MlirAttribute {
        self.raw
    }

    /// A number that is equal for equal attributes of a session, and differs for others.
    pub fn key(self) -> usize {
        self.raw.ptr as usize
    }

    /// The context it belongs to.
    pub fn context(self) -> Context<'s> {
        unsafe { Context::from_raw(mlirAttributeGetContext(self.raw)) }
    }

    /// Value of an integer attribute that fits.
    pub fn as_integer(self) -> Option<i64> {
        unsafe {
            if !mlirAttributeIsAInteger(self.raw) {
                return None;
            }
            let ty = mlirAttributeGetType(self.raw);
            if mlirTypeIsAInteger(ty) && mlirIntegerTypeGetWidth(ty) > 64 {
                return None;
            }
            if mlirTypeIsAInteger(ty) && mlirIntegerTypeIsUnsigned(ty) {
                return i64::try_from(mlirIntegerAttrGetValueUInt(self.raw)).ok();
            }
            if mlirTypeIsAInteger(ty) && mlirIntegerTypeIsSigned(ty) {
                return Some(mlirIntegerAttrGetValueSInt(self.raw));
            }
            Some(mlirIntegerAttrGetValueInt(self.raw))
        }
    }

    /// Value of a `bool` attribute.
    pub fn as_bool(self) -> Option<bool> {
        unsafe { mlirAttributeIsABool(self.raw).then(|| mlirBoolAttrGetValue(self.raw)) }
    }

    /// Value of a float attribute.
    pub fn as_float(self) -> Option<f64> {
        unsafe {
            if !mlirAttributeIsAFloat(self.raw) {
                return None;
            }
            let ty = mlirAttributeGetType(self.raw);
            // The C API converts through `double` for every format up to 64 bits.
            (mlirFloatTypeGetWidth(ty) <= 64).then(|| mlirFloatAttrGetValueDouble(self.raw))
        }
    }

    /// Text of a string attribute.
    pub fn as_string(self) -> Option<String> {
        unsafe { mlirAttributeIsAString(self.raw).then(|| read_string(mlirStringAttrGetValue(self.raw))) }
    }

    /// Name of a flat symbol reference.
    pub fn as_symbol(self) -> Option<String> {
        unsafe { mlirAttributeIsAFlatSymbolRef(self.raw).then(|| read_string(mlirFlatSymbolRefAttrGetValue(self.raw))) }
    }

    /// The type that a type attribute holds.
    pub fn as_type(self) -> Option<Type<'s>> {
        unsafe { mlirAttributeIsAType(self.raw).then(|| Type::from_raw(mlirTypeAttrGetValue(self.raw))) }
    }

    /// Elements of an array attribute.
    pub fn as_array(self) -> Option<Vec<Attribute<'s>>> {
        unsafe {
            mlirAttributeIsAArray(self.raw).then(|| {
                (0..mlirArrayAttrGetNumElements(self.raw))
                    .map(|i| Attribute::from_raw(mlirArrayAttrGetElement(self.raw, i)))
                    .collect()
            })
        }
    }

    /// Elements of an `array<i64: …>`.
    pub fn as_i64_array(self) -> Option<Vec<i64>> {
        unsafe {
            mlirAttributeIsADenseI64Array(self.raw).then(|| {
                (0..mlirDenseArrayGetNumElements(self.raw)).map(|i| mlirDenseI64ArrayGetElement(self.raw, i)).collect()
            })
        }
    }

    /// Elements of an `array<f64: …>`.
    pub fn as_f64_array(self) -> Option<Vec<f64>> {
        unsafe {
            mlirAttributeIsADenseF64Array(self.raw).then(|| {
                (0..mlirDenseArrayGetNumElements(self.raw)).map(|i| mlirDenseF64ArrayGetElement(self.raw, i)).collect()
            })
        }
    }

    /// Elements of an `array<i32: …>`.
    pub fn as_i32_array(self) -> Option<Vec<i32>> {
        unsafe {
            mlirAttributeIsADenseI32Array(self.raw).then(|| {
                (0..mlirDenseArrayGetNumElements(self.raw)).map(|i| mlirDenseI32ArrayGetElement(self.raw, i)).collect()
            })
        }
    }

    /// Entries of a dictionary, sorted by name.
    pub fn as_dictionary(self) -> Option<Vec<(String, Attribute<'s>)>> {
        unsafe {
            mlirAttributeIsADictionary(self.raw).then(|| {
                (0..mlirDictionaryAttrGetNumElements(self.raw))
                    .map(|i| {
                        let entry = mlirDictionaryAttrGetElement(self.raw, i);
                        (read_string(mlirIdentifierStr(entry.name)), Attribute::from_raw(entry.attribute))
                    })
                    .collect()
            })
        }
    }

    /// Entry of a dictionary.
    pub fn get(self, name: &str) -> Option<Attribute<'s>> {
        unsafe {
            if !mlirAttributeIsADictionary(self.raw) {
                return None;
            }
            let raw = mlirDictionaryAttrGetElementByName(self.raw, crate::text::string_ref(name));
            (!raw.ptr.is_null()).then(|| Attribute::from_raw(raw))
        }
    }

    /// Raw little-endian bytes of a dense elements attribute (a splat is expanded), `i1` one a byte; none above 1 GiB.
    pub fn dense_bytes(self) -> Option<Vec<u8>> {
        unsafe {
            if !mlirAttributeIsADenseElements(self.raw) {
                return None;
            }
            let ty = Type::from_raw(mlirAttributeGetType(self.raw));
            let element = ty.element()?.dtype()?;
            let shape =
                ty.tensor_shape()?.into_iter().map(|size| usize::try_from(size?).ok()).collect::<Option<Vec<_>>>()?;
            let count =
                tenon_tensor::byte_count(element, &shape).filter(|bytes| *bytes <= MAX_DENSE_BYTES)? / element.size();
            if element == tenon_tensor::DType::Bool {
                if mlirDenseElementsAttrIsSplat(self.raw) {
                    return Some(vec![mlirDenseElementsAttrGetBoolSplatValue(self.raw) as u8; count]);
                }
                return Some(
                    (0..count).map(|i| u8::from(mlirDenseElementsAttrGetBoolValue(self.raw, i as isize))).collect(),
                );
            }
            let stored = if mlirDenseElementsAttrIsSplat(self.raw) { 1 } else { count };
            let bytes = stored.checked_mul(element.size())?;
            if bytes == 0 {
                return Some(Vec::new());
            }
            let data = mlirDenseElementsAttrGetRawData(self.raw).cast::<u8>();
            let slice = std::slice::from_raw_parts(data, bytes);
            Some(if stored == count { slice.to_vec() } else { slice.repeat(count) })
        }
    }

    /// Type of a typed attribute (integer, float, elements).
    pub fn ty(self) -> Type<'s> {
        unsafe { Type::from_raw(mlirAttributeGetType(self.raw)) }
    }
}

impl PartialEq for Attribute<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Attribute<'_> {}

impl fmt::Display for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the attribute is alive.
        f.write_str(&collect(|callback, data| unsafe { mlirAttributePrint(self.raw, callback, data) }))
    }
}

impl fmt::Debug for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
