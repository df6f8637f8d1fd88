//! `graph.reduce`: reduction over axes.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::{DType, NumberKind};

use crate::operators::attributes::{Attributes, keywords, push_flag};
use crate::operators::{arity, axes, dtype_error};
use crate::{Dim, OperatorKind, SemanticError, TensorType};

keywords! {
    /// How elements combine.
    ReduceKind {
        /// Sum; 0 of nothing.
        Sum = "sum",
        /// Arithmetic mean; NaN of nothing.
        Mean = "mean",
        /// Largest; NaN wins; -inf or the least integer of nothing.
        Max = "max",
        /// Smallest; NaN wins; inf or the greatest integer of nothing.
        Min = "min",
        /// Product; 1 of nothing.
        Product = "product",
        /// Whether one is true.
        Any = "any",
        /// Whether all are true.
        All = "all",
    }
}

/// Reduction over `axes`; sums, means and products of f16 and bf16 accumulate in f32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduce {
    /// How elements combine.
    pub kind: ReduceKind,
    /// Axes that are reduced; none: the tensor itself.
    pub axes: Vec<i64>,
    /// Keep reduced axes as size 1.
    pub keep_dims: bool,
}

/// Dimensions after reducing `axes` (sorted).
pub(crate) fn reduced_dims(input: &TensorType, axes: &[usize], keep_dims: bool) -> Vec<Dim> {
    let kept = input.dims.iter().enumerate();
    kept.filter_map(|(index, dim)| match axes.contains(&index) {
        false => Some(dim.clone()),
        true => keep_dims.then(|| Dim::fixed(1)),
    })
    .collect()
}

impl OperatorKind for Reduce {
    const NAME: &'static str = "graph.reduce";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Reduce { kind: attributes.keyword("kind")?, axes: attributes.integers("axes")?, keep_dims: attributes.flag("keep_dims") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("kind", context.string(self.kind.name())), ("axes", context.i64_array(&self.axes))];
        push_flag(&mut list, "keep_dims", self.keep_dims, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        let logical = matches!(self.kind, ReduceKind::Any | ReduceKind::All);
        let fits = match self.kind {
            ReduceKind::Any | ReduceKind::All => input.dtype == DType::Bool,
            ReduceKind::Max | ReduceKind::Min => input.dtype.kind() != NumberKind::Complex,
            _ => input.dtype.is_float() || input.dtype.is_integer(),
        };
        if !fits {
            return Err(dtype_error(Self::NAME, "the input", if logical { "i1" } else { "a number" }, input.dtype));
        }
        let axes = axes(Self::NAME, &self.axes, input.rank())?;
        Ok(vec![TensorType::new(input.dtype, reduced_dims(&input, &axes, self.keep_dims))])
    }
}
