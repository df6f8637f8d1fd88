//! What importers write most.

use tenon_graph_dialect::operators::{
    Broadcast, Cast, Elementwise, Function, Reduce, ReduceKind, Reshape, Slice, Transpose,
};
use tenon_graph_dialect::{DimExpr, Operator, SemanticError};
use tenon_tensor::{DType, Tensor};

use crate::builder::{GraphBuilder, Handle, structure};

/// All fail with what the operator refuses.
#[allow(clippy::missing_errors_doc)]
impl GraphBuilder<'_> {
    /// Applies an operator with one result.
    pub fn emit_one(&mut self, operator: impl Into<Operator>, operands: &[Handle]) -> Result<Handle, SemanticError> {
        let results = self.emit(&operator.into(), operands)?;
        results.first().copied().ok_or_else(|| structure("the operation has no result"))
    }

    /// A scalar function.
    pub fn apply(&mut self, function: Function, operands: &[Handle]) -> Result<Handle, SemanticError> {
        self.emit_one(Elementwise { function }, operands)
    }

    /// A constant scalar, rounded to the type.
    pub fn scalar(&mut self, value: f64, dtype: DType) -> Result<Handle, SemanticError> {
        self.literal(dtype, &[], &[value])
    }

    /// A small constant.
    pub fn literal(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> Result<Handle, SemanticError> {
        let tensor = Tensor::from_f64s(dtype, shape.to_vec(), values);
        let tensor = tensor.map_err(|error| structure(&error.to_string()))?;
        Ok(self.constant(tensor))
    }

    /// Constant integers: a list.
    pub fn integers(&mut self, values: &[i64]) -> Result<Handle, SemanticError> {
        let tensor = Tensor::from_i64(vec![values.len()], values).map_err(|error| structure(&error.to_string()))?;
        Ok(self.constant(tensor))
    }

    /// Extents of all dimensions.
    pub fn extents(&self, handle: Handle) -> Vec<DimExpr> {
        self.ty(handle).dims.iter().map(|dim| dim.extent.clone()).collect()
    }

    /// Conversion; the value itself where it has the type.
    pub fn cast(&mut self, handle: Handle, dtype: DType) -> Result<Handle, SemanticError> {
        match self.ty(handle).dtype == dtype {
            true => Ok(handle),
            false => self.emit_one(Cast { dtype, saturate: false }, &[handle]),
        }
    }

    /// Another shape; the value itself where it has the shape.
    pub fn reshape(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Result<Handle, SemanticError> {
        match self.extents(handle) == shape {
            true => Ok(handle),
            false => self.emit_one(Reshape { shape }, &[handle]),
        }
    }

    /// Broadcast to a shape; the value itself where it has the shape.
    pub fn broadcast(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Result<Handle, SemanticError> {
        match self.extents(handle) == shape {
            true => Ok(handle),
            false => self.emit_one(Broadcast { shape }, &[handle]),
        }
    }

    /// Dimensions in another order; the value itself where that is the same.
    pub fn transpose(&mut self, handle: Handle, permutation: Vec<i64>) -> Result<Handle, SemanticError> {
        match permutation.iter().copied().eq(0..self.ty(handle).rank() as i64) {
            true => Ok(handle),
            false => self.emit_one(Transpose { permutation }, &[handle]),
        }
    }

    /// Reduction; the value itself where there are no axes.
    pub fn reduce(
        &mut self,
        kind: ReduceKind,
        handle: Handle,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<Handle, SemanticError> {
        if axes.is_empty() {
            return Ok(handle);
        }
        let axes = axes.iter().map(|axis| *axis as i64).collect();
        self.emit_one(Reduce { kind, axes, keep_dims }, &[handle])
    }

    /// `size` elements from `start` along one axis.
    pub fn slice(
        &mut self,
        handle: Handle,
        axis: usize,
        start: DimExpr,
        size: DimExpr,
    ) -> Result<Handle, SemanticError> {
        let mut sizes = self.extents(handle);
        let mut starts = vec![DimExpr::constant(0); sizes.len()];
        let steps = vec![1; sizes.len()];
        starts[axis] = start;
        sizes[axis] = size;
        self.emit_one(Slice { starts, sizes, steps }, &[handle])
    }
}

/// The type that sums of products of a type are taken in.
pub fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ if dtype.is_float() => DType::F32,
        _ if dtype.is_integer() && dtype.bits() <= 8 => DType::I32,
        _ => dtype,
    }
}

/// Product of expressions.
pub fn product(dims: &[DimExpr]) -> Option<DimExpr> {
    dims.iter().try_fold(DimExpr::constant(1), |product, dim| product.mul(dim))
}
