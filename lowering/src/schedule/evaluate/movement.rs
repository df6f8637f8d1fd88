//! Data movement: reshape, transpose, broadcast, slice, pad, concat.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Pad, PadMode, Slice, Transpose};
use tenon_hw_dialect::{IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::{Evaluator, Mask, and_masks, coordinate_tile};
use crate::LoweringError;
use crate::schedule::body::{Node, axis};
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::register_type;
use crate::schedule::size::{Amount, Size};

/// Every place of a concatenation tries every operand.
const MAX_CONCAT: usize = 512;

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
    fn amounts(&self, expressions: &[DimExpr]) -> Result<Vec<Amount>, LoweringError> {
        expressions.iter().map(|expression| self.body.extents.amount(expression)).collect()
    }

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
        let starts = self.amounts(&slice.starts)?;
        let mut coordinates = index.coordinates(builder)?;
        for (dim, coordinate) in coordinates.iter_mut().enumerate() {
            let step = slice.steps[dim] as i32;
            if starts[dim].is_zero() && step == 1 {
                continue;
            }
            *coordinate = map_coordinate(builder, coordinate, index, |scalar, value| {
                Ok(starts[dim].add(scalar, scalar.scale(value, step)?)?)
            })?;
        }
        let last = sizes.len() - 1;
        let whole_rows = slice.steps[last] == 1 && starts[last].is_zero();
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
        let (low, high) = (self.amounts(&pad.low)?, self.amounts(&pad.high)?);
        let mut coordinates = index.coordinates(builder)?;
        let mut inside: Mask<'m> = None;
        for (dim, coordinate) in coordinates.iter_mut().enumerate() {
            if low[dim].is_zero() && high[dim].is_zero() {
                continue;
            }
            let shifted =
                map_coordinate(builder, coordinate, index, |scalar, value| Ok(low[dim].subtract(scalar, value)?))?;
            // Negative padding crops first: what is mirrored or repeated is the part [begin, end) that stays.
            let (known_low, known_high) = (known(low[dim]), known(high[dim]));
            let range = match (known_low, known_high, sizes[dim].known()) {
                (Some(low), Some(high), Some(size)) => {
                    Range::Known { begin: (-low).max(0), end: size as i32 - (-high).max(0) }
                }
                // Padding that is known at launch only does not crop.
                (low, high, _) if low.unwrap_or(0) >= 0 && high.unwrap_or(0) >= 0 => Range::Whole(sizes[dim]),
                _ => {
                    return Err(LoweringError::unsupported(
                        "graph.pad",
                        "cropping of a dimension whose size is known at launch only",
                    ));
                }
            };
            *coordinate = match pad.mode {
                PadMode::Constant => {
                    let tile = coordinate_tile(builder, &shifted, &index.layout)?;
                    let within = builder.map1(&[&tile], &index.layout, DType::Bool, |scalar, values| {
                        Ok(match range {
                            Range::Known { begin, end } => in_range(scalar, values[0], begin, end)?,
                            Range::Whole(size) => below(scalar, values[0], size)?,
                        })
                    })?;
                    inside = and_masks(builder, &inside, &within)?;
                    shifted
                }
                PadMode::Edge => map_coordinate(builder, &shifted, index, |scalar, value| {
                    let value = scalar.op("arith.maxsi", &[value, scalar.i32(range.begin())?])?;
                    let last = scalar.offset(range.end(scalar)?, -1)?;
                    Ok(scalar.op("arith.minsi", &[value, last])?)
                })?,
                PadMode::Wrap => map_coordinate(builder, &shifted, index, |scalar, value| {
                    let length = range.length(scalar)?;
                    let relative = floor_modulo(scalar, scalar.offset(value, -range.begin())?, length)?;
                    Ok(scalar.offset(relative, range.begin())?)
                })?,
                PadMode::Reflect => map_coordinate(builder, &shifted, index, |scalar, value| {
                    // A triangle wave of period 2·(length - 1).
                    let last = scalar.offset(range.length(scalar)?, -1)?;
                    let one = scalar.i32(1)?;
                    let period = scalar.op("arith.maxsi", &[scalar.scale(last, 2)?, one])?;
                    let relative = floor_modulo(scalar, scalar.offset(value, -range.begin())?, period)?;
                    let mirrored = scalar.op("arith.subi", &[period, relative])?;
                    let picked = scalar.op("arith.minsi", &[relative, mirrored])?;
                    // A single element has a period of 1, in which the wave stays at 0.
                    let picked =
                        scalar.op("arith.minsi", &[picked, scalar.op("arith.maxsi", &[last, scalar.i32(0)?])?])?;
                    Ok(scalar.offset(picked, range.begin())?)
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
        let axis = axis(concat.axis, index.sizes.len());
        let coordinates = index.coordinates(builder)?;
        let along = coordinate_tile(builder, &coordinates[axis], &index.layout)?;
        let element = register_type(node.results[0].dtype);
        let mut result: Option<Tile<'m>> = None;
        let mut begin = Place::default();
        let aligned = axis + 1 != index.sizes.len();
        for operand in &node.operands {
            let sizes = &self.body.shape(*operand).sizes;
            if sizes[axis] == 0 {
                continue;
            }
            let within = builder.map1(&[&along], &index.layout, DType::Bool, |scalar, values| {
                Ok(below(scalar, begin.subtracted_from(scalar, values[0])?, sizes[axis])?)
            })?;
            let mut own = coordinates.clone();
            own[axis] = map_coordinate(builder, &coordinates[axis], index, |scalar, value| {
                Ok(begin.subtracted_from(scalar, value)?)
            })?;
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
            begin.advance(sizes[axis]);
        }
        match result {
            Some(result) => Ok(result),
            // Nothing but empty operands: nobody looks at the value.
            None => Ok(builder.zeros(element, &index.layout)?),
        }
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

/// 0 <= value < size.
pub(super) fn below<'m>(scalar: Scalar<'m>, value: Value<'m>, size: Size) -> Result<Value<'m>, tenon_ir::IrError> {
    scalar.compare_int(IntegerPredicate::UnsignedLess, value, size.value(scalar)?)
}

fn known(amount: Amount) -> Option<i32> {
    match amount {
        Amount::Number(number) => Some(number),
        Amount::Extent(_) => None,
    }
}

/// The part of a dimension that padding keeps.
#[derive(Clone, Copy)]
enum Range {
    Known { begin: i32, end: i32 },
    Whole(Size),
}

impl Range {
    fn begin(self) -> i32 {
        match self {
            Range::Known { begin, .. } => begin,
            Range::Whole(_) => 0,
        }
    }

    fn end<'m>(self, scalar: Scalar<'m>) -> Result<Value<'m>, tenon_ir::IrError> {
        match self {
            Range::Known { end, .. } => scalar.i32(end),
            Range::Whole(size) => size.value(scalar),
        }
    }

    fn length<'m>(self, scalar: Scalar<'m>) -> Result<Value<'m>, tenon_ir::IrError> {
        match self {
            Range::Known { begin, end } => scalar.i32(end - begin),
            Range::Whole(size) => size.value(scalar),
        }
    }
}

/// A place along a dimension: a number plus extents.
#[derive(Default)]
struct Place {
    number: i32,
    extents: Vec<Size>,
}

impl Place {
    fn advance(&mut self, size: Size) {
        match size.known() {
            Some(size) => self.number = self.number.wrapping_add(size as i32),
            None => self.extents.push(size),
        }
    }

    fn subtracted_from<'m>(&self, scalar: Scalar<'m>, value: Value<'m>) -> Result<Value<'m>, tenon_ir::IrError> {
        let value = scalar.offset(value, -self.number)?;
        self.extents.iter().try_fold(value, |value, size| scalar.op("arith.subi", &[value, size.value(scalar)?]))
    }
}

/// value mod constant in [0, constant), for a value of any sign.
fn floor_modulo<'m>(scalar: Scalar<'m>, value: Value<'m>, constant: Value<'m>) -> Result<Value<'m>, LoweringError> {
    let remainder = scalar.op("arith.remsi", &[value, constant])?;
    let negative = scalar.compare_int(IntegerPredicate::SignedLess, remainder, scalar.i32(0)?)?;
    let moved = scalar.add(remainder, constant)?;
    Ok(scalar.select(negative, moved, remainder)?)
}
