//! The largest or smallest elements along an axis, in order.
//!
//! Each place owns one element of the input and counts the elements of its row that come before it: those beyond it, and its equals of
//! lower index. That count is the element's rank, and where it is below k, the place in the result; ranks of a row differ, so no two
//! threads write one element. Elements are compared as integers ([`crate::schedule::scalar::order`]).

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::TopK;
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::KernelShape;
use crate::schedule::body::{Body, Shape, ValueRef, axis};
use crate::schedule::control::for_range;
use crate::schedule::evaluate::{Destination, Evaluator, Mask, and_masks, coordinate_tile, map, store};
use crate::schedule::index::{Coordinate, Index, common, line};
use crate::schedule::places::Places;
use crate::schedule::reduce::below;
use crate::schedule::scalar::order::{key, key_type};
use crate::schedule::scalar::register_type;
use crate::schedule::size::Size;

/// Elements that one turn of the loop compares with.
const CHUNK: u32 = 8;

/// The selection in the body and the places of its input.
pub(super) struct TopKPlan {
    top_k: TopK,
    anchor: usize,
    axis: usize,
    places: Places,
    /// Layouts of `[places, elements compared with]` and of the places alone.
    pairs: TileLayout,
    layout: TileLayout,
}

impl TopKPlan {
    pub(super) fn new(body: &Body) -> Result<Self, LoweringError> {
        let (anchor, top_k) = body.anchor(|node| match &node.operator {
            Operator::TopK(top_k) => Some(top_k),
            _ => None,
        })?;
        let input = body.shape(body.nodes[anchor].operands[0]);
        let axis = axis(top_k.axis, input.sizes.len());
        let places = Places::new(input.elements(), Size::fixed(1), 1, 1);
        let pairs = places.layout_with(CHUNK)?;
        let layout = tenon_hw_dialect::line_layout(&pairs, 0)?;
        Ok(TopKPlan { top_k: top_k.clone(), anchor, axis, places, pairs, layout })
    }

    pub(super) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        self.places.shape(body)
    }

    pub(super) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        let node = &body.nodes[self.anchor];
        let input = body.shape(node.operands[0]);
        let block = self.places.build(builder, &self.layout)?;
        let index = Index::from_linear(&input.sizes, block.linear, 1);
        let evaluator = Evaluator::new(body, inputs);
        let value = evaluator.value_at(builder, node.operands[0], &index, &block.mask)?;
        let mut coordinates = index.coordinates(builder)?;
        let own = coordinate_tile(builder, &coordinates[self.axis], &self.layout)?;
        let ranks = Ranks { plan: self, evaluator: &evaluator, operand: node.operands[0], input };
        let rank = ranks.of(builder, &value, &own, &coordinates, &block.mask)?;

        let chosen = below(builder, &rank, Size::fixed(u64::try_from(self.top_k.k).unwrap_or(0)))?;
        let mask = and_masks(builder, &block.mask, &chosen)?;
        coordinates[self.axis] = Coordinate::Tile(rank);
        for (output, target) in Destination::all(body, outputs) {
            let shape = body.shape(output);
            let at = Index::from_coordinates(&shape.sizes, coordinates.clone(), &self.layout, 1);
            let tile = match output {
                ValueRef::Node(node, 0) if node == self.anchor => value.clone(),
                ValueRef::Node(node, 1) if node == self.anchor => map(builder, &[&own], DType::I64, |code, values| {
                    Ok(code.convert("arith.extsi", values[0], DType::I64)?)
                })?,
                _ => return Err(body.error("a top_k kernel yields nothing but its selection")),
            };
            store(builder, target, &at, &tile, &mask)?;
        }
        Ok(())
    }
}

/// Counting of what comes before.
struct Ranks<'x, 'm> {
    plan: &'x TopKPlan,
    evaluator: &'x Evaluator<'x, 'm>,
    operand: ValueRef,
    input: &'x Shape,
}

impl<'m> Ranks<'_, 'm> {
    /// Keys of elements: what comes first has the largest.
    fn keys(&self, builder: TileBuilder<'m>, value: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        let dtype = self.input.dtype;
        map(builder, &[value], register_type(key_type(dtype)), |code, values| {
            let key = key(code, values[0], dtype)?;
            if self.plan.top_k.smallest {
                return Ok(code.op("arith.xori", &[key, code.int(-1, key_type(dtype))?])?);
            }
            Ok(key)
        })
    }

    /// The rank of each place's element, `own` being its index along the axis.
    fn of(
        &self,
        builder: TileBuilder<'m>,
        value: &Tile<'m>,
        own: &Tile<'m>,
        coordinates: &[Coordinate<'m>],
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let (plan, sizes) = (self.plan, &self.input.sizes);
        let pairs = &plan.pairs;
        let length = sizes[plan.axis];
        let mut row = Vec::new();
        for (dim, coordinate) in coordinates.iter().enumerate() {
            row.push(match coordinate {
                Coordinate::Tile(tile) if dim != plan.axis => Coordinate::Tile(builder.spread(tile, 0, pairs)?),
                _ => Coordinate::Constant(0),
            });
        }
        let own_key = builder.spread(&self.keys(builder, value)?, 0, pairs)?;
        let own = builder.spread(own, 0, pairs)?;
        let mask = match mask {
            Some(mask) => Some(builder.spread(mask, 0, pairs)?),
            None => None,
        };
        let contiguity = if plan.axis + 1 == sizes.len() { common(CHUNK, length) } else { 1 };
        let none = builder.splat(builder.scalar().i32(0)?, DType::I32, &plan.layout)?;
        let counted = for_range(builder, length, CHUNK, &[none], |inner, start, carried| {
            let other = line(inner, pairs, 1, start)?;
            let exists = inner.spread(&below(inner, &other, length)?, 1, pairs)?;
            let all = length.is_multiple_of(CHUNK);
            let load_mask = if all { mask.clone() } else { and_masks(inner, &mask, &exists)? };
            let other = inner.spread(&other, 1, pairs)?;
            let mut coordinates = row.clone();
            coordinates[plan.axis] = Coordinate::Tile(other.clone());
            let at = Index::from_coordinates(sizes, coordinates, pairs, contiguity);
            let value = self.evaluator.value_at(inner, self.operand, &at, &load_mask)?;
            let keys = self.keys(inner, &value)?;
            let before = inner.map1(&[&keys, &own_key, &other, &own, &exists], pairs, DType::I32, |code, values| {
                let beyond = code.compare_int(IntegerPredicate::UnsignedGreater, values[0], values[1])?;
                let equal = code.compare_int(IntegerPredicate::Equal, values[0], values[1])?;
                let earlier = code.compare_int(IntegerPredicate::SignedLess, values[2], values[3])?;
                let tie = code.op("arith.andi", &[equal, earlier])?;
                let before = code.op("arith.ori", &[beyond, tie])?;
                let before = if all { before } else { code.op("arith.andi", &[before, values[4]])? };
                Ok(code.convert("arith.extui", before, DType::I32)?)
            })?;
            let counts = inner.reduce(1, &[&before], |code, sum, new| Ok(vec![code.add(sum[0], new[0])?]))?;
            let operands: Vec<_> = carried.iter().chain(&counts).collect();
            Ok(vec![
                inner.map1(&operands, &plan.layout, DType::I32, |code, values| Ok(code.add(values[0], values[1])?))?,
            ])
        })?;
        counted.into_iter().next().ok_or_else(|| LoweringError::unsupported("scf.for", "no result"))
    }
}
