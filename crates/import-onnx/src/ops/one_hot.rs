//! OneHot.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Iota};
use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};

/// `values[1]` where the index is the place along a new axis of `depth`, else `values[0]`; negative indices count from the end.
pub(super) fn one_hot(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let (indices, values) = (op.input(0)?, op.input(2)?);
    let depth_tensor = op.known_tensor(1, "the size of the new dimension")?;
    let depth = match (depth_tensor.element_count(), depth_tensor.get_f64(0)) {
        (1, Some(depth)) if (0.0..=i64::MAX as f64).contains(&depth) => depth as i64,
        _ => return Err(op.invalid("the depth must be one number, not negative")),
    };
    let rank = op.rank(indices) + 1;
    let axis = op.axis(op.node.int_or("axis", -1)?, rank)?;
    if op.rank(values) != 1 || op.dim(values, 0).known().is_some_and(|size| size != 2) {
        return Err(op.invalid(format!("the values, {}, must be the two of off and on", op.ty(values))));
    }
    let indices = op.cast(indices, DType::I64)?;
    let (zero, size) = (op.scalar(0.0, DType::I64)?, op.scalar(depth as f64, DType::I64)?);
    let negative = op.apply(Function::Less, &[indices, zero])?;
    let wrapped = op.apply(Function::Add, &[indices, size])?;
    let places = op.apply(Function::Select, &[negative, wrapped, indices])?;
    let mut shape = op.extents(places);
    shape.insert(axis, DimExpr::constant(1));
    let places = op.reshape(places, shape)?;
    let mut count = vec![DimExpr::constant(1); rank];
    count[axis] = DimExpr::constant(depth);
    let iota = op.emit(Iota { dtype: DType::I64, shape: count, axis: axis as i64 }, &[])?;
    let hit = op.apply(Function::Equal, &[places, iota])?;
    let mut choice = [zero; 2];
    for (index, slot) in choice.iter_mut().enumerate() {
        let part = op.slice(values, 0, DimExpr::constant(index as i64), DimExpr::constant(1))?;
        *slot = op.as_scalar(part)?;
    }
    Ok(vec![op.apply(Function::Select, &[hit, choice[1], choice[0]])?])
}
