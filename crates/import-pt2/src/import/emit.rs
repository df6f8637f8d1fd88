//! Emitting operations from an operator's importer: the builder's shorthands, so that their arguments may look at the node.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::{Function, ReduceKind};
use tenon_graph_dialect::{DimExpr, Operator, SemanticError};
use tenon_tensor::DType;

use super::op::OpImport;

type Emitted = Result<Handle, SemanticError>;

impl OpImport<'_, '_, '_> {
    pub(crate) fn emit_one(&mut self, operator: impl Into<Operator>, operands: &[Handle]) -> Emitted {
        self.importer.builder.emit_one(operator, operands)
    }

    /// Refuses known indices that point outside of a dimension of `of`; -1 is the last element with `from_end`.
    pub(crate) fn check_indices(
        &mut self,
        indices: Handle,
        of: Handle,
        axis: usize,
        from_end: bool,
    ) -> Result<(), SemanticError> {
        let sizes: Vec<DimExpr> = self.extents(of).get(axis).cloned().into_iter().collect();
        self.importer.builder.check_indices("indices", indices, &sizes, from_end)
    }

    pub(crate) fn apply(&mut self, function: Function, operands: &[Handle]) -> Emitted {
        self.importer.builder.apply(function, operands)
    }

    pub(crate) fn scalar(&mut self, value: f64, dtype: DType) -> Emitted {
        self.importer.builder.scalar(value, dtype)
    }

    pub(crate) fn literal(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> Emitted {
        self.importer.builder.literal(dtype, shape, values)
    }

    pub(crate) fn symbolic(&mut self, dtype: DType, shape: &[u64], values: Vec<DimExpr>) -> Handle {
        self.importer.builder.symbolic(dtype, shape, values)
    }

    pub(crate) fn cast(&mut self, handle: Handle, dtype: DType) -> Emitted {
        self.importer.builder.cast(handle, dtype)
    }

    pub(crate) fn reshape(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Emitted {
        self.importer.builder.reshape(handle, shape)
    }

    pub(crate) fn broadcast(&mut self, handle: Handle, shape: Vec<DimExpr>) -> Emitted {
        self.importer.builder.broadcast(handle, shape)
    }

    pub(crate) fn transpose(&mut self, handle: Handle, permutation: Vec<i64>) -> Emitted {
        self.importer.builder.transpose(handle, permutation)
    }

    pub(crate) fn reduce(&mut self, kind: ReduceKind, handle: Handle, axes: &[usize], keep_dims: bool) -> Emitted {
        self.importer.builder.reduce(kind, handle, axes, keep_dims)
    }

    pub(crate) fn slice(&mut self, handle: Handle, axis: usize, start: DimExpr, size: DimExpr) -> Emitted {
        self.importer.builder.slice(handle, axis, start, size)
    }
}
