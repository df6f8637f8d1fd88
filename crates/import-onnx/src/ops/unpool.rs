//! MaxUnpool, and the indices that MaxPool gives for it.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Combine, Function, Iota, Pad, PadMode, ReduceKind, Scatter, ScatterKind};
use tenon_graph_dialect::operators::{Gather, GatherKind};
use tenon_tensor::DType;

use super::padding::Geometry;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, product};

/// Each element at the place that its index says, zeros elsewhere. Indices count through the whole tensor that kernel, strides and pads give;
/// a larger `output_shape` has it at its begin.
pub(super) fn max_unpool(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let (x, indices) = (op.input(0)?, op.input(1)?);
    let geometry = Geometry::read(op, x, None, false)?;
    let too_large = || op.unsupported("a result this large");
    let mut shape = op.extents(x);
    for (axis, size) in shape.iter_mut().enumerate().skip(2) {
        let axis = axis - 2;
        let rest = geometry.kernel[axis] - geometry.strides[axis] - geometry.begin[axis] - geometry.end[axis];
        let whole = size.mul(&DimExpr::constant(geometry.strides[axis]));
        *size = whole.and_then(|size| size.add(&DimExpr::constant(rest))).ok_or_else(too_large)?;
        if size.as_constant().is_some_and(|size| size < 0) {
            return Err(op.invalid("the result has a negative size"));
        }
    }
    if (0..op.rank(x)).any(|axis| op.rank(indices) != op.rank(x) || op.dim(x, axis).differs(op.dim(indices, axis))) {
        return Err(op.invalid(format!("the indices, {}, do not fit {}", op.ty(indices), op.ty(x))));
    }
    let given = product(&op.extents(x)).ok_or_else(too_large)?;
    let all = product(&shape).ok_or_else(too_large)?;
    let updates = op.reshape(x, vec![given.clone()])?;
    let indices = op.reshape(indices, vec![given])?;
    let zero = op.scalar(0.0, op.dtype(x))?;
    let base = op.broadcast(zero, vec![all])?;
    let scatter = Scatter { kind: ScatterKind::Elements, combine: Combine::Set, axis: 0 };
    let result = op.emit(scatter, &[base, indices, updates])?;
    let mut result = op.reshape(result, shape.clone())?;
    if op.optional(2)?.is_some() {
        let wanted = op.known_dims(2, "the shape of the result")?;
        if wanted.len() != shape.len() {
            return Err(op.invalid(format!("{} sizes for {} dimensions", wanted.len(), shape.len())));
        }
        let low = vec![DimExpr::constant(0); shape.len()];
        let high = wanted.iter().zip(&shape).map(|(wanted, size)| wanted.sub(size)).collect::<Option<Vec<_>>>();
        let high = high.ok_or_else(|| op.unsupported("a shape this large"))?;
        if high.iter().any(|size| size.as_constant() != Some(0)) {
            result = op.emit(Pad { mode: PadMode::Constant, low, high }, &[result, zero])?;
        }
    }
    Ok(vec![result])
}

/// Where in `x` `[N, C, D…]` the largest elements `largest` of MaxPool's windows lie, the first of equal ones: indices through the whole
/// tensor; with `storage_order` = 1, spatial dimensions are counted from the first on.
pub(super) fn indices_of_largest(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    largest: Handle,
    dilated: bool,
) -> Result<Handle, ImportError> {
    let mut geometry = Geometry::read(op, x, None, dilated)?;
    geometry.resolve(op, &op.ty(x).dims[2..])?;
    if !geometry.free.is_empty() {
        return Err(op.unsupported("the output `Indices` with SAME padding of a free dimension"));
    }
    let columns_first = op.since >= 8 && op.node.flag_or("storage_order", false)?;
    let sizes = op.extents(x)[2..].to_vec();
    let axes = sizes.len();
    let dtype = op.dtype(x);
    let outputs = op.extents(largest);

    // [outputs…, window…]: what each element of each window is, among all of a channel, and whether it lies in the input.
    let (mut index, mut hit) = (op.scalar(0.0, DType::I64)?, None);
    for axis in 0..axes {
        let along = |op: &mut OpImport<'_, '_, '_>, dim: usize, size: DimExpr, step: i64| {
            let mut shape = vec![DimExpr::constant(1); 2 * axes];
            shape[dim] = size;
            let places = op.emit(Iota { dtype: DType::I64, shape, axis: dim as i64 }, &[])?;
            let step = op.scalar(step as f64, DType::I64)?;
            op.apply(Function::Multiply, &[places, step])
        };
        let place = along(op, axis, outputs[2 + axis].clone(), geometry.strides[axis])?;
        let cell = along(op, axes + axis, DimExpr::constant(geometry.kernel[axis]), geometry.dilations[axis])?;
        let begin = op.scalar(-geometry.begin[axis] as f64, DType::I64)?;
        let place = op.apply(Function::Add, &[place, begin])?;
        let place = op.apply(Function::Add, &[place, cell])?;
        let size = op.importer.builder.symbolic(DType::I64, &[], vec![sizes[axis].clone()]);
        let zero = op.scalar(0.0, DType::I64)?;
        let after = op.apply(Function::GreaterEqual, &[place, zero])?;
        let before = op.apply(Function::Less, &[place, size])?;
        let inside = op.apply(Function::And, &[after, before])?;
        hit = Some(match hit {
            Some(hit) => op.apply(Function::And, &[hit, inside])?,
            None => inside,
        });
        let place = op.apply(Function::Select, &[inside, place, zero])?;
        let rows = op.apply(Function::Multiply, &[index, size])?;
        index = op.apply(Function::Add, &[rows, place])?;
    }
    let hit = hit.ok_or_else(|| op.invalid("an image without spatial dimensions"))?;

    let too_large = || op.unsupported("an image this large");
    let pixels = product(&sizes).ok_or_else(too_large)?;
    let channels = outputs[0].mul(&outputs[1]).ok_or_else(too_large)?;
    let image = op.reshape(x, vec![outputs[0].clone(), outputs[1].clone(), pixels.clone()])?;
    let cells = op.emit(Gather { kind: GatherKind::Take, axis: 2, batch_dims: 0 }, &[image, index])?;
    let mut spread = outputs.clone();
    spread.resize(2 + 2 * axes, DimExpr::constant(1));
    let largest = op.reshape(largest, spread)?;
    let mut equal = op.apply(Function::Equal, &[cells, largest])?;
    if dtype.is_float() {
        // NaN, where there is one, is the largest and equals nothing.
        let unordered = op.apply(Function::IsNan, &[cells])?;
        equal = op.apply(Function::Or, &[equal, unordered])?;
    }
    let equal = op.apply(Function::And, &[equal, hit])?;
    let pixel_count = op.importer.builder.symbolic(DType::I64, &[], vec![pixels]);
    let found = op.apply(Function::Select, &[equal, index, pixel_count])?;
    let window: Vec<usize> = (2 + axes..2 + 2 * axes).collect();
    let mut found = op.reduce(ReduceKind::Min, found, &window, false)?;
    if columns_first {
        found = transposed_index(op, found, &sizes)?;
    }
    let mut shape = vec![outputs[0].clone(), outputs[1].clone()];
    let channel = op.emit(Iota { dtype: DType::I64, shape: vec![channels], axis: 0 }, &[])?;
    shape.resize(2 + axes, DimExpr::constant(1));
    let channel = op.reshape(channel, shape)?;
    let base = op.apply(Function::Multiply, &[channel, pixel_count])?;
    op.apply(Function::Add, &[base, found])
}

/// A row-major index of `sizes` as one that counts the first dimension fastest.
fn transposed_index(op: &mut OpImport<'_, '_, '_>, index: Handle, sizes: &[DimExpr]) -> Result<Handle, ImportError> {
    let number = |op: &mut OpImport<'_, '_, '_>, size: &DimExpr| {
        op.importer.builder.symbolic(DType::I64, &[], vec![size.clone()])
    };
    let mut rest = index;
    let mut places = Vec::new();
    for size in sizes.iter().rev() {
        let size = number(op, size);
        places.push(op.apply(Function::Remainder, &[rest, size])?);
        rest = op.apply(Function::Divide, &[rest, size])?;
    }
    // The last dimension first, which counts slowest.
    let mut result = op.scalar(0.0, DType::I64)?;
    for (place, size) in places.into_iter().zip(sizes.iter().rev()) {
        let size = number(op, size);
        let rows = op.apply(Function::Multiply, &[result, size])?;
        result = op.apply(Function::Add, &[rows, place])?;
    }
    Ok(result)
}
