//! `graph.concat`: inputs one after another.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::Attributes;
use crate::operators::{axis, dtype_error, shape_error, too_large};
use crate::{ErrorKind, OperatorKind, Requirement, SemanticError, TensorType};

/// Inputs one after another along an axis, each cut at its extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concat {
    /// The axis.
    pub axis: i64,
}

impl OperatorKind for Concat {
    const NAME: &'static str = "graph.concat";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Concat { axis: Attributes::of(op).integer("axis")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("axis", context.i64(self.axis))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let Some((first, rest)) = operands.split_first() else {
            return Err(SemanticError::new(ErrorKind::Arity, Self::NAME, "takes at least one operand"));
        };
        let axis = axis(Self::NAME, self.axis, first.rank())?;
        let mut dims = first.dims.clone();
        for operand in rest {
            if operand.dtype != first.dtype {
                return Err(dtype_error(Self::NAME, "every operand", first.dtype.name(), operand.dtype));
            }
            if operand.rank() != first.rank() {
                return Err(shape_error(Self::NAME, format!("{first} and {operand} differ in rank")));
            }
            for (index, dim) in operand.dims.iter().enumerate() {
                if index == axis {
                    dims[index] = dims[index].plus(dim).ok_or_else(|| too_large(Self::NAME))?;
                } else if dims[index].differs(dim) {
                    return Err(shape_error(Self::NAME, format!("dimension {index} is {} in one operand and {dim} in another", dims[index])));
                } else if dim.known().is_some() {
                    dims[index] = dim.clone();
                }
            }
        }
        Ok(vec![TensorType::new(first.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let Some((first, rest)) = operands.split_first() else { return Vec::new() };
        let Ok(axis) = axis(Self::NAME, self.axis, first.rank()) else { return Vec::new() };
        let pairs = rest.iter().flat_map(|operand| first.dims.iter().zip(&operand.dims).enumerate());
        pairs
            .filter(|(index, _)| *index != axis)
            .filter_map(|(index, (a, b))| Requirement::same(a, b, || format!("dimension {index} of all operands of a concatenation is one size")))
            .collect()
    }
}
