//! Layer and root-mean-square normalisation, statistics in f32 (f64 for f64).

use tenon_graph_dialect::operators::{Function, Normalize, NormalizeKind};
use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_tensor::DType;

use super::simple::Combiner;
use super::{Chunk, Rows, is_16_bits};
use crate::LoweringError;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::map;
use crate::schedule::index::{Index, common};
use crate::schedule::scalar::quotient::{Divisor, has_reciprocal_root, quotient, root as reciprocal_root};
use crate::schedule::scalar::{self, Number, compute_type, register_type};
use crate::schedule::size::Size;

impl<'m> Rows<'_, '_, 'm> {
    pub(super) fn normalize(&self, builder: TileBuilder<'m>, normalize: &Normalize) -> Result<(), LoweringError> {
        let element = compute_type(self.input().dtype);
        let sum = Combiner { function: Function::Add, neutral: Number::Float(0.0), dtype: element };
        let layer = normalize.kind == NormalizeKind::Layer;
        let average = |builder: TileBuilder<'m>, total: &Tile<'m>| {
            map(builder, &[total], element, |code, values| self.divided_by_count(code, values[0], element))
        };
        let root = |builder: TileBuilder<'m>, mean_square: &Tile<'m>| -> Result<Vec<Tile<'m>>, LoweringError> {
            let variance = map(builder, &[mean_square], element, |code, values| {
                Ok(code.op("arith.addf", &[values[0], code.float(normalize.epsilon, element)?])?)
            })?;
            let roots = if has_reciprocal_root(element, normalize.epsilon) {
                builder.map(&[&variance], &variance.ty.layout, &[element; 2], |code, values| {
                    Ok(reciprocal_root(code, values[0])?.to_vec())
                })?
            } else {
                vec![map(builder, &[&variance], element, |code, values| Ok(code.op("math.sqrt", values)?))?]
            };
            roots.iter().map(|tile| self.over_columns(builder, tile)).collect()
        };
        let square = |builder: TileBuilder<'m>, x: &Tile<'m>| {
            map(builder, &[x], element, |code, values| Ok(code.op("arith.mulf", &[values[0], values[0]])?))
        };
        if self.fits() {
            let chunk = self.chunk(builder, builder.scalar().i32(0)?)?;
            let mut x = self.elements(builder, &chunk)?;
            // They are on their way while rows are summed.
            let parameters = self.parameters(builder, &chunk)?;
            if layer {
                let padded = self.padded(builder, &chunk, &x, sum)?;
                let mean = average(builder, &self.across(builder, &padded, sum)?)?;
                x = center(builder, &x, &self.over_columns(builder, &mean)?)?;
            }
            let squared = square(builder, &x)?;
            let padded = self.padded(builder, &chunk, &squared, sum)?;
            let deviation = root(builder, &average(builder, &self.across(builder, &padded, sum)?)?)?;
            return self.normalized(builder, &chunk, &x, &deviation, &parameters);
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
        let deviation = root(builder, &average(builder, &squares)?)?;
        for_range(builder, self.plan.columns, self.plan.tile_columns, &[], |inner, position, _| {
            let chunk = self.chunk(inner, position)?;
            let x = centered(inner, &chunk)?;
            let parameters = self.parameters(inner, &chunk)?;
            self.normalized(inner, &chunk, &x, &deviation, &parameters)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// x / deviation · scale + bias, rounded and stored. `deviation` may have its reciprocal beside it.
    fn normalized(
        &self,
        builder: TileBuilder<'m>,
        chunk: &Chunk<'m>,
        x: &Tile<'m>,
        deviation: &[Tile<'m>],
        parameters: &[Tile<'m>],
    ) -> Result<(), LoweringError> {
        let dtype = self.input().dtype;
        let element = compute_type(dtype);
        let tiles: Vec<_> = std::iter::once(x).chain(deviation).collect();
        let mut result = map(builder, &tiles, element, |code, values| {
            let divisor = Divisor { value: values[1], reciprocal: values.get(2).copied() };
            Ok(quotient(code, values[0], divisor, is_16_bits(dtype))?)
        })?;
        for (value, name) in parameters.iter().zip(["arith.mulf", "arith.addf"]) {
            result = map(builder, &[&result, value], element, |code, values| {
                let parameter = scalar::widen(code, values[1], dtype)?;
                Ok(code.op(name, &[values[0], parameter])?)
            })?;
        }
        let result =
            map(builder, &[&result], register_type(dtype), |code, values| scalar::narrow(code, values[0], dtype))?;
        self.store_chunk(builder, chunk, result)
    }

    /// Scale and bias, those that there are, in the places of a chunk.
    fn parameters(&self, builder: TileBuilder<'m>, chunk: &Chunk<'m>) -> Result<Vec<Tile<'m>>, LoweringError> {
        let operands = self.node().operands[1..].iter().take(2);
        operands
            .map(|operand| {
                let index = self.parameter_index(builder, chunk, &self.body.shape(*operand).sizes)?;
                self.evaluator.value_at(builder, *operand, &index, &chunk.mask)
            })
            .collect()
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
