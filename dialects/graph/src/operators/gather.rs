//! `graph.gather`: reading by index.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, keywords};
use crate::requirement::broadcast_requirements;
use crate::operators::{arity, attribute_error, axis, broadcast_dims, dtype_error, shape_error};
use crate::{Dim, DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

keywords! {
    /// How indices address the input.
    GatherKind {
        /// Slices along `axis`; the indices' shape replaces it. Source: ONNX Gather.
        Take = "take",
        /// One element a place, along `axis`; the result has the indices' shape. Source: ONNX GatherElements.
        Elements = "elements",
        /// The last dimension of the indices is a tuple over the dimensions after `batch_dims`. Source: ONNX GatherND.
        Nd = "nd",
    }
}

/// Elements or slices picked by index. Negative indices count from the end; out of range ones are clamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    /// How indices address the input.
    pub kind: GatherKind,
    /// Axis of `take` and `elements`; 0 for `nd`.
    pub axis: i64,
    /// Leading dimensions that input and indices share (`nd`).
    pub batch_dims: i64,
}

pub(crate) fn check_indices(operator: &str, indices: &TensorType) -> Result<(), SemanticError> {
    if matches!(indices.dtype, DType::I32 | DType::I64) {
        Ok(())
    } else {
        Err(dtype_error(operator, "the indices", "i32 or i64", indices.dtype))
    }
}

impl OperatorKind for Gather {
    const NAME: &'static str = "graph.gather";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Gather { kind: attributes.keyword("kind")?, axis: attributes.integer("axis")?, batch_dims: attributes.integer("batch_dims")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("kind", context.string(self.kind.name())),
            ("axis", context.i64(self.axis)),
            ("batch_dims", context.i64(self.batch_dims)),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input, indices] = arity(Self::NAME, operands)?;
        check_indices(Self::NAME, &indices)?;
        let dims = match self.kind {
            GatherKind::Take => {
                let axis = axis(Self::NAME, self.axis, input.rank())?;
                [&input.dims[..axis], &indices.dims, &input.dims[axis + 1..]].concat()
            }
            GatherKind::Elements => {
                let axis = axis(Self::NAME, self.axis, input.rank())?;
                if indices.rank() != input.rank() {
                    return Err(shape_error(Self::NAME, format!("indices {indices} must have the rank of {input}")));
                }
                let larger = |dim: usize| match (indices.dims[dim].known(), input.dims[dim].known()) {
                    (Some(index), Some(size)) => index > size,
                    _ => false,
                };
                if let Some(dim) = (0..input.rank()).find(|dim| *dim != axis && larger(*dim)) {
                    let message = format!("indices {indices} reach beyond dimension {dim} of {input}");
                    return Err(shape_error(Self::NAME, message));
                }
                indices.dims.clone()
            }
            GatherKind::Nd => {
                let tuple = indices
                    .dims
                    .last()
                    .and_then(|dim| dim.known())
                    .ok_or_else(|| shape_error(Self::NAME, format!("the last dimension of indices {indices} must be fixed")))?;
                let batch = usize::try_from(self.batch_dims).map_err(|_| attribute_error(Self::NAME, "`batch_dims` is negative"))?;
                let addressed = batch.saturating_add(tuple as usize);
                if addressed > input.rank() || batch >= indices.rank() {
                    return Err(shape_error(Self::NAME, format!("indices {indices} address {addressed} of the dimensions of {input}")));
                }
                let batch_dims = broadcast_dims(Self::NAME, &[&input.dims[..batch], &indices.dims[..batch]])?;
                [&batch_dims, &indices.dims[batch..indices.rank() - 1], &input.dims[addressed..]].concat()
            }
        };
        Ok(vec![TensorType::new(input.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let [input, indices] = operands else { return Vec::new() };
        let axis = axis(Self::NAME, self.axis, input.rank()).unwrap_or(0);
        let mut list = Vec::new();
        let addressed: &[Dim] = match self.kind {
            GatherKind::Nd => {
                let batch = usize::try_from(self.batch_dims).unwrap_or(0).min(input.rank()).min(indices.rank());
                list.extend(broadcast_requirements(&[&input.dims[..batch], &indices.dims[..batch]]));
                let tuple = indices.dims.last().and_then(Dim::known).unwrap_or(0) as usize;
                &input.dims[batch..batch.saturating_add(tuple).clamp(batch, input.rank())]
            }
            _ => input.dims.get(axis..axis + 1).unwrap_or_default(),
        };
        if self.kind == GatherKind::Elements {
            let pairs = indices.dims.iter().zip(&input.dims).enumerate().filter(|(index, _)| *index != axis);
            list.extend(pairs.filter_map(|(index, (taken, dim))| {
                let reason = || format!("the indices stay inside dimension {index} of what is indexed");
                Requirement::at_most(taken.extent.clone(), dim.extent.clone(), reason)
            }));
        }
        // An index of an empty dimension would read what is not there; no index reads nothing.
        let places = match self.kind {
            GatherKind::Nd => &indices.dims[..indices.rank().saturating_sub(1)],
            _ => &indices.dims,
        };
        let mut read = places.iter().chain(&input.dims).filter(|dim| !addressed.iter().any(|other| std::ptr::eq(*dim, other)));
        let count = read.try_fold(DimExpr::constant(1), |count, dim| count.mul(&dim.extent));
        let least = count.and_then(|count| count.minimum(&DimExpr::constant(1)));
        for dim in addressed {
            let reason = || "an index needs an element to point at".to_owned();
            list.extend(least.as_ref().and_then(|least| Requirement::at_most(least.clone(), dim.extent.clone(), reason)));
        }
        list
    }
}
