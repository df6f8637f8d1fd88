//! `graph.arg_reduce`: index of an extremum.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, push_flag};
use crate::operators::reduce::reduced_dims;
use crate::operators::{arity, attribute_error, axis, dtype_error};
use crate::{DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

/// Index (i64) of the largest or smallest element along an axis; NaN wins; the first among equals unless `last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgReduce {
    /// Smallest instead of largest.
    pub minimum: bool,
    /// The axis.
    pub axis: i64,
    /// Keep the axis as size 1.
    pub keep_dims: bool,
    /// The last among equals.
    pub last: bool,
}

impl OperatorKind for ArgReduce {
    const NAME: &'static str = "graph.arg_reduce";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        let kind = attributes.string("kind")?;
        if kind != "max" && kind != "min" {
            return Err(attribute_error(Self::NAME, format!("`kind` must be max or min, not `{kind}`")));
        }
        Ok(ArgReduce {
            minimum: kind == "min",
            axis: attributes.integer("axis")?,
            keep_dims: attributes.flag("keep_dims"),
            last: attributes.flag("last"),
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let kind = if self.minimum { "min" } else { "max" };
        let mut list = vec![("kind", context.string(kind)), ("axis", context.i64(self.axis))];
        push_flag(&mut list, "keep_dims", self.keep_dims, context);
        push_flag(&mut list, "last", self.last, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if !input.dtype.is_float() && !input.dtype.is_integer() {
            return Err(dtype_error(Self::NAME, "the input", "a float or integer", input.dtype));
        }
        let axis = axis(Self::NAME, self.axis, input.rank())?;
        Ok(vec![TensorType::new(DType::I64, reduced_dims(&input, &[axis], self.keep_dims))])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let dim = operands.first().and_then(|input| input.dims.get(axis(Self::NAME, self.axis, input.rank()).ok()?));
        let reason = || "the place of an extremum needs an element".to_owned();
        dim.and_then(|dim| Requirement::at_most(DimExpr::constant(1), dim.extent.clone(), reason)).into_iter().collect()
    }
}
