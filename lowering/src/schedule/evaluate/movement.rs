//! Data movement: reshape, transpose, broadcast, slice, pad, concat.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Pad, PadMode, Slice, Transpose};
use tenon_hw_dialect::{IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::{Evaluator, Mask, and_masks, coordinate_tile};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::register_type;

/// Every place of a concatenation tries every operand.
const MAX_CONCAT: usize = 512;

/// Numbers of dimension expressions that are known by now.
pub(super) fn numbers(operator: &str, dims: &[DimExpr]) -> Result<Vec<i32>, LoweringError> {
    dims.iter()
        .map(|dim| dim.as_constant().and_then(|value| i32::try_from(value).ok()))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| LoweringError::shape(format!("{operator} has a symbolic or too large dimension")))
}

/// Scalar code on one coordinate.
pub(super) fn map_coordinate<'m>(
    builder: TileBuilder<'m>,
    coordinate: &Coordinate<'m>,
    index: &Index<'m>,
    code: impl FnOnce(Scalar<'m>, Value<'m>) -> Result<Value<'m>, LoweringError>,
) -> Result<Coordinate<'m>, LoweringError> {
    let tile = coordinate_tile(builder, coordinate, &index.layout)?;
    Ok(Coordinate::Tile(super::pointwise::map(builder, &[&tile], DType::I32, |scalar, values| {
        code(scalar, values[0])
    })?))
}

impl<'m> Evaluator<'_, 'm> {
    pub(super) fn reshape(
        &self,
        builder: TileBuilder<'m>,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let index = index.reshaped(builder, &self.body.shape(node.operands[0]).sizes)?;
        self.value_at(builder, node.operands[0], &index, mask)
    }

    pub(super) fn transpose(
        &self,
        builder: TileBuilder<'m>,
        transpose: &Transpose,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let sizes = &self.body.shape(node.operands[0]).sizes;
        let outer = index.coordinates(builder)?;
        let mut coordinates = vec![Coordinate::Constant(0); sizes.len()];
        for (position, dim) in transpose.permutation.iter().enumerate() {
            coordinates[*dim as usize] = outer[position].clone();
        }
        let last_stays = transpose.permutation.last().is_some_and(|dim| *dim as usize + 1 == sizes.len());
        let contiguity = if last_stays { index.contiguity } else { 1 };
        let index = Index::from_coordinates(sizes, coordinates, &index.layout, contiguity);
        self.value_at(builder, node.operands[0], &index, mask)
    }

    pub(super) fn broadcast(
        &self,
        builder: TileBuilder<'m>,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let index = self.broadcast_index(builder, index, &self.body.shape(node.operands[0]).sizes)?;
        self.value_at(builder, node.operands[0], &index, mask)
    }

    pub(super) fn slice(
        &self,
        builder: TileBuilder<'m>,
        slice: &Slice,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let sizes = &self.body.shape(node.operands[0]).sizes;
        let starts = numbers("graph.slice", &slice.starts)?;
        let mut coordinates = index.coordinates(builder)?;
        for (dim, coordinate) in coordinates.iter_mut().enumerate() {
            let step = slice.steps[dim] as i32;
            if starts[dim] == 0 && step == 1 {
                continue;
            }
            *coordinate = map_coordinate(builder, coordinate, index, |scalar, value| {
                Ok(scalar.offset(scalar.scale(value, step)?, starts[dim])?)
            })?;
        }
        let last = sizes.len() - 1;
        let whole_rows = slice.steps[last] == 1 && starts[last] == 0;
        let contiguity = if whole_rows { index.contiguity } else { 1 };
        let index = Index::from_coordinates(sizes, coordinates, &index.layout, contiguity);
        self.value_at(builder, node.operands[0], &index, mask)
    }

    pub(super) fn pad(
        &self,
        builder: TileBuilder<'m>,
        pad: &Pad,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let sizes = &self.body.shape(node.operands[0]).sizes;
        let low = numbers("graph.pad", &pad.low)?;
        let high = numbers("graph.pad", &pad.high)?;
        let mut coordinates = index.coordinates(builder)?;
        let mut inside: Mask<'m> = None;
        for (dim, coordinate) in coordinates.iter_mut().enumerate() {
            if low[dim] == 0 && high[dim] == 0 {
                continue;
            }
            // Negative padding crops first: what is mirrored or repeated is the part [begin, end) that stays.
            let begin = (-low[dim]).max(0);
            let end = sizes[dim] as i32 - (-high[dim]).max(0);
            let length = end - begin;
            let shifted =
                map_coordinate(builder, coordinate, index, |scalar, value| Ok(scalar.offset(value, -low[dim])?))?;
            *coordinate = match pad.mode {
                PadMode::Constant => {
                    let tile = coordinate_tile(builder, &shifted, &index.layout)?;
                    let within = builder.map1(&[&tile], &index.layout, DType::Bool, |scalar, values| {
                        Ok(in_range(scalar, values[0], begin, end)?)
                    })?;
                    inside = and_masks(builder, &inside, &within)?;
                    shifted
                }
                PadMode::Edge => {
                    map_coordinate(builder, &shifted, index, |scalar, value| clamp(scalar, value, begin, end - 1))?
                }
                PadMode::Wrap => map_coordinate(builder, &shifted, index, |scalar, value| {
                    let relative = floor_modulo(scalar, scalar.offset(value, -begin)?, length)?;
                    Ok(scalar.offset(relative, begin)?)
                })?,
                PadMode::Reflect => map_coordinate(builder, &shifted, index, |scalar, value| {
                    // A triangle wave of period 2·(length - 1).
                    let period = (2 * (length - 1)).max(1);
                    let relative = floor_modulo(scalar, scalar.offset(value, -begin)?, period)?;
                    let mirrored = scalar.op("arith.subi", &[scalar.i32(period)?, relative])?;
                    let picked = scalar.op("arith.minsi", &[relative, mirrored])?;
                    let picked = if length <= 1 { scalar.i32(0)? } else { picked };
                    Ok(scalar.offset(picked, begin)?)
                })?,
            };
        }
        let index = Index::from_coordinates(sizes, coordinates, &index.layout, 1);
        let Some(inside) = inside else {
            return self.value_at(builder, node.operands[0], &index, mask);
        };
        let value_mask = and_masks(builder, mask, &inside)?;
        let value = self.value_at(builder, node.operands[0], &index, &value_mask)?;
        let scalar_index = Index::from_coordinates(&[], Vec::new(), &index.layout, 1);
        let padding = self.value_at(builder, node.operands[1], &scalar_index, mask)?;
        let element = register_type(node.results[0].dtype);
        Ok(builder.map1(&[&inside, &value, &padding], &index.layout, element, |scalar, values| {
            Ok(scalar.select(values[0], values[1], values[2])?)
        })?)
    }

    pub(super) fn concat(
        &self,
        builder: TileBuilder<'m>,
        concat: &Concat,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        if node.operands.len() > MAX_CONCAT {
            let reason = format!("{} operands in one kernel, more than {MAX_CONCAT}", node.operands.len());
            return Err(LoweringError::unsupported("graph.concat", reason));
        }
        let rank = index.sizes.len() as i64;
        let axis = if concat.axis < 0 { concat.axis + rank } else { concat.axis } as usize;
        let coordinates = index.coordinates(builder)?;
        let along = coordinate_tile(builder, &coordinates[axis], &index.layout)?;
        let element = register_type(node.results[0].dtype);
        let mut result: Option<Tile<'m>> = None;
        let mut begin = 0i32;
        let aligned = axis + 1 != index.sizes.len();
        for operand in &node.operands {
            let sizes = &self.body.shape(*operand).sizes;
            let end = begin + sizes[axis] as i32;
            if end == begin {
                continue;
            }
            let within = builder.map1(&[&along], &index.layout, DType::Bool, |scalar, values| {
                Ok(in_range(scalar, values[0], begin, end)?)
            })?;
            let mut own = coordinates.clone();
            own[axis] =
                map_coordinate(builder, &coordinates[axis], index, |scalar, value| Ok(scalar.offset(value, -begin)?))?;
            let contiguity = if aligned { index.contiguity } else { 1 };
            let own = Index::from_coordinates(sizes, own, &index.layout, contiguity);
            let own_mask = and_masks(builder, mask, &within)?;
            let value = self.value_at(builder, *operand, &own, &own_mask)?;
            result = Some(match result {
                None => value,
                Some(before) => {
                    builder.map1(&[&within, &value, &before], &index.layout, element, |scalar, values| {
                        Ok(scalar.select(values[0], values[1], values[2])?)
                    })?
                }
            });
            begin = end;
        }
        result.ok_or_else(|| LoweringError::unsupported("graph.concat", "all operands are empty"))
    }
}

/// begin <= value < end.
pub(super) fn in_range<'m>(
    scalar: Scalar<'m>,
    value: Value<'m>,
    begin: i32,
    end: i32,
) -> Result<Value<'m>, tenon_ir::IrError> {
    // One unsigned comparison: below `begin` wraps to a large number.
    let shifted = scalar.offset(value, -begin)?;
    scalar.compare_int(IntegerPredicate::UnsignedLess, shifted, scalar.i32(end - begin)?)
}

/// Clamps an i32 to [low, high].
pub(super) fn clamp<'m>(scalar: Scalar<'m>, value: Value<'m>, low: i32, high: i32) -> Result<Value<'m>, LoweringError> {
    let value = scalar.op("arith.maxsi", &[value, scalar.i32(low)?])?;
    Ok(scalar.op("arith.minsi", &[value, scalar.i32(high)?])?)
}

/// value mod divisor in [0, divisor), for a value of any sign.
fn floor_modulo<'m>(scalar: Scalar<'m>, value: Value<'m>, divisor: i32) -> Result<Value<'m>, LoweringError> {
    let constant = scalar.i32(divisor)?;
    let remainder = scalar.op("arith.remsi", &[value, constant])?;
    let negative = scalar.compare_int(IntegerPredicate::SignedLess, remainder, scalar.i32(0)?)?;
    let moved = scalar.add(remainder, constant)?;
    Ok(scalar.select(negative, moved, remainder)?)
}
