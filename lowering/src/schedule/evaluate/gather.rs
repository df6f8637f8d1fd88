//! Reading by index: slices along an axis, single elements, index tuples.

use tenon_graph_dialect::operators::{Gather, GatherKind};
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_tensor::DType;

use super::{Evaluator, Mask};
use crate::LoweringError;
use crate::schedule::body::{Node, ValueRef, axis};
use crate::schedule::index::{Coordinate, Index};
use crate::schedule::size::Size;

impl<'m> Evaluator<'_, 'm> {
    pub(super) fn gather(
        &self,
        builder: TileBuilder<'m>,
        gather: &Gather,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let (input, indices) = (node.operands[0], node.operands[1]);
        let sizes = self.body.shape(input).sizes.clone();
        let index_sizes = self.body.shape(indices).sizes.clone();
        let outer = index.coordinates(builder)?;
        let axis = axis(gather.axis, sizes.len());
        let mut contiguity = 1;
        let coordinates = match gather.kind {
            GatherKind::Take => {
                let at = Index::from_coordinates(
                    &index_sizes,
                    outer[axis..axis + index_sizes.len()].to_vec(),
                    &index.layout,
                    1,
                );
                let picked = self.picked(builder, indices, &at, sizes[axis], mask)?;
                if axis + 1 < sizes.len() {
                    contiguity = index.contiguity;
                }
                [&outer[..axis], &[picked], &outer[axis + index_sizes.len()..]].concat()
            }
            GatherKind::Elements => {
                let at = Index::from_coordinates(&index_sizes, outer.clone(), &index.layout, index.contiguity);
                let picked = self.picked(builder, indices, &at, sizes[axis], mask)?;
                let mut coordinates = outer.clone();
                coordinates[axis] = picked;
                coordinates
            }
            GatherKind::Nd => {
                let batch = gather.batch_dims as usize;
                let tuple = index_sizes.last().map_or(Some(0), |size| size.known()).ok_or_else(|| {
                    LoweringError::unsupported("graph.gather", "index tuples whose length is known at launch only")
                })? as usize;
                let lead = index_sizes.len() - 1;
                // A batch dimension of 1 serves all.
                let batch_of = |sizes: &[Size]| -> Vec<Coordinate<'m>> {
                    let of = |dim: usize| if sizes[dim] == 1 { Coordinate::Constant(0) } else { outer[dim].clone() };
                    (0..batch).map(of).collect()
                };
                let mut coordinates = batch_of(&sizes);
                let index_batch = batch_of(&index_sizes);
                for position in 0..tuple {
                    let place = [&index_batch, &outer[batch..lead], &[Coordinate::Constant(position as i32)]].concat();
                    let at = Index::from_coordinates(&index_sizes, place, &index.layout, 1);
                    coordinates.push(self.picked(builder, indices, &at, sizes[batch + position], mask)?);
                }
                if batch + tuple < sizes.len() {
                    contiguity = index.contiguity;
                }
                coordinates.extend_from_slice(&outer[lead..]);
                coordinates
            }
        };
        let own = Index::from_coordinates(&sizes, coordinates, &index.layout, contiguity);
        self.value_at(builder, input, &own, mask)
    }

    /// An index read at `at`, counted from the end where negative, clamped to the dimension.
    fn picked(
        &self,
        builder: TileBuilder<'m>,
        indices: ValueRef,
        at: &Index<'m>,
        size: Size,
        mask: &Mask<'m>,
    ) -> Result<Coordinate<'m>, LoweringError> {
        let dtype = self.body.shape(indices).dtype;
        let raw = self.value_at(builder, indices, at, mask)?;
        let tile = builder.map1(&[&raw], &at.layout, DType::I32, |scalar, values| {
            let zero = scalar.int(0, dtype)?;
            let length = size.as_integer(scalar, dtype)?;
            let negative = scalar.compare_int(IntegerPredicate::SignedLess, values[0], zero)?;
            let moved = scalar.add(values[0], length)?;
            let index = scalar.select(negative, moved, values[0])?;
            let index = match size.known() {
                Some(size) => scalar.op("arith.minsi", &[index, scalar.int(size as i64 - 1, dtype)?])?,
                None => {
                    let last = scalar.op("arith.subi", &[length, scalar.int(1, dtype)?])?;
                    scalar.op("arith.minsi", &[index, last])?
                }
            };
            // Last, so that nothing is read in front of a dimension that has no element.
            let index = scalar.op("arith.maxsi", &[index, zero])?;
            if dtype == DType::I64 { Ok(scalar.convert("arith.trunci", index, DType::I32)?) } else { Ok(index) }
        })?;
        Ok(Coordinate::Tile(tile))
    }
}
