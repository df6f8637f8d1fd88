//! Constructor of types, attributes and locations.

use std::marker::PhantomData;

use mlir_sys::*;
use tenon_tensor::DType;

use crate::text::{check_text, string_ref};
use crate::{Attribute, IrError, Location, Type};

/// Handle to a session's context; makes types, attributes and locations, which MLIR keeps unique and alive with the session.
#[derive(Clone, Copy)]
pub struct Context<'s> {
    raw: MlirContext,
    _session: PhantomData<&'s ()>,
}

#[allow(clippy::undocumented_unsafe_blocks)] // One reason for all: the context is alive for 's and every argument is of it.
impl<'s> Context<'s> {
    pub(crate) unsafe fn from_raw(raw: MlirContext) -> Self {
        Context { raw, _session: PhantomData }
    }

    pub(crate) fn to_raw(self) -> MlirContext {
        self.raw
    }

    pub(crate) fn owns(self, other: Context<'_>) -> bool {
        self.raw.ptr == other.raw.ptr
    }

    /// Objects that make up another object are of its session; the constructors that cannot fail say so by a panic, since what they would
    /// make from objects of two sessions could outlive one of them.
    #[track_caller]
    fn expect_own(self, other: Context<'_>) {
        assert!(self.owns(other), "an object of another MLIR session was given to a constructor");
    }

    /// Whether a loaded dialect defines the operation.
    pub fn is_registered(self, operation: &str) -> bool {
        unsafe { mlirContextIsRegisteredOperation(self.raw, string_ref(operation)) }
    }

    /// Parses a type.
    pub fn parse_type(self, source: &str) -> Result<Type<'s>, IrError> {
        let what = || format!("type `{}`", source.chars().take(200).collect::<String>());
        check_text(source).map_err(|reason| IrError::Text { what: what(), reason })?;
        let raw = unsafe { mlirTypeParseGet(self.raw, string_ref(source)) };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: what(), diagnostics: Vec::new() });
        }
        Ok(unsafe { Type::from_raw(raw) })
    }

    /// Parses an attribute.
    pub fn parse_attribute(self, source: &str) -> Result<Attribute<'s>, IrError> {
        let what = || format!("attribute `{}`", source.chars().take(200).collect::<String>());
        check_text(source).map_err(|reason| IrError::Text { what: what(), reason })?;
        let raw = unsafe { mlirAttributeParseGet(self.raw, string_ref(source)) };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: what(), diagnostics: Vec::new() });
        }
        Ok(unsafe { Attribute::from_raw(raw) })
    }

    /// `index`.
    pub fn index_type(self) -> Type<'s> {
        unsafe { Type::from_raw(mlirIndexTypeGet(self.raw)) }
    }

    /// Signless integer of `bits`, at most 2²⁴ - 1 of them.
    pub fn integer_type(self, bits: u32) -> Type<'s> {
        unsafe { Type::from_raw(mlirIntegerTypeGet(self.raw, bits.min((1 << 24) - 1))) }
    }

    /// `i1`.
    pub fn bool_type(self) -> Type<'s> {
        self.integer_type(1)
    }

    /// `i32`.
    pub fn i32_type(self) -> Type<'s> {
        self.integer_type(32)
    }

    /// `i64`.
    pub fn i64_type(self) -> Type<'s> {
        self.integer_type(64)
    }

    /// `f32`.
    pub fn f32_type(self) -> Type<'s> {
        unsafe { Type::from_raw(mlirF32TypeGet(self.raw)) }
    }

    /// `f64`.
    pub fn f64_type(self) -> Type<'s> {
        unsafe { Type::from_raw(mlirF64TypeGet(self.raw)) }
    }

    /// `f16`.
    pub fn f16_type(self) -> Type<'s> {
        unsafe { Type::from_raw(mlirF16TypeGet(self.raw)) }
    }

    /// `!llvm.ptr<address_space>`.
    pub fn pointer_type(self, address_space: u32) -> Type<'s> {
        unsafe { Type::from_raw(mlirLLVMPointerTypeGet(self.raw, address_space)) }
    }

    /// `vector<lengthxelement>`; the element must be an integer, index or float.
    pub fn vector_type(self, length: u32, element: Type<'_>) -> Result<Type<'s>, IrError> {
        if !self.owns(element.context()) {
            return Err(IrError::ForeignObject("a type"));
        }
        let shape = [i64::from(length)];
        let raw =
            unsafe { mlirVectorTypeGetChecked(mlirLocationUnknownGet(self.raw), 1, shape.as_ptr(), element.to_raw()) };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: format!("a vector of {length} × {element}"), diagnostics: Vec::new() });
        }
        Ok(unsafe { Type::from_raw(raw) })
    }

    /// The builtin type of a [`DType`]; signed integers are signless, unsigned ones `uiN`.
    pub fn element_type(self, dtype: DType) -> Type<'s> {
        let raw = self.raw;
        unsafe {
            Type::from_raw(match dtype {
                DType::Bool => mlirIntegerTypeGet(raw, 1),
                DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
                    mlirIntegerTypeGet(raw, dtype.bits())
                }
                DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                    mlirIntegerTypeUnsignedGet(raw, dtype.bits())
                }
                DType::F16 => mlirF16TypeGet(raw),
                DType::BF16 => mlirBF16TypeGet(raw),
                DType::F32 => mlirF32TypeGet(raw),
                DType::F64 => mlirF64TypeGet(raw),
                DType::F8E4M3FN => mlirFloat8E4M3FNTypeGet(raw),
                DType::F8E4M3FNUZ => mlirFloat8E4M3FNUZTypeGet(raw),
                DType::F8E5M2 => mlirFloat8E5M2TypeGet(raw),
                DType::F8E5M2FNUZ => mlirFloat8E5M2FNUZTypeGet(raw),
                DType::F8E8M0FNU => mlirFloat8E8M0FNUTypeGet(raw),
                DType::F4E2M1FN => mlirFloat4E2M1FNTypeGet(raw),
                DType::Complex64 => mlirComplexTypeGet(mlirF32TypeGet(raw)),
                DType::Complex128 => mlirComplexTypeGet(mlirF64TypeGet(raw)),
            })
        }
    }

    /// `tensor<…xelement, encoding>`; a `None` dimension is dynamic.
    pub fn tensor_type(
        self,
        shape: &[Option<u64>],
        element: Type<'_>,
        encoding: Option<Attribute<'_>>,
    ) -> Result<Type<'s>, IrError> {
        if !self.owns(element.context()) {
            return Err(IrError::ForeignObject("a type"));
        }
        let dynamic = unsafe { mlirShapedTypeGetDynamicSize() };
        let mut sizes = Vec::with_capacity(shape.len());
        for dim in shape {
            sizes.push(match dim {
                None => dynamic,
                Some(size) => i64::try_from(*size).map_err(|_| IrError::Parse {
                    what: format!("a tensor dimension of {size}"),
                    diagnostics: Vec::new(),
                })?,
            });
        }
        let encoding = match encoding {
            Some(attribute) if !self.owns(attribute.context()) => return Err(IrError::ForeignObject("an attribute")),
            Some(attribute) => attribute.to_raw(),
            None => unsafe { mlirAttributeGetNull() },
        };
        let raw = unsafe {
            mlirRankedTensorTypeGetChecked(
                mlirLocationUnknownGet(self.raw),
                sizes.len() as isize,
                sizes.as_ptr(),
                element.to_raw(),
                encoding,
            )
        };
        if raw.ptr.is_null() {
            return Err(IrError::Parse { what: format!("a tensor of {element}"), diagnostics: Vec::new() });
        }
        Ok(unsafe { Type::from_raw(raw) })
    }

    /// `(inputs) -> (results)`.
    ///
    /// # Panics
    /// A type of another session.
    pub fn function_type(self, inputs: &[Type<'_>], results: &[Type<'_>]) -> Type<'s> {
        inputs.iter().chain(results).for_each(|ty| self.expect_own(ty.context()));
        let inputs: Vec<_> = inputs.iter().map(|t| t.to_raw()).collect();
        let results: Vec<_> = results.iter().map(|t| t.to_raw()).collect();
        unsafe {
            Type::from_raw(mlirFunctionTypeGet(
                self.raw,
                inputs.len() as isize,
                inputs.as_ptr(),
                results.len() as isize,
                results.as_ptr(),
            ))
        }
    }

    /// Integer attribute of an integer or index type.
    ///
    /// # Panics
    /// A type of another session, or one that is neither an integer nor `index`.
    pub fn integer(self, value: i64, ty: Type<'_>) -> Attribute<'s> {
        self.expect_own(ty.context());
        assert!(ty.is_integer() || ty.is_index(), "an integer attribute of type {ty}");
        unsafe { Attribute::from_raw(mlirIntegerAttrGet(ty.to_raw(), value)) }
    }

    /// `value : i64`.
    pub fn i64(self, value: i64) -> Attribute<'s> {
        self.integer(value, self.i64_type())
    }

    /// `value : i32`.
    pub fn i32(self, value: i32) -> Attribute<'s> {
        self.integer(i64::from(value), self.i32_type())
    }

    /// `true` or `false`.
    pub fn bool(self, value: bool) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirBoolAttrGet(self.raw, i32::from(value))) }
    }

    /// Float attribute of a float type; the value is rounded to it.
    ///
    /// # Panics
    /// A type of another session, or one that is no float.
    pub fn float(self, value: f64, ty: Type<'_>) -> Attribute<'s> {
        self.expect_own(ty.context());
        assert!(ty.is_float(), "a float attribute of type {ty}");
        unsafe { Attribute::from_raw(mlirFloatAttrDoubleGet(self.raw, ty.to_raw(), value)) }
    }

    /// `value : f64`.
    pub fn f64(self, value: f64) -> Attribute<'s> {
        self.float(value, self.f64_type())
    }

    /// `"text"`.
    pub fn string(self, text: &str) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirStringAttrGet(self.raw, string_ref(text))) }
    }

    /// `@name`.
    pub fn symbol(self, name: &str) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirFlatSymbolRefAttrGet(self.raw, string_ref(name))) }
    }

    /// `unit`.
    pub fn unit(self) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirUnitAttrGet(self.raw)) }
    }

    /// A type as an attribute.
    ///
    /// # Panics
    /// A type of another session.
    pub fn type_attribute(self, ty: Type<'_>) -> Attribute<'s> {
        self.expect_own(ty.context());
        unsafe { Attribute::from_raw(mlirTypeAttrGet(ty.to_raw())) }
    }

    /// `[a, b, …]`.
    ///
    /// # Panics
    /// An attribute of another session.
    pub fn array(self, elements: &[Attribute<'_>]) -> Attribute<'s> {
        elements.iter().for_each(|element| self.expect_own(element.context()));
        let elements: Vec<_> = elements.iter().map(|a| a.to_raw()).collect();
        unsafe { Attribute::from_raw(mlirArrayAttrGet(self.raw, elements.len() as isize, elements.as_ptr())) }
    }

    /// `array<i64: …>`.
    pub fn i64_array(self, values: &[i64]) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirDenseI64ArrayGet(self.raw, values.len() as isize, values.as_ptr())) }
    }

    /// `array<f64: …>`.
    pub fn f64_array(self, values: &[f64]) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirDenseF64ArrayGet(self.raw, values.len() as isize, values.as_ptr())) }
    }

    /// `array<i32: …>`.
    pub fn i32_array(self, values: &[i32]) -> Attribute<'s> {
        unsafe { Attribute::from_raw(mlirDenseI32ArrayGet(self.raw, values.len() as isize, values.as_ptr())) }
    }

    /// `{name = value, …}`; the first of entries of one name stays.
    ///
    /// # Panics
    /// An attribute of another session, or an empty name.
    pub fn dictionary(self, entries: &[(&str, Attribute<'_>)]) -> Attribute<'s> {
        let mut names = std::collections::HashSet::new();
        let entries: Vec<_> = entries
            .iter()
            .inspect(|(name, value)| {
                assert!(!name.is_empty(), "an entry of a dictionary without a name");
                self.expect_own(value.context());
            })
            .filter(|(name, _)| names.insert(*name))
            .map(|(name, value)| MlirNamedAttribute {
                name: unsafe { mlirIdentifierGet(self.raw, string_ref(name)) },
                attribute: value.to_raw(),
            })
            .collect();
        unsafe { Attribute::from_raw(mlirDictionaryAttrGet(self.raw, entries.len() as isize, entries.as_ptr())) }
    }

    /// An element-wise literal: `dense<…> : tensor<…>` from raw little-endian bytes, `i1` one a byte.
    ///
    /// # Panics
    /// A type of another session.
    pub fn dense(self, tensor_type: Type<'_>, bytes: &[u8]) -> Option<Attribute<'s>> {
        self.expect_own(tensor_type.context());
        let shape = tensor_type.tensor_shape()?;
        let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul(usize::try_from((*dim)?).ok()?))?;
        let element = tensor_type.element()?.dtype()?;
        if count.checked_mul(element.size())? != bytes.len() {
            return None;
        }
        if element == DType::Bool {
            let values: Vec<i32> = bytes.iter().map(|byte| i32::from(*byte != 0)).collect();
            let raw =
                unsafe { mlirDenseElementsAttrBoolGet(tensor_type.to_raw(), values.len() as isize, values.as_ptr()) };
            return (!raw.ptr.is_null()).then(|| unsafe { Attribute::from_raw(raw) });
        }
        let raw =
            unsafe { mlirDenseElementsAttrRawBufferGet(tensor_type.to_raw(), bytes.len(), bytes.as_ptr().cast()) };
        (!raw.ptr.is_null()).then(|| unsafe { Attribute::from_raw(raw) })
    }

    /// `loc(unknown)`.
    pub fn unknown_location(self) -> Location<'s> {
        unsafe { Location::from_raw(mlirLocationUnknownGet(self.raw)) }
    }

    /// `loc("file":line:column)`.
    pub fn file_location(self, file: &str, line: u32, column: u32) -> Location<'s> {
        unsafe { Location::from_raw(mlirLocationFileLineColGet(self.raw, string_ref(file), line, column)) }
    }

    /// `loc("name"(child))`.
    ///
    /// # Panics
    /// A location of another session.
    pub fn name_location(self, name: &str, child: Location<'_>) -> Location<'s> {
        self.expect_own(child.context());
        unsafe { Location::from_raw(mlirLocationNameGet(self.raw, string_ref(name), child.to_raw())) }
    }

    /// `loc(fused[…])`; duplicates are dropped, one location stays itself.
    ///
    /// # Panics
    /// A location of another session.
    pub fn fused_location(self, parts: &[Location<'_>]) -> Location<'s> {
        parts.iter().for_each(|part| self.expect_own(part.context()));
        let parts: Vec<_> = parts.iter().map(|l| l.to_raw()).collect();
        unsafe {
            Location::from_raw(mlirLocationFusedGet(
                self.raw,
                parts.len() as isize,
                parts.as_ptr(),
                mlirAttributeGetNull(),
            ))
        }
    }
}
