//! Types of values, as declared.

use tenon_tensor::{DType, byte_count};

use crate::error::{ImportError, quoted};
use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{TypeProto, ValueInfoProto, type_proto};
use crate::tensor::element_type;

/// One dimension of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Fixed(u64),
    /// A name; equal names are equal extents throughout the model.
    Symbol(String),
    /// Neither; also what some exporters write as a negative number.
    Unknown,
}

/// Type of a tensor, as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first; `None` when not even the rank is declared.
    pub dims: Option<Vec<Dim>>,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A tensor.
    Tensor(TensorType),
    /// A list of values of one type.
    Sequence(Box<ValueType>),
    /// A value or nothing.
    Optional(Box<ValueType>),
    /// A type that is never supported, by name.
    Unsupported(String),
    /// No type is declared, as is legal in subgraphs.
    Undeclared,
}

/// A named value with its declared type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// The value's name; not empty.
    pub name: String,
    /// What is declared about it.
    pub value_type: ValueType,
}

impl ValueType {
    /// The element type of the tensors that a value consists of; `None` where nothing is declared.
    ///
    /// # Errors
    /// A type that is never supported.
    pub fn element_type(&self) -> Result<Option<DType>, ImportError> {
        match self {
            ValueType::Tensor(tensor) => Ok(Some(tensor.dtype)),
            ValueType::Sequence(inner) | ValueType::Optional(inner) => inner.element_type(),
            ValueType::Undeclared => Ok(None),
            ValueType::Unsupported(found) => {
                Err(ImportError::ValueType { name: "an output".to_owned(), found: found.clone() })
            }
        }
    }
}

impl ValueInfo {
    /// The tensor type, where only a tensor will do.
    ///
    /// # Errors
    /// The value is no tensor, or of unsupported elements, or nothing is declared.
    pub fn tensor(&self) -> Result<&TensorType, ImportError> {
        let found = match &self.value_type {
            ValueType::Tensor(tensor) => return Ok(tensor),
            ValueType::Sequence(_) => "a sequence".to_owned(),
            ValueType::Optional(_) => "an optional".to_owned(),
            ValueType::Unsupported(what) => what.clone(),
            ValueType::Undeclared => "of undeclared type".to_owned(),
        };
        Err(ImportError::ValueType { name: self.name.clone(), found })
    }
}

/// Reads a declaration; `name` is what the value is called from now on.
pub(crate) fn value_info(proto: &ValueInfoProto, name: String) -> Result<ValueInfo, ImportError> {
    let value_type = match &proto.r#type {
        Some(proto) => value_type(proto, &format!("value {}", quoted(&name)))?,
        None => ValueType::Undeclared,
    };
    Ok(ValueInfo { name, value_type })
}

/// Reads a type; its nesting is bounded by that of the file's messages.
pub(crate) fn value_type(proto: &TypeProto, owner: &str) -> Result<ValueType, ImportError> {
    let inner = |element: &Option<Box<TypeProto>>| match element {
        Some(element) => value_type(element, owner),
        None => Ok(ValueType::Undeclared),
    };
    Ok(match &proto.value {
        Some(type_proto::Value::TensorType(tensor)) => tensor_type(tensor, owner)?,
        Some(type_proto::Value::SequenceType(sequence)) => ValueType::Sequence(Box::new(inner(&sequence.elem_type)?)),
        Some(type_proto::Value::OptionalType(optional)) => ValueType::Optional(Box::new(inner(&optional.elem_type)?)),
        Some(type_proto::Value::MapType(_)) => ValueType::Unsupported("a map".to_owned()),
        Some(type_proto::Value::SparseTensorType(_)) => ValueType::Unsupported("a sparse tensor".to_owned()),
        Some(type_proto::Value::OpaqueType(_)) => ValueType::Unsupported("of an opaque type".to_owned()),
        None => ValueType::Undeclared,
    })
}

fn tensor_type(proto: &type_proto::Tensor, owner: &str) -> Result<ValueType, ImportError> {
    let dtype = match element_type(proto.elem_type()) {
        Ok(dtype) => dtype,
        Err(found) => return Ok(ValueType::Unsupported(format!("a tensor of elements of type {found}"))),
    };
    let dims: Option<Vec<Dim>> = proto.shape.as_ref().map(|shape| {
        let dim = |value: &Option<dimension::Value>| match value {
            Some(dimension::Value::DimValue(number)) => u64::try_from(*number).map_or(Dim::Unknown, Dim::Fixed),
            Some(dimension::Value::DimParam(name)) if !name.is_empty() => Dim::Symbol(name.clone()),
            _ => Dim::Unknown,
        };
        shape.dim.iter().map(|proto| dim(&proto.value)).collect()
    });
    let fixed: Vec<u64> =
        dims.iter().flatten().filter_map(|dim| if let Dim::Fixed(n) = dim { Some(*n) } else { None }).collect();
    let sizes: Option<Vec<usize>> = fixed.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    if sizes.and_then(|sizes| byte_count(dtype, &sizes)).is_none() {
        let dims = fixed.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
        return Err(ImportError::Dimensions { owner: owner.to_owned(), dims });
    }
    Ok(ValueType::Tensor(TensorType { dtype, dims }))
}
