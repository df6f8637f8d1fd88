//! Tiles of an operand on their way from global to shared memory.

use tenon_hw_dialect::{Shared, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::plan::Chunk;
use super::problem::Source;
use crate::LoweringError;
use crate::schedule::evaluate::{Mask, and_masks};
use crate::schedule::index::line;
use crate::schedule::reduce::below;
use crate::schedule::size::Size;

/// An operand of one head.
pub(super) struct Stream<'p, 'm> {
    pub(super) chunk: &'p Chunk,
    pub(super) source: &'p Source,
    pub(super) pointer: Value<'m>,
    /// Offset of the head.
    pub(super) base: Value<'m>,
    pub(super) shared: Shared<'m>,
    /// Dimension of the tile that positions run along.
    pub(super) positions_dim: usize,
    /// Positions that there are; none where all that are asked for exist.
    pub(super) positions: Option<Size>,
    /// Elements of a position.
    pub(super) depth: u32,
    /// Elements of a chunk, and chunks of a tile.
    pub(super) chunks: (u32, u32),
}

impl<'m> Stream<'_, 'm> {
    /// Starts to copy the tile from position `start` on to the slots from `slot` on; zeros where there is nothing.
    pub(super) fn copy(
        &self,
        builder: TileBuilder<'m>,
        start: Value<'m>,
        slot: Value<'m>,
    ) -> Result<(), LoweringError> {
        let layout = &self.chunk.global;
        let code = builder.scalar();
        let position = line(builder, layout, self.positions_dim, start)?;
        let stride = self.source.strides[2];
        let far = builder.map1(&[&position], &position.ty.layout, DType::I32, |code, values| {
            Ok(code.add(stride.scale(code, values[0])?, self.base)?)
        })?;
        let far = builder.spread(&far, self.positions_dim, layout)?;
        let exists = match self.positions {
            Some(positions) => {
                let inside = below(builder, &position, positions)?;
                Some(builder.spread(&inside, self.positions_dim, layout)?)
            }
            None => None,
        };
        let (size, count) = self.chunks;
        let along = 1 - self.positions_dim;
        for chunk in 0..count {
            let element = line(builder, layout, along, code.i32((chunk * size) as i32)?)?;
            let mut mask: Mask<'m> = exists.clone();
            if (chunk + 1) * size > self.depth {
                let inside = below(builder, &element, Size::from(self.depth))?;
                mask = and_masks(builder, &mask, &builder.spread(&inside, along, layout)?)?;
            }
            let stride = self.source.strides[3];
            let near = builder
                .map1(&[&element], &element.ty.layout, DType::I32, |code, values| Ok(stride.scale(code, values[0])?))?;
            let near = builder.spread(&near, along, layout)?;
            let offsets: Tile<'m> =
                builder.map1(&[&far, &near], layout, DType::I32, |code, values| Ok(code.add(values[0], values[1])?))?;
            let slot = code.offset(slot, chunk as i32)?;
            builder.async_copy(self.pointer, &offsets, mask.as_ref(), &self.shared, slot, self.chunk.contiguity)?;
        }
        Ok(())
    }

    /// A chunk of a tile as the multipliers take it.
    pub(super) fn fragment(
        &self,
        builder: TileBuilder<'m>,
        slot: Value<'m>,
        chunk: u32,
    ) -> Result<Tile<'m>, LoweringError> {
        let slot = builder.scalar().offset(slot, chunk as i32)?;
        Ok(builder.local_load(&self.shared, slot, &self.chunk.fragment)?)
    }
}
