//! `graph.attention`: scaled dot-product attention.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::attributes::{Attributes, keywords, push_flag};
use crate::operators::{broadcast_dims, dtype_error, shape_error};
use crate::requirement::broadcast_requirements;
use crate::{ErrorKind, OperatorKind, Requirement, SemanticError, TensorType};

keywords! {
    /// Which keys a query sees, of T queries and S keys.
    Causal {
        /// Query i sees keys 0 to i: the first query and the first key are of one time.
        Start = "start",
        /// Query i sees keys 0 to i + S - T: the last query and the last key are of one time, as with a cache of keys.
        End = "end",
    }
}

/// softmax(cap(scale · q kᵀ) + mask) v; q `[B, H, T, D]`, k `[B, G, S, D]`, v `[B, G, S, E]`, H a multiple of G.
///
/// The optional mask broadcasts to `[B, H, T, S]`. One of truth values hides the keys where it is false. One of numbers is added to the scores,
/// and hides the keys where it is -∞; it has the operands' type, or the type that they compute in. A query that sees no key gives 0, and a score
/// that is hidden counts for nothing, be it NaN. With `plain_softmax` neither is so: a mask of numbers is added and no more, and a query all
/// of whose scores are -∞ gives NaN, as products and a softmax that are written out do. Of no keys at all the sum is 0 in either case.
///
/// f16 and bf16 compute in f32 throughout and round once.
///
/// Source: ONNX Attention, operator sets 23 to 25.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: f64,
    /// `softcap · tanh(score / softcap)` in place of a score.
    pub softcap: Option<f64>,
    /// Hides the keys of times to come.
    pub causal: Option<Causal>,
    /// Softmax as IEEE arithmetic has it: NaN of nothing but -∞. Without it, softmax is safe: such a query gives 0.
    pub plain_softmax: bool,
}

impl Attention {
    /// The type that operands of a type compute in.
    pub fn compute_type(dtype: DType) -> DType {
        if dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }
}

impl OperatorKind for Attention {
    const NAME: &'static str = "graph.attention";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        let attributes = Attributes::of(op);
        let softcap = if attributes.flag("softcap") { Some(attributes.float("softcap")?) } else { None };
        let causal = if attributes.flag("causal") { Some(attributes.keyword("causal")?) } else { None };
        Ok(Attention { scale: attributes.float("scale")?, softcap, causal, plain_softmax: attributes.flag("plain_softmax") })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        let mut list = vec![("scale", context.f64(self.scale))];
        list.extend(self.softcap.map(|softcap| ("softcap", context.f64(softcap))));
        list.extend(self.causal.map(|causal| ("causal", context.string(causal.name()))));
        push_flag(&mut list, "plain_softmax", self.plain_softmax, context);
        list
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let (q, k, v) = match operands {
            [q, k, v] | [q, k, v, _] => (q, k, v),
            _ => return Err(SemanticError::new(ErrorKind::Arity, Self::NAME, "takes q, k, v and optionally a mask")),
        };
        if [k, v].iter().any(|operand| operand.dtype != q.dtype) || !q.dtype.is_float() {
            return Err(dtype_error(Self::NAME, "each of q, k and v", "one float type", q.dtype));
        }
        if [q, k, v].iter().any(|operand| operand.rank() != 4) {
            return Err(shape_error(Self::NAME, "q, k and v must have rank 4"));
        }
        let groups = match (q.dims[1].known(), k.dims[1].known()) {
            (Some(heads), Some(groups)) => groups != 0 && heads % groups == 0,
            _ => !q.dims[1].differs(&k.dims[1]),
        };
        let pairs = [(q, k, 0), (q, v, 0), (q, k, 3), (k, v, 1), (k, v, 2)];
        if pairs.iter().any(|(a, b, dim)| a.dims[*dim].differs(&b.dims[*dim])) || !groups {
            return Err(shape_error(Self::NAME, format!("q {q}, k {k} and v {v} do not fit together")));
        }
        let dims = vec![q.dims[0].clone(), q.dims[1].clone(), q.dims[2].clone(), v.dims[3].clone()];
        if let Some(mask) = operands.get(3) {
            if ![DType::Bool, q.dtype, Self::compute_type(q.dtype)].contains(&mask.dtype) {
                return Err(dtype_error(Self::NAME, "the mask", "i1, the type of q, or the type that it computes in", mask.dtype));
            }
            let scores = [q.dims[0].clone(), q.dims[1].clone(), q.dims[2].clone(), k.dims[2].clone()];
            let stretches = |(score, mask): (&crate::Dim, &crate::Dim)| score.is_one() && mask.known().is_some_and(|size| size != 1);
            broadcast_dims(Self::NAME, &[&scores, &mask.dims])?;
            if mask.rank() > 4 || scores.iter().rev().zip(mask.dims.iter().rev()).any(stretches) {
                return Err(shape_error(Self::NAME, format!("the mask {mask} does not broadcast to the scores")));
            }
        }
        Ok(vec![TensorType::new(q.dtype, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        let [q, k, v, rest @ ..] = operands else { return Vec::new() };
        if [q, k, v].iter().any(|operand| operand.rank() != 4) {
            return Vec::new();
        }
        let mut list = Vec::new();
        for (a, b, dim, name) in [(q, k, 0, "batch"), (q, v, 0, "batch"), (q, k, 3, "head size"), (k, v, 1, "groups"), (k, v, 2, "keys")] {
            list.extend(Requirement::same(&a.dims[dim], &b.dims[dim], || format!("attention has one number of {name}")));
        }
        if let [mask, ..] = rest {
            let scores = [q.dims[0].clone(), q.dims[1].clone(), q.dims[2].clone(), k.dims[2].clone()];
            list.extend(broadcast_requirements(&[&scores, &mask.dims]));
        }
        list
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn operands_fit_together() {
        let plain = Attention { scale: 1.0, softcap: None, causal: None, plain_softmax: false };
        let t = |dtype, shape: &[u64]| TensorType::fixed(dtype, shape);
        let (q, k, v) = (t(DType::F16, &[2, 4, 1, 8]), t(DType::F16, &[2, 2, 5, 8]), t(DType::F16, &[2, 2, 5, 3]));
        let infer = |mask: Option<TensorType>| {
            let mut operands = vec![q.clone(), k.clone(), v.clone()];
            operands.extend(mask);
            plain.infer(&operands).map_err(|error| error.code())
        };
        assert_eq!(infer(None).unwrap(), [t(DType::F16, &[2, 4, 1, 3])]);
        for dtype in [DType::Bool, DType::F16, DType::F32] {
            assert!(infer(Some(t(dtype, &[4, 1, 5]))).is_ok());
        }
        assert_eq!(infer(Some(t(DType::F64, &[5]))), Err("E0302"));
        // There is one query; a mask of three does not broadcast to it.
        assert_eq!(infer(Some(t(DType::Bool, &[3, 5]))), Err("E0303"));
        assert_eq!(infer(Some(t(DType::Bool, &[1, 2, 4, 1, 5]))), Err("E0303"));
        let three_batches = t(DType::F16, &[3, 2, 5, 3]);
        assert_eq!(plain.infer(&[q.clone(), k.clone(), three_batches]).unwrap_err().code(), "E0303");
    }
}
