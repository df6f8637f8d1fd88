//! Layer and root-mean-square normalisation, statistics in f32 (f64 for f64).

use tenon_graph_dialect::operators::{Function, Normalize, NormalizeKind};
use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_tensor::DType;

use super::simple::Combiner;
use super::{Chunk, Rows};
use crate::LoweringError;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::map;
use crate::schedule::index::{Index, common};
use crate::schedule::scalar::{self, Number, compute_type, register_type};
use crate::schedule::size::Size;

impl<'m> Rows<'_, '_, 'm> {
    pub(super) fn normalize(&self, builder: TileBuilder<'m>, normalize: &Normalize) -> Result<(), LoweringError> {
        let element = compute_type(self.input().dtype);
        let sum = Combiner { function: Function::Add, neutral: Number::Float(0.0), dtype: element };
        let layer = normalize.kind == NormalizeKind::Layer;
        let average = |builder: TileBuilder<'m>, total: &Tile<'m>| {
            map(builder, &[total], element, |code, values| {
                let count = self.count(code, element)?;
                Ok(code.op("arith.divf", &[values[0], count])?)
            })
        };
        let root = |builder: TileBuilder<'m>, mean_square: &Tile<'m>| {
            map(builder, &[mean_square], element, |code, values| {
                let shifted = code.op("arith.addf", &[values[0], code.float(normalize.epsilon, element)?])?;
                Ok(code.op("math.sqrt", &[shifted])?)
            })
        };
        let square = |builder: TileBuilder<'m>, x: &Tile<'m>| {
            map(builder, &[x], element, |code, values| Ok(code.op("arith.mulf", &[values[0], values[0]])?))
        };
        if self.fits() {
            let chunk = self.chunk(builder, builder.scalar().i32(0)?)?;
            let mut x = self.elements(builder, &chunk)?;
            if layer {
                let padded = self.padded(builder, &chunk, &x, sum)?;
                let mean = average(builder, &self.across(builder, &padded, sum)?)?;
                x = center(builder, &x, &self.over_columns(builder, &mean)?)?;
            }
            let squared = square(builder, &x)?;
            let padded = self.padded(builder, &chunk, &squared, sum)?;
            let deviation = root(builder, &average(builder, &self.across(builder, &padded, sum)?)?)?;
            let deviation = self.over_columns(builder, &deviation)?;
            return self.normalized(builder, &chunk, &x, &deviation);
        }
        let mean = if layer {
            let total = self.over_rows(builder, sum, |inner, chunk| self.elements(inner, chunk))?;
            Some(self.over_columns(builder, &average(builder, &total)?)?)
        } else {
            None
        };
        let centered = |inner: TileBuilder<'m>, chunk: &Chunk<'m>| -> Result<Tile<'m>, LoweringError> {
            let x = self.elements(inner, chunk)?;
            match &mean {
                Some(mean) => center(inner, &x, mean),
                None => Ok(x),
            }
        };
        let squares = self.over_rows(builder, sum, |inner, chunk| square(inner, &centered(inner, chunk)?))?;
        let deviation = self.over_columns(builder, &root(builder, &average(builder, &squares)?)?)?;
        for_range(builder, self.plan.columns, self.plan.tile_columns, &[], |inner, position, _| {
            let chunk = self.chunk(inner, position)?;
            let x = centered(inner, &chunk)?;
            self.normalized(inner, &chunk, &x, &deviation)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// x / deviation · scale + bias, rounded and stored.
    fn normalized(
        &self,
        builder: TileBuilder<'m>,
        chunk: &Chunk<'m>,
        x: &Tile<'m>,
        deviation: &Tile<'m>,
    ) -> Result<(), LoweringError> {
        let dtype = self.input().dtype;
        let element = compute_type(dtype);
        let mut result = map(builder, &[x, deviation], element, |code, values| Ok(code.op("arith.divf", values)?))?;
        for (position, operand) in self.node().operands[1..].iter().enumerate() {
            let index = self.parameter_index(builder, chunk, &self.body.shape(*operand).sizes)?;
            let value = self.evaluator.value_at(builder, *operand, &index, &chunk.mask)?;
            let name = if position == 0 { "arith.mulf" } else { "arith.addf" };
            result = map(builder, &[&result, &value], element, |code, values| {
                let parameter = scalar::widen(code, values[1], dtype)?;
                Ok(code.op(name, &[values[0], parameter])?)
            })?;
        }
        let result =
            map(builder, &[&result], register_type(dtype), |code, values| scalar::narrow(code, values[0], dtype))?;
        self.store_chunk(builder, chunk, result)
    }

    /// Where scale and bias are read: by column if they have exactly the reduced dimensions.
    fn parameter_index(
        &self,
        builder: TileBuilder<'m>,
        chunk: &Chunk<'m>,
        sizes: &[Size],
    ) -> Result<Index<'m>, LoweringError> {
        let reduced: Vec<Size> = self.plan.reduced.iter().map(|(size, _)| *size).collect();
        let trailing =
            self.input().sizes.ends_with(&reduced) && self.plan.reduced.last().is_some_and(|(_, stride)| *stride == 1);
        let stripped: Vec<Size> = sizes.iter().copied().skip_while(|size| *size == 1).collect();
        if trailing && stripped == reduced {
            let contiguity = common(self.plan.vector, *reduced.last().unwrap_or(&Size::fixed(1)));
            return Ok(Index::from_linear(sizes, chunk.column.clone(), contiguity));
        }
        let index = chunk.index.clone().as_other();
        index.broadcast_from(builder, sizes)
    }
}

fn center<'m>(builder: TileBuilder<'m>, x: &Tile<'m>, mean: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
    let element: DType = x.ty.element;
    map(builder, &[x, mean], element, |code, values| Ok(code.op("arith.subf", values)?))
}
