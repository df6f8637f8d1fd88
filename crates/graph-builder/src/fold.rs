//! Evaluation of operations whose operands are all constants.
//!
//! Bounded, so that no model, however made, costs more than it could by its own size: only operators whose work is proportional to their
//! operands and results, only small ones, and only so many elements in a whole model. What is not folded is emitted.

use tenon_graph_dialect::{Operator, TensorType};
use tenon_reference::Mode;
use tenon_tensor::{DType, Tensor};

use crate::builder::MAX_LITERAL;

/// Most elements of all operands, and of all results, of an operation that is folded.
const MAX_ELEMENTS: u64 = 1 << 16;

/// Elements that may be folded in one model.
const BUDGET: u64 = 1 << 27;

/// The folder of one model.
pub(crate) struct Folder {
    left: u64,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { left: BUDGET }
    }

    /// Results of an operator on constants; `None` when they are not computed here.
    pub(crate) fn fold(
        &mut self,
        operator: &Operator,
        operands: &[Tensor],
        results: &[TensorType],
    ) -> Option<Vec<Tensor>> {
        if let (Operator::Reshape(_), [operand], [result]) = (operator, operands, results) {
            // No element is touched, however many there are.
            let shape = result.known_shape()?.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>().ok()?;
            return Some(vec![operand.reshaped(shape).ok()?]);
        }
        if !is_proportional(operator) || widens(operator, operands) {
            return None;
        }
        let read: u64 = operands.iter().map(|tensor| tensor.element_count() as u64).sum();
        let written = results.iter().try_fold(0u64, |sum, ty| {
            let count = ty.known_shape()?.into_iter().try_fold(1u64, |count, size| count.checked_mul(size))?;
            sum.checked_add(count)
        })?;
        let cost = read.checked_add(written)?;
        if read > MAX_ELEMENTS || written > MAX_ELEMENTS || cost > self.left {
            return None;
        }
        self.left -= cost;
        // What the interpreter refuses (an index out of range, say) is left to whoever runs the module.
        tenon_reference::evaluate(operator, operands, results, Mode::Typed).ok()
    }
}

/// Whether bytes of a weight would become floats: products may take them as they are.
fn widens(operator: &Operator, operands: &[Tensor]) -> bool {
    let is_float = match operator {
        Operator::Dequantize(_) => true,
        Operator::Cast(cast) => cast.dtype.is_float(),
        _ => false,
    };
    let is_weight =
        |tensor: &Tensor| matches!(tensor.dtype(), DType::I8 | DType::U8) && tensor.element_count() > MAX_LITERAL;
    is_float && operands.first().is_some_and(is_weight)
}

/// Whether the work is at most the number of elements read and written, or little more.
fn is_proportional(operator: &Operator) -> bool {
    use Operator::*;
    matches!(
        operator,
        Constant(_)
            | Iota(_)
            | Elementwise(_)
            | Cast(_)
            | Reduce(_)
            | ArgReduce(_)
            | Scan(_)
            | Gather(_)
            | Scatter(_)
            | TopK(_)
            | Quantize(_)
            | Dequantize(_)
            | Transpose(_)
            | Broadcast(_)
            | Slice(_)
            | Pad(_)
            | Concat(_)
    )
}
