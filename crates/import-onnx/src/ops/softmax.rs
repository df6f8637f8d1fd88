//! Softmax, LogSoftmax, Hardmax.
//!
//! Since version 13 along one axis, the last by default. Before, over the matrix of the dimensions before `axis` (1 by default) and from it
//! on, along all of the latter at once.

use tenon_graph_dialect::operators::{ArgReduce, Function, Iota, Softmax};
use tenon_tensor::DType;

use super::reshape::flatten_at;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Applies `body` along the axis that the node's version means; gives its result in the input's shape.
fn along_axis(
    op: &mut OpImport<'_, '_, '_>,
    body: impl FnOnce(&mut OpImport<'_, '_, '_>, Handle, usize) -> Result<Handle, ImportError>,
) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let rank = op.rank_at_least(x, 1)?;
    let legacy = op.since < 13;
    let axis =
        op.axis(op.node.int_or("axis", if legacy { 1 } else { -1 })?, if legacy { rank.max(2) } else { rank })?;
    if !legacy || axis + 1 == rank {
        return Ok(vec![body(op, x, axis)?]);
    }
    let matrix = flatten_at(op, x, axis)?;
    let result = body(op, matrix, 1)?;
    let shape = op.extents(x);
    Ok(vec![op.reshape(result, shape)?])
}

/// Softmax and LogSoftmax.
pub(super) fn softmax(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let log = op.node.op_type() == "LogSoftmax";
    along_axis(op, |op, x, axis| op.emit(Softmax { axis: axis as i64, log }, &[x]))
}

/// Hardmax: 1 at the first of the largest, else 0.
pub(super) fn hardmax(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    along_axis(op, |op, x, axis| {
        let dtype = op.dtype(x);
        let largest = op.emit(ArgReduce { minimum: false, axis: axis as i64, keep_dims: true, last: false }, &[x])?;
        let mut shape = vec![1.into(); op.rank(x)];
        shape[axis] = op.dim(x, axis).extent.clone();
        let places = op.emit(Iota { dtype: DType::I64, shape, axis: axis as i64 }, &[])?;
        let hit = op.apply(Function::Equal, &[largest, places])?;
        op.cast(hit, dtype)
    })
}
