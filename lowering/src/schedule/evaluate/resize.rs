//! Interpolation.
//!
//! The input positions of an output position are computed here, on the host, in f64, one table a dimension; the kernel gets them by an integer
//! formula that is checked against the whole table, so that no rounding of the device decides which element is read.

use tenon_graph_dialect::operators::{CoordinateMode, Resize, ResizeMode, ResizeRounding};
use tenon_hw_dialect::{Tile, TileBuilder};

use super::movement::{clamp, map_coordinate};
use super::{Evaluator, Mask, coordinate_tile, splat};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::evaluate::pointwise;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::{self, Number, compute_type};
use crate::schedule::size::Size;
use tenon_tensor::DType;

/// The position in the input that output position `x` of a dimension maps to.
fn position(resize: &Resize, dim: usize, x: f64, input: f64, output: f64) -> f64 {
    let scale = resize.scales.as_ref().map_or(output / input, |scales| scales[dim]);
    match resize.coordinates {
        CoordinateMode::HalfPixel => (x + 0.5) / scale - 0.5,
        CoordinateMode::HalfPixelSymmetric => {
            let adjustment = output / (scale * input);
            let center = input / 2.0;
            center * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
        }
        CoordinateMode::PytorchHalfPixel if output > 1.0 => (x + 0.5) / scale - 0.5,
        CoordinateMode::PytorchHalfPixel => 0.0,
        CoordinateMode::AlignCorners if output > 1.0 => x * (input - 1.0) / (output - 1.0),
        CoordinateMode::AlignCorners => 0.0,
        CoordinateMode::Asymmetric => x / scale,
        CoordinateMode::TfCropAndResize => f64::NAN,
    }
}

fn nearest(rounding: ResizeRounding, position: f64) -> f64 {
    match rounding {
        ResizeRounding::RoundPreferFloor => (position - 0.5).ceil(),
        ResizeRounding::RoundPreferCeil => (position + 0.5).floor(),
        ResizeRounding::Floor => position.floor(),
        ResizeRounding::Ceil => position.ceil(),
    }
}

/// floor((x · multiplier + addend) / divisor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IntegerFormula {
    multiplier: i32,
    addend: i32,
    divisor: i32,
}

impl IntegerFormula {
    fn apply(self, x: i64) -> i64 {
        (x * i64::from(self.multiplier) + i64::from(self.addend)).div_euclid(i64::from(self.divisor))
    }

    /// A formula that gives every entry of a table.
    fn fit(table: &[i64], input: u32, output: u32) -> Option<Self> {
        // Candidates: the ratio of sizes and of sizes less one, with all addends that the first entries allow.
        for (numerator, denominator) in [(input, output), (input.saturating_sub(1), output.saturating_sub(1).max(1))] {
            for refinement in [2i64, 4] {
                let multiplier = i64::from(numerator) * refinement;
                let divisor = i64::from(denominator) * refinement;
                let largest = multiplier.checked_mul(i64::from(output))?;
                if divisor <= 0 || largest >= 1 << 30 {
                    continue;
                }
                // table[x]·divisor <= x·multiplier + addend < (table[x] + 1)·divisor for all x.
                let mut low = i64::MIN;
                let mut high = i64::MAX;
                for (x, entry) in table.iter().enumerate() {
                    let base = x as i64 * multiplier;
                    low = low.max(entry * divisor - base);
                    high = high.min((entry + 1) * divisor - base - 1);
                }
                if low <= high && low.abs() < 1 << 30 {
                    return Some(IntegerFormula {
                        multiplier: multiplier as i32,
                        addend: low as i32,
                        divisor: divisor as i32,
                    });
                }
            }
        }
        None
    }
}

fn number(size: Size) -> Option<u32> {
    u32::try_from(size.known()?).ok()
}

impl<'m> Evaluator<'_, 'm> {
    /// Coordinate of one dimension by a table of the host.
    fn by_table(
        &self,
        builder: TileBuilder<'m>,
        table: &[i64],
        input: u32,
        coordinate: &Coordinate<'m>,
        index: &Index<'m>,
    ) -> Result<Coordinate<'m>, LoweringError> {
        let output = table.len() as u32;
        let formula = IntegerFormula::fit(table, input, output).ok_or_else(|| {
            LoweringError::unsupported("graph.resize", format!("sizes {input} to {output} with these coordinates"))
        })?;
        debug_assert!(table.iter().enumerate().all(|(x, entry)| formula.apply(x as i64) == *entry));
        // Shifted by a multiple of the divisor so that the division is of a non-negative number.
        let shift = formula.addend.min(0).div_euclid(formula.divisor);
        let addend = formula.addend - shift * formula.divisor;
        map_coordinate(builder, coordinate, index, |code, value| {
            let scaled = code.offset(code.scale(value, formula.multiplier)?, addend)?;
            Ok(code.offset(code.div_rem(scaled, formula.divisor)?.0, shift)?)
        })
    }

    pub(super) fn resize(
        &self,
        builder: TileBuilder<'m>,
        resize: &Resize,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        if resize.coordinates == CoordinateMode::TfCropAndResize || resize.mode == ResizeMode::Cubic {
            return Err(LoweringError::unsupported(
                "graph.resize",
                format!("{} with {}", resize.mode.name(), resize.coordinates.name()),
            ));
        }
        let sizes = self.body.shape(node.operands[0]).sizes.clone();
        let outer = index.coordinates(builder)?;
        let dtype = node.results[0].dtype;
        let mut nearest_coordinates = outer.clone();
        // Dimensions that are interpolated: lower neighbour, and weight of the upper one.
        let mut linear: Vec<(usize, Coordinate<'m>, Tile<'m>)> = Vec::new();
        for dim in 0..sizes.len() {
            let whole = resize.scales.as_ref().is_none_or(|scales| scales[dim] == 1.0);
            if sizes[dim] == index.sizes[dim] && whole {
                continue;
            }
            let (Some(input), Some(output)) = (number(sizes[dim]), number(index.sizes[dim])) else {
                return Err(LoweringError::unsupported(
                    "graph.resize",
                    format!("dimension {dim}, whose size is known at launch only"),
                ));
            };
            let at = |x: u32| position(resize, dim, f64::from(x), f64::from(input), f64::from(output));
            match resize.mode {
                ResizeMode::Nearest => {
                    let table: Vec<i64> = (0..output)
                        .map(|x| (nearest(resize.rounding, at(x)) as i64).clamp(0, i64::from(input) - 1))
                        .collect();
                    nearest_coordinates[dim] = self.by_table(builder, &table, input, &outer[dim], index)?;
                }
                _ => {
                    let table: Vec<i64> = (0..output).map(|x| at(x).floor() as i64).collect();
                    let lower = self.by_table(builder, &table, input, &outer[dim], index)?;
                    // position = slope · x + start for every supported mode.
                    let start = at(0);
                    let slope = if output > 1 { (at(output - 1) - start) / f64::from(output - 1) } else { 0.0 };
                    let x = coordinate_tile(builder, &outer[dim], &index.layout)?;
                    let lower_tile = coordinate_tile(builder, &lower, &index.layout)?;
                    let weight = pointwise::map(builder, &[&x, &lower_tile], DType::F32, |code, values| {
                        let x = code.convert("arith.sitofp", values[0], DType::F32)?;
                        let lower = code.convert("arith.sitofp", values[1], DType::F32)?;
                        let place =
                            code.op("math.fma", &[x, code.float(slope, DType::F32)?, code.float(start, DType::F32)?])?;
                        let weight = code.op("arith.subf", &[place, lower])?;
                        let weight = code.op("arith.maximumf", &[weight, code.float(0.0, DType::F32)?])?;
                        Ok(code.op("arith.minimumf", &[weight, code.float(1.0, DType::F32)?])?)
                    })?;
                    linear.push((dim, lower, weight));
                }
            }
        }
        let mut sum: Option<Tile<'m>> = None;
        for corner in 0..1usize << linear.len() {
            let mut coordinates = nearest_coordinates.clone();
            let mut weights = Vec::new();
            for (bit, (dim, lower, weight)) in linear.iter().enumerate() {
                let upper = corner >> bit & 1 == 1;
                let last = number(sizes[*dim]).unwrap_or(1) as i32 - 1;
                coordinates[*dim] = map_coordinate(builder, lower, index, |code, value| {
                    clamp(code, code.offset(value, i32::from(upper))?, 0, last)
                })?;
                weights.push((weight, upper));
            }
            let at = Index::from_coordinates(&sizes, coordinates, &index.layout, 1);
            let value = self.value_at(builder, node.operands[0], &at, mask)?;
            if linear.is_empty() {
                return Ok(value);
            }
            let before = match sum {
                Some(sum) => sum,
                None => splat(builder, Number::Float(0.0), compute_type(dtype), &index.layout)?,
            };
            let mut operands = vec![&before, &value];
            operands.extend(weights.iter().map(|(weight, _)| *weight));
            let next = pointwise::map(builder, &operands, compute_type(dtype), |code, values| {
                let mut term = scalar::widen(code, values[1], dtype)?;
                for (weight, (_, upper)) in values[2..].iter().zip(&weights) {
                    let factor =
                        if *upper { *weight } else { code.op("arith.subf", &[code.float(1.0, DType::F32)?, *weight])? };
                    let factor = scalar::cast(code, factor, DType::F32, compute_type(dtype))?;
                    term = code.op("arith.mulf", &[term, factor])?;
                }
                Ok(code.op("arith.addf", &[values[0], term])?)
            })?;
            sum = Some(next);
        }
        let Some(sum) = sum else { return Err(self.body.error("a resize without corners")) };
        pointwise::map(builder, &[&sum], scalar::register_type(dtype), |code, values| {
            scalar::narrow(code, values[0], dtype)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn formulas_give_every_entry() {
        for input in 1..20u32 {
            for output in 1..40u32 {
                let table: Vec<i64> = (0..output).map(|x| i64::from(x * input / output)).collect();
                let formula = IntegerFormula::fit(&table, input, output).unwrap();
                assert!(table.iter().enumerate().all(|(x, entry)| formula.apply(x as i64) == *entry));
            }
        }
        assert_eq!(IntegerFormula::fit(&[0, 5, 1], 6, 3), None);
    }
}
