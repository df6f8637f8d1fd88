//! NonMaxSuppression.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Function, Gather, GatherKind, NonMaxSuppression, Scan, ScanKind, TopK};
use tenon_tensor::DType;

use super::selection::flat;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// Batch, class and box of each box that is chosen: for each class of each batch the boxes by descending score, the first of those that
/// overlap by more than a threshold, at most so many a class.
pub(super) fn non_max_suppression(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=5)?;
    let (boxes, scores) = (op.input(0)?, op.input(1)?);
    let center = op.node.int_or("center_point_box", 0)?;
    if !(0..=1).contains(&center) {
        return Err(op.node.attribute_error("center_point_box", "0 or 1", format!("is {center}")));
    }
    if op.rank(boxes) != 3 || op.rank(scores) != 3 {
        return Err(op.invalid("boxes and scores must have three dimensions"));
    }
    let (dtype, shape) = (DType::F32, op.extents(scores));
    let (boxes, scores) = (op.cast(boxes, dtype)?, op.cast(scores, dtype)?);
    let spatial = op.fixed_dim(scores, 2, "a choice of boxes")?;
    let rows = product(&shape[..2]).ok_or_else(|| op.invalid("the number of classes is too complex an expression"))?;

    let ordered = op.emit_all(TopK { k: spatial, axis: 2, smallest: false }, &[scores])?;
    let (score, order) = (ordered[0], ordered[1]);
    let mut candidates = op.apply(Function::Equal, &[score, score])?;
    if let Some(threshold) = op.optional(4)? {
        let threshold = op.as_scalar(threshold)?;
        candidates = op.apply(Function::Greater, &[score, threshold])?;
    }
    // The boxes of each class in the order of its scores.
    let corners = corners(op, boxes, center == 1)?;
    let by_class = vec![shape[0].clone(), shape[1].clone(), shape[2].clone(), DimExpr::constant(4)];
    let one_class = vec![shape[0].clone(), DimExpr::constant(1), shape[2].clone(), DimExpr::constant(4)];
    let corners = op.reshape(corners, one_class)?;
    let corners = op.broadcast(corners, by_class.clone())?;
    let mut places = op.extents(order);
    places.push(DimExpr::constant(1));
    let places = op.reshape(order, places)?;
    let places = op.broadcast(places, by_class)?;
    let corners = op.emit(Gather { kind: GatherKind::Elements, axis: 2, batch_dims: 0 }, &[corners, places])?;

    let pairs = vec![rows.clone(), shape[2].clone()];
    let corners = op.reshape(corners, vec![rows, shape[2].clone(), DimExpr::constant(4)])?;
    let candidates = op.reshape(candidates, pairs)?;
    let threshold = match op.optional(3)? {
        Some(threshold) => op.reshape(threshold, vec![DimExpr::constant(1)])?,
        None => op.literal(dtype, &[1], &[0.0])?,
    };
    let kept = op.emit(NonMaxSuppression, &[corners, candidates, threshold])?;
    let kept = at_most(op, kept)?;
    let list = flat(op, kept)?;
    let chosen = op.selection("boxes", list)?;
    let order = flat(op, order)?;
    let take = Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 };
    let number = op.emit(take, &[order, chosen.places])?;
    let spatial = op.scalar((spatial as f64).max(1.0), DType::I64)?;
    let classes = op.extent_value(&shape[1])?;
    let one = op.scalar(1.0, DType::I64)?;
    let classes = op.apply(Function::Max, &[classes, one])?;
    let row = op.apply(Function::Divide, &[chosen.places, spatial])?;
    let batch = op.apply(Function::Divide, &[row, classes])?;
    let class = op.apply(Function::Remainder, &[row, classes])?;
    let column = vec![chosen.count, DimExpr::constant(1)];
    let columns = [batch, class, number]
        .into_iter()
        .map(|part| op.reshape(part, column.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(vec![op.emit(Concat { axis: 1 }, &columns)?])
}

/// The first of each row, as many as the third input says; without it none.
fn at_most(op: &mut OpImport<'_, '_, '_>, kept: Handle) -> Result<Handle, ImportError> {
    let most = match op.optional(2)? {
        Some(most) => op.as_scalar(most)?,
        None => op.scalar(0.0, DType::I64)?,
    };
    let number = op.cast(kept, DType::I64)?;
    let number = op.emit(Scan { kind: ScanKind::Sum, axis: 1, exclusive: false, reverse: false }, &[number])?;
    let within = op.apply(Function::LessEqual, &[number, most])?;
    op.apply(Function::And, &[kept, within])
}

/// Boxes as y1, x1, y2, x2 in ascending order: of any two opposite corners, or of centre x, centre y, width and height.
fn corners(op: &mut OpImport<'_, '_, '_>, boxes: Handle, center: bool) -> Result<Handle, ImportError> {
    let part = |op: &mut OpImport<'_, '_, '_>, from: i64, size: i64| {
        op.slice(boxes, 2, DimExpr::constant(from), DimExpr::constant(size))
    };
    if center {
        let (x, y, width, height) = (part(op, 0, 1)?, part(op, 1, 1)?, part(op, 2, 1)?, part(op, 3, 1)?);
        let two = op.scalar(2.0, DType::F32)?;
        let (half_width, half_height) =
            (op.apply(Function::Divide, &[width, two])?, op.apply(Function::Divide, &[height, two])?);
        let sides = [
            op.apply(Function::Subtract, &[y, half_height])?,
            op.apply(Function::Subtract, &[x, half_width])?,
            op.apply(Function::Add, &[y, half_height])?,
            op.apply(Function::Add, &[x, half_width])?,
        ];
        return op.emit(Concat { axis: 2 }, &sides);
    }
    let (first, second) = (part(op, 0, 2)?, part(op, 2, 2)?);
    let low = op.apply(Function::Min, &[first, second])?;
    let high = op.apply(Function::Max, &[first, second])?;
    op.emit(Concat { axis: 2 }, &[low, high])
}
