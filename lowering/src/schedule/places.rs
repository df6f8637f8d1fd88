//! One place an element: the blocks of families whose threads each own elements of a tensor, pointwise kernels first.

use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::evaluate::Mask;
use crate::schedule::index::common;
use crate::schedule::size::{Size, is_wide, offset_type};
use crate::schedule::{KernelShape, parts};

const WARPS: u32 = 4;

/// How elements are dealt out to blocks and threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    elements: Size,
    /// Elements of a block.
    block: u32,
    /// Registers in a row that are consecutive elements.
    pub(super) vector: u32,
}

/// The elements of a block that is being built.
pub(super) struct BlockPlaces<'m> {
    /// Number of each place's element, i64 in a tensor that needs it.
    pub(super) linear: Tile<'m>,
    /// Places whose element exists; none if all do.
    pub(super) mask: Mask<'m>,
}

impl Places {
    /// Places of `elements` elements in rows of `last`, at most `widest` consecutive ones a thread, fewer where there would not be a block
    /// for each of `sms` multiprocessors.
    pub(super) fn new(elements: Size, last: Size, widest: u32, sms: u32) -> Self {
        let mut vector = common(widest, last);
        while vector > 1 && elements.capacity_u32() / (WARPS * 32 * vector) < sms {
            vector /= 2;
        }
        Places { elements, block: WARPS * 32 * vector, vector }
    }

    pub(super) fn shape(self, body: &Body) -> Result<KernelShape, LoweringError> {
        Ok(KernelShape::line(WARPS, parts(self.elements, self.block, body)?))
    }

    /// Layout of a block's places.
    pub(super) fn layout(self) -> Result<TileLayout, LoweringError> {
        Ok(TileLayout::contiguous(&[self.block], &[0], self.vector, WARPS)?)
    }

    /// A layout of `[places, others]` in which each thread has all of the others for each of its places.
    pub(super) fn layout_with(self, others: u32) -> Result<TileLayout, LoweringError> {
        let per_thread = [self.vector, others];
        Ok(TileLayout::blocked(&[self.block, others], &per_thread, &[32, 1], &[WARPS, 1], &[1, 0])?)
    }

    /// The places of this block, as a tile of one dimension in the given layout.
    pub(super) fn build<'m>(
        self,
        builder: TileBuilder<'m>,
        layout: &TileLayout,
    ) -> Result<BlockPlaces<'m>, LoweringError> {
        let iota = builder.iota(0, layout)?;
        let block = builder.program_id(0)?;
        let wide = is_wide(&[self.elements]);
        let start = Size::from(self.block).scale_to(builder.scalar(), block, wide)?;
        let elements = self.elements;
        let tiles = builder.map(&[&iota], layout, &[offset_type(wide), DType::Bool], |code, values| {
            let place = if wide { code.convert("arith.extsi", values[0], DType::I64)? } else { values[0] };
            let linear = code.add(place, start)?;
            let end = if wide { elements.wide_value(code)? } else { elements.value(code)? };
            Ok(vec![linear, code.compare_int(IntegerPredicate::UnsignedLess, linear, end)?])
        })?;
        let all = elements.capacity() != 0 && elements.is_multiple_of(self.block);
        let mut tiles = tiles.into_iter();
        match (tiles.next(), tiles.next()) {
            (Some(linear), Some(exists)) => Ok(BlockPlaces { linear, mask: (!all).then_some(exists) }),
            _ => Err(LoweringError::unsupported("hw.map", "no result")),
        }
    }
}
