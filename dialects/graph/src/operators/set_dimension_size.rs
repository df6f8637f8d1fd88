//! `graph.set_dimension_size`: a dimension whose extent is computed by the program itself.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::Attributes;
use crate::operators::{arity, attribute_error, dtype_error, shape_error};
use crate::tensor_type::write_dim_expr;
use crate::{DimExpr, OperatorKind, SemanticError, TensorType};

/// The first `size` slices of a tensor along dimension 0, and from here on the value of a name: operands are the tensor and the size, an i64
/// scalar of 0 to the dimension's extent. The capacity stays that of the tensor.
///
/// What else uses the name stands after this operation. As StableHLO's `set_dimension_size`, with the dynamic size named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDimensionSize {
    /// The name, a bare symbol that nothing else defines; a number once its value is known.
    pub extent: DimExpr,
}

impl OperatorKind for SetDimensionSize {
    const NAME: &'static str = "graph.set_dimension_size";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let extent = Attributes::of(op).dim("extent")?;
        match extent.as_symbol() {
            Some(_) => Ok(SetDimensionSize { extent }),
            None => Err(attribute_error(Self::NAME, format!("`extent` must be a name, not `{extent}`"))),
        }
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("extent", write_dim_expr(&self.extent, context))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [mut input, size] = arity(Self::NAME, operands)?;
        if size.dtype != DType::I64 {
            return Err(dtype_error(Self::NAME, "the size", "i64", size.dtype));
        }
        if size.rank() != 0 {
            return Err(shape_error(Self::NAME, format!("the size must be a scalar, not {size}")));
        }
        let Some(dim) = input.dims.first_mut() else {
            return Err(shape_error(Self::NAME, "a scalar has no dimension"));
        };
        dim.extent = self.extent.clone();
        if let Some(known) = self.extent.as_constant() {
            let known = u64::try_from(known).ok().filter(|known| dim.capacity.is_none_or(|most| *known <= most));
            dim.capacity =
                Some(known.ok_or_else(|| shape_error(Self::NAME, format!("size {} of {dim}", self.extent)))?);
        }
        Ok(vec![input])
    }
}
