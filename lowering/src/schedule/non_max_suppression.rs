//! Greedy choice of boxes: a block has a row of boxes, each thread some of them, with what is left of the candidates in registers. In order,
//! each box that is still a candidate strikes out those behind it that overlap with it.

use tenon_graph_dialect::Operator;
use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::control::for_range;
use crate::schedule::evaluate::{Destination, Evaluator, Mask, map, store};
use crate::schedule::index::{Coordinate, Index, line};
use crate::schedule::reduce::below;
use crate::schedule::{KernelShape, parts};

/// Most boxes of a row: what the registers of a block hold.
const MAX_BOXES: u32 = 8192;
/// Boxes of a thread, where there are enough warps.
const BOXES: u32 = 4;
const MAX_WARPS: u32 = 16;

/// The anchor in the body and the tile of a row.
pub(super) struct NonMaxSuppressionPlan {
    anchor: usize,
    warps: u32,
    layout: TileLayout,
}

impl NonMaxSuppressionPlan {
    pub(super) fn new(body: &Body) -> Result<Self, LoweringError> {
        let (anchor, ()) = body.anchor(|node| matches!(node.operator, Operator::NonMaxSuppression(_)).then_some(()))?;
        let boxes = body.nodes[anchor].results[0].sizes[1].capacity();
        if boxes > u64::from(MAX_BOXES) {
            return Err(LoweringError::unsupported(
                "graph.non_max_suppression",
                format!("{boxes} boxes of which to choose, more than {MAX_BOXES}; keep the best by TopK before"),
            ));
        }
        let columns = (boxes as u32).next_power_of_two().max(32);
        let warps = (columns / (32 * BOXES)).clamp(1, MAX_WARPS);
        let layout = TileLayout::blocked(&[1, columns], &[1, 1], &[1, 32], &[1, warps], &[1, 0])?;
        Ok(NonMaxSuppressionPlan { anchor, warps, layout })
    }

    pub(super) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let rows = body.nodes[self.anchor].results[0].sizes[0];
        Ok(KernelShape::line(self.warps, parts(rows, 1, body)?))
    }

    pub(super) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        let (node, layout) = (&body.nodes[self.anchor], &self.layout);
        let code = builder.scalar();
        let shape = &node.results[0];
        let count = shape.sizes[1];
        let column = line(builder, layout, 1, code.i32(0)?)?;
        let exists = builder.spread(&below(builder, &column, count)?, 1, layout)?;
        let column = builder.spread(&column, 1, layout)?;
        let mask = Some(exists.clone());
        let row = Coordinate::Tile(builder.splat(builder.program_id(0)?, DType::I32, layout)?);
        let evaluator = Evaluator::new(body, inputs);
        let row_boxes = Boxes { evaluator: &evaluator, operand: node.operands[0], row: row.clone(), layout };

        let own = row_boxes.at(builder, &Coordinate::Tile(column.clone()), &mask)?;
        let at = Index::from_coordinates(&body.shape(node.operands[2]).sizes, vec![Coordinate::Constant(0)], layout, 1);
        let threshold = evaluator.value_at(builder, node.operands[2], &at, &None)?;
        let at = Index::from_coordinates(&shape.sizes, vec![row, Coordinate::Tile(column.clone())], layout, 1);
        let candidates = evaluator.value_at(builder, node.operands[1], &at, &mask)?;
        let candidates = builder
            .map1(&[&candidates, &exists], layout, DType::Bool, |code, values| Ok(code.op("arith.andi", values)?))?;
        let kept = for_range(builder, count, 1, &[candidates], |inner, number, carried| {
            // Whether this box is still a candidate, for all threads.
            let its = inner.map1(&[&carried[0], &column], layout, DType::I32, |code, values| {
                let here = code.compare_int(IntegerPredicate::Equal, values[1], number)?;
                Ok(code.convert("arith.extui", code.op("arith.andi", &[values[0], here])?, DType::I32)?)
            })?;
            let any = inner.reduce(1, &[&its], |code, sum, new| Ok(vec![code.op("arith.ori", &[sum[0], new[0]])?]))?;
            let any = any.into_iter().next().ok_or_else(|| body.error("a reduction without a result"))?;
            let stays = inner.spread(&any, 0, layout)?;
            let number_tile = inner.splat(number, DType::I32, layout)?;
            let box_ = row_boxes.at(inner, &Coordinate::Tile(number_tile), &None)?;
            let mut operands: Vec<_> = vec![&carried[0], &stays, &column, &threshold];
            operands.extend(box_.iter().chain(&own));
            let left = map(inner, &operands, DType::Bool, |code, values| {
                let behind = code.compare_int(IntegerPredicate::SignedGreater, values[2], number)?;
                let stays = code.compare_int(IntegerPredicate::NotEqual, values[1], code.i32(0)?)?;
                let overlap = overlap(code, &values[4..8], &values[8..12], values[3])?;
                let struck = code.op("arith.andi", &[code.op("arith.andi", &[behind, stays])?, overlap])?;
                let clear = code.op("arith.xori", &[struck, code.int(-1, DType::Bool)?])?;
                Ok(code.op("arith.andi", &[values[0], clear])?)
            })?;
            Ok(vec![left])
        })?;
        let [pointer] = outputs else { return Err(body.error("a choice of boxes yields nothing but itself")) };
        if body.outputs != [ValueRef::Node(self.anchor, 0)] {
            return Err(body.error("a choice of boxes yields nothing but itself"));
        }
        store(builder, Destination { body, output: 0, pointer: *pointer }, &at, &kept[0], &mask)
    }
}

/// Boxes of the block's row.
struct Boxes<'x, 'm> {
    evaluator: &'x Evaluator<'x, 'm>,
    operand: ValueRef,
    row: Coordinate<'m>,
    layout: &'x TileLayout,
}

impl<'m> Boxes<'_, 'm> {
    /// y1, x1, y2, x2 of the box of each place.
    fn at(
        &self,
        builder: TileBuilder<'m>,
        number: &Coordinate<'m>,
        mask: &Mask<'m>,
    ) -> Result<Vec<Tile<'m>>, LoweringError> {
        let sizes = &self.evaluator.body.shape(self.operand).sizes;
        (0..4)
            .map(|side| {
                let place = vec![self.row.clone(), number.clone(), Coordinate::Constant(side)];
                let at = Index::from_coordinates(sizes, place, self.layout, 1);
                self.evaluator.value_at(builder, self.operand, &at, mask)
            })
            .collect()
    }
}

/// Whether two boxes that have areas share more of their union than a threshold.
fn overlap<'m>(
    code: Scalar<'m>,
    a: &[Value<'m>],
    b: &[Value<'m>],
    threshold: Value<'m>,
) -> Result<Value<'m>, LoweringError> {
    let zero = code.float(0.0, DType::F32)?;
    let subtract = |high, low| code.op("arith.subf", &[high, low]);
    let multiply = |a, b| code.op("arith.mulf", &[a, b]);
    let side = |low: usize| -> Result<Value<'m>, LoweringError> {
        let end = code.op("arith.minnumf", &[a[low + 2], b[low + 2]])?;
        let start = code.op("arith.maxnumf", &[a[low], b[low]])?;
        Ok(code.op("arith.maxnumf", &[subtract(end, start)?, zero])?)
    };
    let area = |of: &[Value<'m>]| multiply(subtract(of[2], of[0])?, subtract(of[3], of[1])?);
    let shared = multiply(side(0)?, side(1)?)?;
    let (area_a, area_b) = (area(a)?, area(b)?);
    let union = subtract(code.op("arith.addf", &[area_a, area_b])?, shared)?;
    let ratio = code.op("arith.divf", &[shared, union])?;
    let mut all = code.compare_float(FloatPredicate::OrderedGreater, ratio, threshold)?;
    for positive in [shared, area_a, area_b, union] {
        let positive = code.compare_float(FloatPredicate::OrderedGreater, positive, zero)?;
        all = code.op("arith.andi", &[all, positive])?;
    }
    Ok(all)
}
