//! FusedMatMul: alpha · A · B, either transposed.

use tenon_graph_dialect::operators::Function;

use super::wide;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};
use crate::ops::matmul::product;

/// alpha · A · B, rounded once; `transA` and `transB` swap the last two dimensions, `transBatchA` and `transBatchB` move the first to the last but one.
pub(in crate::ops) fn fused_matmul(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (a, b) = (op.input(0)?, op.input(1)?);
    let dtype = op.dtype(a);
    if !dtype.is_float() {
        return Err(op.invalid(format!("operands must be of floats, not {dtype}")));
    }
    let alpha = op.node.float_or("alpha", 1.0)?;
    let a = arranged(op, a, "transA", "transBatchA")?;
    let b = arranged(op, b, "transB", "transBatchB")?;
    if alpha == 1.0 {
        return Ok(vec![product(op, a, b, dtype)?]);
    }
    let sums = product(op, a, b, wide(dtype))?;
    let alpha = op.scalar(f64::from(alpha), op.dtype(sums))?;
    let scaled = op.apply(Function::Multiply, &[sums, alpha])?;
    Ok(vec![op.cast(scaled, dtype)?])
}

fn arranged(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    transpose: &str,
    transpose_batch: &str,
) -> Result<Handle, ImportError> {
    let rank = op.rank(x);
    let (matrix, batch) = (op.node.flag_or(transpose, false)?, op.node.flag_or(transpose_batch, false)?);
    let mut order: Vec<i64> = (0..rank as i64).collect();
    if batch && rank >= 3 {
        order[..rank - 1].rotate_left(1);
    }
    if matrix && rank >= 2 {
        order.swap(rank - 2, rank - 1);
    }
    op.transpose(x, order)
}
