//! Split.

use tenon_graph_dialect::{DimExpr, Relation};

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Parts along an axis: of given sizes (an attribute before version 13, then an input), or equal, of which the last may be smaller
/// since version 18.
pub(super) fn split(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let axis = op.axis(op.node.int_or("axis", 0)?, op.rank(x))?;
    let size = op.dim(x, axis).extent.clone();
    let count = op.node.outputs.len() as i64;
    let given = if op.since < 13 {
        op.takes(1..=1)?;
        op.node.ints("split")?.map(|list| list.iter().map(|size| DimExpr::constant(*size)).collect::<Vec<_>>())
    } else {
        op.takes(1..=2)?;
        op.optional(1)?.map(|_| op.known_dims(1, "the sizes of the parts")).transpose()?
    };
    let declared = if op.since >= 18 { op.node.int("num_outputs")? } else { None };
    let sizes = match (given, declared) {
        (Some(_), Some(_)) => return Err(op.invalid("both sizes and a number of parts are given")),
        (Some(sizes), None) => sizes,
        (None, declared) => {
            let parts = declared.unwrap_or(count);
            if parts != count || parts < 1 {
                return Err(op.invalid(format!("{parts} parts for {count} outputs")));
            }
            equal_parts(op, x, axis, &size, parts)?
        }
    };
    if sizes.len() != op.node.outputs.len() || sizes.iter().any(|size| size.as_constant().is_some_and(|size| size < 0))
    {
        return Err(op.invalid(format!("the sizes are of {} parts for {count} outputs, or negative", sizes.len())));
    }
    let too_large = || op.unsupported("a dimension this large");
    let total = sizes.iter().try_fold(DimExpr::constant(0), |sum, size| sum.add(size)).ok_or_else(too_large)?;
    if size.sub(&total).and_then(|rest| rest.as_constant()).is_some_and(|rest| rest != 0) {
        return Err(op.invalid(format!("the parts have {total} elements in all, the dimension {size}")));
    }
    op.require(total, Relation::Equal, size, "the parts of a split are the whole dimension")?;
    let mut start = DimExpr::constant(0);
    let mut outputs = Vec::with_capacity(sizes.len());
    for part in sizes {
        let end = start.add(&part).ok_or_else(|| op.unsupported("a dimension this large"))?;
        outputs.push(op.slice(x, axis, start, part)?);
        start = end;
    }
    Ok(outputs)
}

fn equal_parts(
    op: &OpImport<'_, '_, '_>,
    x: Handle,
    axis: usize,
    size: &DimExpr,
    parts: i64,
) -> Result<Vec<DimExpr>, ImportError> {
    let Some(size) = size.as_constant() else {
        let part = size.div_exact(&DimExpr::constant(parts));
        let part = part.ok_or_else(|| {
            op.free_dimension(format!("{parts} equal parts of dimension {axis} of {}, which is not fixed,", op.ty(x)))
        })?;
        return Ok(vec![part; parts as usize]);
    };
    if op.since < 18 && size % parts != 0 {
        return Err(op.invalid(format!("dimension {axis} of {} does not divide into {parts} parts", op.ty(x))));
    }
    let part = size / parts + i64::from(size % parts != 0);
    let sized = |index: i64| (size - index.saturating_mul(part)).clamp(0, part);
    Ok((0..parts).map(|index| DimExpr::constant(sized(index))).collect())
}
