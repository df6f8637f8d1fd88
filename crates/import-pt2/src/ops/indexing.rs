//! Reading and writing by index.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{
    Combine, Concat, Function, Gather, GatherKind, Reduce, ReduceKind, Scatter, ScatterKind,
};
use tenon_tensor::DType;

use crate::error::OpError;
use crate::import::aliases::View;
use crate::import::op::{OpImport, Results, one};

/// Shape that shapes broadcast to.
fn common(shapes: &[Vec<DimExpr>]) -> Vec<DimExpr> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let size = |place: usize| {
        let mut sizes =
            shapes.iter().filter_map(|shape| (place + shape.len()).checked_sub(rank).map(|axis| shape[axis].clone()));
        sizes.find(|size| size.as_constant() != Some(1)).unwrap_or(1.into())
    };
    (0..rank).map(size).collect()
}

/// Index tensors of dimensions of an operand, `None` for those that are taken whole.
struct Indices {
    /// Dimensions that are indexed, and their indices.
    axes: Vec<usize>,
    tensors: Vec<Handle>,
}

fn indices(op: &mut OpImport<'_, '_, '_>, what: &str) -> Result<Indices, OpError> {
    let values = op.optional_values("indices")?;
    let x = op.tensor("self")?;
    let mut found = Indices { axes: Vec::new(), tensors: Vec::new() };
    for (axis, value) in values.into_iter().enumerate() {
        let Some(value) = value else { continue };
        let tensor = op.importer.read(value)?;
        if matches!(op.element(tensor), DType::Bool) {
            return Err(OpError::NotKnown(format!("{what} by a mask of truth values")));
        }
        op.check_indices(tensor, x, axis, true)?;
        found.axes.push(axis);
        found.tensors.push(tensor);
    }
    Ok(found)
}

/// Index tensors as tuples in a new last dimension, with the shape that they broadcast to.
fn tuples(op: &mut OpImport<'_, '_, '_>, tensors: &[Handle]) -> Result<(Handle, Vec<DimExpr>), OpError> {
    let shapes: Vec<Vec<DimExpr>> = tensors.iter().map(|tensor| op.extents(*tensor)).collect();
    let shape = common(&shapes);
    let column: Vec<DimExpr> = shape.iter().cloned().chain([1.into()]).collect();
    let mut parts = Vec::new();
    for tensor in tensors {
        let tensor = op.cast(*tensor, DType::I64)?;
        let wide = op.broadcast(tensor, shape.clone())?;
        parts.push(op.reshape(wide, column.clone())?);
    }
    let tuple = match parts.as_slice() {
        [only] => *only,
        parts => op.emit_one(Concat { axis: shape.len() as i64 }, parts)?,
    };
    Ok((tuple, shape))
}

/// Indexed dimensions first, then the others.
fn indexed_first(rank: usize, axes: &[usize]) -> Vec<i64> {
    axes.iter().copied().chain((0..rank).filter(|axis| !axes.contains(axis))).map(|axis| axis as i64).collect()
}

fn inverse(order: &[i64]) -> Vec<i64> {
    let mut inverse = vec![0; order.len()];
    for (place, axis) in order.iter().enumerate() {
        inverse[*axis as usize] = place as i64;
    }
    inverse
}

/// Where the dimensions of the indices go: to the first indexed one where these are neighbours, else to the front.
fn place_of(axes: &[usize]) -> usize {
    match axes.windows(2).all(|pair| pair[1] == pair[0] + 1) {
        true => axes[0],
        false => 0,
    }
}

/// `x[i, j, :]`
pub(super) fn index(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let Indices { axes, tensors } = indices(op, "the size of what is taken")?;
    if axes.is_empty() {
        return one(x);
    }
    if let ([axis], [tensor]) = (axes.as_slice(), tensors.as_slice()) {
        return one(op.emit_one(Gather { kind: GatherKind::Take, axis: *axis as i64, batch_dims: 0 }, &[x, *tensor])?);
    }
    let rank = op.rank(x);
    if axes.iter().any(|axis| *axis >= rank) {
        return Err(op.invalid("there are more indices than dimensions"));
    }
    let (tuple, shape) = tuples(op, &tensors)?;
    let first = op.transpose(x, indexed_first(rank, &axes))?;
    let taken = op.emit_one(Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 0 }, &[first, tuple])?;
    let (place, count) = (place_of(&axes), shape.len());
    let rest = rank - axes.len();
    // The indices' dimensions stand in front; they go between the dimensions before and after `place`.
    let order = (0..place).map(|axis| axis + count).chain(0..count).chain((place..rest).map(|axis| axis + count));
    one(op.transpose(taken, order.map(|axis| axis as i64).collect())?)
}

/// `x[i, j, :] = values`, or `+=`; with a mask of truth values one number for all.
pub(super) fn index_put(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let values = op.tensor("values")?;
    let accumulate = op.flag("accumulate")?;
    let dtype = op.element(x);
    let values = op.cast(values, dtype)?;
    let given = op.optional_values("indices")?;
    if let [Some(mask)] = given.as_slice() {
        let mask = op.importer.read(*mask)?;
        if op.element(mask) == DType::Bool {
            let known = op.ty(values).known_shape();
            if accumulate || !known.is_some_and(|shape| shape.iter().product::<u64>() == 1) {
                return Err(OpError::NotKnown("which element goes where, by a mask of truth values,".to_owned()));
            }
            let mut shape = op.extents(mask);
            shape.resize(op.rank(x), 1.into());
            let mask = op.reshape(mask, shape)?;
            let value = op.reshape(values, Vec::new())?;
            return one(op.apply(Function::Select, &[mask, value, x])?);
        }
    }
    let Indices { axes, tensors } = indices(op, "what is written")?;
    if axes.is_empty() {
        return Err(op.unsupported("index_put without indices"));
    }
    let rank = op.rank(x);
    let (tuple, shape) = tuples(op, &tensors)?;
    let order = indexed_first(rank, &axes);
    let first = op.transpose(x, order.clone())?;
    let rest: Vec<DimExpr> = op.extents(first)[axes.len()..].to_vec();
    // Values have the shape of what would be read; the indices' dimensions are brought to the front.
    let (place, count) = (place_of(&axes), shape.len());
    let read: Vec<DimExpr> = rest[..place].iter().chain(&shape).chain(&rest[place..]).cloned().collect();
    let values = op.broadcast(values, read)?;
    let front = (place..place + count).chain(0..place).chain(place + count..count + rest.len());
    let values = op.transpose(values, front.map(|axis| axis as i64).collect())?;
    let combine = if accumulate { Combine::Add } else { Combine::Set };
    let written = op.emit_one(Scatter { kind: ScatterKind::Nd, combine, axis: 0 }, &[first, tuple, values])?;
    one(op.transpose(written, inverse(&order))?)
}

/// Slices along a dimension written at a list of indices: set, added, or one number.
pub(super) fn index_along(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, index) = (op.tensor("self")?, op.tensor("index")?);
    let rank = op.rank(x);
    let axis = op.axis_argument("dim", rank)?;
    // Of these, `index_fill` alone counts from the end.
    op.check_indices(index, x, axis, op.name == "index_fill")?;
    let dtype = op.element(x);
    let count = op.extents(index).first().cloned().unwrap_or(1.into());
    let index = op.reshape(index, vec![count.clone(), 1.into()])?;
    let order = indexed_first(rank, &[axis]);
    let first = op.transpose(x, order.clone())?;
    let mut shape = op.extents(first);
    shape[0] = count;
    let updates = if op.has("source") {
        let source = op.tensor("source")?;
        let source = op.cast(source, dtype)?;
        let mut source = op.transpose(source, order.clone())?;
        let alpha = if op.has("alpha") { op.float("alpha")? } else { 1.0 };
        if alpha != 1.0 {
            let alpha = op.scalar(alpha, dtype)?;
            source = op.apply(Function::Multiply, &[source, alpha])?;
        }
        source
    } else {
        let value = op.operand("value", dtype)?;
        op.broadcast(value, shape)?
    };
    let combine = if op.name == "index_add" { Combine::Add } else { Combine::Set };
    let written = op.emit_one(Scatter { kind: ScatterKind::Nd, combine, axis: 0 }, &[first, index, updates])?;
    one(op.transpose(written, inverse(&order))?)
}

/// One element a place along a dimension.
pub(super) fn gather(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, mut index) = (op.tensor("self")?, op.tensor(if op.has("index") { "index" } else { "indices" })?);
    if op.name == "take" || (op.name == "take_along_dim" && op.is_none("dim")) {
        let all = tenon_graph_builder::product(&op.extents(x)).ok_or_else(|| op.unsupported("sizes this large"))?;
        let list = op.reshape(x, vec![all])?;
        op.check_indices(index, list, 0, true)?;
        return one(op.emit_one(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[list, index])?);
    }
    let rank = op.rank(x);
    let axis = op.axis_argument("dim", rank)?;
    let mut x = x;
    if op.name == "take_along_dim" {
        let (mut own, mut other) = (op.extents(x), op.extents(index));
        if own.len() != other.len() {
            return Err(op.invalid("the indices have another rank"));
        }
        let shape = common(&[own.clone(), other.clone()]);
        for place in (0..rank).filter(|place| *place != axis) {
            own[place] = shape[place].clone();
            other[place] = shape[place].clone();
        }
        (x, index) = (op.broadcast(x, own)?, op.broadcast(index, other)?);
    }
    op.check_indices(index, x, axis, false)?;
    if rank == 0 {
        return one(x);
    }
    one(op.emit_one(Gather { kind: GatherKind::Elements, axis: axis as i64, batch_dims: 0 }, &[x, index])?)
}

/// One element a place written along a dimension, and combined as `reduce` says.
pub(super) fn scatter(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, index) = (op.tensor("self")?, op.tensor("index")?);
    let axis = op.axis_argument("dim", op.rank(x))?;
    op.check_indices(index, x, axis, false)?;
    let axis = axis as i64;
    let dtype = op.element(x);
    let shape = op.extents(index);
    let updates = if op.has("src") {
        let source = op.tensor("src")?;
        // Of a source larger than the indices only the beginning is used.
        let slice = tenon_graph_dialect::operators::Slice {
            starts: vec![0.into(); shape.len()],
            sizes: shape.clone(),
            steps: vec![1; shape.len()],
        };
        View::Slice(slice).apply(&mut op.importer.builder, source)?
    } else {
        let value = op.operand("value", dtype)?;
        op.broadcast(value, shape)?
    };
    let reduce = match op.name {
        "scatter_add" => "sum".to_owned(),
        _ if op.has("reduce") => op.text("reduce")?,
        _ => "set".to_owned(),
    };
    if op.has("include_self") && !op.flag("include_self")? {
        return Err(op.unsupported("`include_self` = false"));
    }
    let combine = match reduce.as_str() {
        "set" => Combine::Set,
        "sum" | "add" => Combine::Add,
        "prod" | "multiply" => Combine::Multiply,
        "amax" => Combine::Max,
        "amin" => Combine::Min,
        other => return Err(op.unsupported(format!("`reduce` = {other:?}"))),
    };
    one(op.emit_one(Scatter { kind: ScatterKind::Elements, combine, axis }, &[x, index, updates])?)
}

/// A number where a mask is true.
pub(super) fn masked_fill(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, mask) = (op.tensor("self")?, op.tensor("mask")?);
    let dtype = op.element(x);
    let mask = op.cast(mask, DType::Bool)?;
    let value = op.operand("value", dtype)?;
    one(op.apply(Function::Select, &[mask, value, x])?)
}

/// Rows of a table.
pub(super) fn embedding(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (table, indices) = (op.tensor("weight")?, op.tensor("indices")?);
    op.check_indices(indices, table, 0, false)?;
    one(op.emit_one(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[table, indices])?)
}

/// The tensor with another one in place of a slice of it.
pub(super) fn slice_scatter(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, source) = (op.tensor("self")?, op.tensor("src")?);
    let axis = op.axis_argument("dim", op.rank(x))?;
    let shape = op.extents(x);
    let source = op.cast(source, op.element(x))?;
    let (start, size, step, source) = if op.name == "select_scatter" {
        let index = op.int("index")?;
        let index = if index < 0 { index + op.fixed(x, axis, "an index from the end")? } else { index };
        let mut slice = shape.clone();
        slice[axis] = 1.into();
        (index.into(), 1.into(), 1, op.reshape(source, slice)?)
    } else {
        let step = op.int("step")?;
        let (start, end) = (op.optional_dim("start")?, op.optional_dim("end")?);
        let (start, size) = super::views::range(op, &shape[axis], start, end, step.max(1))?;
        (start, size, step, source)
    };
    let slice = super::views::axis_slice(shape, axis, start, size, step);
    one(View::Slice(slice).write(&mut op.importer.builder, x, source)?)
}

/// How many boundaries lie below each element.
pub(super) fn bucketize(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, boundaries) = match op.name {
        "bucketize" => (op.tensor("self")?, op.tensor("boundaries")?),
        _ => (op.tensor("self")?, op.tensor("sorted_sequence")?),
    };
    if op.rank(boundaries) != 1 {
        return Err(op.unsupported("sequences of more than one dimension"));
    }
    let right = op.flag("right")?;
    let mut shape = op.extents(x);
    shape.push(1.into());
    let axis = shape.len() - 1;
    let x = op.reshape(x, shape)?;
    let dtype = super::promotion::promote(op.element(x), op.element(boundaries));
    let (x, boundaries) = (op.cast(x, dtype)?, op.cast(boundaries, dtype)?);
    let below = op.apply(if right { Function::LessEqual } else { Function::Less }, &[boundaries, x])?;
    let result = if op.flag("out_int32")? { DType::I32 } else { DType::I64 };
    let counts = op.cast(below, result)?;
    one(op.emit_one(Reduce { kind: ReduceKind::Sum, axes: vec![axis as i64], keep_dims: false }, &[counts])?)
}

/// What gives as many elements as values decide.
pub(super) fn data_dependent(_: &mut OpImport<'_, '_, '_>) -> Results {
    Err(OpError::NotKnown("the size of the result".to_owned()))
}
