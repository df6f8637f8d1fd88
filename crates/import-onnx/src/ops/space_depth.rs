//! DepthToSpace and SpaceToDepth.

use tenon_graph_dialect::DimExpr;

use crate::error::ImportError;
use crate::import::node::{OpImport, Outputs};

fn block_size(op: &OpImport<'_, '_, '_>) -> Result<i64, ImportError> {
    let block = op.node.required("blocksize", op.node.int("blocksize")?)?;
    if (1..=1 << 16).contains(&block) {
        Ok(block)
    } else {
        Err(op.node.attribute_error("blocksize", "positive", format!("is {block}")))
    }
}

/// Whether blocks (`DCR`) or channels (`CRD`) are the outer part of the depth.
fn blocks_first(op: &OpImport<'_, '_, '_>, first_version: i64) -> Result<bool, ImportError> {
    if op.since < first_version {
        return Ok(true);
    }
    match op.node.string_or("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => Err(op.node.attribute_error("mode", "DCR or CRD", format!("is {other:?}"))),
    }
}

/// Blocks of channels become blocks of places.
pub(super) fn depth_to_space(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let block = block_size(op)?;
    let blocks_first = blocks_first(op, 11)?;
    if op.rank(x) != 4 {
        return Err(op.invalid(format!("the input must have 4 dimensions, not {}", op.ty(x))));
    }
    let size = DimExpr::constant(block);
    let [n, c, h, w]: [DimExpr; 4] =
        op.extents(x).try_into().map_err(|_| op.invalid("the input must have 4 dimensions"))?;
    let depth = c
        .div_exact(&DimExpr::constant(block * block))
        .ok_or_else(|| op.invalid(format!("{c} channels are not a multiple of {block}²")))?;
    let (shape, order) = if blocks_first {
        (vec![n.clone(), size.clone(), size.clone(), depth.clone(), h.clone(), w.clone()], vec![0, 3, 4, 1, 5, 2])
    } else {
        (vec![n.clone(), depth.clone(), size.clone(), size.clone(), h.clone(), w.clone()], vec![0, 1, 4, 2, 5, 3])
    };
    let x = op.reshape(x, shape)?;
    let x = op.transpose(x, order)?;
    let too_large = || op.unsupported("a dimension this large");
    let (height, width) = h.mul(&size).zip(w.mul(&size)).ok_or_else(too_large)?;
    Ok(vec![op.reshape(x, vec![n, depth, height, width])?])
}

/// Blocks of places become blocks of channels.
pub(super) fn space_to_depth(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let block = block_size(op)?;
    let blocks_first = blocks_first(op, 28)?;
    let [n, c, h, w]: [DimExpr; 4] =
        op.extents(x).try_into().map_err(|_| op.invalid("the input must have 4 dimensions"))?;
    let size = DimExpr::constant(block);
    let divided = h.div_exact(&size).zip(w.div_exact(&size));
    let (height, width) = divided.ok_or_else(|| op.invalid(format!("{h} × {w} places are no multiple of {block}")))?;
    let shape = vec![n.clone(), c.clone(), height.clone(), size.clone(), width.clone(), size];
    let order = if blocks_first { vec![0, 3, 5, 1, 2, 4] } else { vec![0, 1, 3, 5, 2, 4] };
    let x = op.reshape(x, shape)?;
    let x = op.transpose(x, order)?;
    let depth = c.mul(&DimExpr::constant(block * block)).ok_or_else(|| op.unsupported("a dimension this large"))?;
    Ok(vec![op.reshape(x, vec![n, depth, height, width])?])
}
