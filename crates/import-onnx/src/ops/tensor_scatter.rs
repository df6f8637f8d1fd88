//! TensorScatter: new steps written into caches.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use super::reverse_sequence::take_steps;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Cache `[B, …, S, …]`, update `[B, …, L, …]`: of each batch, the update's steps from `write_indices` (0) on along `axis`; in the mode
/// `circular`, steps beyond the end go to the begin. Written as what each place of the result reads.
pub(super) fn tensor_scatter(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let (cache, update) = (op.input(0)?, op.input(1)?);
    let rank = op.rank_at_least(cache, 2)?;
    let axis = op.axis(op.node.int_or("axis", -2)?, rank)?;
    let circular = match op.node.string_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(op.node.attribute_error("mode", "linear or circular", format!("is {other:?}"))),
    };
    let fits = op.rank(update) == rank
        && op.dtype(update) == op.dtype(cache)
        && (0..rank).all(|dim| dim == axis || !op.dim(update, dim).differs(op.dim(cache, dim)));
    if axis == 0 || !fits {
        return Err(op.invalid(format!("the update, {}, does not fit the cache, {}", op.ty(update), op.ty(cache))));
    }
    let batch = op.dim(cache, 0).extent.clone();
    let one = DimExpr::constant(1);
    let first = match op.optional(2)? {
        Some(first) => {
            let first = op.cast(first, DType::I64)?;
            op.reshape(first, vec![batch, one])?
        }
        None => {
            let zero = op.scalar(0.0, DType::I64)?;
            op.broadcast(zero, vec![batch, one])?
        }
    };
    Ok(vec![write_steps(op, cache, update, first, axis, circular)?])
}

/// A cache with the steps of `update` along `axis` written into it, from the places `first` `[B, 1]` on.
pub(super) fn write_steps(
    op: &mut OpImport<'_, '_, '_>,
    cache: Handle,
    update: Handle,
    first: Handle,
    axis: usize,
    circular: bool,
) -> Result<Handle, ImportError> {
    let rank = op.rank(cache);
    let (batch, size) = (op.dim(cache, 0).extent.clone(), op.dim(cache, axis).extent.clone());
    let length = op.dim(update, axis).extent.clone();
    if length.as_constant() == Some(0) || size.as_constant() == Some(0) {
        return Ok(cache);
    }
    let one = DimExpr::constant(1);
    let step = op.emit(Iota { dtype: DType::I64, shape: vec![one, size.clone()], axis: 1 }, &[])?;
    let mut from = op.apply(Function::Subtract, &[step, first])?;
    let limit = op.importer.builder.symbolic(DType::I64, &[], vec![length]);
    if circular {
        let size = op.importer.builder.symbolic(DType::I64, &[], vec![size.clone()]);
        from = op.apply(Function::Modulo, &[from, size])?;
    }
    let zero = op.scalar(0.0, DType::I64)?;
    let after = op.apply(Function::GreaterEqual, &[from, zero])?;
    let before = op.apply(Function::Less, &[from, limit])?;
    let hit = op.apply(Function::And, &[after, before])?;
    let from = op.apply(Function::Select, &[hit, from, zero])?;
    let new = take_steps(op, update, 0, axis, from)?;
    let mut shape = vec![DimExpr::constant(1); rank];
    shape[0] = batch;
    shape[axis] = size;
    let hit = op.reshape(hit, shape)?;
    op.apply(Function::Select, &[hit, new, cache])
}
