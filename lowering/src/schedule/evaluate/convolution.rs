//! Convolution element by element: a loop over the channels of the group and the cells of the window. For groups of few channels, where a
//! matrix product would have nothing to share.

use tenon_graph_dialect::operators::Convolution;
use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_tensor::DType;

use super::window::{Bound, CellGeometry, for_cells};
use super::{Evaluator, Mask, and_masks, splat};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::evaluate::pointwise;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar::{self, Number};
use crate::schedule::size::Size;

impl<'m> Evaluator<'_, 'm> {
    pub(super) fn convolution(
        &self,
        builder: TileBuilder<'m>,
        convolution: &Convolution,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let input = self.body.shape(node.operands[0]).clone();
        let weight = self.body.shape(node.operands[1]).clone();
        let accumulate = convolution.accumulate;
        let layout = index.layout.clone();
        let outer = index.coordinates(builder)?;
        let spatial = input.sizes.len() - 2;
        let groups = convolution.groups as i32;
        let (inputs_per_group, outputs_per_group) =
            (channels(input.sizes[1])? / groups as u32, channels(index.sizes[1])? as i32 / groups);
        let geometry = cell_geometry(convolution, &input.sizes[2..]);
        // Channel of the output = group · outputs_per_group + number within the group.
        let channel = super::coordinate_tile(builder, &outer[1], &layout)?;
        let parts = builder.map(&[&channel], &layout, &[DType::I32, DType::I32], |code, values| {
            let (group, within) = code.div_rem(values[0], outputs_per_group)?;
            Ok(vec![group, within])
        })?;
        let (group, within) = (&parts[0], &parts[1]);
        let mut cells = vec![Size::from(inputs_per_group)];
        cells.extend(weight.sizes[2..].iter().copied());
        let carried = vec![splat(builder, Number::Float(0.0), accumulate, &layout)?];
        let result = for_cells(builder, &cells, &carried, &mut Vec::new(), &mut |inner, cell, tiles| {
            let (place, inside) = self.cell_coordinates(inner, &outer[2..], &cell[1..], &geometry, index)?;
            let in_channel = inner.map1(&[group], &layout, DType::I32, |code, values| {
                Ok(code.add(code.scale(values[0], inputs_per_group as i32)?, cell[0])?)
            })?;
            let x_at = [&[outer[0].clone(), Coordinate::Tile(in_channel.clone())], place.as_slice()].concat();
            let x_at = Index::from_coordinates(&input.sizes, x_at, &layout, 1);
            let x_mask = match &inside {
                Some(inside) => and_masks(inner, mask, inside)?,
                None => mask.clone(),
            };
            let x = self.value_at(inner, node.operands[0], &x_at, &x_mask)?;
            let scalar_tile =
                |value| -> Result<Tile<'m>, LoweringError> { Ok(inner.splat(value, DType::I32, &layout)?) };
            let lead = if convolution.transposed {
                [Coordinate::Tile(in_channel), Coordinate::Tile(within.clone())]
            } else {
                [outer[1].clone(), Coordinate::Tile(scalar_tile(cell[0])?)]
            };
            let mut w_at = lead.to_vec();
            for dim in 0..spatial {
                w_at.push(Coordinate::Tile(scalar_tile(cell[dim + 1])?));
            }
            let w_at = Index::from_coordinates(&weight.sizes, w_at, &layout, 1);
            let w = self.value_at(inner, node.operands[1], &w_at, &x_mask)?;
            let mut operands = vec![&tiles[0], &x, &w];
            operands.extend(inside.as_ref());
            let sum = pointwise::map(inner, &operands, accumulate, |code, values| {
                let x = scalar::cast(code, values[1], input.dtype, accumulate)?;
                let w = scalar::cast(code, values[2], weight.dtype, accumulate)?;
                let new = multiply_add(code, x, w, values[0], accumulate)?;
                match values.get(3) {
                    Some(inside) => Ok(code.select(*inside, new, values[0])?),
                    None => Ok(new),
                }
            })?;
            Ok(vec![sum])
        })?;
        pointwise::cast_tile(builder, &result[0], accumulate, convolution.dtype)
    }
}

/// Channels, whose number decides what a group is.
pub(in crate::schedule) fn channels(size: Size) -> Result<u32, LoweringError> {
    size.known().and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
        LoweringError::unsupported("graph.convolution", "a number of channels that is known at launch only")
    })
}

/// x · w + sum, fused for floats.
fn multiply_add<'m>(
    code: tenon_hw_dialect::Scalar<'m>,
    x: tenon_ir::Value<'m>,
    w: tenon_ir::Value<'m>,
    sum: tenon_ir::Value<'m>,
    accumulate: DType,
) -> Result<tenon_ir::Value<'m>, LoweringError> {
    if accumulate.is_float() { Ok(code.op("math.fma", &[x, w, sum])?) } else { Ok(code.add(code.mul(x, w)?, sum)?) }
}

/// Input coordinate of each cell of a convolution, or of its transpose.
pub(super) fn cell_geometry(convolution: &Convolution, input: &[Size]) -> Vec<CellGeometry> {
    (0..input.len())
        .map(|dim| {
            let (stride, dilation) = (convolution.strides[dim] as i32, convolution.dilations[dim] as i32);
            let pad = convolution.pad_begin[dim] as i32;
            if convolution.transposed {
                CellGeometry {
                    stride: 1,
                    cell_step: -dilation,
                    offset: pad,
                    divisor: stride,
                    size: Bound::of(input[dim]),
                    always_inside: false,
                }
            } else {
                CellGeometry {
                    stride,
                    cell_step: dilation,
                    offset: -pad,
                    divisor: 1,
                    size: Bound::of(input[dim]),
                    always_inside: false,
                }
            }
        })
        .collect()
}
