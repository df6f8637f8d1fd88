//! Softmax along one dimension.

use tenon_graph_dialect::operators::{Function, Softmax};
use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_tensor::DType;

use super::simple::Combiner;
use super::{Chunk, Rows};
use crate::LoweringError;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::map;
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
            let padded = self.padded(builder, &chunk, &x, largest)?;
            let maximum = self.across(builder, &padded, largest)?;
            let maximum = self.over_columns(builder, &maximum)?;
            let shifted = shift(builder, &x, &maximum, element)?;
            let power = exp(builder, &shifted, element)?;
            let padded = self.padded(builder, &chunk, &power, sum)?;
            let total = self.across(builder, &padded, sum)?;
            let total = self.over_columns(builder, &total)?;
            let result = finish(builder, softmax.log, &shifted, &power, &total, dtype)?;
            return self.store_chunk(builder, &chunk, result);
        }
        let maximum = self.over_rows(builder, largest, |inner, chunk| self.elements(inner, chunk))?;
        let maximum = self.over_columns(builder, &maximum)?;
        let shifted =
            |inner: TileBuilder<'m>, chunk: &Chunk<'m>| shift(inner, &self.elements(inner, chunk)?, &maximum, element);
        let total = self.over_rows(builder, sum, |inner, chunk| exp(inner, &shifted(inner, chunk)?, element))?;
        let total = self.over_columns(builder, &total)?;
        for_range(builder, self.plan.columns, self.plan.tile_columns, &[], |inner, position, _| {
            let chunk = self.chunk(inner, position)?;
            let shifted = shifted(inner, &chunk)?;
            let power = exp(inner, &shifted, element)?;
            let result = finish(inner, softmax.log, &shifted, &power, &total, dtype)?;
            self.store_chunk(inner, &chunk, result)?;
            Ok(Vec::new())
        })?;
        Ok(())
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

fn exp<'m>(builder: TileBuilder<'m>, x: &Tile<'m>, element: DType) -> Result<Tile<'m>, LoweringError> {
    map(builder, &[x], element, |code, values| Ok(code.op("math.exp", values)?))
}

fn finish<'m>(
    builder: TileBuilder<'m>,
    log: bool,
    shifted: &Tile<'m>,
    power: &Tile<'m>,
    total: &Tile<'m>,
    dtype: DType,
) -> Result<Tile<'m>, LoweringError> {
    map(builder, &[if log { shifted } else { power }, total], register_type(dtype), |code, values| {
        let result = if log {
            let logarithm = code.op("math.log", &[values[1]])?;
            code.op("arith.subf", &[values[0], logarithm])?
        } else {
            code.op("arith.divf", values)?
        };
        scalar::narrow(code, result, dtype)
    })
}
