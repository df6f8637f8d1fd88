//! Interpolation.
//!
//! Each place looks up, dimension by dimension, the neighbours of the position that it maps to, and combines them from the last dimension to
//! the first, in the order of the reference interpreter. Positions are quotients of integers where they can be ([`rational`]), so that floor
//! and fraction are exact; else they are computed in f64 ([`position`]).

mod position;
mod rational;

use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode};
use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use self::position::{nearest, nearest_code, position, position_code, region};
use self::rational::Rational;
use super::{Evaluator, Mask, coordinate_tile, splat};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::pointwise;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::{self, Number, compute_type, register_type};
use crate::schedule::size::Size;

/// Most neighbours that are read without a loop.
const MAX_UNROLLED: usize = 16;

fn number(size: Size) -> Option<u32> {
    u32::try_from(size.known()?).ok()
}

/// An interpolated dimension.
struct Along<'m> {
    dim: usize,
    input: Size,
    /// First of the neighbours, which may lie outside.
    first: Tile<'m>,
    /// Weight of each.
    weights: Vec<Tile<'m>>,
}

/// What a place maps to in a dimension.
struct Place<'m> {
    /// The integer below the position.
    floor: Tile<'m>,
    /// What the position is above it, in the type that is computed in.
    fraction: Tile<'m>,
}

impl<'m> Evaluator<'_, 'm> {
    pub(super) fn resize(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let sizes = self.body.shape(node.operands[0]).sizes.clone();
        let dtype = node.results[0].dtype;
        let mut coordinates = index.coordinates(builder)?;
        let mut outside: Mask<'m> = None;
        let mut along = Vec::new();
        for dim in 0..sizes.len() {
            let pair = [sizes[dim], index.sizes[dim]];
            if stays(resize, dim, pair) {
                continue;
            }
            if pair.iter().any(|size| size.capacity() >= 1 << 31) {
                return Err(LoweringError::unsupported("graph.resize", "a dimension of 2^31 or more"));
            }
            if resize.coordinates == CoordinateMode::TfCropAndResize {
                let here = self.outside(builder, resize, dim, &coordinates[dim], pair, index)?;
                outside = Some(match outside {
                    None => here,
                    Some(before) => builder.map1(&[&before, &here], &index.layout, DType::Bool, |code, values| {
                        Ok(code.op("arith.ori", values)?)
                    })?,
                });
            }
            if resize.mode == ResizeMode::Nearest {
                coordinates[dim] = self.nearest(builder, resize, dim, &coordinates[dim], pair, index)?;
            } else {
                let place = self.place(builder, resize, dim, &coordinates[dim], pair, compute_type(dtype), index)?;
                along.push(self.neighbours(builder, resize, dim, pair[0], &place)?);
            }
        }
        let value = if along.is_empty() {
            let at = Index::from_coordinates(&sizes, coordinates, &index.layout, 1);
            self.value_at(builder, node.operands[0], &at, mask)?
        } else {
            let sum = self.interpolate(builder, node, &along, &coordinates, index, mask)?;
            pointwise::map(builder, &[&sum], register_type(dtype), |code, values| {
                scalar::narrow(code, values[0], dtype)
            })?
        };
        let Some(outside) = outside else { return Ok(value) };
        if !dtype.is_float() {
            return Err(LoweringError::unsupported("graph.resize", format!("an extrapolated value of {dtype}")));
        }
        // Rounded as the reference does, to what is computed in first.
        let other = resize.extrapolation_value;
        let other = if dtype == DType::F64 { other } else { f64::from(other as f32) };
        let other = splat(builder, Number::Float(other), dtype, &index.layout)?;
        pointwise::map(builder, &[&outside, &other, &value], register_type(dtype), |code, values| {
            Ok(code.select(values[0], values[1], values[2])?)
        })
    }

    /// The position of every place in f64.
    fn position(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        coordinate: &Coordinate<'m>,
        pair: [Size; 2],
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let x = coordinate_tile(builder, coordinate, &index.layout)?;
        pointwise::map(builder, &[&x], DType::F64, |code, values| {
            Ok(position_code(code, resize, dim, values[0], pair)?)
        })
    }

    /// The same, with what is no number taken as 0 and what is infinite as far away: a region may hold either.
    fn finite_position(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        coordinate: &Coordinate<'m>,
        pair: [Size; 2],
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let position = self.position(builder, resize, dim, coordinate, pair, index)?;
        if resize.coordinates != CoordinateMode::TfCropAndResize {
            return Ok(position);
        }
        pointwise::map(builder, &[&position], DType::F64, |code, values| {
            let far = |value: f64| code.float(value * (1i64 << 40) as f64, DType::F64);
            let bounded = code.op("arith.maximumf", &[values[0], far(-1.0)?])?;
            let bounded = code.op("arith.minimumf", &[bounded, far(1.0)?])?;
            let number = code.compare_float(FloatPredicate::Ordered, values[0], values[0])?;
            Ok(code.select(number, bounded, far(0.0)?)?)
        })
    }

    /// Where a position is outside of the input.
    fn outside(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        coordinate: &Coordinate<'m>,
        pair: [Size; 2],
        index: &Index<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let position = self.position(builder, resize, dim, coordinate, pair, index)?;
        pointwise::map(builder, &[&position], DType::Bool, |code, values| {
            let last = code.convert("arith.sitofp", last(code, pair[0])?, DType::F64)?;
            let zero = code.float(0.0, DType::F64)?;
            let above = code.compare_float(FloatPredicate::OrderedGreaterEqual, values[0], zero)?;
            let below = code.compare_float(FloatPredicate::OrderedLessEqual, values[0], last)?;
            let inside = code.op("arith.andi", &[above, below])?;
            Ok(code.op("arith.xori", &[inside, code.int(-1, DType::Bool)?])?)
        })
    }

    /// The nearest element.
    fn nearest(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        coordinate: &Coordinate<'m>,
        pair: [Size; 2],
        index: &Index<'m>,
    ) -> Result<Coordinate<'m>, LoweringError> {
        let x = coordinate_tile(builder, coordinate, &index.layout)?;
        if let [Some(input), Some(output)] = pair.map(number) {
            let at = |x: u32| position(resize, dim, f64::from(x), f64::from(input), f64::from(output));
            let table: Vec<i64> = (0..output)
                .map(|x| (nearest(resize.rounding, at(x)) as i64).clamp(0, i64::from(input.max(1)) - 1))
                .collect();
            if let Some(formula) = Rational::fit(&table, input, output) {
                let tile =
                    pointwise::map(builder, &[&x], DType::I32, |code, values| Ok(formula.code(code, values[0])?.0))?;
                return Ok(Coordinate::Tile(tile));
            }
        }
        let position = self.finite_position(builder, resize, dim, coordinate, pair, index)?;
        let tile = pointwise::map(builder, &[&position], DType::I32, |code, values| {
            let picked = nearest_code(code, resize.rounding, values[0])?;
            let last = last(code, pair[0])?;
            bounded(code, picked, code.i32(0)?, last)
        })?;
        Ok(Coordinate::Tile(tile))
    }

    /// Floor and fraction of the position.
    #[allow(clippy::too_many_arguments)]
    fn place(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        coordinate: &Coordinate<'m>,
        pair: [Size; 2],
        ty: DType,
        index: &Index<'m>,
    ) -> Result<Place<'m>, LoweringError> {
        let exact = match pair.map(number) {
            [Some(input), Some(output)] => Rational::exact(resize, dim, input, output),
            _ => None,
        };
        let tiles = if let Some(exact) = exact {
            let x = coordinate_tile(builder, coordinate, &index.layout)?;
            builder.map(&[&x], &index.layout, &[DType::I32, ty], |code, values| {
                let (floor, remainder) = exact.code(code, values[0])?;
                let remainder = code.convert("arith.sitofp", remainder, ty)?;
                let divisor = code.float(f64::from(exact.divisor), ty)?;
                Ok(vec![floor, code.op("arith.divf", &[remainder, divisor])?])
            })?
        } else {
            let position = self.finite_position(builder, resize, dim, coordinate, pair, index)?;
            let input = pair[0];
            let mut failure = None;
            let tiles = builder.map(&[&position], &index.layout, &[DType::I32, ty], |code, values| {
                let floor = code.op("math.floor", &[values[0]])?;
                let fraction = code.op("arith.subf", &[values[0], floor])?;
                let fraction = if ty == DType::F64 { fraction } else { code.convert("arith.truncf", fraction, ty)? };
                // A little outside of the input, all neighbours are.
                let high = code.offset(last(code, input)?, 4)?;
                let floor = bounded(code, floor, code.i32(-4)?, high)
                    .map_err(|error| crate::schedule::control::keep(error, &mut failure))?;
                Ok(vec![floor, fraction])
            });
            match failure {
                Some(error) => return Err(error),
                None => tiles?,
            }
        };
        match <[Tile<'m>; 2]>::try_from(tiles) {
            Ok([floor, fraction]) => Ok(Place { floor, fraction }),
            Err(_) => Err(self.body.error("a position without a result")),
        }
    }

    /// Neighbours of a position with their weights.
    fn neighbours(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        dim: usize,
        input: Size,
        place: &Place<'m>,
    ) -> Result<Along<'m>, LoweringError> {
        let ty = place.fraction.ty.element;
        let (before, count) = if resize.mode == ResizeMode::Cubic { (1, 4) } else { (0, 2) };
        let layout = &place.floor.ty.layout;
        let weights = builder.map(&[&place.floor, &place.fraction], layout, &vec![ty; count], |code, values| {
            let mut weights = match resize.mode {
                ResizeMode::Cubic => cubic(code, values[1], resize.cubic_coefficient, ty)?,
                _ => vec![code.op("arith.subf", &[code.float(1.0, ty)?, values[1]])?, values[1]],
            };
            if !resize.exclude_outside {
                return Ok(weights);
            }
            // What lies outside has no weight, and the rest makes up for it.
            let zero = code.float(0.0, ty)?;
            let mut total = zero;
            for (step, weight) in weights.iter_mut().enumerate() {
                let at = code.offset(values[0], step as i32 - before)?;
                let inside = code.compare_int(IntegerPredicate::UnsignedLess, at, input.value(code)?)?;
                *weight = code.select(inside, *weight, zero)?;
                total = code.op("arith.addf", &[total, *weight])?;
            }
            let none = code.compare_float(FloatPredicate::OrderedEqual, total, zero)?;
            let total = code.select(none, code.float(1.0, ty)?, total)?;
            weights.into_iter().map(|weight| Ok(code.op("arith.divf", &[weight, total])?)).collect()
        })?;
        let first =
            builder.map1(&[&place.floor], layout, DType::I32, |code, values| Ok(code.offset(values[0], -before)?))?;
        Ok(Along { dim, input, first, weights })
    }

    /// The sum over the neighbours in the first of the given dimensions of the sums over those in the others.
    fn interpolate(
        &self,
        builder: TileBuilder<'m>,
        node: &Node,
        along: &[Along<'m>],
        coordinates: &[Coordinate<'m>],
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let dtype = node.results[0].dtype;
        let ty = compute_type(dtype);
        let Some((own, rest)) = along.split_first() else {
            let sizes = &self.body.shape(node.operands[0]).sizes;
            let at = Index::from_coordinates(sizes, coordinates.to_vec(), &index.layout, 1);
            let value = self.value_at(builder, node.operands[0], &at, mask)?;
            return pointwise::map(builder, &[&value], ty, |code, values| scalar::widen(code, values[0], dtype));
        };
        // The term of one neighbour added to those before.
        let add = |builder: TileBuilder<'m>, step: Value<'m>, weight: &Tile<'m>, sum: &Tile<'m>| {
            let mut coordinates = coordinates.to_vec();
            coordinates[own.dim] =
                Coordinate::Tile(pointwise::map(builder, &[&own.first], DType::I32, |code, values| {
                    let at = code.add(values[0], step)?;
                    let at = code.op("arith.minsi", &[at, last(code, own.input)?])?;
                    Ok(code.op("arith.maxsi", &[at, code.i32(0)?])?)
                })?);
            let value = self.interpolate(builder, node, rest, &coordinates, index, mask)?;
            pointwise::map(builder, &[sum, weight, &value], ty, |code, values| {
                let term = code.op("arith.mulf", &[values[1], values[2]])?;
                let next = code.op("arith.addf", &[values[0], term])?;
                // A neighbour without weight takes no part, whatever it is.
                let none = code.compare_float(FloatPredicate::OrderedEqual, values[1], code.float(0.0, ty)?)?;
                Ok(code.select(none, values[0], next)?)
            })
        };
        let zero = splat(builder, Number::Float(0.0), ty, &index.layout)?;
        let count = own.weights.len();
        if count.pow(along.len() as u32) <= MAX_UNROLLED {
            return own
                .weights
                .iter()
                .enumerate()
                .try_fold(zero, |sum, (step, weight)| add(builder, builder.scalar().i32(step as i32)?, weight, &sum));
        }
        let sums = for_range(builder, count as u32, 1, &[zero], |inner, step, carried| {
            let weights: Vec<_> = own.weights.iter().collect();
            let weight = inner.map1(&weights, &index.layout, ty, |code, values| {
                let mut picked = values[0];
                for (number, weight) in values.iter().enumerate().skip(1) {
                    let number = code.i32(number as i32)?;
                    let this = code.compare_int(IntegerPredicate::Equal, step, number)?;
                    picked = code.select(this, *weight, picked)?;
                }
                Ok(picked)
            })?;
            Ok(vec![add(inner, step, &weight, &carried[0])?])
        })?;
        sums.into_iter().next().ok_or_else(|| self.body.error("a loop without a result"))
    }
}

/// Whether a dimension keeps its elements as they are.
fn stays(resize: &Resize, dim: usize, [input, output]: [Size; 2]) -> bool {
    let whole = resize.scales.as_ref().is_none_or(|scales| scales[dim] == 1.0);
    let all = resize.coordinates != CoordinateMode::TfCropAndResize || region(resize, dim) == (0.0, 1.0);
    input == output && whole && all
}

/// The last index of a dimension.
fn last<'m>(code: Scalar<'m>, size: Size) -> Result<Value<'m>, tenon_ir::IrError> {
    match size.known() {
        Some(size) => code.i32(size as i32 - 1),
        None => code.offset(size.value(code)?, -1),
    }
}

/// A whole f64 as an i32 from `low` to `high`; NaN is 0.
fn bounded<'m>(
    code: Scalar<'m>,
    value: Value<'m>,
    low: Value<'m>,
    high: Value<'m>,
) -> Result<Value<'m>, LoweringError> {
    let whole = scalar::cast(code, value, DType::F64, DType::I64)?;
    let wide = |value: Value<'m>| code.convert("arith.extsi", value, DType::I64);
    let whole = code.op("arith.minsi", &[whole, wide(high)?])?;
    let whole = code.op("arith.maxsi", &[whole, wide(low)?])?;
    Ok(code.convert("arith.trunci", whole, DType::I32)?)
}

/// Weights of the four neighbours by Keys' cubic convolution kernel, for a fraction `t`: at the distances 1 + t, t, 1 − t, 2 − t. The outer
/// piece, a d³ − 5a d² + 8a d − 4a, is a (d − 1) (d − 2)², without cancellation.
fn cubic<'m>(code: Scalar<'m>, t: Value<'m>, coefficient: f64, ty: DType) -> Result<Vec<Value<'m>>, tenon_ir::IrError> {
    let constant = |value: f64| code.float(value, ty);
    let mul = |a: Value<'m>, b: Value<'m>| code.op("arith.mulf", &[a, b]);
    let (a, one) = (coefficient, constant(1.0)?);
    let rest = code.op("arith.subf", &[one, t])?;
    let near = |d: Value<'m>| {
        let inner = code.op("arith.subf", &[mul(constant(a + 2.0)?, d)?, constant(a + 3.0)?])?;
        code.op("arith.addf", &[mul(inner, mul(d, d)?)?, one])
    };
    let far = |d: Value<'m>, e: Value<'m>| mul(mul(constant(a)?, d)?, mul(e, e)?);
    Ok(vec![far(t, rest)?, near(t)?, near(rest)?, far(rest, t)?])
}
