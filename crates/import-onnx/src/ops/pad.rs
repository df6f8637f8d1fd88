//! Pad.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Pad, PadMode};

use crate::import::node::{OpImport, Outputs};

/// Pad: amounts and value are attributes before version 11, then inputs; axes may be named since version 18. Negative amounts crop.
pub(super) fn pad(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let (rank, dtype) = (op.rank(x), op.dtype(x));
    let mode = match (op.node.string_or("mode", "constant")?, op.since) {
        ("constant", _) => PadMode::Constant,
        ("reflect", _) => PadMode::Reflect,
        ("edge", _) => PadMode::Edge,
        ("wrap", 19..) => PadMode::Wrap,
        (other, _) => {
            return Err(op.node.attribute_error(
                "mode",
                "constant, reflect, edge or (version 19) wrap",
                format!("is {other:?}"),
            ));
        }
    };
    let (amounts, axes, value) = if op.since < 11 {
        op.takes(1..=1)?;
        let amounts = op.node.required("pads", op.node.ints("pads")?)?;
        let value = op.node.float_or("value", 0.0)?;
        (amounts.iter().map(|amount| DimExpr::constant(*amount)).collect(), None, op.scalar(f64::from(value), dtype)?)
    } else {
        op.takes(2..=if op.since < 18 { 3 } else { 4 })?;
        let amounts = op.known_dims(1, "the size of the result")?;
        let axes = op.optional(3)?.map(|_| op.known_ints(3, "the size of the result")).transpose()?;
        let value = match op.optional(2)? {
            Some(value) => op.as_scalar(value)?,
            None => op.scalar(0.0, dtype)?,
        };
        (amounts, axes, value)
    };
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    op.axes(&axes, rank)?;
    if amounts.len() != 2 * axes.len() {
        return Err(op.invalid(format!("{} amounts of padding for {} dimensions", amounts.len(), axes.len())));
    }
    let none = || vec![DimExpr::constant(0); rank];
    let (mut low, mut high) = (none(), none());
    for (index, axis) in axes.iter().enumerate() {
        let axis = op.axis(*axis, rank)?;
        low[axis] = amounts[index].clone();
        high[axis] = amounts[index + axes.len()].clone();
    }
    if low.iter().chain(&high).all(|amount| amount.as_constant() == Some(0)) {
        return Ok(vec![x]);
    }
    Ok(vec![op.emit(Pad { mode, low, high }, &[x, value])?])
}
