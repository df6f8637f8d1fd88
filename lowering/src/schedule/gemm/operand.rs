//! Offsets and masks of a tile of an operand.
//!
//! A coordinate is a sum over loops, so it is a row part plus a column part; each part is computed on a line, one value a row or column, and
//! spread over the tile. Only dimensions that must be checked are put together place by place.

use tenon_hw_dialect::{IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::{IrError, Value};
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use super::problem::{Axis, Operand, OperandDim};
use crate::LoweringError;
use crate::schedule::index::line;
use crate::schedule::size::{Size, offset_type};

/// What the rows or the columns of a tile contribute, spread over the tile.
#[derive(Clone)]
pub(super) struct Part<'m> {
    /// Offset by unchecked dimensions, in elements.
    offset: Option<Tile<'m>>,
    /// Coordinate of each checked dimension before offset and division; none where the loops have no part in it.
    coordinates: Vec<Option<Tile<'m>>>,
    /// Rows or columns that exist; none if all do.
    mask: Option<Tile<'m>>,
}

/// Indices of an axis's loops for a number below their product.
pub(super) fn indices<'m>(
    code: Scalar<'m>,
    number: Value<'m>,
    loops: &[(Size, Size)],
) -> Result<Vec<Value<'m>>, IrError> {
    let mut rest = number;
    let mut found = Vec::new();
    for (position, (size, _)) in loops.iter().enumerate().rev() {
        let (quotient, own) = if position == 0 { (rest, rest) } else { size.div_rem(code, rest)? };
        found.push(own);
        rest = quotient;
    }
    found.reverse();
    Ok(found)
}

/// Σ coefficient · index over the loops of `axis`; none without any.
fn partial<'m>(
    code: Scalar<'m>,
    dim: &OperandDim,
    axis: Axis,
    indices: &[Value<'m>],
) -> Result<Option<Value<'m>>, IrError> {
    let mut sum = None;
    for term in dim.terms.iter().filter(|term| term.axis == axis) {
        let product = code.scale(indices[term.position], term.coefficient)?;
        sum = Some(match sum {
            None => product,
            Some(sum) => code.add(sum, product)?,
        });
    }
    Ok(sum)
}

impl Operand {
    fn checked(&self) -> impl Iterator<Item = &OperandDim> {
        self.dims.iter().filter(|dim| dim.checked)
    }

    /// The part of `axis`, which runs along `dimension` of a tile in `layout`, from `start` on.
    pub(super) fn part<'m>(
        &self,
        builder: TileBuilder<'m>,
        axis: Axis,
        loops: &[(Size, Size)],
        layout: &TileLayout,
        dimension: usize,
        start: Value<'m>,
        masked: bool,
    ) -> Result<Part<'m>, LoweringError> {
        let number = line(builder, layout, dimension, start)?;
        let has = |dim: &OperandDim| dim.terms.iter().any(|term| term.axis == axis);
        let with_offset = self.dims.iter().any(|dim| !dim.checked && has(dim));
        let with_coordinate: Vec<bool> = self.checked().map(has).collect();
        let mut elements = Vec::new();
        elements.extend(with_offset.then_some(offset_type(self.wide)));
        elements.extend(with_coordinate.iter().filter(|has| **has).map(|_| DType::I32));
        elements.extend(masked.then_some(DType::Bool));
        if elements.is_empty() {
            return Ok(Part { offset: None, coordinates: vec![None; with_coordinate.len()], mask: None });
        }
        let extent: Size = loops.iter().map(|(size, _)| size).product();
        let tiles = builder.map(&[&number], &number.ty.layout, &elements, |code, values| {
            let indices = indices(code, values[0], loops)?;
            let mut results = Vec::new();
            if with_offset {
                let mut sum = None;
                for dim in self.dims.iter().filter(|dim| !dim.checked) {
                    let Some(coordinate) = partial(code, dim, axis, &indices)? else { continue };
                    let term = dim.stride.scale_to(code, coordinate, self.wide)?;
                    sum = Some(match sum {
                        None => term,
                        Some(sum) => code.add(sum, term)?,
                    });
                }
                results.extend(sum);
            }
            for dim in self.checked() {
                results.extend(partial(code, dim, axis, &indices)?);
            }
            if masked {
                results.push(code.compare_int(IntegerPredicate::UnsignedLess, values[0], extent.value(code)?)?);
            }
            Ok(results)
        })?;
        let mut tiles = tiles.into_iter();
        let mut next = |wanted: bool| -> Result<Option<Tile<'m>>, LoweringError> {
            match wanted.then(|| tiles.next()).flatten() {
                Some(tile) => Ok(Some(builder.spread(&tile, dimension, layout)?)),
                None => Ok(None),
            }
        };
        let offset = next(with_offset)?;
        let coordinates = with_coordinate.into_iter().map(&mut next).collect::<Result<Vec<_>, _>>()?;
        Ok(Part { offset, coordinates, mask: next(masked)? })
    }

    /// Offset of a batch, a scalar.
    pub(super) fn batch_offset<'m>(
        &self,
        code: Scalar<'m>,
        batch: Value<'m>,
        loops: &[(Size, Size)],
    ) -> Result<Value<'m>, LoweringError> {
        let indices = indices(code, batch, loops)?;
        let mut sum = code.int(0, offset_type(self.wide))?;
        for dim in &self.dims {
            if let Some(coordinate) = partial(code, dim, Axis::Batch, &indices)? {
                sum = code.add(sum, dim.stride.scale_to(code, coordinate, self.wide)?)?;
            }
        }
        Ok(sum)
    }

    /// Offsets of a tile's places and where there is an element.
    pub(super) fn offsets<'m>(
        &self,
        builder: TileBuilder<'m>,
        layout: &TileLayout,
        batch: Value<'m>,
        rows: &Part<'m>,
        columns: &Part<'m>,
    ) -> Result<(Tile<'m>, Option<Tile<'m>>), LoweringError> {
        let mut inputs: Vec<Tile<'m>> = Vec::new();
        let mut put = |tile: &Option<Tile<'m>>| -> Option<usize> {
            tile.as_ref().map(|tile| {
                inputs.push(tile.clone());
                inputs.len() - 1
            })
        };
        let offsets = [put(&rows.offset), put(&columns.offset)];
        let coordinates: Vec<_> =
            rows.coordinates.iter().zip(&columns.coordinates).map(|(row, column)| [put(row), put(column)]).collect();
        let masks = [put(&rows.mask), put(&columns.mask)];
        let masked = masks.iter().any(Option::is_some) || !coordinates.is_empty();
        let mut elements = vec![offset_type(self.wide)];
        elements.extend(masked.then_some(DType::Bool));
        let references: Vec<_> = inputs.iter().collect();
        let dims: Vec<_> = self.checked().cloned().collect();
        let tiles = builder.map(&references, layout, &elements, |code, values| {
            let both = |pair: &[Option<usize>; 2]| -> Result<Option<Value<'m>>, IrError> {
                Ok(match pair {
                    [Some(a), Some(b)] => Some(code.add(values[*a], values[*b])?),
                    [Some(a), None] | [None, Some(a)] => Some(values[*a]),
                    [None, None] => None,
                })
            };
            let mut offset = match both(&offsets)? {
                Some(offset) => code.add(offset, batch)?,
                None => batch,
            };
            let mut inside: Option<Value<'m>> = None;
            let and = |inside: Option<Value<'m>>, new: Value<'m>| -> Result<Option<Value<'m>>, IrError> {
                Ok(Some(match inside {
                    None => new,
                    Some(before) => code.op("arith.andi", &[before, new])?,
                }))
            };
            for mask in masks.iter().flatten() {
                inside = and(inside, values[*mask])?;
            }
            for (dim, pair) in dims.iter().zip(&coordinates) {
                let coordinate = match both(pair)? {
                    Some(coordinate) => code.offset(coordinate, dim.offset)?,
                    None => code.i32(dim.offset)?,
                };
                let mut element = coordinate;
                if dim.divisor != 1 {
                    let divisor = code.i32(dim.divisor)?;
                    element = code.op("arith.divsi", &[coordinate, divisor])?;
                    let remainder = code.op("arith.remsi", &[coordinate, divisor])?;
                    inside = and(inside, code.compare_int(IntegerPredicate::Equal, remainder, code.i32(0)?)?)?;
                }
                inside =
                    and(inside, code.compare_int(IntegerPredicate::UnsignedLess, element, dim.size.value(code)?)?)?;
                offset = code.add(offset, dim.stride.scale_to(code, element, self.wide)?)?;
            }
            let mut results = vec![offset];
            results.extend(inside);
            Ok(results)
        })?;
        let mut tiles = tiles.into_iter();
        let offset = tiles.next().ok_or_else(|| LoweringError::unsupported("hw.map", "no result"))?;
        Ok((offset, tiles.next()))
    }
}
