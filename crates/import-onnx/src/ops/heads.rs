//! Heads of attention: the last dimension of `[batch, sequence, heads · size]` as a dimension of its own, and back.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// `[batch, sequence, heads · size]` as `[batch, heads, sequence, size]`.
pub(super) fn split(op: &mut OpImport<'_, '_, '_>, x: Handle, heads: i64) -> Result<Handle, ImportError> {
    let apart = apart(op, x, heads)?;
    op.transpose(apart, vec![0, 2, 1, 3])
}

/// `[batch, sequence, heads · size]` as `[batch, sequence, heads, size]`.
pub(super) fn apart(op: &mut OpImport<'_, '_, '_>, x: Handle, heads: i64) -> Result<Handle, ImportError> {
    let dims = op.extents(x);
    let size = match dims.last() {
        Some(size) if dims.len() == 3 && heads > 0 => size.div_exact(&DimExpr::constant(heads)),
        _ => None,
    };
    let size = size.ok_or_else(|| op.invalid(format!("{} does not divide into {heads} heads", op.ty(x))))?;
    op.reshape(x, vec![dims[0].clone(), dims[1].clone(), heads.into(), size])
}

/// `[batch, heads, sequence, size]` as `[batch, sequence, heads · size]`.
pub(super) fn join(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, ImportError> {
    let x = op.transpose(x, vec![0, 2, 1, 3])?;
    let dims = op.extents(x);
    let size = dims[2].mul(&dims[3]).ok_or_else(|| op.unsupported("a dimension this large"))?;
    op.reshape(x, vec![dims[0].clone(), dims[1].clone(), size])
}

/// 1 / √size of heads of the size that the last dimension has.
pub(super) fn default_scale(op: &OpImport<'_, '_, '_>, q: Handle) -> Result<f64, ImportError> {
    let size = op.fixed_dim(q, op.rank(q) - 1, "a scale")?;
    Ok(1.0 / (size as f64).sqrt())
}

/// Counts `extent` places along the dimension that is `after` places before the last one, in i64.
pub(super) fn places(op: &mut OpImport<'_, '_, '_>, extent: DimExpr, after: usize) -> Result<Handle, ImportError> {
    let mut shape = vec![extent];
    shape.resize(after + 1, DimExpr::constant(1));
    op.emit(Iota { dtype: DType::I64, shape, axis: 0 }, &[])
}

/// An extent as an i64 scalar.
pub(super) fn extent(op: &mut OpImport<'_, '_, '_>, extent: DimExpr) -> Handle {
    op.importer.builder.symbolic(DType::I64, &[], vec![extent])
}

/// Both, where there are two.
pub(super) fn and(op: &mut OpImport<'_, '_, '_>, a: Option<Handle>, b: Handle) -> Result<Handle, ImportError> {
    match a {
        Some(a) => op.apply(Function::And, &[a, b]),
        None => Ok(b),
    }
}
