//! Places in a sorted list, by bisection.

use tenon_graph_dialect::operators::Function;
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_tensor::DType;

use super::{Evaluator, Mask, and_masks};
use crate::LoweringError;
use crate::schedule::body::Node;
use crate::schedule::control::for_range;
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::scalar;
use crate::schedule::size::Size;

impl<'m> Evaluator<'_, 'm> {
    /// How many elements of the list are less than the value of each place: each turn halves what may be the answer.
    pub(super) fn search_sorted(
        &self,
        builder: TileBuilder<'m>,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let (list, layout) = (self.body.shape(node.operands[0]).clone(), index.layout.clone());
        let length = list.sizes[0];
        let wanted = self.value_at(builder, node.operands[1], index, mask)?;
        let code = builder.scalar();
        // Answers lie from `low` to `high`.
        let low = builder.splat(code.i32(0)?, DType::I32, &layout)?;
        let high = builder.splat(length.value(code)?, DType::I32, &layout)?;
        let turns = u64::BITS - length.capacity().leading_zeros();
        let found = for_range(builder, Size::fixed(u64::from(turns)), 1, &[low, high], |inner, _, bounds| {
            let tiles = inner.map(&[&bounds[0], &bounds[1]], &layout, &[DType::I32, DType::Bool], |code, values| {
                let middle = code.op("arith.shrui", &[code.add(values[0], values[1])?, code.i32(1)?])?;
                let open = code.compare_int(IntegerPredicate::SignedLess, values[0], values[1])?;
                Ok(vec![middle, open])
            })?;
            let at = Index::from_coordinates(&list.sizes, vec![Coordinate::Tile(tiles[0].clone())], &layout, 1);
            let open = and_masks(inner, mask, &tiles[1])?;
            let element = self.value_at(inner, node.operands[0], &at, &open)?;
            let less = super::map(inner, &[&element, &wanted], DType::Bool, |code, values| {
                scalar::apply(code, Function::Less, list.dtype, values)
            })?;
            let operands = [&bounds[0], &bounds[1], &tiles[0], &tiles[1], &less];
            Ok(inner.map(&operands, &layout, &[DType::I32, DType::I32], |code, values| {
                let [low, high, middle, open, less] = values[..] else { return Ok(values[..2].to_vec()) };
                let above = code.select(less, code.offset(middle, 1)?, low)?;
                let below = code.select(less, high, middle)?;
                Ok(vec![code.select(open, above, low)?, code.select(open, below, high)?])
            })?)
        })?;
        super::map(builder, &[&found[0]], DType::I64, |code, values| {
            Ok(code.convert("arith.extui", values[0], DType::I64)?)
        })
    }
}
