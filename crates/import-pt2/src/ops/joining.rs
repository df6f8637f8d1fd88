//! Putting tensors together, repeating, mirroring, padding.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Gather, GatherKind, Pad, PadMode, Slice};
use tenon_tensor::DType;

use super::promotion::promote;
use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// Tensors in their common type; empty lists, which torch skips, left out.
fn parts(op: &mut OpImport<'_, '_, '_>) -> Result<Vec<Handle>, OpError> {
    let mut parts = op.tensors("tensors")?;
    let is_empty_list = |op: &OpImport<'_, '_, '_>, part: Handle| op.ty(part).known_shape() == Some(vec![0]);
    if parts.iter().any(|part| !is_empty_list(op, *part)) {
        parts.retain(|part| !is_empty_list(op, *part));
    }
    let dtype =
        parts.iter().map(|part| op.element(*part)).reduce(promote).ok_or_else(|| op.invalid("there is no tensor"))?;
    parts.into_iter().map(|part| Ok(op.cast(part, dtype)?)).collect()
}

/// One after another along a dimension.
pub(super) fn concat(op: &mut OpImport<'_, '_, '_>) -> Results {
    let parts = parts(op)?;
    let axis = op.axis_argument("dim", op.rank(parts[0]))? as i64;
    match parts.as_slice() {
        [only] => one(*only),
        parts => one(op.emit_one(Concat { axis }, parts)?),
    }
}

/// One after another along a new dimension.
pub(super) fn stack(op: &mut OpImport<'_, '_, '_>) -> Results {
    let parts = parts(op)?;
    let axis = op.axis_argument("dim", op.rank(parts[0]) + 1)?;
    let mut slices = Vec::new();
    for part in parts {
        let mut shape = op.extents(part);
        shape.insert(axis, 1.into());
        slices.push(op.reshape(part, shape)?);
    }
    match slices.as_slice() {
        [only] => one(*only),
        slices => one(op.emit_one(Concat { axis: axis as i64 }, slices)?),
    }
}

/// The tensor several times along each dimension.
pub(super) fn repeat(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let mut counts = op.dims(if op.has("repeats") { "repeats" } else { "dims" })?;
    let mut shape = op.extents(x);
    while counts.len() < shape.len() {
        counts.insert(0, 1.into());
    }
    while shape.len() < counts.len() {
        shape.insert(0, 1.into());
    }
    let large = || OpError::Option("a dimension this large".to_owned());
    let (mut apart, mut wide, mut merged) = (Vec::new(), Vec::new(), Vec::new());
    for (count, size) in counts.into_iter().zip(shape) {
        merged.push(count.mul(&size).ok_or_else(large)?);
        apart.extend([DimExpr::constant(1), size.clone()]);
        wide.extend([count, size]);
    }
    let x = op.reshape(x, apart)?;
    let x = op.broadcast(x, wide)?;
    one(op.reshape(x, merged)?)
}

/// Each element several times.
pub(super) fn repeat_interleave(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    if !op.is_number("repeats") {
        return Err(OpError::NotKnown("the size of the result".to_owned()));
    }
    let count = op.dim("repeats")?;
    let (x, axis) = match op.is_none("dim") {
        true => {
            let all = tenon_graph_builder::product(&op.extents(x))
                .ok_or_else(|| op.unsupported("a number of elements this large"))?;
            (op.reshape(x, vec![all])?, 0)
        }
        false => (x, op.axis_argument("dim", op.rank(x))?),
    };
    let mut shape = op.extents(x);
    let merged = shape[axis].mul(&count).ok_or_else(|| op.unsupported("a dimension this large"))?;
    shape.insert(axis + 1, 1.into());
    let apart = op.reshape(x, shape.clone())?;
    shape[axis + 1] = count;
    let wide = op.broadcast(apart, shape.clone())?;
    shape.splice(axis..=axis + 1, [merged]);
    one(op.reshape(wide, shape)?)
}

/// Dimensions from the end.
pub(super) fn flip(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    let axes = match op.name {
        "fliplr" => vec![1],
        "flipud" => vec![0],
        _ => op.axes(&op.ints("dims")?, rank)?,
    };
    let sizes = op.extents(x);
    let mut slice = Slice { starts: vec![0.into(); rank], sizes: sizes.clone(), steps: vec![1; rank] };
    for axis in axes {
        slice.starts[axis] = sizes[axis].sub(&1.into()).ok_or_else(|| op.unsupported("a dimension this large"))?;
        slice.steps[axis] = -1;
    }
    one(op.emit_one(slice, &[x])?)
}

/// Elements moved along dimensions, those that leave at one end coming back at the other.
pub(super) fn roll(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let (shifts, dims) = (op.ints("shifts")?, op.ints("dims")?);
    let shape = op.extents(x);
    let mut result = x;
    let mut axes: Vec<usize> = dims.iter().map(|dim| op.axis(*dim, shape.len())).collect::<Result<_, _>>()?;
    if axes.is_empty() {
        let all =
            tenon_graph_builder::product(&shape).ok_or_else(|| op.unsupported("a number of elements this large"))?;
        result = op.reshape(x, vec![all])?;
        axes.push(0);
    }
    for (shift, axis) in shifts.into_iter().zip(axes) {
        let size = op.fixed(result, axis, "rolling")?;
        let shift = if size == 0 { 0 } else { shift.rem_euclid(size) };
        if shift == 0 {
            continue;
        }
        let end = op.slice(result, axis, (size - shift).into(), shift.into())?;
        let begin = op.slice(result, axis, 0.into(), (size - shift).into())?;
        result = op.emit_one(Concat { axis: axis as i64 }, &[end, begin])?;
    }
    one(op.reshape(result, shape)?)
}

/// Padding: pairs of numbers from the last dimension on, negative ones crop.
pub(super) fn pad(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    let name = if op.has("pad") { "pad" } else { "padding" };
    let pads = op.dims(name)?;
    if pads.len() % 2 != 0 || pads.len() / 2 > rank {
        return Err(op.invalid(format!("{} pads for rank {rank}", pads.len())));
    }
    let mode = match op.name {
        "constant_pad_nd" => "constant".to_owned(),
        "pad" => op.text("mode")?,
        name if name.starts_with("reflection") => "reflect".to_owned(),
        _ => "replicate".to_owned(),
    };
    let mode = match mode.as_str() {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Edge,
        "circular" => PadMode::Wrap,
        other => return Err(op.invalid(format!("`mode` is {other:?}"))),
    };
    let mut low = vec![DimExpr::constant(0); rank];
    let mut high = low.clone();
    for (index, pair) in pads.chunks(2).enumerate() {
        low[rank - 1 - index] = pair[0].clone();
        high[rank - 1 - index] = pair[1].clone();
    }
    let dtype = op.element(x);
    let value = match mode == PadMode::Constant && op.has("value") && !op.is_none("value") {
        true => {
            let value = op.scalar_argument("value")?;
            op.scalar_tensor(&value, dtype)?
        }
        false => op.scalar(0.0, dtype)?,
    };
    one(op.emit_one(Pad { mode, low, high }, &[x, value])?)
}

/// Blocks of channels as squares of pixels, and back.
pub(super) fn pixel_shuffle(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let rank = op.rank(x);
    if rank < 3 {
        return Err(op.invalid("an image is needed"));
    }
    let shape = op.extents(x);
    let (outer, [channels, height, width]) = shape.split_at(rank - 3) else {
        return Err(op.invalid("an image is needed"));
    };
    let large = || OpError::Option("sizes that do not divide".to_owned());
    let up = op.name == "pixel_shuffle";
    let factor = DimExpr::constant(op.int(if up { "upscale_factor" } else { "downscale_factor" })?);
    let square = factor.mul(&factor).ok_or_else(large)?;
    let n = outer.len() as i64;
    let (apart, order, merged) = if up {
        let channels = channels.div_exact(&square).ok_or_else(large)?;
        let merged =
            vec![channels.clone(), height.mul(&factor).ok_or_else(large)?, width.mul(&factor).ok_or_else(large)?];
        (vec![channels, factor.clone(), factor.clone(), height.clone(), width.clone()], [0, 3, 1, 4, 2], merged)
    } else {
        let (height, width) =
            (height.div_exact(&factor).ok_or_else(large)?, width.div_exact(&factor).ok_or_else(large)?);
        let merged = vec![channels.mul(&square).ok_or_else(large)?, height.clone(), width.clone()];
        (vec![channels.clone(), height, factor.clone(), width, factor], [0, 2, 4, 1, 3], merged)
    };
    let x = op.reshape(x, outer.iter().cloned().chain(apart).collect())?;
    let x = op.transpose(x, (0..n).chain(order.into_iter().map(|axis| axis + n)).collect())?;
    one(op.reshape(x, outer.iter().cloned().chain(merged).collect())?)
}

/// Channels of groups interleaved.
pub(super) fn channel_shuffle(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let shape = op.extents(x);
    let groups = DimExpr::constant(op.int("groups")?);
    let each = shape.get(1).and_then(|channels| channels.div_exact(&groups));
    let each = each.ok_or_else(|| op.unsupported("channels that do not divide into the groups"))?;
    let mut apart = shape.clone();
    apart.splice(1..2, [groups, each]);
    let x = op.reshape(x, apart)?;
    let order = [0, 2, 1].into_iter().chain(3..shape.len() as i64 + 1).collect();
    let x = op.transpose(x, order)?;
    one(op.reshape(x, shape)?)
}

/// Differences of neighbours along a dimension, what is put before and after included.
pub(super) fn diff(op: &mut OpImport<'_, '_, '_>) -> Results {
    use tenon_graph_dialect::operators::Function;
    let mut x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let mut parts = vec![x];
    if let Some(before) = op.optional_tensor("prepend")? {
        parts.insert(0, before);
    }
    if let Some(after) = op.optional_tensor("append")? {
        parts.push(after);
    }
    if parts.len() > 1 {
        x = op.emit_one(Concat { axis: axis as i64 }, &parts)?;
    }
    for _ in 0..op.int("n")?.clamp(0, 64) {
        let size = op.at(x, axis).extent.clone();
        let less = size.sub(&1.into()).ok_or_else(|| op.unsupported("a dimension this large"))?;
        let first = op.slice(x, axis, 0.into(), less.clone())?;
        let second = op.slice(x, axis, 1.into(), less)?;
        x = match op.element(x) {
            DType::Bool => op.apply(Function::Xor, &[second, first])?,
            _ => op.apply(Function::Subtract, &[second, first])?,
        };
    }
    one(x)
}

/// Slices of a dimension by a list of indices.
pub(super) fn index_select(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, index) = (op.tensor("self")?, op.tensor("index")?);
    let axis = op.axis_argument("dim", op.rank(x))?;
    op.check_indices(index, x, axis, false)?;
    one(op.emit_one(Gather { kind: GatherKind::Take, axis: axis as i64, batch_dims: 0 }, &[x, index])?)
}
