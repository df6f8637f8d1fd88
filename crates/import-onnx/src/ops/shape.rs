//! Shape and Size: what a value's type says.

use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs, product};

/// Extents of the dimensions from `start` to `end` (version 15), which clamp to the rank.
pub(super) fn shape(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let rank = op.rank(x) as i64;
    let (mut start, mut end) = (0, rank);
    if op.since >= 15 {
        let clamp = |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank);
        start = clamp(op.node.int_or("start", 0)?);
        end = clamp(op.node.int_or("end", rank)?);
    }
    let dims = op.extents(x);
    let dims = if start < end { dims[start as usize..end as usize].to_vec() } else { Vec::new() };
    Ok(vec![op.importer.builder.symbolic(DType::I64, &[dims.len() as u64], dims)])
}

/// The number of elements.
pub(super) fn size(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let count = product(&op.extents(x)).ok_or_else(|| op.unsupported("a number of elements this large"))?;
    Ok(vec![op.importer.builder.symbolic(DType::I64, &[], vec![count])])
}
