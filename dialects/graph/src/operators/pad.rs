//! `graph.pad`: padding and cropping.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, dims_attribute, keywords};
use crate::operators::{arity, attribute_error, dtype_error, shape_error, too_large};
use crate::{DimExpr, OperatorKind, SemanticError, TensorType};

keywords! {
    /// What lies outside.
    PadMode {
        /// The value.
        Constant = "constant",
        /// Mirrored without the edge.
        Reflect = "reflect",
        /// The edge repeated.
        Edge = "edge",
        /// Periodic.
        Wrap = "wrap",
    }
}

/// `low` elements before and `high` after each dimension; negative ones crop, before anything is mirrored. Operands: input, scalar value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pad {
    /// What lies outside.
    pub mode: PadMode,
    /// Elements before.
    pub low: Vec<DimExpr>,
    /// Elements after.
    pub high: Vec<DimExpr>,
}

impl OperatorKind for Pad {
    const NAME: &'static str = "graph.pad";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Pad { mode: attributes.keyword("mode")?, low: attributes.dims("low")?, high: attributes.dims("high")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("mode", context.string(self.mode.name())),
            ("low", dims_attribute(&self.low, context)),
            ("high", dims_attribute(&self.high, context)),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input, value] = arity(Self::NAME, operands)?;
        let rank = input.rank();
        if self.low.len() != rank || self.high.len() != rank {
            return Err(attribute_error(Self::NAME, format!("low and high must have {rank} entries")));
        }
        if value.dtype != input.dtype {
            return Err(dtype_error(Self::NAME, "the value", input.dtype.name(), value.dtype));
        }
        if value.rank() != 0 {
            return Err(shape_error(Self::NAME, format!("the value {value} must be a scalar")));
        }
        let mut dims = Vec::with_capacity(rank);
        for (index, dim) in input.dims.iter().enumerate() {
            let (low, high) = (&self.low[index], &self.high[index]);
            let padded = dim.map(|size| size.add(low)?.add(high)).ok_or_else(|| too_large(Self::NAME))?;
            let (cropped_low, cropped_high) = (low.as_constant().unwrap_or(0).min(0), high.as_constant().unwrap_or(0).min(0));
            if let (Some(size), Some(result)) = (dim.known(), padded.known()) {
                let cropped = i128::from(size) + i128::from(cropped_low) + i128::from(cropped_high);
                if self.mode != PadMode::Constant && result > 0 && cropped <= 0 {
                    return Err(shape_error(Self::NAME, format!("dimension {index} of {input} has nothing to pad with")));
                }
            }
            dims.push(padded);
        }
        Ok(vec![TensorType::new(input.dtype, dims)])
    }
}
