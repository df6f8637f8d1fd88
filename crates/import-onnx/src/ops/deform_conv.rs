//! DeformConv: a convolution whose window elements are moved by offsets that are computed.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Contract, Function, Iota};
use tenon_tensor::DType;

use super::padding::Geometry;
use super::sampling::{Interpolation, Outside, sample};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator, product};

/// Input `[N, C, D…]`, weight `[O, C/groups, K…]`, offsets `[N, offset groups · ∏K · axes, D'…]`, bias `[O]`, mask `[N, offset groups · ∏K, D'…]`:
/// the input is sampled linearly for each window element of each place, and what was sampled is contracted with the weight.
pub(super) fn deform_conv(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=5)?;
    let (x, weight, offsets) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let dtype = op.dtype(x);
    let rank = op.rank_at_least(x, 3)?;
    let axes = rank - 2;
    if op.rank(weight) != rank || op.rank(offsets) != rank || op.dtype(weight) != dtype || op.dtype(offsets) != dtype {
        let (weight, offsets) = (op.ty(weight), op.ty(offsets));
        return Err(op.invalid(format!("the weight, {weight}, and offsets, {offsets}, do not fit {}", op.ty(x))));
    }
    if axes > 3 {
        return Err(op.unsupported(format!("an image of {axes} dimensions")));
    }
    let mut kernel = Vec::new();
    for axis in 2..rank {
        kernel.push(op.fixed_dim(weight, axis, "a window")?);
    }
    let geometry = Geometry::read(op, x, Some(kernel.clone()), true)?;
    let groups = op.node.int_or("group", 1)?;
    let offset_groups = op.node.int_or("offset_group", 1)?;
    let channels = op.fixed_dim(x, 1, "groups")?;
    let outputs = op.fixed_dim(weight, 0, "groups")?;
    let cells = kernel.iter().try_fold(1i64, |cells, size| cells.checked_mul(*size));
    let cells = cells.ok_or_else(|| op.unsupported("a window this large"))?;
    let offset_count = [offset_groups, cells, axes as i64].into_iter().try_fold(1i64, i64::checked_mul);
    let fits = groups >= 1
        && offset_groups >= 1
        && channels % groups == 0
        && channels % offset_groups == 0
        && outputs % groups == 0
        && op.dim(weight, 1).known() == u64::try_from(channels / groups).ok()
        && op.dim(offsets, 1).known() == offset_count.and_then(|count| u64::try_from(count).ok());
    if !fits {
        let (weight, offsets) = (op.ty(weight), op.ty(offsets));
        let message = format!("{} with the weight {weight} and offsets {offsets} has no {groups} groups", op.ty(x));
        return Err(op.invalid(format!("{message} and {offset_groups} groups of offsets")));
    }

    let wide = accumulator(dtype);
    let too_large = || op.unsupported("an image this large");
    let spatial = op.extents(offsets)[2..].to_vec();
    let batch = op.dim(x, 0).extent.clone();
    let (cells, number) = (DimExpr::constant(cells), DimExpr::constant);
    let sets = batch.mul(&number(offset_groups)).ok_or_else(too_large)?;
    let area = product(&spatial).ok_or_else(too_large)?;
    let places = cells.mul(&area).ok_or_else(too_large)?;

    let shape = [vec![sets.clone(), cells.clone(), number(axes as i64)], spatial.clone()].concat();
    let offsets = op.cast(offsets, wide)?;
    let offsets = op.reshape(offsets, shape)?;
    let mut coordinates = Vec::new();
    for axis in 0..axes {
        let moved = op.slice(offsets, 2, number(axis as i64), number(1))?;
        let shape = [vec![sets.clone()], kernel.iter().map(|size| number(*size)).collect(), spatial.clone()].concat();
        let moved = op.reshape(moved, shape)?;
        let fixed = window_places(op, &geometry, axis, &kernel, &spatial)?;
        let fixed = op.cast(fixed, wide)?;
        let coordinate = op.apply(Function::Add, &[moved, fixed])?;
        coordinates.push(op.reshape(coordinate, vec![sets.clone(), places.clone()])?);
    }
    let mut image = op.extents(x);
    image[0] = sets.clone();
    image[1] = number(channels / offset_groups);
    let image = op.reshape(x, image)?;
    let samples = sample(op, image, &coordinates, Interpolation::Linear, Outside::Zeros)?;
    let mut samples =
        op.reshape(samples, vec![sets.clone(), cells.clone(), area.clone(), number(channels / offset_groups)])?;
    if let Some(mask) = op.optional(4)? {
        let mask = op.cast(mask, wide)?;
        let mask = op.reshape(mask, vec![sets, cells.clone(), area.clone(), number(1)])?;
        samples = op.apply(Function::Multiply, &[samples, mask])?;
    }

    // [N, offset groups, cells, area, channels] to [N, groups, channels of a group · cells, area].
    let apart =
        vec![batch.clone(), number(offset_groups), cells.clone(), area.clone(), number(channels / offset_groups)];
    let samples = op.reshape(samples, apart)?;
    let samples = op.transpose(samples, vec![0, 1, 4, 2, 3])?;
    let depth = cells.mul(&number(channels / groups)).ok_or_else(|| op.unsupported("a window this large"))?;
    let columns = op.reshape(samples, vec![batch.clone(), number(groups), depth.clone(), area])?;
    let weight = op.cast(weight, wide)?;
    let rows = op.reshape(weight, vec![number(groups), number(outputs / groups), depth])?;
    let (lhs, rhs, result) = ("gok".to_owned(), "ngkp".to_owned(), "ngop".to_owned());
    let result = op.emit(Contract { lhs, rhs, result, accumulate: wide, dtype: wide }, &[rows, columns])?;
    let mut result = op.reshape(result, [vec![batch, number(outputs)], spatial].concat())?;
    if let Some(bias) = op.optional(3)? {
        let bias = op.cast(bias, wide)?;
        let bias = op.along_axis(bias, 1, rank)?;
        result = op.apply(Function::Add, &[result, bias])?;
    }
    Ok(vec![op.cast(result, dtype)?])
}

/// Where the elements of a plain window lie along an axis: `[K…, D'…]`, of size 1 in the dimensions of other axes.
fn window_places(
    op: &mut OpImport<'_, '_, '_>,
    geometry: &Geometry,
    axis: usize,
    kernel: &[i64],
    spatial: &[DimExpr],
) -> Result<Handle, ImportError> {
    let axes = kernel.len();
    let count = |op: &mut OpImport<'_, '_, '_>, dim: usize, size: DimExpr, step: i64| {
        let mut shape = vec![DimExpr::constant(1); 2 * axes];
        shape[dim] = size;
        let places = op.emit(Iota { dtype: DType::I64, shape, axis: dim as i64 }, &[])?;
        let step = op.integers(&[step])?;
        op.apply(Function::Multiply, &[places, step])
    };
    let cell = count(op, axis, DimExpr::constant(kernel[axis]), geometry.dilations[axis])?;
    let place = count(op, axes + axis, spatial[axis].clone(), geometry.strides[axis])?;
    let begin = op.integers(&[geometry.begin[axis]])?;
    let first = op.apply(Function::Subtract, &[place, begin])?;
    op.apply(Function::Add, &[first, cell])
}
