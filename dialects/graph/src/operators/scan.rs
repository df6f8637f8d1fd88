//! `graph.scan`: cumulative reduction.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, keywords, push_flag};
use crate::operators::{arity, axis, dtype_error};
use crate::{OperatorKind, SemanticError, TensorType};

keywords! {
    /// How elements combine.
    ScanKind {
        /// Running sum.
        Sum = "sum",
        /// Running product.
        Product = "product",
        /// Running maximum; NaN wins.
        Max = "max",
        /// Running minimum; NaN wins.
        Min = "min",
    }
}

/// Cumulative reduction along an axis. Source: ONNX CumSum, CumProd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// How elements combine.
    pub kind: ScanKind,
    /// The axis.
    pub axis: i64,
    /// Element i combines those before i.
    pub exclusive: bool,
    /// From the end.
    pub reverse: bool,
}

impl OperatorKind for Scan {
    const NAME: &'static str = "graph.scan";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Scan {
            kind: attributes.keyword("kind")?,
            axis: attributes.integer("axis")?,
            exclusive: attributes.flag("exclusive"),
            reverse: attributes.flag("reverse"),
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("kind", context.string(self.kind.name())), ("axis", context.i64(self.axis))];
        push_flag(&mut list, "exclusive", self.exclusive, context);
        push_flag(&mut list, "reverse", self.reverse, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        if !input.dtype.is_float() && !input.dtype.is_integer() {
            return Err(dtype_error(Self::NAME, "the input", "a float or integer", input.dtype));
        }
        axis(Self::NAME, self.axis, input.rank())?;
        Ok(vec![TensorType::new(input.dtype, input.dims)])
    }
}
