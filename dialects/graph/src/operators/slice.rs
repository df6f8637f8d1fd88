//! `graph.slice`: every n-th element of a range.

use tenon_ir::{Attribute, Context, Op};

use crate::operators::attributes::{Attributes, dims_attribute};
use crate::operators::{arity, attribute_error, dims_of, shape_error};
use crate::{DimExpr, OperatorKind, Requirement, SemanticError, TensorType};

/// `sizes[i]` elements from `starts[i]` in steps of `steps[i]`, one entry a dimension. Starts are already counted from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// First element.
    pub starts: Vec<DimExpr>,
    /// Number of elements.
    pub sizes: Vec<DimExpr>,
    /// Distance of elements, never 0, may be negative.
    pub steps: Vec<i64>,
}

impl OperatorKind for Slice {
    const NAME: &'static str = "graph.slice";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        Ok(Slice { starts: attributes.dims("starts")?, sizes: attributes.dims("sizes")?, steps: attributes.integers("steps")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("starts", dims_attribute(&self.starts, context)),
            ("sizes", dims_attribute(&self.sizes, context)),
            ("steps", context.i64_array(&self.steps)),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [input] = arity(Self::NAME, operands)?;
        let rank = input.rank();
        if self.starts.len() != rank || self.sizes.len() != rank || self.steps.len() != rank {
            return Err(attribute_error(Self::NAME, format!("starts, sizes and steps must have {rank} entries")));
        }
        let known: Vec<_> = input.dims.iter().collect();
        let dims = dims_of(Self::NAME, &self.sizes, &known)?;
        for (index, dim) in dims.iter().enumerate() {
            let step = self.steps[index];
            if step == 0 {
                return Err(attribute_error(Self::NAME, format!("the step of dimension {index} is 0")));
            }
            let (Some(start), Some(size), Some(whole)) = (self.starts[index].as_constant(), dim.known(), input.dims[index].known()) else {
                continue;
            };
            let last = i128::from(start) + (i128::from(size) - 1) * i128::from(step);
            let inside = 0..i128::from(whole);
            if size > 0 && !(inside.contains(&i128::from(start)) && inside.contains(&last)) {
                return Err(shape_error(
                    Self::NAME,
                    format!("elements {start} to {last} of dimension {index} lie outside {input}"),
                ));
            }
        }
        Ok(vec![TensorType::new(input.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let Some(input) = operands.first() else { return Vec::new() };
        let mut list = Vec::new();
        for (index, dim) in input.dims.iter().enumerate() {
            let (Some(start), Some(size), Some(step)) = (self.starts.get(index), self.sizes.get(index), self.steps.get(index)) else {
                continue;
            };
            // What is whole, or taken of nothing, lies inside.
            if size.as_constant() == Some(0) || *size == dim.extent && *step == 1 && start.as_constant() == Some(0) {
                continue;
            }
            let (zero, one) = (DimExpr::constant(0), DimExpr::constant(1));
            let last = || start.add(&size.sub(&one)?.mul(&DimExpr::constant(*step))?);
            let Some(last) = last() else { continue };
            // Downwards, `start` is the highest element, where there is one.
            let first = match size.as_constant() {
                None if start.add(&one).as_ref() != Some(&dim.extent) => size.minimum(&one).unwrap_or(one.clone()),
                _ => one.clone(),
            };
            let (low, end) = if *step > 0 { (start.clone(), last.add(&one)) } else { (last, start.add(&first)) };
            let reason = || format!("the elements that a slice of dimension {index} takes lie inside");
            list.extend(Requirement::at_most(zero, low, reason));
            list.extend(end.and_then(|end| Requirement::at_most(end, dim.extent.clone(), reason)));
        }
        list
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Dim;
    use tenon_tensor::DType;

    #[test]
    fn stays_inside() {
        let slice = |start: i64, size: i64, step| {
            Slice { starts: vec![start.into()], sizes: vec![size.into()], steps: vec![step] }
                .infer(&[TensorType::fixed(DType::F32, &[5])])
        };
        assert_eq!(slice(4, 5, -1).unwrap()[0].known_shape().unwrap(), [5]);
        assert_eq!(slice(4, 6, -1).unwrap_err().code(), "E0303");
        assert_eq!(slice(5, 0, 1).unwrap()[0].known_shape().unwrap(), [0]);
        assert_eq!(slice(0, 3, 3).unwrap_err().code(), "E0303");
        assert_eq!(slice(0, 1, 0).unwrap_err().code(), "E0304");
    }

    /// All elements from the last to the first, of a list that may have none.
    #[test]
    fn nothing_is_taken_of_nothing() {
        let n = DimExpr::symbol("n");
        let last = n.sub(&DimExpr::constant(1)).unwrap().maximum(&DimExpr::constant(0)).unwrap();
        let slice = Slice { starts: vec![last], sizes: vec![n.clone()], steps: vec![-1] };
        let list = TensorType::new(DType::F32, vec![Dim::of(n)]);
        let requirements = slice.requirements(&[list]);
        for size in 0..4 {
            for requirement in &requirements {
                let at_size = requirement.condition.substitute(&|_| Some(DimExpr::constant(size))).unwrap();
                assert_eq!(at_size.decide(), Some(true), "{size}: {requirement:?}");
            }
        }
    }
}
