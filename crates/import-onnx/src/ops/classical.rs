//! Operators of `ai.onnx.ml` that are functions of numeric tensors: ArrayFeatureExtractor, Binarizer.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind};

use crate::import::node::{OpImport, Outputs, product};

/// ArrayFeatureExtractor: `[…, C]` and places `[K]` or `[1, K]`, result `[…, K]`.
pub(super) fn array_feature_extractor(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, places) = (op.input(0)?, op.input(1)?);
    let rank = op.rank_at_least(x, 1)?;
    let count = product(&op.extents(places)).ok_or_else(|| op.unsupported("a list this large"))?;
    let places = op.reshape(places, vec![count.clone()])?;
    let axis = rank as i64 - 1;
    let result = op.emit(Gather { kind: GatherKind::Take, axis, batch_dims: 0 }, &[x, places])?;
    // A list is a row.
    let shape = if rank == 1 { vec![DimExpr::constant(1), count] } else { op.extents(result) };
    Ok(vec![op.reshape(result, shape)?])
}

/// Binarizer: 1 above the threshold, else 0.
pub(super) fn binarizer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let threshold = op.scalar(f64::from(op.node.float_or("threshold", 0.0)?), dtype)?;
    let above = op.apply(Function::Greater, &[x, threshold])?;
    Ok(vec![op.cast(above, dtype)?])
}
