//! Writing by index into a copy.
//!
//! Each place owns one element of the result, goes through the updates that may hit it in the order of the indices, and combines those that
//! do. So the order of duplicates is the reference's, nothing is atomic, and no two threads write one element. Only updates that agree with
//! the element in all other coordinates can hit it: along `axis` for `elements`, all index tuples for `nd`.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Combine, Function, Scatter, ScatterKind};
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_target::Target;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::KernelShape;
use crate::schedule::body::{Body, Node, ValueRef, axis};
use crate::schedule::control::for_range;
use crate::schedule::evaluate::{Destination, Evaluator, Mask, and_masks, cast_tile, coordinate_tile, map, store};
use crate::schedule::index::{Coordinate, Index, common};
use crate::schedule::places::Places;
use crate::schedule::reduce::below;
use crate::schedule::scalar::{self, memory_type, register_type};
use crate::schedule::size::{Size, is_wide};

/// Updates looked at in one turn of the loop, so that their loads overlap.
const UNROLL: u32 = 4;

/// The scatter in the body and the places of its result.
pub(super) struct ScatterPlan {
    scatter: Scatter,
    anchor: usize,
    places: Places,
}

impl ScatterPlan {
    pub(super) fn new(body: &Body, target: &Target) -> Result<Self, LoweringError> {
        let (anchor, scatter) = body.anchor(|node| match &node.operator {
            Operator::Scatter(scatter) => Some(scatter),
            _ => None,
        })?;
        let shape = &body.nodes[anchor].results[0];
        if shape.dtype == DType::Bool && scatter.combine != Combine::Set {
            return Err(LoweringError::unsupported("graph.scatter", "bools are set, not combined"));
        }
        let widest = (16 / memory_type(shape.dtype).size() as u32).clamp(1, 4);
        let last = shape.sizes.last().copied().unwrap_or(Size::fixed(1));
        let places = Places::new(shape.elements(), last, widest, target.gpu.sms);
        Ok(ScatterPlan { scatter: scatter.clone(), anchor, places })
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
        let scatter = &self.scatter;
        let node = &body.nodes[self.anchor];
        let layout = self.places.layout()?;
        let block = self.places.build(builder, &layout)?;
        let shape = &node.results[0];
        let index = Index::from_linear(&shape.sizes, block.linear, common(self.places.vector, shape.elements()));
        let mut evaluator = Evaluator::new(body, inputs);
        let hits = match scatter.kind {
            ScatterKind::Elements => Hits::elements(builder, body, scatter, node, &index, &block.mask)?,
            ScatterKind::Nd => Hits::tuples(builder, body, node, &index, &block.mask)?,
        };
        let value = hits.combined(builder, &evaluator, scatter.combine, node, &index, &block.mask)?;
        evaluator.bind(ValueRef::Node(self.anchor, 0), value);
        for (output, target) in Destination::all(body, outputs) {
            let shape = body.shape(output);
            let index = index.clone().as_own().reshaped(builder, &shape.sizes)?;
            let value = evaluator.value_at(builder, output, &index, &block.mask)?;
            store(builder, target, &index, &value, &block.mask)?;
        }
        Ok(())
    }
}

/// Indices and updates as the places of a block see them: `count` of them may hit an element.
struct Hits<'m> {
    count: Size,
    layout: TileLayout,
    /// Coordinates of a place's first index and first update; along the dimension with the given number lie the others.
    index: Vec<Coordinate<'m>>,
    index_along: usize,
    index_sizes: Vec<Size>,
    update: Vec<Coordinate<'m>>,
    update_along: usize,
    update_sizes: Vec<Size>,
    /// What the parts of an index must be, in the indices' type, with the sizes of those dimensions.
    wanted: Vec<(Tile<'m>, Size)>,
    /// Whether the last dimension of the indices holds the parts of a tuple.
    tuples: bool,
    /// Places that read indices at all.
    mask: Mask<'m>,
}

impl<'m> Hits<'m> {
    /// By updates that agree with the element in all coordinates but that along the axis.
    fn elements(
        builder: TileBuilder<'m>,
        body: &Body,
        scatter: &Scatter,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Self, LoweringError> {
        let indices = body.shape(node.operands[1]);
        let axis = axis(scatter.axis, index.sizes.len());
        let mut coordinates = index.coordinates(builder)?;
        let wanted = coordinate_tile(builder, &coordinates[axis], &index.layout)?;
        let wanted = cast_tile(builder, &wanted, DType::I32, indices.dtype)?;
        coordinates[axis] = Coordinate::Constant(0);
        let mut mask = mask.clone();
        for (dim, coordinate) in coordinates.iter().enumerate() {
            let (held, size) = (indices.sizes[dim], index.sizes[dim]);
            let all = held == size || held.known().zip(size.known()).is_some_and(|(held, size)| held >= size);
            if dim == axis || all {
                continue;
            }
            let coordinate = coordinate_tile(builder, coordinate, &index.layout)?;
            mask = and_masks(builder, &mask, &below(builder, &coordinate, held)?)?;
        }
        Ok(Hits {
            count: indices.sizes[axis],
            layout: index.layout.clone(),
            index: coordinates.clone(),
            index_along: axis,
            index_sizes: indices.sizes.clone(),
            update: coordinates,
            update_along: axis,
            update_sizes: body.shape(node.operands[2]).sizes.clone(),
            wanted: vec![(wanted, index.sizes[axis])],
            tuples: false,
            mask,
        })
    }

    /// By tuples in the last dimension of the indices, each of which names a slice of the result. Dimensions before it are seen as one.
    fn tuples(
        builder: TileBuilder<'m>,
        body: &Body,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Self, LoweringError> {
        let indices = body.shape(node.operands[1]);
        let length = indices.sizes.last().map_or(Some(0), |size| size.known());
        let length = length.ok_or_else(|| {
            LoweringError::unsupported("graph.scatter", "index tuples whose length is known at launch only")
        })?;
        let lead = &indices.sizes[..indices.sizes.len() - 1];
        if is_wide(lead) {
            return Err(LoweringError::shape("a scatter of 2^31 index tuples or more"));
        }
        let (count, tuple) = (lead.iter().product::<Size>(), length as usize);
        let coordinates = index.coordinates(builder)?;
        let wanted = (0..tuple).map(|dim| {
            let wanted = coordinate_tile(builder, &coordinates[dim], &index.layout)?;
            Ok((cast_tile(builder, &wanted, DType::I32, indices.dtype)?, index.sizes[dim]))
        });
        let wanted = wanted.collect::<Result<Vec<_>, LoweringError>>()?;
        let first = [Coordinate::Constant(0)];
        Ok(Hits {
            count,
            layout: index.layout.clone(),
            index: [&first[..], &first].concat(),
            index_along: 0,
            index_sizes: vec![count, Size::fixed(length)],
            update: [&first[..], &coordinates[tuple..]].concat(),
            update_along: 0,
            update_sizes: [&[count], &index.sizes[tuple..]].concat(),
            wanted,
            tuples: true,
            mask: mask.clone(),
        })
    }

    /// The element of each place with all its updates combined in.
    fn combined(
        &self,
        builder: TileBuilder<'m>,
        evaluator: &Evaluator<'_, 'm>,
        combine: Combine,
        node: &Node,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let dtype = node.results[0].dtype;
        let data = evaluator.value_at(builder, node.operands[0], index, mask)?;
        let Some(function) = function(combine) else {
            // Only the last update that hits counts; it is read once it is known.
            let none = builder.splat(builder.scalar().i32(-1)?, DType::I32, &self.layout)?;
            let last = for_range(builder, self.count, UNROLL, &[none], |inner, start, carried| {
                let mut last = carried[0].clone();
                for step in 0..UNROLL {
                    let number = inner.scalar().offset(start, step as i32)?;
                    let hit = self.hit(inner, evaluator, node, number)?;
                    last = inner.map1(&[&hit, &last], &self.layout, DType::I32, |code, values| {
                        Ok(code.select(values[0], number, values[1])?)
                    })?;
                }
                Ok(vec![last])
            })?;
            let hit = builder.map1(&[&last[0]], &self.layout, DType::Bool, |code, values| {
                Ok(code.compare_int(IntegerPredicate::SignedGreaterEqual, values[0], code.i32(0)?)?)
            })?;
            let update = self.update(builder, evaluator, node, &last[0], &hit)?;
            return map(builder, &[&hit, &update, &data], register_type(dtype), |code, values| {
                Ok(code.select(values[0], values[1], values[2])?)
            });
        };
        let combined = for_range(builder, self.count, UNROLL, &[data], |inner, start, carried| {
            let mut value = carried[0].clone();
            for step in 0..UNROLL {
                let number = inner.scalar().offset(start, step as i32)?;
                let hit = self.hit(inner, evaluator, node, number)?;
                let number = inner.splat(number, DType::I32, &self.layout)?;
                let update = self.update(inner, evaluator, node, &number, &hit)?;
                value = map(inner, &[&hit, &value, &update], register_type(dtype), |code, values| {
                    let new = scalar::apply(code, function, dtype, &values[1..])?;
                    Ok(code.select(values[0], new, values[1])?)
                })?;
            }
            Ok(vec![value])
        })?;
        combined.into_iter().next().ok_or_else(|| LoweringError::unsupported("scf.for", "no result"))
    }

    /// Where update `number` hits: each part of its index is the coordinate, or as far below it as the dimension is long. An index out of
    /// range hits nothing.
    fn hit(
        &self,
        builder: TileBuilder<'m>,
        evaluator: &Evaluator<'_, 'm>,
        node: &Node,
        number: Value<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let code = builder.scalar();
        let mask = if self.count.is_multiple_of(UNROLL) {
            self.mask.clone()
        } else {
            let exists = code.compare_int(IntegerPredicate::UnsignedLess, number, self.count.value(code)?)?;
            and_masks(builder, &self.mask, &builder.splat(exists, DType::Bool, &self.layout)?)?
        };
        let indices = evaluator.body.shape(node.operands[1]);
        let number = builder.splat(number, DType::I32, &self.layout)?;
        let mut parts = Vec::new();
        for part in 0..self.wanted.len() {
            let mut coordinates = self.index.clone();
            coordinates[self.index_along] = Coordinate::Tile(number.clone());
            if self.tuples {
                coordinates[1] = Coordinate::Constant(part as i32);
            }
            let at = Index::from_coordinates(&self.index_sizes, coordinates, &self.layout, 1);
            let at = at.reshaped(builder, &indices.sizes)?;
            parts.push(evaluator.value_at(builder, node.operands[1], &at, &mask)?);
        }
        let mut operands: Vec<_> = self.wanted.iter().map(|(wanted, _)| wanted).collect();
        operands.extend(&parts);
        operands.extend(mask.as_ref());
        if operands.is_empty() {
            // An empty tuple names the whole tensor.
            return Ok(builder.splat(code.int(-1, DType::Bool)?, DType::Bool, &self.layout)?);
        }
        let dtype = indices.dtype;
        Ok(builder.map1(&operands, &self.layout, DType::Bool, |code, values| {
            let (wanted, rest) = values.split_at(parts.len());
            let (found, mut conditions) = (&rest[..parts.len()], rest[parts.len()..].to_vec());
            for ((wanted, found), (_, size)) in wanted.iter().zip(found).zip(&self.wanted) {
                let length = size.as_integer(code, dtype)?;
                let below = code.op("arith.subi", &[*wanted, length])?;
                let same = code.compare_int(IntegerPredicate::Equal, *found, *wanted)?;
                let from_end = code.compare_int(IntegerPredicate::Equal, *found, below)?;
                conditions.push(code.op("arith.ori", &[same, from_end])?);
            }
            let (first, rest) = conditions.split_at(1);
            rest.iter().try_fold(first[0], |all, condition| Ok(code.op("arith.andi", &[all, *condition])?))
        })?)
    }

    /// What update `number` says, where it hits.
    fn update(
        &self,
        builder: TileBuilder<'m>,
        evaluator: &Evaluator<'_, 'm>,
        node: &Node,
        number: &Tile<'m>,
        hit: &Tile<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let mut coordinates = self.update.clone();
        coordinates[self.update_along] = Coordinate::Tile(number.clone());
        let at = Index::from_coordinates(&self.update_sizes, coordinates, &self.layout, 1);
        let at = at.reshaped(builder, &evaluator.body.shape(node.operands[2]).sizes)?;
        evaluator.value_at(builder, node.operands[2], &at, &Some(hit.clone()))
    }
}

fn function(combine: Combine) -> Option<Function> {
    Some(match combine {
        Combine::Set => return None,
        Combine::Add => Function::Add,
        Combine::Multiply => Function::Multiply,
        Combine::Max => Function::Max,
        Combine::Min => Function::Min,
    })
}
