//! Results that are parts of what is computed, or have their dimensions in another order.
//!
//! A place has the element that it computed, and nothing else: so it is the place that the element goes to which is worked out, from what is
//! computed towards the result, and not the other way round as elsewhere.

use tenon_graph_dialect::Operator;
use tenon_hw_dialect::{IntegerPredicate, TileBuilder};
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, Node, ValueRef};
use crate::schedule::evaluate::{Destination, Evaluator, Mask, and_masks, coordinate_tile, store};
use crate::schedule::index::{Coordinate, Index, common};
use crate::schedule::size::Size;

/// A result behind slices, transposes and reshapes.
pub(super) struct Moved {
    /// What is computed.
    base: ValueRef,
    /// The moving operators, in order.
    nodes: Vec<usize>,
}

impl Moved {
    /// `None` for a result that is as it is computed, or has another shape only.
    pub(super) fn of(body: &Body, output: ValueRef) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut base = output;
        while let ValueRef::Node(place, 0) = base {
            let Node { operator, operands, .. } = &body.nodes[place];
            if !matches!(operator, Operator::Slice(_) | Operator::Transpose(_) | Operator::Reshape(_)) {
                break;
            }
            nodes.push(place);
            base = operands[0];
        }
        nodes.reverse();
        let moves = nodes.iter().any(|place| !matches!(body.nodes[*place].operator, Operator::Reshape(_)));
        moves.then_some(Moved { base, nodes })
    }

    /// Stores the elements of the result among those at `own`, the index of what the kernel computes.
    pub(super) fn store<'m>(
        &self,
        builder: TileBuilder<'m>,
        evaluator: &Evaluator<'_, 'm>,
        own: &Index<'m>,
        mask: &Mask<'m>,
        target: Destination<'_, 'm>,
    ) -> Result<(), LoweringError> {
        let body = target.body;
        let mut index = own.reshaped(builder, &body.shape(self.base).sizes)?;
        let value = evaluator.value_at(builder, self.base, &index, mask)?;
        let mut mask = mask.clone();
        for place in &self.nodes {
            let sizes = &body.nodes[*place].results[0].sizes;
            index = match &body.nodes[*place].operator {
                Operator::Transpose(transpose) => {
                    let coordinates = index.coordinates(builder)?;
                    let order: Vec<usize> = transpose.permutation.iter().map(|dim| *dim as usize).collect();
                    let keeps_last = order.last().is_some_and(|dim| dim + 1 == order.len());
                    let moved = order.iter().map(|dim| coordinates[*dim].clone()).collect();
                    let contiguity = if keeps_last { index.contiguity } else { 1 };
                    Index::from_coordinates(sizes, moved, &index.layout, contiguity)
                }
                Operator::Slice(slice) => {
                    let mut coordinates = index.coordinates(builder)?;
                    let mut contiguity = index.contiguity;
                    for (axis, (start, size)) in slice.starts.iter().zip(sizes).enumerate() {
                        let start = start.as_constant().and_then(|start| i32::try_from(start).ok());
                        let start = start.ok_or_else(|| body.error("a part that begins at an extent"))?;
                        if start == 0 && *size == index.sizes[axis] {
                            continue;
                        }
                        let tile = coordinate_tile(builder, &coordinates[axis], &index.layout)?;
                        let tiles =
                            builder.map(&[&tile], &index.layout, &[DType::I32, DType::Bool], |code, values| {
                                let moved = code.offset(values[0], -start)?;
                                let inside =
                                    code.compare_int(IntegerPredicate::UnsignedLess, moved, size.value(code)?)?;
                                Ok(vec![moved, inside])
                            })?;
                        coordinates[axis] = Coordinate::Tile(tiles[0].clone());
                        mask = and_masks(builder, &mask, &tiles[1])?;
                        if axis + 1 == sizes.len() {
                            contiguity = common(contiguity, *size);
                            contiguity =
                                if start == 0 { contiguity } else { common(contiguity, Size::from(start as u32)) };
                        }
                    }
                    Index::from_coordinates(sizes, coordinates, &index.layout, contiguity)
                }
                _ => index.reshaped(builder, sizes)?,
            };
        }
        store(builder, target, &index, &value, &mask)
    }
}
