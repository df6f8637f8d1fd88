//! Building operators, by what decompositions say most often.

use tenon_graph_dialect::operators::{Cast, Constant, DimExtent, Elementwise, Function, Iota, Reshape};
use tenon_graph_dialect::{Dim, DimExpr, ErrorKind, Operator, OperatorKind, SemanticError, TensorType};
use tenon_ir::{Builder, Value};
use tenon_tensor::{DType, Tensor};

/// A builder of operators at one place.
#[derive(Clone, Copy)]
pub(crate) struct Emit<'m> {
    at: Builder<'m>,
}

impl<'m> Emit<'m> {
    pub(crate) fn new(at: Builder<'m>) -> Self {
        Emit { at }
    }

    /// An operator with one result.
    pub(crate) fn op(self, operator: impl Into<Operator>, operands: &[Value<'m>]) -> Result<Value<'m>, SemanticError> {
        let operator = operator.into();
        let results = operator.build(self.at, operands)?;
        let missing = || SemanticError::new(ErrorKind::Structure, operator.name(), "has no result");
        results.first().copied().ok_or_else(missing)
    }

    /// A scalar function.
    pub(crate) fn apply(self, function: Function, operands: &[Value<'m>]) -> Result<Value<'m>, SemanticError> {
        self.op(Elementwise { function }, operands)
    }

    /// A scalar, rounded to the type.
    pub(crate) fn scalar(self, value: f64, dtype: DType) -> Result<Value<'m>, SemanticError> {
        let tensor = Tensor::from_f64s(dtype, Vec::new(), &[value]);
        let value = tensor.map_err(|error| SemanticError::new(ErrorKind::DType, Constant::NAME, error.to_string()))?;
        self.op(Constant { value }, &[])
    }

    /// Conversion; the value itself where it has the type.
    pub(crate) fn cast(self, value: Value<'m>, dtype: DType) -> Result<Value<'m>, SemanticError> {
        match self.ty(value)?.dtype == dtype {
            true => Ok(value),
            false => self.op(Cast { dtype, saturate: false }, &[value]),
        }
    }

    /// Another shape; the value itself where it has the shape.
    pub(crate) fn reshape(self, value: Value<'m>, shape: &[Dim]) -> Result<Value<'m>, SemanticError> {
        let shape: Vec<DimExpr> = shape.iter().map(|dim| dim.extent.clone()).collect();
        match self.ty(value)?.dims.iter().map(|dim| &dim.extent).eq(&shape) {
            true => Ok(value),
            false => self.op(Reshape { shape }, &[value]),
        }
    }

    /// The index along one dimension as i32, with the dimensions' capacities, which no operand tells.
    pub(crate) fn index(self, dims: Vec<Dim>, axis: i64) -> Result<Value<'m>, SemanticError> {
        let shape = dims.iter().map(|dim| dim.extent.clone()).collect();
        let operator = Operator::from(Iota { dtype: DType::I32, shape, axis });
        let results = operator.build_as(self.at, &[], &[TensorType::new(DType::I32, dims)])?;
        results.first().copied().ok_or_else(|| SemanticError::new(ErrorKind::Structure, Iota::NAME, "has no result"))
    }

    /// The extent of a dimension as an i32 scalar.
    pub(crate) fn extent(self, value: Value<'m>, axis: usize) -> Result<Value<'m>, SemanticError> {
        match self.ty(value)?.dims.get(axis).and_then(Dim::known) {
            Some(size) => self.scalar(size as f64, DType::I32),
            None => self.cast(self.op(DimExtent { axis: axis as i64 }, &[value])?, DType::I32),
        }
    }

    pub(crate) fn ty(self, value: Value<'m>) -> Result<TensorType, SemanticError> {
        TensorType::read(value.ty())
    }
}
