//! Types.

use std::fmt;
use std::marker::PhantomData;

use mlir_sys::*;
use tenon_tensor::DType;

use crate::text::{collect, read_string};
use crate::{Attribute, Context};

/// A type; unique in its session, compared by identity.
#[derive(Clone, Copy)]
pub struct Type<'s> {
    raw: MlirType,
    _session: PhantomData<&'s ()>,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the type is alive for 's.
impl<'s> Type<'s> {
    pub(crate) unsafe fn from_raw(raw: MlirType) -> Self {
        Type { raw, _session: PhantomData }
    }

    pub(crate) fn to_raw(self) -> MlirType {
        self.raw
    }

    /// The context it belongs to.
    pub fn context(self) -> Context<'s> {
        unsafe { Context::from_raw(mlirTypeGetContext(self.raw)) }
    }

    /// A key that is equal for equal types of one session.
    pub fn key(self) -> usize {
        self.raw.ptr as usize
    }

    /// Whether this is `index`.
    pub fn is_index(self) -> bool {
        unsafe { mlirTypeIsAIndex(self.raw) }
    }

    /// Width in bits of an integer or float.
    pub fn bit_width(self) -> Option<u32> {
        unsafe {
            if mlirTypeIsAInteger(self.raw) {
                Some(mlirIntegerTypeGetWidth(self.raw))
            } else if mlirTypeIsAFloat(self.raw) {
                Some(mlirFloatTypeGetWidth(self.raw))
            } else {
                None
            }
        }
    }

    /// Whether this is an integer of any signedness.
    pub fn is_integer(self) -> bool {
        unsafe { mlirTypeIsAInteger(self.raw) }
    }

    /// Whether this is a float.
    pub fn is_float(self) -> bool {
        unsafe { mlirTypeIsAFloat(self.raw) }
    }

    /// The [`DType`] of an element type.
    pub fn dtype(self) -> Option<DType> {
        let context = self.context();
        DType::all().find(|dtype| context.element_type(*dtype) == self)
    }

    /// Dimensions of a ranked tensor (`None` is dynamic).
    pub fn tensor_shape(self) -> Option<Vec<Option<u64>>> {
        unsafe {
            if !mlirTypeIsARankedTensor(self.raw) {
                return None;
            }
            Some(
                (0..mlirShapedTypeGetRank(self.raw) as isize)
                    .map(|dim| {
                        (!mlirShapedTypeIsDynamicDim(self.raw, dim))
                            .then(|| mlirShapedTypeGetDimSize(self.raw, dim) as u64)
                    })
                    .collect(),
            )
        }
    }

    /// Element type of a tensor or vector.
    pub fn element(self) -> Option<Type<'s>> {
        unsafe { mlirTypeIsAShaped(self.raw).then(|| Type::from_raw(mlirShapedTypeGetElementType(self.raw))) }
    }

    /// Encoding of a ranked tensor.
    pub fn encoding(self) -> Option<Attribute<'s>> {
        unsafe {
            if !mlirTypeIsARankedTensor(self.raw) {
                return None;
            }
            let raw = mlirRankedTensorTypeGetEncoding(self.raw);
            (!raw.ptr.is_null()).then(|| Attribute::from_raw(raw))
        }
    }

    /// Name of the dialect that defines it.
    pub fn dialect(self) -> String {
        unsafe {
            let dialect = mlirTypeGetDialect(self.raw);
            if dialect.ptr.is_null() { String::new() } else { read_string(mlirDialectGetNamespace(dialect)) }
        }
    }

    /// Inputs and results of a function type.
    pub fn function_signature(self) -> Option<(Vec<Type<'s>>, Vec<Type<'s>>)> {
        unsafe {
            if !mlirTypeIsAFunction(self.raw) {
                return None;
            }
            let inputs = (0..mlirFunctionTypeGetNumInputs(self.raw))
                .map(|i| Type::from_raw(mlirFunctionTypeGetInput(self.raw, i)))
                .collect();
            let results = (0..mlirFunctionTypeGetNumResults(self.raw))
                .map(|i| Type::from_raw(mlirFunctionTypeGetResult(self.raw, i)))
                .collect();
            Some((inputs, results))
        }
    }
}

impl PartialEq for Type<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw.ptr == other.raw.ptr
    }
}

impl Eq for Type<'_> {}

impl std::hash::Hash for Type<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the type is alive.
        f.write_str(&collect(|callback, data| unsafe { mlirTypePrint(self.raw, callback, data) }))
    }
}

impl fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
