//! Concatenations outside kernels: kernels write their results where they lie in the whole.
//!
//! A `graph.concat` that stands beside kernels is no step of a program. Each of its operands is the result of a kernel, or another such
//! concatenation, perhaps reshaped, and nothing else reads it; so that the kernel can write it into the memory of the whole at once.

use tenon_ir::{Op, Value};

use crate::operators::Concat;
use crate::{OperatorKind, TensorType};

/// One concatenation on the way from a kernel's result to the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcatenatedPart {
    /// Types of all operands.
    pub operands: Vec<TensorType>,
    /// The operand that is meant.
    pub index: usize,
    /// The axis, counted from the front.
    pub axis: usize,
}

/// Where a kernel's result lies.
pub struct Destination<'m> {
    /// The value whose memory holds it.
    pub whole: Value<'m>,
    /// The concatenations from the result to the whole, the innermost first; reshapes may stand before each.
    pub parts: Vec<ConcatenatedPart>,
}

/// Whether an operation stands in a kernel.
fn is_in_kernel(op: Op<'_>) -> bool {
    op.parent().is_some_and(|parent| parent.is("graph.kernel"))
}

/// The one operation that reads a value, with the operand's place, if it stands where the value is defined.
fn only_reader<'m>(value: Value<'m>) -> Option<(Op<'m>, usize)> {
    let [reader] = value.users()[..] else { return None };
    let (definer, _) = value.defining_op()?;
    (definer.parent() == reader.0.parent()).then_some(reader)
}

fn part(concat: Op<'_>, index: usize) -> Option<ConcatenatedPart> {
    let operands = concat.operands().into_iter().map(|value| TensorType::read(value.ty()));
    let operands = operands.collect::<Result<Vec<_>, _>>().ok()?;
    let axis = Concat::read(concat).ok()?.axis;
    let axis = if axis < 0 { axis + operands.first()?.rank() as i64 } else { axis };
    Some(ConcatenatedPart { operands, index, axis: usize::try_from(axis).ok()? })
}

/// The concatenation that a kernel's result is written into; `None` for a result that has memory of its own.
pub fn destination(result: Value<'_>) -> Option<Destination<'_>> {
    let mut found: Option<Destination<'_>> = None;
    let mut value = result;
    while let Some((reader, index)) = only_reader(value) {
        value = match reader.result(0) {
            Some(view) if reader.is("graph.reshape") => view,
            Some(whole) if reader.is(Concat::NAME) && !is_in_kernel(reader) => {
                let parts = found.map(|found| found.parts).unwrap_or_default();
                found = Some(Destination { whole, parts: [parts, vec![part(reader, index)?]].concat() });
                whole
            }
            _ => break,
        };
    }
    found
}

/// Whether a concatenation outside kernels needs no kernel: each operand is a kernel's result, or another such concatenation, that nothing
/// else reads.
pub fn is_written_in_parts(concat: Op<'_>) -> bool {
    concat.operands().into_iter().all(|operand| {
        let mut value = operand;
        loop {
            let (Some((definer, _)), Some(_)) = (value.defining_op(), only_reader(value)) else { return false };
            match definer.operand(0) {
                Some(base) if definer.is("graph.reshape") => value = base,
                _ => return definer.is("graph.kernel") || (definer.is(Concat::NAME) && is_written_in_parts(definer)),
            }
        }
    })
}
