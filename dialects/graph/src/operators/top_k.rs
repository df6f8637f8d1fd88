//! `graph.top_k`: the largest or smallest elements.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, push_flag};
use crate::operators::{arity, attribute_error, axis, dtype_error, shape_error};
use crate::{Dim, DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

/// The `k` largest (or smallest) along an axis in order, with their i64 indices; the lower index first among equals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopK {
    /// How many.
    pub k: i64,
    /// The axis.
    pub axis: i64,
    /// Smallest instead of largest.
    pub smallest: bool,
}

impl OperatorKind for TopK {
    const NAME: &'static str = "graph.top_k";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(TopK { k: attributes.integer("k")?, axis: attributes.integer("axis")?, smallest: attributes.flag("smallest") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("k", context.i64(self.k)), ("axis", context.i64(self.axis))];
        push_flag(&mut list, "smallest", self.smallest, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if !input.dtype.is_float() && !input.dtype.is_integer() {
            return Err(dtype_error(Self::NAME, "the input", "a float or integer", input.dtype));
        }
        let axis = axis(Self::NAME, self.axis, input.rank())?;
        let k = u64::try_from(self.k).map_err(|_| attribute_error(Self::NAME, "`k` is negative"))?;
        if input.dims[axis].known().is_some_and(|size| k > size) {
            return Err(shape_error(Self::NAME, format!("k = {k} is above dimension {axis} of {input}")));
        }
        let mut dims = input.dims.clone();
        dims[axis] = Dim::fixed(k);
        Ok(vec![TensorType::new(input.dtype, dims.clone()), TensorType::new(DType::I64, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let dim = operands.first().and_then(|input| input.dims.get(axis(Self::NAME, self.axis, input.rank()).ok()?));
        let reason = || format!("a selection of {} elements needs as many", self.k);
        dim.and_then(|dim| Requirement::at_most(DimExpr::constant(self.k), dim.extent.clone(), reason)).into_iter().collect()
    }
}
