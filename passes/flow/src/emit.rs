//! Building operators at one place.

use tenon_graph_dialect::operators::{
    Broadcast, Constant, Elementwise, Function, Gather, GatherKind, Iota, Reshape, Transpose,
};
use tenon_graph_dialect::{Dim, DimExpr, ErrorKind, Operator, SemanticError, TensorType};
use tenon_ir::{Builder, Value};
use tenon_tensor::{DType, Tensor};

/// A builder of operators.
#[derive(Clone, Copy)]
pub(crate) struct Emit<'m> {
    pub(crate) at: Builder<'m>,
}

impl<'m> Emit<'m> {
    /// An operator whose results have these types.
    pub(crate) fn build(
        self,
        operator: Operator,
        operands: &[Value<'m>],
        ty: TensorType,
    ) -> Result<Value<'m>, SemanticError> {
        let results = operator.build_as(self.at, operands, &[ty])?;
        let missing = || SemanticError::new(ErrorKind::Structure, operator.name(), "has no result");
        results.first().copied().ok_or_else(missing)
    }

    /// A scalar function with broadcasting.
    pub(crate) fn apply(self, function: Function, operands: &[Value<'m>]) -> Result<Value<'m>, SemanticError> {
        self.infer(Elementwise { function }.into(), operands)
    }

    /// Slices along an axis; that of one place if it is a scalar.
    pub(crate) fn take(self, value: Value<'m>, places: Value<'m>, axis: usize) -> Result<Value<'m>, SemanticError> {
        let axis = i64::try_from(axis).unwrap_or(i64::MAX);
        self.infer(Gather { kind: GatherKind::Take, axis, batch_dims: 0 }.into(), &[value, places])
    }

    /// The first dimension moved to an axis; the value itself where that is the first.
    pub(crate) fn first_to(self, value: Value<'m>, axis: usize) -> Result<Value<'m>, SemanticError> {
        if axis == 0 {
            return Ok(value);
        }
        let rank = TensorType::read(value.ty())?.rank() as i64;
        let mut permutation: Vec<i64> = (1..rank).collect();
        permutation.insert(axis, 0);
        self.infer(Transpose { permutation }.into(), &[value])
    }

    /// An operator whose result type follows from its operands.
    pub(crate) fn infer(self, operator: Operator, operands: &[Value<'m>]) -> Result<Value<'m>, SemanticError> {
        let types = operands.iter().map(|value| TensorType::read(value.ty())).collect::<Result<Vec<_>, _>>()?;
        let ty = operator.infer(&types)?.into_iter().next();
        let ty = ty.ok_or_else(|| SemanticError::new(ErrorKind::Structure, operator.name(), "has no result"))?;
        self.build(operator, operands, ty)
    }

    /// A scalar of a number that every type has.
    pub(crate) fn scalar(self, value: f64, dtype: DType) -> Result<Value<'m>, SemanticError> {
        let tensor = Tensor::from_f64s(dtype, Vec::new(), &[value]);
        let value =
            tensor.map_err(|error| SemanticError::new(ErrorKind::DType, "graph.constant", error.to_string()))?;
        self.build(Constant { value }.into(), &[], TensorType::fixed(dtype, &[]))
    }

    /// A scalar in every place of a shape.
    pub(crate) fn fill(self, value: f64, dtype: DType, dims: &[Dim]) -> Result<Value<'m>, SemanticError> {
        let scalar = self.scalar(value, dtype)?;
        self.build(Broadcast { shape: extents(dims) }.into(), &[scalar], TensorType::new(dtype, dims.to_vec()))
    }

    /// The index along dimension 0 as i64.
    pub(crate) fn index(self, dims: Vec<Dim>) -> Result<Value<'m>, SemanticError> {
        let iota = Iota { dtype: DType::I64, shape: extents(&dims), axis: 0 };
        self.build(iota.into(), &[], TensorType::new(DType::I64, dims))
    }

    /// Another shape.
    pub(crate) fn reshape(self, value: Value<'m>, dims: Vec<Dim>) -> Result<Value<'m>, SemanticError> {
        let dtype = TensorType::read(value.ty())?.dtype;
        self.build(Reshape { shape: extents(&dims) }.into(), &[value], TensorType::new(dtype, dims))
    }
}

fn extents(dims: &[Dim]) -> Vec<DimExpr> {
    dims.iter().map(|dim| dim.extent.clone()).collect()
}
