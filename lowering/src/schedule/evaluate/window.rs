//! Pooling: a loop over the cells of each place's window.

use tenon_graph_dialect::operators::{Function, Window, WindowKind};
use tenon_hw_dialect::{IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::{Evaluator, Mask, and_masks, coordinate_tile, splat};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::control::for_range;
use crate::schedule::evaluate::pointwise;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::{self, Number, compute_type};
use crate::schedule::size::Size;

/// Runs `body` for every cell of a box, in row-major order, carrying tiles; nested loops.
pub(super) fn for_cells<'m>(
    builder: TileBuilder<'m>,
    sizes: &[Size],
    carried: &[Tile<'m>],
    cell: &mut Vec<Value<'m>>,
    body: &mut dyn FnMut(TileBuilder<'m>, &[Value<'m>], &[Tile<'m>]) -> Result<Vec<Tile<'m>>, LoweringError>,
) -> Result<Vec<Tile<'m>>, LoweringError> {
    let Some((size, rest)) = sizes.split_first() else {
        return body(builder, cell, carried);
    };
    if *size == 1 {
        cell.push(builder.scalar().i32(0)?);
        let result = for_cells(builder, rest, carried, cell, body);
        cell.pop();
        return result;
    }
    for_range(builder, *size, 1, carried, |inner, position, tiles| {
        cell.push(position);
        let result = for_cells(inner, rest, tiles, cell, body);
        cell.pop();
        result
    })
}

impl<'m> Evaluator<'_, 'm> {
    /// Input coordinates of a window's cell, and where they lie inside the input.
    pub(super) fn cell_coordinates(
        &self,
        builder: TileBuilder<'m>,
        outer: &[Coordinate<'m>],
        cell: &[Value<'m>],
        geometry: &[CellGeometry],
        index: &Index<'m>,
    ) -> Result<(Vec<Coordinate<'m>>, Mask<'m>), LoweringError> {
        let mut coordinates = Vec::new();
        let mut inside: Mask<'m> = None;
        for (dim, geometry) in geometry.iter().enumerate() {
            let tile = coordinate_tile(builder, &outer[dim], &index.layout)?;
            let tiles = builder.map(&[&tile], &index.layout, &[DType::I32, DType::Bool], |scalar, values| {
                let moved = scalar.scale(values[0], geometry.stride)?;
                let moved = scalar.add(moved, scalar.scale(cell[dim], geometry.cell_step)?)?;
                let moved = scalar.offset(moved, geometry.offset)?;
                if geometry.divisor == 1 {
                    return Ok(vec![moved, below(scalar, moved, geometry.size)?]);
                }
                // A transposed convolution reads an input element only where the division leaves no remainder.
                let divisor = scalar.i32(geometry.divisor)?;
                let quotient = scalar.op("arith.divsi", &[moved, divisor])?;
                let remainder = scalar.op("arith.remsi", &[moved, divisor])?;
                let exact = scalar.compare_int(IntegerPredicate::Equal, remainder, scalar.i32(0)?)?;
                let within = below(scalar, quotient, geometry.size)?;
                Ok(vec![quotient, scalar.op("arith.andi", &[exact, within])?])
            })?;
            inside = if geometry.always_inside { inside } else { and_masks(builder, &inside, &tiles[1])? };
            coordinates.push(Coordinate::Tile(tiles[0].clone()));
        }
        Ok((coordinates, inside))
    }

    pub(super) fn window(
        &self,
        builder: TileBuilder<'m>,
        window: &Window,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let shape = self.body.shape(node.operands[0]).clone();
        let dtype = shape.dtype;
        let compute = compute_type(dtype);
        let layout = index.layout.clone();
        let outer = index.coordinates(builder)?;
        let geometry: Vec<_> = (0..window.kernel.len())
            .map(|dim| CellGeometry {
                stride: window.strides[dim] as i32,
                cell_step: window.dilations[dim] as i32,
                offset: -(window.pad_begin[dim] as i32),
                divisor: 1,
                size: Bound::of(shape.sizes[dim + 2]),
                always_inside: false,
            })
            .collect();
        let start = match window.kind {
            WindowKind::Max if compute.is_float() => Number::Float(f64::NEG_INFINITY),
            WindowKind::Max if dtype.is_signed() => {
                Number::Integer(if dtype.bits() == 64 { i64::MIN } else { -(1 << (dtype.bits() - 1)) })
            }
            WindowKind::Max => Number::Integer(0),
            _ => Number::Float(0.0),
        };
        let counts = window.kind == WindowKind::Average;
        let mut carried = vec![splat(builder, start, compute, &layout)?];
        if counts {
            carried.push(splat(builder, Number::Float(0.0), compute, &layout)?);
        }
        let kernel: Vec<Size> = window.kernel.iter().map(|size| Size::from(*size as u32)).collect();
        let results = for_cells(builder, &kernel, &carried, &mut Vec::new(), &mut |inner, cell, tiles| {
            let (spatial, inside) = self.cell_coordinates(inner, &outer[2..], cell, &geometry, index)?;
            let coordinates = [&outer[..2], &spatial].concat();
            let at = Index::from_coordinates(&shape.sizes, coordinates, &layout, 1);
            let Some(inside) = inside else { return Err(self.body.error("a window without a bound")) };
            let load_mask = and_masks(inner, mask, &inside)?;
            let value = self.value_at(inner, node.operands[0], &at, &load_mask)?;
            let combined = pointwise::map(inner, &[&tiles[0], &value, &inside], compute, |code, values| {
                let wide = scalar::widen(code, values[1], dtype)?;
                let new = match window.kind {
                    WindowKind::Max => scalar::apply(code, Function::Max, wide_dtype(dtype), &[values[0], wide])?,
                    WindowKind::L2 => code.op("arith.addf", &[values[0], code.op("arith.mulf", &[wide, wide])?])?,
                    WindowKind::Average | WindowKind::Sum => code.op("arith.addf", &[values[0], wide])?,
                };
                Ok(code.select(values[2], new, values[0])?)
            })?;
            let mut next = vec![combined];
            if counts {
                let counted = self.counted(inner, window, &shape.sizes, &outer[2..], cell, index, &inside)?;
                next.push(pointwise::map(inner, &[&tiles[1], &counted], compute, |code, values| {
                    let one = code.convert("arith.uitofp", values[1], compute)?;
                    Ok(code.op("arith.addf", &[values[0], one])?)
                })?);
            }
            Ok(next)
        })?;
        let inputs: Vec<_> = results.iter().collect();
        pointwise::map(builder, &inputs, scalar::register_type(dtype), |code, values| {
            let result = match window.kind {
                WindowKind::Average => code.op("arith.divf", &[values[0], values[1]])?,
                WindowKind::L2 => code.op("math.sqrt", &[values[0]])?,
                _ => values[0],
            };
            scalar::narrow(code, result, dtype)
        })
    }

    /// Which cells an average divides by: those inside the input, or inside input plus declared pads.
    #[allow(clippy::too_many_arguments)]
    fn counted(
        &self,
        builder: TileBuilder<'m>,
        window: &Window,
        sizes: &[Size],
        outer: &[Coordinate<'m>],
        cell: &[Value<'m>],
        index: &Index<'m>,
        inside: &Tile<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        if !window.count_include_pad {
            return Ok(inside.clone());
        }
        let geometry: Vec<_> = (0..window.kernel.len())
            .map(|dim| CellGeometry {
                stride: window.strides[dim] as i32,
                cell_step: window.dilations[dim] as i32,
                offset: 0,
                divisor: 1,
                size: Bound { size: sizes[dim + 2], more: (window.pad_begin[dim] + window.pad_end[dim]) as i32 },
                always_inside: false,
            })
            .collect();
        let (_, counted) = self.cell_coordinates(builder, outer, cell, &geometry, index)?;
        Ok(counted.unwrap_or_else(|| inside.clone()))
    }
}

fn wide_dtype(dtype: DType) -> DType {
    if dtype.is_float() { compute_type(dtype) } else { dtype }
}

/// How the input coordinate of a window's cell follows from the output coordinate `x` and the cell `k` along one dimension:
/// `(x · stride + k · cell_step + offset) / divisor`, inside if the division is exact and the result lies in `[0, size)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellGeometry {
    pub(super) stride: i32,
    pub(super) cell_step: i32,
    pub(super) offset: i32,
    pub(super) divisor: i32,
    pub(super) size: Bound,
    pub(super) always_inside: bool,
}

/// A size and a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) size: Size,
    pub(super) more: i32,
}

impl Bound {
    pub(super) fn of(size: Size) -> Self {
        Bound { size, more: 0 }
    }
}

/// 0 <= value < bound.
fn below<'m>(scalar: Scalar<'m>, value: Value<'m>, bound: Bound) -> Result<Value<'m>, IrError> {
    let end = match bound.size.known() {
        Some(size) => scalar.i32(size as i32 + bound.more)?,
        None => scalar.offset(bound.size.value(scalar)?, bound.more)?,
    };
    scalar.compare_int(IntegerPredicate::UnsignedLess, value, end)
}
