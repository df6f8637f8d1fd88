//! Views: other shapes, other orders, parts of a tensor. Each shares memory with its operand.

use tenon_graph_builder::product;
use tenon_graph_builder::sign;
use tenon_graph_dialect::operators::Slice;
use tenon_graph_dialect::{DimExpr, Relation};

use crate::error::OpError;
use crate::import::aliases::View;
use crate::import::op::{OpImport, Out, Results};
use crate::schema::Argument;

/// A shape with -1 replaced by what is left.
fn resolve(op: &OpImport<'_, '_, '_>, from: &[DimExpr], mut shape: Vec<DimExpr>) -> Result<Vec<DimExpr>, OpError> {
    let large = || op.unsupported("a number of elements this large");
    let Some(open) = shape.iter().position(|size| size.as_constant() == Some(-1)) else { return Ok(shape) };
    shape[open] = 1.into();
    let (all, rest) = (product(from).ok_or_else(large)?, product(&shape).ok_or_else(large)?);
    shape[open] = match (all.div_exact(&rest), rest.as_constant()) {
        (Some(size), _) => size,
        (None, Some(0)) => return Err(op.invalid("the size -1 is not decided by no elements")),
        (None, Some(number)) if number > 0 => all.floor_div(number).ok_or_else(large)?,
        _ => return Err(op.unsupported(format!("a size of {all} divided by {rest}"))),
    };
    Ok(shape)
}

fn view_as(op: &mut OpImport<'_, '_, '_>, view: View) -> Results {
    Ok(vec![Out::View(op.value("self")?, view)])
}

/// Whether elements lie row-major without gaps, by the sizes and strides that the program declares; `None`: not known.
fn is_contiguous(sizes: &[DimExpr], strides: &[DimExpr]) -> Option<bool> {
    let mut expected = DimExpr::constant(1);
    for (size, stride) in sizes.iter().zip(strides).rev() {
        if size.as_constant() == Some(1) {
            continue;
        }
        if *stride != expected {
            return match (stride.as_constant(), expected.as_constant()) {
                (Some(_), Some(_)) => Some(false),
                _ => None,
            };
        }
        expected = expected.mul(size)?;
    }
    Some(true)
}

/// A tensor in another shape (its own: contiguous), which is a view of it where its elements are in order.
pub(super) fn maybe_view(op: &mut OpImport<'_, '_, '_>, shape: Option<Vec<DimExpr>>) -> Results {
    let value = op.value("self")?;
    let x = op.tensor("self")?;
    let name = match op.node.inputs.first().map(|input| &input.arg) {
        Some(Argument::AsTensor(tensor)) => tensor.name.as_str(),
        _ => "",
    };
    let in_order = op.importer.strides(name).and_then(|(sizes, strides)| is_contiguous(&sizes, &strides));
    let target = shape.clone().unwrap_or_else(|| op.extents(x));
    Ok(vec![match (in_order, shape) {
        (Some(true), None) => Out::Alias(value),
        (Some(true), Some(shape)) => Out::View(value, View::Reshape(shape)),
        (Some(false), None) => Out::New(x),
        _ => Out::Doubtful(value, op.reshape(x, target)?),
    }])
}

/// view, and reshape, which copies where it must.
pub(super) fn reshape(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let shape = match op.name {
        "view" | "_unsafe_view" => op.dims("size")?,
        "view_as" | "reshape_as" => {
            let other = op.tensor("other")?;
            op.extents(other)
        }
        _ => op.dims("shape")?,
    };
    let shape = resolve(op, &op.extents(x), shape)?;
    match op.name {
        "view" | "view_as" => view_as(op, View::Reshape(shape)),
        "_unsafe_view" => Ok(vec![Out::New(op.reshape(x, shape)?)]),
        _ => maybe_view(op, Some(shape)),
    }
}

/// Dimensions from `start_dim` to `end_dim` as one.
pub(super) fn flatten(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    let (first, last) = match op.name {
        "ravel" => (0, rank.max(1) - 1),
        _ => (op.axis_argument("start_dim", rank)?, op.axis_argument("end_dim", rank)?),
    };
    let mut shape = op.extents(x);
    if rank == 0 {
        return maybe_view(op, Some(vec![1.into()]));
    }
    if first > last {
        return Err(op.invalid("`start_dim` comes after `end_dim`"));
    }
    let merged = product(&shape[first..=last]).ok_or_else(|| op.unsupported("a number of elements this large"))?;
    shape.splice(first..=last, [merged]);
    maybe_view(op, Some(shape))
}

/// One dimension as several.
pub(super) fn unflatten(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let mut shape = op.extents(x);
    let parts = resolve(op, &shape[axis..=axis], op.dims("sizes")?)?;
    shape.splice(axis..=axis, parts);
    view_as(op, View::Reshape(shape))
}

pub(super) fn unsqueeze(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x) + 1)?;
    let mut shape = op.extents(x);
    shape.insert(axis, 1.into());
    view_as(op, View::Reshape(shape))
}

/// Without the dimensions of 1, all or those that are named.
pub(super) fn squeeze(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    let axes = match op.has("dim") {
        true => op.axes(&op.ints("dim")?, rank)?,
        false => (0..rank).collect(),
    };
    let shape = op.extents(x);
    // A dimension that is not known to be 1 was not 1 when the program was exported.
    let kept =
        shape.into_iter().enumerate().filter(|(axis, size)| !(axes.contains(axis) && size.as_constant() == Some(1)));
    let kept = kept.map(|(_, size)| size).collect();
    view_as(op, View::Reshape(kept))
}

/// permute, transpose and its other names.
pub(super) fn permute(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    let mut order: Vec<usize> = (0..rank).collect();
    match op.name {
        "permute" => {
            let dims = op.ints("dims")?;
            order = dims.iter().map(|dim| op.axis(*dim, rank)).collect::<Result<_, _>>()?;
        }
        "t" | "numpy_T" if rank < 2 => {}
        "t" => order.swap(0, 1),
        "numpy_T" => order.reverse(),
        "mT" | "adjoint" if rank >= 2 => order.swap(rank - 2, rank - 1),
        "movedim" | "moveaxis" => {
            let places = |names: Vec<i64>| names.iter().map(|dim| op.axis(*dim, rank)).collect::<Result<Vec<_>, _>>();
            let (from, to) = (places(op.ints("source")?)?, places(op.ints("destination")?)?);
            let mut moved: Vec<Option<usize>> = vec![None; rank];
            for (from, to) in from.iter().zip(&to) {
                moved[*to] = Some(*from);
            }
            let mut rest = (0..rank).filter(|axis| !from.contains(axis));
            order = moved.into_iter().filter_map(|axis| axis.or_else(|| rest.next())).collect();
        }
        _ => {
            let (a, b) = match op.has("dim0") {
                true => ("dim0", "dim1"),
                false => ("axis0", "axis1"),
            };
            let (a, b) = (op.axis_argument(a, rank)?, op.axis_argument(b, rank)?);
            if rank > 0 {
                order.swap(a, b);
            }
        }
    }
    view_as(op, View::Transpose(order.into_iter().map(|axis| axis as i64).collect()))
}

/// Repetition along dimensions of 1 and new ones; -1 keeps a size.
pub(super) fn expand(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let own = op.extents(x);
    let mut shape = match op.name {
        "expand_as" => {
            let other = op.tensor("other")?;
            op.extents(other)
        }
        _ => op.dims("size")?,
    };
    let new = shape
        .len()
        .checked_sub(own.len())
        .ok_or_else(|| op.invalid("the shape has fewer dimensions than the tensor"))?;
    for (axis, size) in own.iter().enumerate() {
        if shape[new + axis].as_constant() == Some(-1) {
            shape[new + axis] = size.clone();
        }
    }
    view_as(op, View::Broadcast(shape))
}

/// Where a range begins and how many elements it has, each bound counted from the end where it is negative and cut at the extent.
pub(super) fn range(
    op: &OpImport<'_, '_, '_>,
    extent: &DimExpr,
    start: Option<DimExpr>,
    end: Option<DimExpr>,
    step: i64,
) -> Result<(DimExpr, DimExpr), OpError> {
    let large = || op.unsupported("a dimension this large");
    let bound = |value: Option<DimExpr>, default: &DimExpr| -> Result<DimExpr, OpError> {
        let Some(value) = value else { return Ok(default.clone()) };
        if value == *extent || value.as_constant().is_some_and(|value| value > i64::MAX / 2) {
            return Ok(extent.clone());
        }
        let from_end = sign(&value) == Some(std::cmp::Ordering::Less);
        let value = if from_end { value.add(extent).ok_or_else(large)? } else { value };
        let value = if from_end { value.maximum(&0.into()).ok_or_else(large)? } else { value };
        // One that is known to lie inside stays as it is.
        match extent.sub(&value).map(|rest| sign(&rest)) {
            Some(Some(std::cmp::Ordering::Less)) => Ok(extent.clone()),
            Some(Some(_)) => Ok(value),
            _ => value.minimum(extent).ok_or_else(large),
        }
    };
    let start = bound(start, &0.into())?;
    let end = bound(end, extent)?;
    let span = end.sub(&start).ok_or_else(large)?;
    let size = match step {
        1 => span,
        _ => span.add(&(step - 1).into()).and_then(|span| span.floor_div(step)).ok_or_else(large)?,
    };
    let size = match sign(&size) {
        Some(std::cmp::Ordering::Less) => 0.into(),
        // A size that may be below 0 on paper is not below 0 for what the program was exported for.
        _ => size,
    };
    Ok((start, size))
}

pub(super) fn axis_slice(shape: Vec<DimExpr>, axis: usize, start: DimExpr, size: DimExpr, step: i64) -> Slice {
    let rank = shape.len();
    let mut slice = Slice { starts: vec![0.into(); rank], sizes: shape, steps: vec![1; rank] };
    slice.starts[axis] = start;
    slice.sizes[axis] = size;
    slice.steps[axis] = step;
    slice
}

/// A size that is cut at bounds on paper, as the program has it: torch knows from the ranges of its symbols which bound holds.
fn declared_size(op: &OpImport<'_, '_, '_>, axis: usize, size: DimExpr) -> DimExpr {
    let text = size.to_string();
    if !text.contains("min(") && !text.contains("max(") {
        return size;
    }
    match op.declared(0).ok().and_then(|ty| ty.dims.get(axis).map(|dim| dim.extent.clone())) {
        Some(declared) => declared,
        None => size,
    }
}

/// A range of a dimension.
pub(super) fn slice(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let shape = op.extents(x);
    let (start, size, step) = if op.name == "narrow" {
        let start = op.dim("start")?;
        let length = op.dim("length")?;
        let start = if sign(&start) == Some(std::cmp::Ordering::Less) {
            start.add(&shape[axis]).unwrap_or(start)
        } else {
            start
        };
        (start, length, 1)
    } else {
        let step = op.int("step")?;
        if step < 1 {
            return Err(op.invalid(format!("the step is {step}")));
        }
        let (start, end) = (op.optional_dim("start")?, op.optional_dim("end")?);
        let (start, size) = range(op, &shape[axis], start, end, step)?;
        (start, declared_size(op, axis, size), step)
    };
    let slice = axis_slice(shape, axis, start, size, step);
    view_as(op, View::Slice(slice))
}

/// One index of a dimension, which goes.
pub(super) fn select(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let index = op.dim("index")?;
    let value = op.value("self")?;
    Ok(vec![select_at(op, value, axis, index)?])
}

/// The slice of one index as a view of a view.
fn select_at(
    op: &mut OpImport<'_, '_, '_>,
    value: crate::import::aliases::ValueId,
    axis: usize,
    index: DimExpr,
) -> Result<Out, OpError> {
    let x = op.importer.read(value)?;
    let mut shape = op.extents(x);
    let index = match sign(&index) {
        Some(std::cmp::Ordering::Less) => {
            index.add(&shape[axis]).ok_or_else(|| op.unsupported("a dimension this large"))?
        }
        _ => index,
    };
    let slice = axis_slice(shape.clone(), axis, index, 1.into(), 1);
    let importer = &mut *op.importer;
    let part = importer.aliases.view(&mut importer.builder, value, View::Slice(slice))?;
    shape.remove(axis);
    Ok(Out::View(part, View::Reshape(shape)))
}

/// Every index of a dimension on its own.
pub(super) fn unbind(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let count = op.fixed(x, axis, "taking apart")?;
    let value = op.value("self")?;
    if count != op.output_names().len() as i64 {
        return Err(op.invalid(format!("{count} parts for {} outputs", op.output_names().len())));
    }
    (0..count).map(|index| select_at(op, value, axis, index.into())).collect()
}

/// Parts along a dimension: of one size, of given sizes, or so many.
pub(super) fn split(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let shape = op.extents(x);
    let count = op.output_names().len() as i64;
    let value = op.value("self")?;
    let mut sizes: Vec<DimExpr> = Vec::new();
    match op.name {
        "chunk" | "tensor_split" if op.name == "chunk" || op.has("sections") => {
            let name = if op.name == "chunk" { "chunks" } else { "sections" };
            let chunks = op.int(name)?;
            let each = match (shape[axis].div_exact(&chunks.into()), op.name) {
                (Some(each), _) => Some(each),
                (None, "chunk") => {
                    let size = op.fixed(x, axis, "chunks")?;
                    Some(((size + chunks - 1) / chunks.max(1)).into())
                }
                _ => None,
            };
            let each = each.ok_or_else(|| op.unsupported(format!("{chunks} unequal parts of {}", op.ty(x))))?;
            parts(op, &shape[axis], each, count, &mut sizes)?;
        }
        "split"
            if op.has("split_size")
                && !op
                    .node
                    .inputs
                    .get(1)
                    .is_some_and(|input| matches!(input.arg, Argument::AsInts(_) | Argument::AsSymInts(_))) =>
        {
            let each = op.dim("split_size")?;
            parts(op, &shape[axis], each, count, &mut sizes)?;
        }
        "unsafe_chunk" => {
            let chunks = op.int("chunks")?;
            let size = op.fixed(x, axis, "chunks")?;
            parts(op, &shape[axis], ((size + chunks - 1) / chunks.max(1)).into(), count, &mut sizes)?;
        }
        _ => {
            let name = if op.has("split_sizes") { "split_sizes" } else { "split_size" };
            sizes = op.dims(name)?;
            let total = sizes.iter().try_fold(DimExpr::constant(0), |total, size| total.add(size));
            let total = total.ok_or_else(|| op.unsupported("a dimension this large"))?;
            let reason = "the parts of a split are the whole dimension";
            op.importer.builder.require(total, Relation::Equal, shape[axis].clone(), reason)?;
        }
    }
    let mut start = DimExpr::constant(0);
    let mut outs = Vec::new();
    for size in sizes {
        let slice = axis_slice(shape.clone(), axis, start.clone(), size.clone(), 1);
        start = start.add(&size).ok_or_else(|| op.unsupported("a dimension this large"))?;
        outs.push(Out::View(value, View::Slice(slice)));
    }
    Ok(outs)
}

/// `count` parts of `each`, the last of what is left.
fn parts(
    op: &OpImport<'_, '_, '_>,
    extent: &DimExpr,
    each: DimExpr,
    count: i64,
    sizes: &mut Vec<DimExpr>,
) -> Result<(), OpError> {
    let large = || op.unsupported("a dimension this large");
    let before = each.mul(&(count - 1).into()).ok_or_else(large)?;
    sizes.extend(std::iter::repeat_n(each, (count - 1).max(0) as usize));
    sizes.push(extent.sub(&before).ok_or_else(large)?);
    Ok(())
}

/// The diagonal of two dimensions as the last one.
pub(super) fn diagonal(op: &mut OpImport<'_, '_, '_>) -> Results {
    use tenon_graph_dialect::operators::{Gather, GatherKind, Iota};
    use tenon_tensor::DType;
    let x = op.tensor("self")?;
    let value = op.value("self")?;
    let rank = op.rank(x);
    let (a, b) = (op.axis_argument("dim1", rank)?, op.axis_argument("dim2", rank)?);
    let offset = op.int("offset")?;
    let (rows, columns) = (op.fixed(x, a, "a diagonal")?, op.fixed(x, b, "a diagonal")?);
    let (top, left) = ((-offset).max(0), offset.max(0));
    let count = (rows - top).min(columns - left).max(0);
    let mut order: Vec<i64> = vec![a as i64, b as i64];
    order.extend((0..rank).filter(|axis| *axis != a && *axis != b).map(|axis| axis as i64));
    let moved = op.transpose(x, order)?;
    let place = op.emit_one(Iota { dtype: DType::I64, shape: vec![count.into(), 1.into()], axis: 0 }, &[])?;
    let shift = op.literal(DType::I64, &[1, 2], &[top as f64, left as f64])?;
    let places = op.apply(tenon_graph_dialect::operators::Function::Add, &[place, shift])?;
    let taken = op.emit_one(Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 0 }, &[moved, places])?;
    let back = (1..rank as i64 - 1).chain([0]).collect();
    Ok(vec![Out::Doubtful(value, op.transpose(taken, back)?)])
}

/// Windows of a dimension as a new last one.
pub(super) fn unfold(op: &mut OpImport<'_, '_, '_>) -> Results {
    use tenon_graph_dialect::operators::{Function, Gather, GatherKind, Iota};
    use tenon_tensor::DType;
    let x = op.tensor("self")?;
    let value = op.value("self")?;
    let rank = op.rank(x);
    let axis = op.axis_argument("dimension", rank)?;
    let (size, step) = (op.int("size")?, op.int("step")?);
    let extent = op.fixed(x, axis, "windows")?;
    if size < 1 || step < 1 || size > extent {
        return Err(op.invalid(format!("windows of {size} in steps of {step} over {extent}")));
    }
    let count = (extent - size) / step + 1;
    let window = op.emit_one(Iota { dtype: DType::I64, shape: vec![count.into(), 1.into()], axis: 0 }, &[])?;
    let step = op.symbolic(DType::I64, &[], vec![step.into()]);
    let begin = op.apply(Function::Multiply, &[window, step])?;
    let inside = op.emit_one(Iota { dtype: DType::I64, shape: vec![size.into()], axis: 0 }, &[])?;
    let places = op.apply(Function::Add, &[begin, inside])?;
    let taken = op.emit_one(Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 }, &[x, places])?;
    let order: Vec<i64> =
        (0..=rank as i64).filter(|place| *place != axis as i64 + 1).chain([axis as i64 + 1]).collect();
    Ok(vec![Out::Doubtful(value, op.transpose(taken, order)?)])
}
