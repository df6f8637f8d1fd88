//! Cumulative sums, products and extrema along one axis.
//!
//! The tensor is seen as rows (one a position of the other dimensions) of columns (along the axis, from its end if reversed). A block has a
//! tile of rows and goes along them in chunks of columns; the combination of what a chunk came to is carried to the next. Lanes lie along
//! whatever is contiguous in memory: along the axis if it is the last dimension that counts, else along rows.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Function, Scan, ScanKind};
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_target::Target;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, Shape, ValueRef, axis, strides};
use crate::schedule::control::{for_range, keep};
use crate::schedule::evaluate::{Destination, Evaluator, Mask, and_masks, map, store};
use crate::schedule::index::{Index, common, line};
use crate::schedule::reduce::{Combiner, below, extreme, scattered};
use crate::schedule::scalar::{self, Number, compute_type, memory_type, register_type};
use crate::schedule::size::{Size, is_wide, offset_type};
use crate::schedule::{KernelShape, parts};

const WARPS: u32 = 4;

/// Rows, columns and their tile.
pub(super) struct ScanPlan {
    /// The scan, and its place in the body.
    scan: Scan,
    anchor: usize,
    /// Sizes of the other dimensions and their strides.
    kept: Vec<(Size, Size)>,
    /// Distance of neighbours along the axis, in elements.
    stride: Size,
    rows: Size,
    columns: Size,
    tile_rows: u32,
    tile_columns: u32,
    /// Registers in a row that are consecutive in memory.
    vector: u32,
    layout: TileLayout,
}

impl ScanPlan {
    pub(super) fn new(body: &Body, target: &Target) -> Result<Self, LoweringError> {
        let (anchor, scan) = body.anchor(|node| match &node.operator {
            Operator::Scan(scan) => Some(scan),
            _ => None,
        })?;
        let shape = body.shape(body.nodes[anchor].operands[0]);
        let axis = axis(scan.axis, shape.sizes.len());
        let element_strides = strides(&shape.sizes);
        let kept: Vec<_> = (0..shape.sizes.len())
            .filter(|dim| *dim != axis)
            .map(|dim| (shape.sizes[dim], element_strides[dim]))
            .collect();
        let rows: Size = kept.iter().map(|(size, _)| size).product();
        let (columns, stride) = (shape.sizes[axis], element_strides[axis]);
        let along = stride == 1;
        if is_wide(&kept.iter().map(|(size, _)| *size).collect::<Vec<_>>()) {
            return Err(LoweringError::shape("a scan of 2^31 rows or more"));
        }
        let (most_rows, most_columns) = (rows.capacity_u32().max(1), columns.capacity_u32().max(1));
        let widest = (16 / memory_type(shape.dtype).size() as u32).clamp(1, 8);
        // Elements of one thread that follow one another, its share of a chunk.
        let run = if along { widest.max(4) } else { 4 }.min(most_columns.next_power_of_two());
        let (lane_rows, lane_columns) = if along {
            let lanes = (most_columns.div_ceil(run).max(1).next_power_of_two()).min(32);
            (32 / lanes, lanes)
        } else {
            let lanes = most_rows.next_power_of_two().min(32);
            (lanes, 32 / lanes)
        };
        let single = run * lane_columns;
        // Warps share rows where rows alone would not fill the device.
        let plenty = most_rows / (lane_rows * WARPS) >= 2 * target.gpu.sms;
        let warp_rows = if most_columns <= single || plenty { WARPS } else { 1 };
        let (tile_rows, tile_columns) = (lane_rows * warp_rows, single * (WARPS / warp_rows));
        let layout = TileLayout::blocked(
            &[tile_rows, tile_columns],
            &[1, run],
            &[lane_rows, lane_columns],
            &[warp_rows, WARPS / warp_rows],
            if along { &[1, 0] } else { &[0, 1] },
        )?;
        let straight = along && !scan.reverse && !scan.exclusive;
        let vector = if straight { common(widest.min(run), columns) } else { 1 };
        Ok(ScanPlan {
            scan: scan.clone(),
            anchor,
            kept,
            stride,
            rows,
            columns,
            tile_rows,
            tile_columns,
            vector,
            layout,
        })
    }

    pub(super) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        Ok(KernelShape::line(WARPS, parts(self.rows, self.tile_rows, body)?))
    }

    pub(super) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        let block = builder.program_id(0)?;
        let start = builder.scalar().scale(block, self.tile_rows as i32)?;
        let row = line(builder, &self.layout, 0, start)?;
        let wide = is_wide(&body.shape(body.nodes[self.anchor].operands[0]).sizes);
        let offset = builder.spread(&scattered(builder, &row, &self.kept, wide)?, 0, &self.layout)?;
        let mask = if self.rows.capacity() != 0 && self.rows.is_multiple_of(self.tile_rows) {
            None
        } else {
            Some(builder.spread(&below(builder, &row, self.rows)?, 0, &self.layout)?)
        };
        let evaluator = Evaluator::new(body, inputs);
        let shape = body.shape(body.nodes[self.anchor].operands[0]).clone();
        let combiner = combiner(self.scan.kind, shape.dtype);
        let rows = Rows { plan: self, body, evaluator, outputs, offset, mask, shape, combiner };
        if self.columns.capacity() <= u64::from(self.tile_columns) {
            rows.chunk(builder, builder.scalar().i32(0)?, None)?;
            return Ok(());
        }
        let carry = crate::schedule::evaluate::splat(builder, combiner.neutral, combiner.dtype, &row.ty.layout)?;
        for_range(builder, self.columns, self.tile_columns, &[carry], |inner, position, carried| {
            let (column, running) = rows.chunk(inner, position, Some(&carried[0]))?;
            Ok(vec![rows.last(inner, &column, &running)?])
        })?;
        Ok(())
    }
}

fn combiner(kind: ScanKind, dtype: DType) -> Combiner {
    let wide = if dtype.is_float() { compute_type(dtype) } else { dtype };
    let number = |value: i64| if dtype.is_float() { Number::Float(value as f64) } else { Number::Integer(value) };
    let (function, neutral) = match kind {
        ScanKind::Sum => (Function::Add, number(0)),
        ScanKind::Product => (Function::Multiply, number(1)),
        ScanKind::Max => (Function::Max, extreme(dtype, false)),
        ScanKind::Min => (Function::Min, extreme(dtype, true)),
    };
    Combiner { function, neutral, dtype: wide }
}

/// A kernel being built: the block's rows.
struct Rows<'p, 'b, 'm> {
    plan: &'p ScanPlan,
    body: &'b Body,
    evaluator: Evaluator<'b, 'm>,
    outputs: &'b [Value<'m>],
    /// Offset of each row's first element, spread over the tile.
    offset: Tile<'m>,
    /// Rows that exist, spread over the tile; none if all do.
    mask: Mask<'m>,
    /// Type of the scanned tensor.
    shape: Shape,
    combiner: Combiner,
}

impl<'m> Rows<'_, '_, 'm> {
    /// Where the places of a chunk look, `shift` columns before their own, and which of them there are.
    fn index(
        &self,
        builder: TileBuilder<'m>,
        column: &Tile<'m>,
        shift: i32,
    ) -> Result<(Index<'m>, Mask<'m>), LoweringError> {
        let plan = self.plan;
        let (columns, stride, wide) = (plan.columns, plan.stride, is_wide(&self.shape.sizes));
        let element = offset_type(wide);
        let tiles = builder.map(&[column], &column.ty.layout, &[element, DType::Bool], |code, values| {
            let place = code.offset(values[0], -shift)?;
            let inside = code.compare_int(IntegerPredicate::UnsignedLess, place, columns.value(code)?)?;
            let along = if self.plan.scan.reverse {
                let last = match columns.known() {
                    Some(number) => code.i32(number as i32 - 1)?,
                    None => code.offset(columns.value(code)?, -1)?,
                };
                code.op("arith.subi", &[last, place])?
            } else {
                place
            };
            Ok(vec![stride.scale_to(code, along, wide)?, inside])
        })?;
        let offset = builder.spread(&tiles[0], 1, &plan.layout)?;
        let linear = builder.map1(&[&self.offset, &offset], &plan.layout, element, |code, values| {
            Ok(code.add(values[0], values[1])?)
        })?;
        let mask = if shift == 0 && plan.columns.fills(plan.tile_columns) {
            self.mask.clone()
        } else {
            and_masks(builder, &self.mask, &builder.spread(&tiles[1], 1, &plan.layout)?)?
        };
        Ok((Index::from_linear(&self.shape.sizes, linear, plan.vector), mask))
    }

    /// Scans the columns from `start` on and stores them. Gives their numbers, and for each the combination of all columns up to it.
    fn chunk(
        &self,
        builder: TileBuilder<'m>,
        start: Value<'m>,
        carry: Option<&Tile<'m>>,
    ) -> Result<(Tile<'m>, Tile<'m>), LoweringError> {
        let (plan, dtype, combiner) = (self.plan, self.shape.dtype, self.combiner);
        let element = compute_type(dtype);
        let column = line(builder, &plan.layout, 1, start)?;
        let (index, mask) = self.index(builder, &column, 0)?;
        // Exclusive: every place combines what comes before its own.
        let (source, source_mask) = match self.plan.scan.exclusive {
            true => self.index(builder, &column, 1)?,
            false => (index.clone(), mask.clone()),
        };
        let operand = self.body.nodes[plan.anchor].operands[0];
        let value = self.evaluator.value_at(builder, operand, &source, &source_mask)?;
        let mut inputs = vec![&value];
        inputs.extend(source_mask.as_ref());
        let value = map(builder, &inputs, element, |code, values| {
            let wide = scalar::widen(code, values[0], dtype)?;
            let Some(mask) = values.get(1) else { return Ok(wide) };
            let neutral = scalar::constant(code, combiner.neutral, combiner.dtype)?;
            Ok(code.select(*mask, wide, neutral)?)
        })?;
        let mut failure = None;
        let scanned = builder.scan(1, &[&value], |code, before, new| {
            Ok(vec![combiner.apply(code, before[0], new[0]).map_err(|error| keep(error, &mut failure))?])
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let mut running = scanned?.pop().ok_or_else(|| self.body.error("a scan without a result"))?;
        if let Some(carry) = carry {
            let carry = builder.spread(carry, 0, &plan.layout)?;
            running =
                map(builder, &[&carry, &running], element, |code, values| combiner.apply(code, values[0], values[1]))?;
        }
        let result =
            map(builder, &[&running], register_type(dtype), |code, values| scalar::narrow(code, values[0], dtype))?;
        let mut evaluator = self.evaluator.clone();
        evaluator.bind(ValueRef::Node(plan.anchor, 0), result);
        for (output, target) in Destination::all(self.body, self.outputs) {
            let shape = self.body.shape(output);
            let index = index.clone().as_own().reshaped(builder, &shape.sizes)?;
            let value = evaluator.value_at(builder, output, &index, &mask)?;
            store(builder, target, &index, &value, &mask)?;
        }
        Ok((column, running))
    }

    /// What each row has come to: the value in its last column.
    fn last(&self, builder: TileBuilder<'m>, column: &Tile<'m>, running: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        let column = builder.spread(column, 1, &self.plan.layout)?;
        let reduced = builder.reduce(1, &[&column, running], |code, old, new| {
            let later = code.compare_int(IntegerPredicate::SignedGreater, new[0], old[0])?;
            Ok(vec![code.select(later, new[0], old[0])?, code.select(later, new[1], old[1])?])
        })?;
        reduced.into_iter().nth(1).ok_or_else(|| self.body.error("a reduction without a result"))
    }
}
