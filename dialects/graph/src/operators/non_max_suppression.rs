//! `graph.non_max_suppression`: boxes that overlap with none that is kept before them.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::operators::{arity, dtype_error, shape_error};
use crate::{OperatorKind, SemanticError, TensorType};

/// Which candidates are kept: in order, each whose intersection over union with every candidate kept before is at most a threshold.
///
/// Operands: boxes `[rows, boxes, 4]` as y1, x1, y2, x2 with y1 ≤ y2 and x1 ≤ x2, f32; candidates `[rows, boxes]`, i1; the threshold `[1]`, f32.
/// The result is `[rows, boxes]`, i1. A box without area overlaps with none. Rows are apart. Source: ONNX NonMaxSuppression, opset 11.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonMaxSuppression;

impl OperatorKind for NonMaxSuppression {
    const NAME: &'static str = "graph.non_max_suppression";

    fn read(_: Op<'_>) -> Result<Self, SemanticError> {
        Ok(NonMaxSuppression)
    }

    fn attributes<'s>(&self, _: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        Vec::new()
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let [boxes, candidates, threshold] = arity(Self::NAME, operands)?;
        for (what, found, expected) in [
            ("the boxes", boxes.dtype, DType::F32),
            ("the candidates", candidates.dtype, DType::Bool),
            ("the threshold", threshold.dtype, DType::F32),
        ] {
            if found != expected {
                return Err(dtype_error(Self::NAME, what, expected.name(), found));
            }
        }
        let fits = boxes.rank() == 3
            && candidates.rank() == 2
            && threshold.rank() == 1
            && boxes.dims[2].known().is_none_or(|size| size == 4)
            && threshold.dims[0].known().is_none_or(|size| size == 1)
            && (0..2).all(|axis| !boxes.dims[axis].differs(&candidates.dims[axis]));
        if !fits {
            let message = format!("boxes {boxes}, candidates {candidates} and threshold {threshold} do not fit");
            return Err(shape_error(Self::NAME, message));
        }
        Ok(vec![candidates])
    }
}
