//! Operators of `ai.onnx.ml` that are functions of numeric tensors: ArrayFeatureExtractor, Binarizer, Scaler.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// ArrayFeatureExtractor: `[…, C]` and places `[K]` or `[1, K]`, result `[…, K]`.
pub(super) fn array_feature_extractor(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, places) = (op.input(0)?, op.input(1)?);
    let rank = op.rank_at_least(x, 1)?;
    let count = product(&op.extents(places)).ok_or_else(|| op.unsupported("a list this large"))?;
    let places = op.reshape(places, vec![count.clone()])?;
    let axis = rank as i64 - 1;
    op.check_indices(places, x, rank - 1..rank, false)?;
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

/// Scaler: (x - offset) · scale, one of each or one for each column; f32, computed in f64 of f64.
pub(super) fn scaler(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let rank = op.rank_at_least(x, 1)?;
    let wide = if op.dtype(x) == DType::F64 { DType::F64 } else { DType::F32 };
    let columns = op.extents(x)[rank - 1].clone();
    let list = |op: &mut OpImport<'_, '_, '_>, name: &str, default: f32| -> Result<Handle, ImportError> {
        let values = op.node.floats(name)?.map_or_else(|| vec![default], <[f32]>::to_vec);
        if values.len() != 1 && columns != DimExpr::constant(values.len() as i64) {
            let found = format!("has {} for {columns} columns", values.len());
            return Err(op.node.attribute_error(name, "one number, or one for each column", found));
        }
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        op.literal(wide, &[values.len()], &values)
    };
    let (offset, scale) = (list(op, "offset", 0.0)?, list(op, "scale", 1.0)?);
    let x = op.cast(x, wide)?;
    let centred = op.apply(Function::Subtract, &[x, offset])?;
    let scaled = op.apply(Function::Multiply, &[centred, scale])?;
    Ok(vec![op.cast(scaled, DType::F32)?])
}
