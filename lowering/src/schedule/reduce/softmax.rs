//! Softmax along one dimension.

use tenon_graph_dialect::operators::{Function, Softmax};
use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_tensor::DType;

use super::simple::Combiner;
use super::{Chunk, Rows, is_16_bits};
use crate::LoweringError;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::map;
use crate::schedule::scalar::quotient::{Divisor, quotient, reciprocal};
use crate::schedule::scalar::{self, Number, compute_type, register_type};

impl<'m> Rows<'_, '_, 'm> {
    pub(super) fn softmax(&self, builder: TileBuilder<'m>, softmax: &Softmax) -> Result<(), LoweringError> {
        let dtype = self.input().dtype;
        let element = compute_type(dtype);
        let largest = Combiner { function: Function::Max, neutral: Number::Float(f64::NEG_INFINITY), dtype: element };
        let sum = Combiner { function: Function::Add, neutral: Number::Float(0.0), dtype: element };
        if self.fits() {
            let chunk = self.chunk(builder, builder.scalar().i32(0)?)?;
            let x = self.elements(builder, &chunk)?;
            // Places without an element hold -∞ from here on, whose power is the 0 that a sum needs.
            let x = self.padded(builder, &chunk, &x, largest)?;
            let maximum = self.across(builder, &x, largest)?;
            let maximum = self.over_columns(builder, &maximum)?;
            let shifted = shift(builder, &x, &maximum, element)?;
            let power = exp(builder, &shifted, dtype)?;
            let total = self.across(builder, &power, sum)?;
            let result = self.finish(builder, softmax.log, &shifted, &power, &total)?;
            return self.store_chunk(builder, &chunk, result);
        }
        let maximum = self.over_rows(builder, largest, |inner, chunk| self.elements(inner, chunk))?;
        let maximum = self.over_columns(builder, &maximum)?;
        let shifted =
            |inner: TileBuilder<'m>, chunk: &Chunk<'m>| shift(inner, &self.elements(inner, chunk)?, &maximum, element);
        let total = self.over_rows(builder, sum, |inner, chunk| exp(inner, &shifted(inner, chunk)?, dtype))?;
        for_range(builder, self.plan.columns, self.plan.tile_columns, &[], |inner, position, _| {
            let chunk = self.chunk(inner, position)?;
            let shifted = shifted(inner, &chunk)?;
            let power = exp(inner, &shifted, dtype)?;
            let result = self.finish(inner, softmax.log, &shifted, &power, &total)?;
            self.store_chunk(inner, &chunk, result)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The result of a chunk, `total` being the sum of powers of each row: between 1 and their number, or NaN.
    fn finish(
        &self,
        builder: TileBuilder<'m>,
        log: bool,
        shifted: &Tile<'m>,
        power: &Tile<'m>,
        total: &Tile<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let dtype = self.input().dtype;
        if log {
            let logarithm = map(builder, &[total], total.ty.element, |code, values| Ok(code.op("math.log", values)?))?;
            let logarithm = self.over_columns(builder, &logarithm)?;
            return map(builder, &[shifted, &logarithm], register_type(dtype), |code, values| {
                scalar::narrow(code, code.op("arith.subf", values)?, dtype)
            });
        }
        let mut tiles = vec![power.clone(), self.over_columns(builder, total)?];
        if total.ty.element == DType::F32 {
            let inverse = map(builder, &[total], DType::F32, |code, values| Ok(reciprocal(code, values[0])?))?;
            tiles.push(self.over_columns(builder, &inverse)?);
        }
        map(builder, &tiles.iter().collect::<Vec<_>>(), register_type(dtype), |code, values| {
            let divisor = Divisor { value: values[1], reciprocal: values.get(2).copied() };
            scalar::narrow(code, quotient(code, values[0], divisor, is_16_bits(dtype))?, dtype)
        })
    }
}

fn shift<'m>(
    builder: TileBuilder<'m>,
    x: &Tile<'m>,
    maximum: &Tile<'m>,
    element: DType,
) -> Result<Tile<'m>, LoweringError> {
    map(builder, &[x, maximum], element, |code, values| Ok(code.op("arith.subf", values)?))
}

/// Powers of numbers that are not above 0.
fn exp<'m>(builder: TileBuilder<'m>, x: &Tile<'m>, dtype: DType) -> Result<Tile<'m>, LoweringError> {
    map(builder, &[x], x.ty.element, |code, values| {
        if !is_16_bits(dtype) {
            return Ok(scalar::exp_of_nonpositive(code, values[0])?);
        }
        let scaled = code.op("arith.mulf", &[values[0], code.float(std::f64::consts::LOG2_E, DType::F32)?])?;
        Ok(scalar::approximate(code, "math.exp2", &[scaled])?)
    })
}
