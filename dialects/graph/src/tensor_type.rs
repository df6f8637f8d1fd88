//! Types of values: element type, dimensions with capacity and extent, order in memory.

use std::fmt;

use tenon_ir::{Attribute, Context, Type};
use tenon_tensor::DType;

use crate::{DimExpr, ErrorKind, SemanticError};

/// A dimension: at most `capacity` elements, `extent` of them meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dim {
    /// Number of elements that memory holds; unknown before buckets are made if the extent is symbolic.
    pub capacity: Option<u64>,
    /// Number of elements that mean something.
    pub extent: DimExpr,
}

impl Dim {
    /// A dimension whose extent is its capacity.
    pub fn fixed(size: u64) -> Self {
        Dim { capacity: Some(size), extent: DimExpr::constant(i64::try_from(size).unwrap_or(i64::MAX)) }
    }

    /// A dimension known by an expression; its capacity too if that is a number.
    pub fn of(extent: DimExpr) -> Self {
        Dim { capacity: extent.as_constant().and_then(|value| u64::try_from(value).ok()), extent }
    }

    /// The number of elements where extent and capacity are one known number.
    pub fn known(&self) -> Option<u64> {
        let extent = u64::try_from(self.extent.as_constant()?).ok()?;
        (self.capacity == Some(extent)).then_some(extent)
    }

    /// Applies one function to capacity and extent.
    pub fn map(&self, function: impl Fn(&DimExpr) -> Option<DimExpr>) -> Option<Self> {
        let extent = function(&self.extent)?;
        if extent.as_constant().is_some_and(|value| value < 0) {
            return None;
        }
        let capacity = match self.capacity {
            Some(_) if extent.as_constant().is_some() => extent.as_constant().and_then(|size| u64::try_from(size).ok()),
            Some(capacity) => {
                let value = function(&DimExpr::constant(i64::try_from(capacity).ok()?))?;
                // A function that brings in other symbols has no capacity yet.
                match value.as_constant() {
                    Some(value) => Some(u64::try_from(value).ok()?),
                    None => None,
                }
            }
            None => extent.as_constant().and_then(|value| u64::try_from(value).ok()),
        };
        Some(Dim { capacity, extent })
    }

    /// Sum with another dimension, as concatenation makes it.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let extent = self.extent.add(&other.extent)?;
        let capacity = match (self.capacity, other.capacity) {
            (Some(a), Some(b)) => Some(a.checked_add(b)?),
            _ => None,
        };
        Some(Dim { capacity, extent })
    }

    /// Product with another dimension.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let extent = self.extent.mul(&other.extent)?;
        let capacity = match (self.capacity, other.capacity) {
            (Some(a), Some(b)) => Some(a.checked_mul(b)?),
            _ => None,
        };
        Some(Dim { capacity, extent })
    }

    /// Whether this is the fixed dimension 1.
    pub fn is_one(&self) -> bool {
        self.known() == Some(1)
    }

    /// Whether the two are known to differ in extent; capacities only bound it.
    pub fn differs(&self, other: &Self) -> bool {
        let difference = self.extent.sub(&other.extent).and_then(|difference| difference.as_constant());
        difference.is_some_and(|difference| difference != 0)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known(), self.capacity) {
            (Some(size), _) => write!(f, "{size}"),
            (None, Some(capacity)) => write!(f, "{}≤{capacity}", self.extent),
            (None, None) => write!(f, "{}", self.extent),
        }
    }
}

/// Type of a tensor value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Vec<Dim>,
    /// Order of dimensions in memory from slowest to fastest; `None` is row-major.
    pub order: Option<Vec<usize>>,
}

impl TensorType {
    /// A row-major tensor.
    pub fn new(dtype: DType, dims: Vec<Dim>) -> Self {
        TensorType { dtype, dims, order: None }
    }

    /// A row-major tensor of fixed shape.
    pub fn fixed(dtype: DType, shape: &[u64]) -> Self {
        TensorType::new(dtype, shape.iter().map(|size| Dim::fixed(*size)).collect())
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The shape where every dimension is one known number.
    pub fn known_shape(&self) -> Option<Vec<u64>> {
        self.dims.iter().map(Dim::known).collect()
    }

    /// Capacities of all dimensions, once known.
    pub fn capacities(&self) -> Option<Vec<u64>> {
        self.dims.iter().map(|dim| dim.capacity).collect()
    }

    /// Number of elements of the capacity, once known; `None` also when it overflows.
    pub fn element_capacity(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.capacity?))
    }

    /// Reads an MLIR type.
    pub fn read(ty: Type<'_>) -> Result<Self, SemanticError> {
        let wrong = |message: String| SemanticError::new(ErrorKind::DType, "type", message);
        let shape = ty.tensor_shape().ok_or_else(|| wrong(format!("`{ty}` is no ranked tensor")))?;
        let dtype = ty
            .element()
            .and_then(Type::dtype)
            .ok_or_else(|| wrong(format!("`{ty}` has an element type that Tenon does not know")))?;
        let encoding = ty.encoding();
        let names = match encoding.and_then(|encoding| encoding.get("dims")) {
            None => None,
            Some(list) => {
                let list = list.as_array().ok_or_else(|| wrong(format!("`dims` of `{ty}` is no array")))?;
                if list.len() != shape.len() {
                    return Err(wrong(format!(
                        "`dims` of `{ty}` has {} entries for {} dimensions",
                        list.len(),
                        shape.len()
                    )));
                }
                Some(list)
            }
        };
        let mut dims = Vec::with_capacity(shape.len());
        for (index, capacity) in shape.iter().enumerate() {
            let extent = match &names {
                Some(names) => read_dim_expr(names[index])
                    .ok_or_else(|| wrong(format!("`{}` is no dimension expression", names[index])))?,
                None => match capacity {
                    Some(size) => DimExpr::constant(
                        i64::try_from(*size).map_err(|_| wrong(format!("dimension {index} of `{ty}` is too large")))?,
                    ),
                    None => return Err(wrong(format!("dimension {index} of `{ty}` has neither a size nor a name"))),
                },
            };
            if extent.as_constant().is_some_and(|value| value < 0 || capacity.is_some_and(|c| value as u64 > c)) {
                return Err(wrong(format!("extent {extent} of dimension {index} does not fit `{ty}`")));
            }
            dims.push(Dim { capacity: *capacity, extent });
        }
        let order = match encoding.and_then(|encoding| encoding.get("order")) {
            None => None,
            Some(list) => {
                let order: Option<Vec<usize>> = list
                    .as_array()
                    .and_then(|list| list.iter().map(|entry| usize::try_from(entry.as_integer()?).ok()).collect());
                let order = order.ok_or_else(|| wrong(format!("`order` of `{ty}` is no array of numbers")))?;
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if sorted.iter().copied().ne(0..dims.len()) {
                    return Err(wrong(format!("`order` of `{ty}` is no permutation of its dimensions")));
                }
                Some(order)
            }
        };
        Ok(TensorType { dtype, dims, order })
    }

    /// The MLIR type.
    pub fn to_type<'s>(&self, context: Context<'s>) -> Result<Type<'s>, SemanticError> {
        let shape: Vec<Option<u64>> = self.dims.iter().map(|dim| dim.capacity).collect();
        let mut entries = Vec::new();
        if self.dims.iter().any(|dim| dim.known().is_none()) {
            let names: Vec<_> = self.dims.iter().map(|dim| write_dim_expr(&dim.extent, context)).collect();
            entries.push(("dims", context.array(&names)));
        }
        if let Some(order) = &self.order {
            let order: Vec<_> = order.iter().map(|dim| context.i64(*dim as i64)).collect();
            entries.push(("order", context.array(&order)));
        }
        let encoding = (!entries.is_empty()).then(|| context.dictionary(&entries));
        context
            .tensor_type(&shape, context.element_type(self.dtype), encoding)
            .map_err(|error| SemanticError::new(ErrorKind::Shape, "type", error.to_string()))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.dims.iter().map(ToString::to_string).collect();
        write!(f, "{}[{}]", self.dtype, dims.join(", "))
    }
}

/// Reads a dimension: an integer attribute or a string with an expression.
pub fn read_dim_expr(attribute: Attribute<'_>) -> Option<DimExpr> {
    match attribute.as_integer() {
        Some(value) => Some(DimExpr::constant(value)),
        None => DimExpr::parse(&attribute.as_string()?),
    }
}

/// Writes a dimension: numbers as integer attributes, all else as strings.
pub fn write_dim_expr<'s>(expression: &DimExpr, context: Context<'s>) -> Attribute<'s> {
    match expression.as_constant() {
        Some(value) => context.i64(value),
        None => context.string(&expression.to_string()),
    }
}
