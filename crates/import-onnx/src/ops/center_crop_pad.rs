//! CenterCropPad.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Pad, PadMode};

use crate::import::node::{OpImport, Outputs};
use crate::import::sign;

/// The middle of the input in the given shape: cropped where the input is larger, padded with zeros where it is smaller. Of an odd number of
/// elements the one more goes to the end.
pub(super) fn center_crop_pad(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let x = op.input(0)?;
    let rank = op.rank(x);
    let shape = op.known_dims(1, "the shape of the result")?;
    let axes = match op.node.ints("axes")? {
        Some(axes) => {
            op.axes(axes, rank)?;
            axes.to_vec()
        }
        None => (0..rank as i64).collect(),
    };
    if shape.len() != axes.len() {
        return Err(op.invalid(format!("{} sizes for {} dimensions", shape.len(), axes.len())));
    }
    let mut low = vec![DimExpr::constant(0); rank];
    let mut high = low.clone();
    for (axis, size) in axes.iter().zip(&shape) {
        let axis = op.axis(*axis, rank)?;
        if size.as_constant().is_some_and(|size| size < 0) {
            return Err(op.invalid(format!("a size of {size}")));
        }
        let given = &op.dim(x, axis).extent;
        let refuse = || op.unsupported(format!("a size of {size} of the dimension {given}"));
        let more = size.sub(given).ok_or_else(refuse)?;
        let less = given.sub(size).ok_or_else(refuse)?;
        low[axis] = match sign(&more) {
            // Half of what is cropped, rounded down.
            Some(std::cmp::Ordering::Less) => {
                less.floor_div(2).and_then(|half| DimExpr::constant(0).sub(&half)).ok_or_else(refuse)?
            }
            Some(_) => more.floor_div(2).ok_or_else(refuse)?,
            None => return Err(refuse()),
        };
        high[axis] = more.sub(&low[axis]).ok_or_else(refuse)?;
    }
    let zero = op.scalar(0.0, op.dtype(x))?;
    Ok(vec![op.emit(Pad { mode: PadMode::Constant, low, high }, &[x, zero])?])
}
