//! RoiAlign: regions of images, each sampled to one size.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, Iota, ReduceKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// What the node says about both axes.
struct Settings {
    scale: f64,
    half_pixel: bool,
    /// Samples of a cell of the result along an axis.
    samples: i64,
}

/// Samples along one axis: for each region, cell, sample and the two elements around it `[R, cells, samples, 2]`.
struct Samples {
    index: Handle,
    weight: Handle,
    inside: Handle,
}

/// Images `[N, C, H, W]`, regions `[R, 4]` (left, top, right, bottom), their images `[R]`; result `[R, C, height, width]`.
///
/// Each cell is the mean of its linear samples, or with `mode` = `max` the largest of the weighted elements that samples are made of, as
/// ONNX's reference and ONNX Runtime have it.
pub(super) fn roi_align(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let (x, regions, images) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let dtype = op.dtype(x);
    let maximum = match op.node.string_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return Err(op.node.attribute_error("mode", "avg or max", format!("is {other:?}"))),
    };
    let half_pixel = match op.since {
        ..16 => false,
        _ => match op.node.string_or("coordinate_transformation_mode", "half_pixel")? {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => {
                let expected = "half_pixel or output_half_pixel";
                return Err(op.node.attribute_error(
                    "coordinate_transformation_mode",
                    expected,
                    format!("is {other:?}"),
                ));
            }
        },
    };
    let scale = f64::from(op.node.float_or("spatial_scale", 1.0)?);
    let cells = [op.node.int_or("output_height", 1)?, op.node.int_or("output_width", 1)?];
    let samples = op.node.int_or("sampling_ratio", 0)?;
    if samples == 0 {
        return Err(
            op.unsupported("`sampling_ratio` = 0, where the number of samples follows from the size of each region,")
        );
    }
    if samples < 0 || samples > 1 << 10 || cells.iter().any(|cells| !(1..=1 << 16).contains(cells)) {
        return Err(op.invalid(format!("a result of {cells:?} cells with {samples} samples each along an axis")));
    }
    let fits = op.rank(x) == 4
        && op.rank(regions) == 2
        && op.dim(regions, 1).known() == Some(4)
        && op.rank(images) == 1
        && !op.dim(images, 0).differs(op.dim(regions, 0));
    if !fits || op.dtype(regions) != dtype || !dtype.is_float() {
        return Err(op.invalid(format!("regions {} of {} in {}", op.ty(regions), op.ty(images), op.ty(x))));
    }
    let wide = accumulator(dtype);
    let settings = Settings { scale, half_pixel, samples };
    let regions = op.cast(regions, wide)?;
    let count = op.dim(regions, 0).extent.clone();
    let dims = op.extents(x);
    let number = DimExpr::constant;

    let rows = samples_along(op, regions, 1, &dims[2], cells[0], &settings)?;
    let columns = samples_along(op, regions, 0, &dims[3], cells[1], &settings)?;
    // [R, cells, samples, 2] of the rows, then 1, 1, 1 for those of the columns; and the other way round.
    let tall = vec![count.clone(), number(cells[0]), number(samples), number(2), number(1), number(1), number(1)];
    let wide_shape = vec![count.clone(), number(1), number(1), number(1), number(cells[1]), number(samples), number(2)];
    let pair = |op: &mut OpImport<'_, '_, '_>, function: Function, row: Handle, column: Handle| {
        let row = op.reshape(row, tall.clone())?;
        let column = op.reshape(column, wide_shape.clone())?;
        op.apply(function, &[row, column])
    };
    let width = op.importer.builder.symbolic(DType::I64, &[], vec![dims[3].clone()]);
    let row = op.apply(Function::Multiply, &[rows.index, width])?;
    let index = pair(op, Function::Add, row, columns.index)?;
    let weight = pair(op, Function::Multiply, rows.weight, columns.weight)?;
    let inside_row = op.broadcast(rows.inside, op.extents(rows.weight))?;
    let inside_column = op.broadcast(columns.inside, op.extents(columns.weight))?;
    let inside = pair(op, Function::And, inside_row, inside_column)?;

    let too_large = || op.unsupported("an image this large");
    let pixels = dims[2].mul(&dims[3]).ok_or_else(too_large)?;
    let all = dims[0].mul(&pixels).ok_or_else(too_large)?;
    let pixel_count = op.importer.builder.symbolic(DType::I64, &[], vec![pixels.clone()]);
    let images = op.cast(images, DType::I64)?;
    let image = op.reshape(images, [vec![count.clone()], vec![number(1); 6]].concat())?;
    let first = op.apply(Function::Multiply, &[image, pixel_count])?;
    let index = op.apply(Function::Add, &[first, index])?;

    // Channels last, so that one index reads all of them.
    let x = op.transpose(x, vec![0, 2, 3, 1])?;
    let x = op.reshape(x, vec![all, dims[1].clone()])?;
    let read = op.emit(Gather { kind: GatherKind::Take, axis: 0, batch_dims: 0 }, &[x, index])?;
    let read = op.cast(read, wide)?;
    let mut each = op.extents(index);
    each.push(number(1));
    let weight = op.reshape(weight, each.clone())?;
    let inside = op.reshape(inside, each)?;
    let parts = op.apply(Function::Multiply, &[read, weight])?;
    let zero = op.scalar(0.0, wide)?;
    let parts = op.apply(Function::Select, &[inside, parts, zero])?;
    let kind = if maximum { ReduceKind::Max } else { ReduceKind::Sum };
    let mut result = op.reduce(kind, parts, &[2, 3, 5, 6], false)?;
    if !maximum {
        let divisor = op.scalar((samples * samples) as f64, wide)?;
        result = op.apply(Function::Divide, &[result, divisor])?;
    }
    let result = op.cast(result, dtype)?;
    Ok(vec![op.transpose(result, vec![0, 3, 1, 2])?])
}

/// Samples along the axis whose begin is column `first` of the regions and whose end is two columns further.
fn samples_along(
    op: &mut OpImport<'_, '_, '_>,
    regions: Handle,
    first: i64,
    size: &DimExpr,
    cells: i64,
    settings: &Settings,
) -> Result<Samples, ImportError> {
    let dtype = op.dtype(regions);
    let number = DimExpr::constant;
    let count = op.dim(regions, 0).extent.clone();
    let scale = op.scalar(settings.scale, dtype)?;
    let offset = op.scalar(if settings.half_pixel { 0.5 } else { 0.0 }, dtype)?;
    let mut ends = Vec::new();
    for column in [first, first + 2] {
        let end = op.slice(regions, 1, number(column), number(1))?;
        let end = op.reshape(end, vec![count.clone(), number(1), number(1), number(1)])?;
        let end = op.apply(Function::Multiply, &[end, scale])?;
        ends.push(op.apply(Function::Subtract, &[end, offset])?);
    }
    let mut extent = op.apply(Function::Subtract, &[ends[1], ends[0]])?;
    let one = op.scalar(1.0, dtype)?;
    if !settings.half_pixel {
        // A region is at least one element large.
        extent = op.apply(Function::Max, &[extent, one])?;
    }
    let divisor = op.scalar(cells as f64, dtype)?;
    let cell = op.apply(Function::Divide, &[extent, divisor])?;

    let along = |op: &mut OpImport<'_, '_, '_>, dim: usize, size: i64| {
        let mut shape = vec![number(1); 4];
        shape[dim] = number(size);
        let places = op.emit(Iota { dtype: DType::I64, shape, axis: dim as i64 }, &[])?;
        op.cast(places, dtype)
    };
    let place = along(op, 1, cells)?;
    let start = op.apply(Function::Multiply, &[place, cell])?;
    let start = op.apply(Function::Add, &[ends[0], start])?;
    let half = op.scalar(0.5, dtype)?;
    let sample = along(op, 2, settings.samples)?;
    let sample = op.apply(Function::Add, &[sample, half])?;
    let step = op.apply(Function::Multiply, &[sample, cell])?;
    let samples = op.scalar(settings.samples as f64, dtype)?;
    let step = op.apply(Function::Divide, &[step, samples])?;
    let x = op.apply(Function::Add, &[start, step])?;

    let size = op.importer.builder.symbolic(DType::I64, &[], vec![size.clone()]);
    let size = op.cast(size, dtype)?;
    let (zero, before) = (op.scalar(0.0, dtype)?, op.scalar(-1.0, dtype)?);
    let last = op.apply(Function::Subtract, &[size, one])?;
    let above = op.apply(Function::GreaterEqual, &[x, before])?;
    let below = op.apply(Function::LessEqual, &[x, size])?;
    let inside = op.apply(Function::And, &[above, below])?;
    // Samples that do not count read an element that is there.
    let x = op.apply(Function::Select, &[inside, x, zero])?;
    let x = op.apply(Function::Max, &[x, zero])?;
    let low = op.apply(Function::Floor, &[x])?;
    let at_end = op.apply(Function::GreaterEqual, &[low, last])?;
    let low = op.apply(Function::Select, &[at_end, last, low])?;
    let part = op.apply(Function::Subtract, &[x, low])?;
    let part = op.apply(Function::Select, &[at_end, zero, part])?;
    let corner = along(op, 3, 2)?;
    let index = op.apply(Function::Add, &[low, corner])?;
    let index = op.apply(Function::Min, &[index, last])?;
    let distance = op.apply(Function::Subtract, &[part, corner])?;
    let distance = op.apply(Function::Abs, &[distance])?;
    let weight = op.apply(Function::Subtract, &[one, distance])?;
    Ok(Samples { index: op.cast(index, DType::I64)?, weight, inside })
}
