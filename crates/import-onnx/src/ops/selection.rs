//! NonZero and Compress: elements selected by values, as many as there turn out to be.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Function, Gather, GatherKind};
use tenon_tensor::DType;

use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// A tensor as a list.
pub(super) fn flat(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, crate::error::ImportError> {
    let count =
        product(&op.extents(x)).ok_or_else(|| op.invalid("the number of elements is too complex an expression"))?;
    op.reshape(x, vec![count])
}

/// Coordinates of elements that are not 0, in row-major order: one row a dimension. Of a scalar there are no rows.
pub(super) fn non_zero(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let shape = op.extents(x);
    let list = flat(op, x)?;
    let flags = op.cast(list, DType::Bool)?;
    let selection = op.selection("nonzero", flags)?;
    let row = vec![DimExpr::constant(1), selection.count.clone()];
    let mut rest = selection.places;
    let mut rows = Vec::new();
    // The last coordinate is what is left over by the size of its dimension.
    for (axis, size) in shape.iter().enumerate().rev() {
        let coordinate = if axis == 0 {
            rest
        } else {
            let size = op.extent_value(size)?;
            // Nothing is selected where the size is 0.
            let one = op.scalar(1.0, DType::I64)?;
            let size = op.apply(Function::Max, &[size, one])?;
            let coordinate = op.apply(Function::Remainder, &[rest, size])?;
            rest = op.apply(Function::Divide, &[rest, size])?;
            coordinate
        };
        rows.push(op.reshape(coordinate, row.clone())?);
    }
    rows.reverse();
    Ok(vec![match rows.as_slice() {
        [] => {
            let whole = op.reshape(rest, row)?;
            op.slice(whole, 0, DimExpr::constant(0), DimExpr::constant(0))?
        }
        [row] => *row,
        rows => op.emit(Concat { axis: 0 }, rows)?,
    }])
}

/// Slices along an axis (elements of the flattened tensor without one) for which the condition, which may be shorter, is true.
pub(super) fn compress(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, condition) = (op.input(0)?, op.input(1)?);
    if op.rank(condition) != 1 {
        return Err(op.invalid(format!("the condition must have one dimension, not {}", op.ty(condition))));
    }
    let (x, axis) = match op.node.int("axis")? {
        Some(axis) => (x, op.axis(axis, op.rank(x))?),
        None => (flat(op, x)?, 0),
    };
    let (length, size) = (op.dim(condition, 0).known(), op.dim(x, axis).known());
    if length.zip(size).is_some_and(|(length, size)| length > size) {
        let size = op.extents(x)[axis].clone();
        return Err(op.invalid(format!("the condition has more elements than the {size} that it selects of")));
    }
    let flags = op.cast(condition, DType::Bool)?;
    let selection = op.selection("compress", flags)?;
    let gather = Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 };
    Ok(vec![op.emit(gather, &[x, selection.places])?])
}
