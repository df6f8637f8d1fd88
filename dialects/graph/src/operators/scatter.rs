//! `graph.scatter`: writing by index into a copy.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, keywords};
use crate::operators::gather::check_indices;
use crate::operators::{arity, axis, dtype_error, shape_error};
use crate::{Dim, DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

keywords! {
    /// How indices address the result.
    ScatterKind {
        /// One element a place, along `axis`. Source: ONNX ScatterElements.
        Elements = "elements",
        /// The last dimension of the indices is a tuple. Source: ONNX ScatterND.
        Nd = "nd",
    }
}

keywords! {
    /// How an update combines with what is there.
    Combine {
        /// Replace; the last of duplicates stays.
        Set = "set",
        /// Add.
        Add = "add",
        /// Multiply.
        Multiply = "multiply",
        /// Larger.
        Max = "max",
        /// Smaller.
        Min = "min",
    }
}

/// A copy of the input with updates combined in, in the order of the indices and in the element's own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scatter {
    /// How indices address the result.
    pub kind: ScatterKind,
    /// How an update combines.
    pub combine: Combine,
    /// Axis of `elements`; 0 for `nd`.
    pub axis: i64,
}

impl OperatorKind for Scatter {
    const NAME: &'static str = "graph.scatter";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Scatter { kind: attributes.keyword("kind")?, combine: attributes.keyword("combine")?, axis: attributes.integer("axis")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("kind", context.string(self.kind.name())),
            ("combine", context.string(self.combine.name())),
            ("axis", context.i64(self.axis)),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input, indices, updates] = arity(Self::NAME, operands)?;
        check_indices(Self::NAME, &indices)?;
        if updates.dtype != input.dtype {
            return Err(dtype_error(Self::NAME, "the updates", input.dtype.name(), updates.dtype));
        }
        let expected = match self.kind {
            ScatterKind::Elements => {
                axis(Self::NAME, self.axis, input.rank())?;
                if indices.rank() != input.rank() {
                    return Err(shape_error(Self::NAME, format!("indices {indices} must have the rank of {input}")));
                }
                indices.dims.clone()
            }
            ScatterKind::Nd => {
                let tuple = indices.dims.last().and_then(|dim| dim.known()).filter(|tuple| *tuple <= input.rank() as u64);
                let tuple = tuple.ok_or_else(|| shape_error(Self::NAME, format!("indices {indices} do not address {input}")))?;
                [&indices.dims[..indices.rank() - 1], &input.dims[tuple as usize..]].concat()
            }
        };
        if expected.len() != updates.rank() || expected.iter().zip(&updates.dims).any(|(a, b)| a.differs(b)) {
            return Err(shape_error(Self::NAME, format!("updates {updates} do not fit input {input} and indices {indices}")));
        }
        Ok(vec![TensorType::new(input.dtype, input.dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let [input, indices, updates] = operands else { return Vec::new() };
        let axis = axis(Self::NAME, self.axis, input.rank()).unwrap_or(0);
        let tuple = indices.dims.last().and_then(Dim::known).unwrap_or(0).min(input.rank() as u64) as usize;
        let (expected, addressed) = match self.kind {
            ScatterKind::Elements => (indices.dims.clone(), input.dims.get(axis..axis + 1).unwrap_or_default()),
            ScatterKind::Nd => {
                let places = &indices.dims[..indices.rank().saturating_sub(1)];
                ([places, &input.dims[tuple..]].concat(), &input.dims[..tuple])
            }
        };
        let mut list: Vec<_> = expected
            .iter()
            .zip(&updates.dims)
            .enumerate()
            .filter_map(|(index, (a, b))| Requirement::same(a, b, || format!("dimension {index} of the updates is that of the indices or the input")))
            .collect();
        if self.kind == ScatterKind::Elements {
            let pairs = indices.dims.iter().zip(&input.dims).enumerate().filter(|(index, _)| *index != axis);
            list.extend(pairs.filter_map(|(index, (written, dim))| {
                let reason = || format!("the indices stay inside dimension {index} of what is written");
                Requirement::at_most(written.extent.clone(), dim.extent.clone(), reason)
            }));
        }
        let count = updates.dims.iter().try_fold(DimExpr::constant(1), |count, dim| count.mul(&dim.extent));
        let least = count.and_then(|count| count.minimum(&DimExpr::constant(1)));
        for dim in addressed {
            let reason = || "an index needs an element to point at".to_owned();
            list.extend(least.as_ref().and_then(|least| Requirement::at_most(least.clone(), dim.extent.clone(), reason)));
        }
        list
    }
}
