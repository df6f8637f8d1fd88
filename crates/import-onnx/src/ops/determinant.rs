//! Det: determinants of matrices.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{ArgReduce, Function, Gather, GatherKind, Iota};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator, product};

/// Largest matrix: elimination is written out, a few operations a row.
const MAX_SIZE: i64 = 64;

/// Input `[*, M, M]`, result `[*]`: elimination with partial pivoting, in at least f32.
pub(super) fn determinant(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let rank = op.rank_at_least(x, 2)?;
    let size = op.fixed_dim(x, rank - 1, "determinants")?;
    if op.dim(x, rank - 2).known() != u64::try_from(size).ok() || !dtype.is_float() {
        return Err(op.invalid(format!("{} holds no square matrices of floats", op.ty(x))));
    }
    if size > MAX_SIZE {
        return Err(op.unsupported(format!("a matrix of more than {MAX_SIZE} rows")));
    }
    let wide = accumulator(dtype);
    let shape = op.extents(x)[..rank - 2].to_vec();
    let batch = product(&shape).ok_or_else(|| op.unsupported("a batch this large"))?;
    let number = DimExpr::constant;
    let x = op.cast(x, wide)?;
    let mut rest = op.reshape(x, vec![batch.clone(), number(size), number(size)])?;
    let one = op.scalar(1.0, wide)?;
    let mut result = op.broadcast(one, vec![batch.clone()])?;
    for left in (1..=size).rev() {
        let (pivot, below) = eliminate(op, rest, &batch, left)?;
        result = op.apply(Function::Multiply, &[result, pivot])?;
        rest = below;
    }
    let result = op.cast(result, dtype)?;
    Ok(vec![op.reshape(result, shape)?])
}

/// One step on matrices `[B, size, size]`: the pivot with the sign of the exchange of rows `[B]`, and what is left `[B, size - 1, size - 1]`.
fn eliminate(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    batch: &DimExpr,
    size: i64,
) -> Result<(Handle, Handle), ImportError> {
    let dtype = op.dtype(x);
    let number = DimExpr::constant;
    let column = op.slice(x, 2, number(0), number(1))?;
    if size == 1 {
        let pivot = op.reshape(column, vec![batch.clone()])?;
        return Ok((pivot, x));
    }
    let magnitudes = op.apply(Function::Abs, &[column])?;
    let largest = op.emit(ArgReduce { minimum: false, axis: 1, keep_dims: true, last: false }, &[magnitudes])?;
    let pivot_row = op.emit(Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 1 }, &[x, largest])?;
    // The first row takes the place of the pivot's.
    let first = op.slice(x, 1, number(0), number(1))?;
    let row = op.emit(Iota { dtype: DType::I64, shape: vec![1.into(), number(size), 1.into()], axis: 1 }, &[])?;
    let moved = op.apply(Function::Equal, &[row, largest])?;
    let rows = op.apply(Function::Select, &[moved, first, x])?;
    let rows = op.slice(rows, 1, number(1), number(size - 1))?;
    let pivot = op.slice(pivot_row, 2, number(0), number(1))?;
    let zero = op.scalar(0.0, dtype)?;
    let singular = op.apply(Function::Equal, &[pivot, zero])?;
    let lead = op.slice(rows, 2, number(0), number(1))?;
    let factor = op.apply(Function::Divide, &[lead, pivot])?;
    let factor = op.apply(Function::Select, &[singular, zero, factor])?;
    let right = op.slice(rows, 2, number(1), number(size - 1))?;
    let pivot_right = op.slice(pivot_row, 2, number(1), number(size - 1))?;
    let change = op.apply(Function::Multiply, &[factor, pivot_right])?;
    let below = op.apply(Function::Subtract, &[right, change])?;

    let stays = op.scalar(0.0, DType::I64)?;
    let stays = op.apply(Function::Equal, &[largest, stays])?;
    let stays = op.reshape(stays, vec![batch.clone()])?;
    let pivot = op.reshape(pivot, vec![batch.clone()])?;
    let negative = op.apply(Function::Negate, &[pivot])?;
    Ok((op.apply(Function::Select, &[stays, pivot, negative])?, below))
}
