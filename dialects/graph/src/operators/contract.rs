//! `graph.contract`: sum of products in Einstein notation.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::Attributes;
use crate::operators::{arity, attribute_error, dtype_error, shape_error};
use crate::{Dim, OperatorKind, Requirement, SemanticError, TensorType};

/// `lhs,rhs->result` with one letter a dimension; letters that the result lacks are summed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// Labels of the left operand's dimensions.
    pub lhs: String,
    /// Labels of the right operand's dimensions.
    pub rhs: String,
    /// Labels of the result's dimensions.
    pub result: String,
    /// Type that products are summed in.
    pub accumulate: DType,
    /// Element type of the result.
    pub dtype: DType,
}

impl Contract {
    /// Labels that are summed over, in order of the left operand.
    pub fn summed(&self) -> Vec<char> {
        self.lhs.chars().filter(|label| !self.result.contains(*label)).collect()
    }

    /// The equation as written.
    pub fn equation(&self) -> String {
        format!("{},{}->{}", self.lhs, self.rhs, self.result)
    }
}

impl OperatorKind for Contract {
    const NAME: &'static str = "graph.contract";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        let equation = attributes.string("equation")?;
        let (operands, result) = equation
            .split_once("->")
            .ok_or_else(|| attribute_error(Self::NAME, format!("equation `{equation}` lacks `->`")))?;
        let (lhs, rhs) = operands
            .split_once(',')
            .ok_or_else(|| attribute_error(Self::NAME, format!("equation `{equation}` must have two operands")))?;
        Ok(Contract {
            lhs: lhs.to_owned(),
            rhs: rhs.to_owned(),
            result: result.to_owned(),
            accumulate: attributes.dtype("accumulate")?,
            dtype: attributes.result_dtype()?,
        })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![
            ("equation", context.string(&self.equation())),
            ("accumulate", context.type_attribute(context.element_type(self.accumulate))),
        ]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [lhs, rhs] = arity(Self::NAME, operands)?;
        for (labels, rank, what) in [
            (&self.lhs, Some(lhs.rank()), "the left operand"),
            (&self.rhs, Some(rhs.rank()), "the right operand"),
            (&self.result, None, "the result"),
        ] {
            let count = labels.chars().count();
            if rank.is_some_and(|rank| rank != count) {
                return Err(shape_error(Self::NAME, format!("{what} has another rank than its labels `{labels}`")));
            }
            if labels.chars().any(|label| !label.is_ascii_alphabetic()) {
                return Err(attribute_error(Self::NAME, format!("labels of {what} must be letters, not `{labels}`")));
            }
            if labels.chars().enumerate().any(|(index, label)| labels.chars().skip(index + 1).any(|other| other == label)) {
                return Err(attribute_error(Self::NAME, format!("a label occurs twice in `{labels}`")));
            }
        }
        let find = |label: char| -> Option<(Option<&Dim>, Option<&Dim>)> {
            let left = self.lhs.find(label).and_then(|index| lhs.dims.get(index));
            let right = self.rhs.find(label).and_then(|index| rhs.dims.get(index));
            (left.is_some() || right.is_some()).then_some((left, right))
        };
        for label in self.lhs.chars().chain(self.rhs.chars()) {
            match find(label) {
                Some((Some(left), Some(right))) if left.differs(right) => {
                    return Err(shape_error(Self::NAME, format!("dimension `{label}` is {left} on the left and {right} on the right")));
                }
                Some((Some(_), None) | (None, Some(_))) if !self.result.contains(label) => {
                    return Err(attribute_error(Self::NAME, format!("`{label}` is summed over but occurs in one operand alone")));
                }
                _ => {}
            }
        }
        if lhs.dtype != rhs.dtype && !(lhs.dtype.is_integer() && rhs.dtype.is_integer()) {
            return Err(dtype_error(Self::NAME, "the right operand", lhs.dtype.name(), rhs.dtype));
        }
        let dims = self
            .result
            .chars()
            .map(|label| match find(label) {
                Some((Some(left), Some(right))) => Ok(if left.known().is_some() { left } else { right }.clone()),
                Some((Some(dim), None) | (None, Some(dim))) => Ok(dim.clone()),
                _ => Err(attribute_error(Self::NAME, format!("`{label}` of the result occurs in no operand"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(vec![TensorType::new(self.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let [lhs, rhs] = operands else { return Vec::new() };
        let shared = self.lhs.chars().enumerate().filter_map(|(index, label)| Some((label, index, self.rhs.find(label)?)));
        shared
            .filter_map(|(label, left, right)| {
                let (left, right) = (lhs.dims.get(left)?, rhs.dims.get(right)?);
                Requirement::same(left, right, || format!("dimension `{label}` of {} is one size in both operands", self.equation()))
            })
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn contract(lhs: &str, rhs: &str, result: &str) -> Contract {
        Contract { lhs: lhs.into(), rhs: rhs.into(), result: result.into(), accumulate: DType::F32, dtype: DType::F16 }
    }

    #[test]
    fn shapes_follow_labels() {
        let a = TensorType::fixed(DType::F16, &[2, 3, 4]);
        let b = TensorType::fixed(DType::F16, &[4, 5]);
        let infer = |c: Contract| c.infer(&[a.clone(), b.clone()]);
        assert_eq!(infer(contract("bmk", "kn", "bmn")).unwrap(), [TensorType::fixed(DType::F16, &[2, 3, 5])]);
        assert_eq!(infer(contract("bmk", "nk", "bmn")).unwrap_err().code(), "E0303");
        assert_eq!(infer(contract("bmm", "mn", "bn")).unwrap_err().code(), "E0304");
        assert_eq!(infer(contract("bmk", "kn", "bn")).unwrap_err().code(), "E0304");
        assert_eq!(infer(contract("bmk", "kn", "bmq")).unwrap_err().code(), "E0304");
    }
}
