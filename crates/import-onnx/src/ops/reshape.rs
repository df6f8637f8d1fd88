//! Operators that give the same elements another shape: Reshape, Flatten, Squeeze, Unsqueeze.

use tenon_graph_dialect::{DimExpr, Relation};

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// Reshape: 0 copies a dimension unless `allowzero`, -1 is what the others leave.
pub(super) fn reshape(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let x = op.input(0)?;
    let allow_zero = op.since >= 14 && op.node.flag_or("allowzero", false)?;
    if op.rank(op.input(1)?) != 1 {
        return Err(op.invalid("the shape must be a list"));
    }
    let target = op.known_dims(1, "the shape of the result")?;
    let extents = op.extents(x);
    let mut shape = Vec::with_capacity(target.len());
    let mut free = None;
    for (index, dim) in target.into_iter().enumerate() {
        match dim.as_constant() {
            Some(0) if !allow_zero => match extents.get(index) {
                Some(extent) => shape.push(extent.clone()),
                None => return Err(op.invalid(format!("dimension {index} of {} is to be copied", op.ty(x)))),
            },
            Some(-1) if free.is_some() => return Err(op.invalid("the shape has two dimensions of -1")),
            Some(-1) => {
                free = Some(index);
                shape.push(DimExpr::constant(1));
            }
            Some(size) if size < -1 => return Err(op.invalid(format!("the shape has a dimension of {size}"))),
            _ => shape.push(dim),
        }
    }
    if let Some(free) = free {
        shape[free] = remainder(op, x, &extents, &shape)?;
    }
    Ok(vec![op.reshape(x, shape)?])
}

/// The dimension that makes the products of two shapes equal, where the second has 1 for it.
fn remainder(op: &OpImport<'_, '_, '_>, x: Handle, from: &[DimExpr], to: &[DimExpr]) -> Result<DimExpr, ImportError> {
    // Equal dimensions cancel, 0 included: what is left is the same for all sizes.
    let mut from = from.to_vec();
    let mut to = to.to_vec();
    to.retain(|dim| match from.iter().position(|other| other == dim) {
        Some(position) => {
            from.remove(position);
            false
        }
        None => true,
    });
    let too_large = || op.unsupported("a number of elements this large");
    let (total, rest) = (product(&from).ok_or_else(too_large)?, product(&to).ok_or_else(too_large)?);
    let fault = || op.invalid(format!("the elements of {} do not divide into the shape", op.ty(x)));
    match (total.as_constant(), rest.as_constant()) {
        (_, Some(0)) => Err(op.invalid("the dimension of -1 could be anything, as another is 0")),
        (Some(total), Some(rest)) => (total % rest == 0).then(|| DimExpr::constant(total / rest)).ok_or_else(fault),
        _ => match total.div_exact(&rest) {
            Some(quotient) => Ok(quotient),
            // Whether it divides shows once the symbols are numbers.
            None => rest.as_constant().and_then(|rest| total.floor_div(rest)).ok_or_else(fault),
        },
    }
}

/// Flatten: two dimensions, those before `axis` and those from it on.
pub(super) fn flatten(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let rank = op.rank(x);
    let axis = op.node.int_or("axis", 1)?;
    let split = if axis < 0 && op.since >= 11 { axis.saturating_add(rank as i64) } else { axis };
    let split = usize::try_from(split).ok().filter(|split| *split <= rank);
    let split = split.ok_or_else(|| op.invalid(format!("axis {axis} is outside rank {rank}")))?;
    Ok(vec![flatten_at(op, x, split)?])
}

/// The matrix of the dimensions before and from `split` on.
pub(super) fn flatten_at(op: &mut OpImport<'_, '_, '_>, x: Handle, split: usize) -> Result<Handle, ImportError> {
    let extents = op.extents(x);
    let shape = product(&extents[..split]).zip(product(&extents[split..]));
    let (rows, columns) = shape.ok_or_else(|| op.unsupported("a number of elements this large"))?;
    op.reshape(x, vec![rows, columns])
}

/// The axes of Squeeze and Unsqueeze: an attribute before version 13, then an input.
fn axes(op: &OpImport<'_, '_, '_>) -> Result<Option<Vec<i64>>, ImportError> {
    if op.since < 13 {
        op.takes(1..=1)?;
        return Ok(op.node.ints("axes")?.map(<[i64]>::to_vec));
    }
    op.takes(1..=2)?;
    match op.optional(1)? {
        Some(_) => op.known_ints(1, "the number of dimensions").map(Some),
        None => Ok(None),
    }
}

/// Squeeze: drops dimensions of 1.
pub(super) fn squeeze(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let rank = op.rank(x);
    let dropped = match axes(op)? {
        Some(axes) => op.axes(&axes, rank)?,
        None => {
            if let Some(free) = (0..rank).find(|axis| op.dim(x, *axis).known().is_none()) {
                return Err(op.unsupported(format!(
                    "dropping all dimensions of 1 of {}, whose dimension {free} is free,",
                    op.ty(x)
                )));
            }
            (0..rank).filter(|axis| op.dim(x, *axis).is_one()).collect()
        }
    };
    for axis in &dropped {
        if op.dim(x, *axis).known().is_some_and(|size| size != 1) {
            return Err(op.invalid(format!("dimension {axis} of {} is not 1", op.ty(x))));
        }
        let size = op.dim(x, *axis).extent.clone();
        op.require(size, Relation::Equal, DimExpr::constant(1), "a dimension that is dropped is 1")?;
    }
    let mut shape = op.extents(x);
    let mut index = 0;
    shape.retain(|_| {
        index += 1;
        !dropped.contains(&(index - 1))
    });
    Ok(vec![op.reshape(x, shape)?])
}

/// Unsqueeze: inserts dimensions of 1 at places of the result.
pub(super) fn unsqueeze(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let axes = axes(op)?.ok_or_else(|| op.invalid("the axes are missing"))?;
    let rank = op.rank(x) + axes.len();
    let places = op.axes(&axes, rank)?;
    let mut shape = op.extents(x);
    for place in places {
        shape.insert(place, DimExpr::constant(1));
    }
    Ok(vec![op.reshape(x, shape)?])
}
