//! `graph.reshape`: the same elements under another shape.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, dims_attribute};
use crate::operators::{arity, dims_of, shape_error, too_large};
use crate::{Dim, DimExpr, OperatorKind, Relation, Requirement, SemanticError, TensorType};

/// The same elements in row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape {
    /// Result shape; every entry is known or an expression.
    pub shape: Vec<DimExpr>,
}

impl OperatorKind for Reshape {
    const NAME: &'static str = "graph.reshape";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Reshape { shape: Attributes::of(op).dims("shape")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("shape", dims_attribute(&self.shape, context))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        let known: Vec<_> = input.dims.iter().collect();
        let dims = dims_of(Self::NAME, &self.shape, &known)?;
        let count = |dims: &[Dim]| {
            dims.iter().try_fold(DimExpr::constant(1), |count, dim| count.mul(&dim.extent)).ok_or_else(|| too_large(Self::NAME))
        };
        let (before, after) = (count(&input.dims)?, count(&dims)?);
        let difference = before.sub(&after).and_then(|difference| difference.as_constant());
        if difference.is_some_and(|difference| difference != 0) {
            return Err(shape_error(Self::NAME, format!("{input} has {before} elements, the result {after}")));
        }
        Ok(vec![TensorType::new(input.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let Some(input) = operands.first() else { return Vec::new() };
        let times = |count: Option<DimExpr>, dim: &DimExpr| count?.mul(dim);
        let one = Some(DimExpr::constant(1));
        let before = input.dims.iter().map(|dim| &dim.extent).fold(one.clone(), times);
        let after = self.shape.iter().fold(one, times);
        let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
        if before == after {
            return Vec::new();
        }
        vec![Requirement::new(before, Relation::Equal, after, "a reshape keeps the number of elements")]
    }
}
