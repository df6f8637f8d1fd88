//! Constants, counters, elementwise functions, casts and quantisation.

use tenon_graph_dialect::operators::{Cast, Dequantize, DimExtent, Function, Iota, Quantize};
use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::{DType, Overflow, Tensor};

use super::{Evaluator, Mask, coordinate_tile, splat};
use crate::LoweringError;
use crate::schedule::body::{Node, ValueRef, axis};
use crate::schedule::control::keep;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::{self, Number, register_type};
use crate::schedule::size::Size;

impl<'m> Evaluator<'_, 'm> {
    pub(super) fn constant(
        &self,
        builder: TileBuilder<'m>,
        value: &Tensor,
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        if value.element_count() != 1 {
            return Err(LoweringError::unsupported(
                "graph.constant",
                "constants inside a kernel must have one element",
            ));
        }
        let wrong = || LoweringError::unsupported("graph.constant", format!("a literal of {}", value.dtype()));
        let number = if value.dtype().is_float() {
            Number::Float(value.get_f64(0).ok_or_else(wrong)?)
        } else {
            // Wraps for ui64 beyond i64, which keeps the bits.
            Number::Integer(value.get_bits(0).map(|bits| bits as i64).ok_or_else(wrong)?)
        };
        splat(builder, number, value.dtype(), &index.layout)
    }

    pub(super) fn iota(
        &self,
        builder: TileBuilder<'m>,
        iota: &Iota,
        node: &Node,
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let axis = axis(iota.axis, node.results[0].sizes.len());
        let coordinate = coordinate_tile(builder, &index.coordinates(builder)?[axis], &index.layout)?;
        cast_tile(builder, &coordinate, DType::I32, iota.dtype)
    }

    pub(super) fn extent(
        &self,
        builder: TileBuilder<'m>,
        extent: &DimExtent,
        node: &Node,
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let sizes = &self.body.shape(node.operands[0]).sizes;
        let axis = axis(extent.axis, sizes.len());
        Ok(builder.splat(sizes[axis].wide_value(builder.scalar())?, DType::I64, &index.layout)?)
    }

    /// Values of the operands, broadcast to the result's shape.
    fn operands(
        &self,
        builder: TileBuilder<'m>,
        operands: &[ValueRef],
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Vec<Tile<'m>>, LoweringError> {
        operands
            .iter()
            .map(|operand| {
                let index = self.broadcast_index(builder, index, &self.body.shape(*operand).sizes)?;
                self.value_at(builder, *operand, &index, mask)
            })
            .collect()
    }

    pub(super) fn elementwise(
        &self,
        builder: TileBuilder<'m>,
        function: Function,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let operands = self.operands(builder, &node.operands, index, mask)?;
        // The type that the function works in: that of the values, for `select` the last operand.
        let dtype = node.operands.last().map_or(node.results[0].dtype, |operand| self.body.shape(*operand).dtype);
        let inputs: Vec<_> = operands.iter().collect();
        map(builder, &inputs, register_type(node.results[0].dtype), |scalar, values| {
            scalar::apply(scalar, function, dtype, values)
        })
    }

    pub(super) fn cast(
        &self,
        builder: TileBuilder<'m>,
        cast: &Cast,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let value = self.value_at(builder, node.operands[0], index, mask)?;
        let (from, to) = (self.body.shape(node.operands[0]).dtype, node.results[0].dtype);
        let overflow = if cast.saturate { Overflow::Saturate } else { Overflow::Special };
        map(builder, &[&value], register_type(to), |scalar, values| {
            scalar::cast_with(scalar, values[0], from, to, overflow)
        })
    }

    /// The same bits as another element type of as many.
    pub(super) fn bitcast(
        &self,
        builder: TileBuilder<'m>,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let value = self.value_at(builder, node.operands[0], index, mask)?;
        let (from, to) = (self.body.shape(node.operands[0]).dtype, node.results[0].dtype);
        map(builder, &[&value], register_type(to), |scalar, values| {
            let bits =
                if from == DType::Bool { scalar.convert("arith.extui", values[0], DType::I8)? } else { values[0] };
            if to == DType::Bool {
                return Ok(scalar.compare_int(IntegerPredicate::NotEqual, bits, scalar.int(0, DType::I8)?)?);
            }
            let same = bits.ty() == scalar.ty(register_type(to));
            scalar::wrap(scalar, if same { bits } else { scalar.convert("arith.bitcast", bits, to)? }, to)
        })
    }

    /// Index of the scale of each place.
    fn scale_index(
        &self,
        builder: TileBuilder<'m>,
        along: i64,
        block_size: i64,
        scale: ValueRef,
        index: &Index<'m>,
    ) -> Result<Index<'m>, LoweringError> {
        let sizes = self.body.shape(scale).sizes.clone();
        if sizes.iter().product::<Size>() == 1 {
            return Ok(Index::from_coordinates(&sizes, vec![Coordinate::Constant(0); sizes.len()], &index.layout, 1));
        }
        let axis = axis(along, index.sizes.len());
        let mut coordinates = index.coordinates(builder)?;
        let along = coordinates.get(axis).cloned().unwrap_or(Coordinate::Constant(0));
        if block_size == 0 {
            return Ok(Index::from_coordinates(&sizes, vec![along], &index.layout, 1));
        }
        coordinates[axis] = match along {
            Coordinate::Constant(value) => Coordinate::Constant(value / block_size as i32),
            Coordinate::Tile(tile) => {
                Coordinate::Tile(builder.map1(&[&tile], &index.layout, DType::I32, |scalar, values| {
                    Ok(scalar.div_rem(values[0], block_size as i32)?.0)
                })?)
            }
        };
        Ok(Index::from_coordinates(&sizes, coordinates, &index.layout, 1))
    }

    pub(super) fn quantize(
        &self,
        builder: TileBuilder<'m>,
        quantize: &Quantize,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let to = quantize.dtype;
        let scale_index = self.scale_index(builder, quantize.axis, quantize.block_size, node.operands[1], index)?;
        let x = self.value_at(builder, node.operands[0], index, mask)?;
        let scale = self.value_at(builder, node.operands[1], &scale_index, mask)?;
        let zero_point = self.value_at(builder, node.operands[2], &scale_index, mask)?;
        let (x_type, scale_type) = (self.body.shape(node.operands[0]).dtype, self.body.shape(node.operands[1]).dtype);
        let bits = to.bits();
        let (low, high) = if to.is_signed() {
            (-(2f64.powi(bits as i32 - 1)), 2f64.powi(bits as i32 - 1) - 1.0)
        } else {
            (0.0, 2f64.powi(bits as i32) - 1.0)
        };
        map(builder, &[&x, &scale, &zero_point], register_type(to), |scalar, values| {
            let x = scalar::cast(scalar, values[0], x_type, DType::F32)?;
            let scale = scalar::cast(scalar, values[1], scale_type, DType::F32)?;
            let zero_point = scalar::cast(scalar, values[2], to, DType::F32)?;
            let quotient = scalar.op("arith.divf", &[x, scale])?;
            // The quotient is a number of the wider of the two types.
            let precision = quotient_type(x_type, scale_type);
            let quotient = scalar::widen(scalar, scalar::narrow(scalar, quotient, precision)?, precision)?;
            if to.is_float() {
                let shifted = scalar.op("arith.addf", &[quotient, zero_point])?;
                let shifted = scalar::widen(scalar, scalar::narrow(scalar, shifted, precision)?, precision)?;
                return scalar::cast(scalar, shifted, DType::F32, to);
            }
            let rounded = scalar.op("math.roundeven", &[quotient])?;
            let is_number = scalar.compare_float(FloatPredicate::Ordered, rounded, rounded)?;
            let rounded = scalar.select(is_number, rounded, scalar.float(0.0, DType::F32)?)?;
            let shifted = scalar.op("arith.addf", &[rounded, zero_point])?;
            let clamped = clamp(scalar, shifted, low, high)?;
            scalar::cast(scalar, clamped, DType::F32, to)
        })
    }

    pub(super) fn dequantize(
        &self,
        builder: TileBuilder<'m>,
        dequantize: &Dequantize,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let from = self.body.shape(node.operands[0]).dtype;
        let scale_index = self.scale_index(builder, dequantize.axis, dequantize.block_size, node.operands[1], index)?;
        let x = self.value_at(builder, node.operands[0], index, mask)?;
        let scale = self.value_at(builder, node.operands[1], &scale_index, mask)?;
        let zero_point = self.value_at(builder, node.operands[2], &scale_index, mask)?;
        let scale_type = self.body.shape(node.operands[1]).dtype;
        map(builder, &[&x, &scale, &zero_point], register_type(dequantize.dtype), |scalar, values| {
            let difference = if from.is_float() {
                let wide = |value| scalar::widen(scalar, value, from);
                scalar.op("arith.subf", &[wide(values[0])?, wide(values[2])?])?
            } else {
                let wide = |value| scalar::cast(scalar, value, from, DType::I64);
                let difference = scalar.op("arith.subi", &[wide(values[0])?, wide(values[2])?])?;
                scalar::cast(scalar, difference, DType::I64, DType::F32)?
            };
            let scale = scalar::cast(scalar, values[1], scale_type, DType::F32)?;
            let product = scalar.op("arith.mulf", &[difference, scale])?;
            scalar::cast(scalar, product, DType::F32, dequantize.dtype)
        })
    }
}

/// Type of x / scale: the wider of the two. A scale of `f8E8M0FNU` leaves the type of x.
fn quotient_type(x: DType, scale: DType) -> DType {
    match (x, scale) {
        (DType::F16 | DType::BF16, scale) if scale == x || scale == DType::F8E8M0FNU => x,
        _ => DType::F32,
    }
}

/// Clamps to numbers; NaN becomes the lower.
fn clamp<'m>(scalar: Scalar<'m>, value: Value<'m>, low: f64, high: f64) -> Result<Value<'m>, LoweringError> {
    let low = scalar.float(low, DType::F32)?;
    let high = scalar.float(high, DType::F32)?;
    let above = scalar.compare_float(FloatPredicate::OrderedGreater, value, low)?;
    let value = scalar.select(above, value, low)?;
    let below = scalar.compare_float(FloatPredicate::OrderedLess, value, high)?;
    Ok(scalar.select(below, value, high)?)
}

/// Scalar code that may fail to lower, over tiles of one layout.
pub(crate) fn map<'m>(
    builder: TileBuilder<'m>,
    inputs: &[&Tile<'m>],
    result: DType,
    body: impl FnOnce(Scalar<'m>, &[Value<'m>]) -> Result<Value<'m>, LoweringError>,
) -> Result<Tile<'m>, LoweringError> {
    let layout = inputs.first().map(|tile| tile.ty.layout.clone());
    let Some(layout) = layout else { return Err(LoweringError::unsupported("hw.map", "no operands")) };
    let mut failure = None;
    let tile = builder.map1(inputs, &layout, result, |scalar, values| {
        body(scalar, values).map_err(|error| keep(error, &mut failure))
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(tile?),
    }
}

/// A tile of one element type as another.
pub(crate) fn cast_tile<'m>(
    builder: TileBuilder<'m>,
    tile: &Tile<'m>,
    from: DType,
    to: DType,
) -> Result<Tile<'m>, LoweringError> {
    if from == to {
        return Ok(tile.clone());
    }
    map(builder, &[tile], register_type(to), |scalar, values| scalar::cast(scalar, values[0], from, to))
}
