//! GridSample and AffineGrid: spatial transformers.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Contract, Function, Iota};
use tenon_tensor::DType;

use super::sampling::{Interpolation, Outside, sample};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator, product};

/// GridSample: input `[N, C, D…]`, grid `[N, O…, axes]` with the innermost axis first, result `[N, C, O…]`.
pub(super) fn grid_sample(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, grid) = (op.input(0)?, op.input(1)?);
    let rank = op.rank_at_least(x, 3)?;
    let axes = rank - 2;
    let interpolation = match op.node.string_or("mode", if op.since < 20 { "bilinear" } else { "linear" })? {
        "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic,
        other => return Err(op.node.attribute_error("mode", "nearest, linear or cubic", format!("is {other:?}"))),
    };
    let corners = op.node.flag_or("align_corners", false)?;
    let outside = match op.node.string_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection { corners },
        other => {
            return Err(op.node.attribute_error(
                "padding_mode",
                "zeros, border or reflection",
                format!("is {other:?}"),
            ));
        }
    };
    if op.rank(grid) != rank || op.dim(grid, rank - 1).known() != Some(axes as u64) {
        return Err(op.invalid(format!("the grid, {}, does not fit {}", op.ty(grid), op.ty(x))));
    }
    if !op.dtype(grid).is_float() {
        return Err(op.invalid(format!("a grid of {}", op.dtype(grid))));
    }
    if axes > 3 {
        return Err(op.unsupported(format!("an image of {axes} dimensions")));
    }
    let dtype = op.dtype(x);
    let wide = if dtype == DType::F64 || op.dtype(grid) == DType::F64 { DType::F64 } else { DType::F32 };
    let grid = op.cast(grid, wide)?;
    let batch = op.dim(x, 0).extent.clone();
    let outputs = op.extents(grid)[1..rank - 1].to_vec();
    let places = product(&outputs).ok_or_else(|| op.unsupported("a grid this large"))?;
    let grid =
        op.reshape(grid, vec![op.dim(grid, 0).extent.clone(), places.clone(), DimExpr::constant(axes as i64)])?;

    let mut coordinates = Vec::new();
    for axis in 0..axes {
        let part = op.slice(grid, 2, DimExpr::constant((axes - 1 - axis) as i64), DimExpr::constant(1))?;
        let part = op.reshape(part, vec![batch.clone(), places.clone()])?;
        let size = op.dim(x, axis + 2).extent.clone();
        coordinates.push(in_elements(op, part, &size, corners)?);
    }
    // Elements that only move keep their type.
    let moves = interpolation == Interpolation::Nearest || dtype == DType::Bool;
    let image = if moves || dtype.is_float() { x } else { op.cast(x, wide)? };
    let samples = sample(op, image, &coordinates, interpolation, outside)?;
    let samples = op.cast(samples, dtype)?;
    let samples = op.transpose(samples, vec![0, 2, 1])?;
    let shape = [vec![batch, op.dim(x, 1).extent.clone()], outputs].concat();
    Ok(vec![op.reshape(samples, shape)?])
}

/// From -1 … 1 to a place among `size` elements: the ends are the outermost elements' centres (`corners`) or edges.
fn in_elements(op: &mut OpImport<'_, '_, '_>, x: Handle, size: &DimExpr, corners: bool) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    let size = op.importer.builder.symbolic(DType::I64, &[], vec![size.clone()]);
    let size = op.cast(size, dtype)?;
    let (one, half) = (op.scalar(1.0, dtype)?, op.scalar(0.5, dtype)?);
    let x = op.apply(Function::Add, &[x, one])?;
    if corners {
        let last = op.apply(Function::Subtract, &[size, one])?;
        let x = op.apply(Function::Multiply, &[x, half])?;
        return op.apply(Function::Multiply, &[x, last]);
    }
    let x = op.apply(Function::Multiply, &[x, size])?;
    let x = op.apply(Function::Subtract, &[x, one])?;
    op.apply(Function::Multiply, &[x, half])
}

/// AffineGrid: the places of an image of `size`, from -1 to 1 along each axis, moved by the matrices `theta` `[N, axes, axes + 1]`.
///
/// An axis of one element between corners has its element in the middle.
pub(super) fn affine_grid(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let theta = op.input(0)?;
    let corners = op.node.flag_or("align_corners", false)?;
    let size = op.known_dims(1, "the size of the grid")?;
    let axes = size.len().saturating_sub(2);
    let dtype = op.dtype(theta);
    let fits = op.rank(theta) == 3
        && op.dim(theta, 1).known() == Some(axes as u64)
        && op.dim(theta, 2).known() == Some(axes as u64 + 1);
    if !(2..=3).contains(&axes) || !fits || !dtype.is_float() {
        return Err(op.invalid(format!(
            "the matrices, {}, do not fit a size of {} dimensions",
            op.ty(theta),
            size.len()
        )));
    }
    let wide = accumulator(dtype);
    let sizes = &size[2..];
    let mut columns = Vec::new();
    let mut whole = sizes.to_vec();
    whole.push(DimExpr::constant(1));
    // The innermost axis first, and 1 last.
    for axis in (0..axes).rev() {
        let mut shape = vec![DimExpr::constant(1); axes + 1];
        shape[axis] = sizes[axis].clone();
        let place = op.emit(Iota { dtype: DType::I64, shape, axis: axis as i64 }, &[])?;
        let place = op.cast(place, wide)?;
        let count = op.importer.builder.symbolic(DType::I64, &[], vec![sizes[axis].clone()]);
        let count = op.cast(count, wide)?;
        let place = from_elements(op, place, count, corners)?;
        columns.push(op.broadcast(place, whole.clone())?);
    }
    let one = op.scalar(1.0, wide)?;
    columns.push(op.broadcast(one, whole)?);
    let base = op.emit(Concat { axis: axes as i64 }, &columns)?;
    let places = product(sizes).ok_or_else(|| op.unsupported("a grid this large"))?;
    let base = op.reshape(base, vec![places, DimExpr::constant(axes as i64 + 1)])?;
    let theta = op.cast(theta, wide)?;
    let (lhs, rhs, result) = ("pk".to_owned(), "nik".to_owned(), "npi".to_owned());
    let grid = op.emit(Contract { lhs, rhs, result, accumulate: wide, dtype: wide }, &[base, theta])?;
    let mut shape = vec![op.dim(theta, 0).extent.clone()];
    shape.extend(sizes.iter().cloned());
    shape.push(DimExpr::constant(axes as i64));
    let grid = op.reshape(grid, shape)?;
    Ok(vec![op.cast(grid, dtype)?])
}

/// The inverse of [`in_elements`].
fn from_elements(
    op: &mut OpImport<'_, '_, '_>,
    place: Handle,
    count: Handle,
    corners: bool,
) -> Result<Handle, ImportError> {
    let dtype = op.dtype(place);
    let (one, two) = (op.scalar(1.0, dtype)?, op.scalar(2.0, dtype)?);
    let twice = op.apply(Function::Multiply, &[place, two])?;
    if !corners {
        let twice = op.apply(Function::Add, &[twice, one])?;
        let part = op.apply(Function::Divide, &[twice, count])?;
        return op.apply(Function::Subtract, &[part, one]);
    }
    let last = op.apply(Function::Subtract, &[count, one])?;
    let zero = op.scalar(0.0, dtype)?;
    let single = op.apply(Function::Equal, &[last, zero])?;
    let part = op.apply(Function::Divide, &[twice, last])?;
    let place = op.apply(Function::Subtract, &[part, one])?;
    op.apply(Function::Select, &[single, zero, place])
}
