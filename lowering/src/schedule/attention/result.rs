//! The result of a block.

use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::problem::behind_transposes;
use super::scores::Softmax;
use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::evaluate::{Destination, Mask, and_masks, store};
use crate::schedule::index::{Coordinate, Index, common, line};
use crate::schedule::reduce::below;
use crate::schedule::scalar::memory_type;
use crate::schedule::size::Size;

/// Divides the chunks of results by the running sums, evaluates the rest of the body and stores.
pub(super) fn finish<'m>(
    softmax: &Softmax<'_, '_, 'm>,
    builder: TileBuilder<'m>,
    body: &Body,
    outputs: &[Value<'m>],
    sum: &Tile<'m>,
    chunks: &[Tile<'m>],
) -> Result<(), LoweringError> {
    let tile = softmax.tile;
    let problem = tile.problem;
    let code = builder.scalar();
    let anchor = ValueRef::Node(problem.anchor, 0);
    let sizes = &body.shape(anchor).sizes;
    let factor = softmax.factor(builder, sum)?;
    let bytes = memory_type(problem.dtype).size() as u32;
    let widest = (16 / bytes).min((tile.queries * tile.width.0 / (tile.warps * 32)).max(1));
    // Threads hold pairs after a matrix instruction: they exchange for 16 bytes each.
    let wide = common(widest.min(tile.width.0), problem.width);
    let own = tile.sums.vector_width_along(1, bytes)?;
    let (layout, run) = if tile.by_instruction && wide > own {
        let shape = [tile.queries, tile.width.0];
        (tenon_layout::TileLayout::contiguous(&shape, &[1, 0], wide, tile.warps)?, wide)
    } else {
        (tile.sums.clone(), common(own, problem.width))
    };
    let rows = line(builder, &layout, 0, softmax.place.query)?;
    let mut row_mask: Mask<'m> = None;
    if !problem.queries.is_multiple_of(tile.queries) {
        let inside = below(builder, &rows, problem.queries)?;
        row_mask = Some(builder.spread(&inside, 0, &layout)?);
    }
    let whole = |value: Value<'m>| -> Result<Coordinate<'m>, LoweringError> {
        Ok(Coordinate::Tile(builder.splat(value, DType::I32, &layout)?))
    };
    let (batch, head) = (whole(softmax.place.batch)?, whole(softmax.place.head)?);
    let row = Coordinate::Tile(builder.spread(&rows, 0, &layout)?);
    for (chunk, sums) in (0..tile.width.1).zip(chunks) {
        let value = softmax.result(builder, sums, &factor)?;
        let value = builder.convert_layout(&value, &layout)?;
        let columns = line(builder, &layout, 1, code.i32((chunk * tile.width.0) as i32)?)?;
        let mut mask = row_mask.clone();
        if (chunk + 1) * tile.width.0 > problem.width {
            let inside = below(builder, &columns, Size::from(problem.width))?;
            mask = and_masks(builder, &mask, &builder.spread(&inside, 1, &layout)?)?;
        }
        let column = Coordinate::Tile(builder.spread(&columns, 1, &layout)?);
        let coordinates = vec![batch.clone(), head.clone(), row.clone(), column];
        let index = Index::from_coordinates(sizes, coordinates.clone(), &layout, run).as_own();
        let mut evaluator = softmax.evaluator.clone();
        evaluator.bind(anchor, value);
        for (output, target) in Destination::all(body, outputs) {
            let (inner, axes) = behind_transposes(body, output);
            if body.shape(inner).sizes != *sizes {
                return Err(body.error("a result of another shape than attention's"));
            }
            let shape = body.shape(output);
            let value = evaluator.value_at(builder, inner, &index, &mask)?;
            let moved = axes.iter().map(|axis| coordinates[*axis].clone()).collect();
            // A run along the last dimension stays one where that stays the last.
            let run = if axes.last() == Some(&(axes.len() - 1)) { run } else { 1 };
            let place = Index::from_coordinates(&shape.sizes, moved, &layout, run);
            store(builder, target, &place, &value, &mask)?;
        }
    }
    Ok(())
}
