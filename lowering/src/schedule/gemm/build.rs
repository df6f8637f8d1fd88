//! The main loop of a matrix product, and its epilogue.
//!
//! The next tiles of A and B are on their way from global memory while the present ones are multiplied. Where both operands can be copied
//! asynchronously (the target can, and runs are of at least 4 bytes), three slots of shared memory are filled by `cp.async`; else the next tiles wait in registers and
//! two slots alternate. Either way one barrier an iteration separates the readers of a slot from its next writer.

use tenon_hw_dialect::{Access, IntegerPredicate, Scalar, Shared, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use super::moved::Moved;
use super::operand::Part;
use super::plan::{GemmPlan, MOST_SLOTS, OperandPlan, Unit};
use super::problem::{Axis, Operand};
use super::result::ResultTile;
use super::split::Run;
use super::tf32;
use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::control::{for_range, for_range_with};
use crate::schedule::evaluate::{Destination, Evaluator, and_masks, cast_tile, splat, store};
use crate::schedule::index::{Index, common, line};
use crate::schedule::scalar::{Number, memory_type};
use crate::schedule::size::{Count, Parts, Size, is_wide, offset_type};

const ASYNC_STAGES: u32 = MOST_SLOTS;

/// One operand's stream of tiles along k.
struct Stream<'p, 'm> {
    plan: &'p OperandPlan,
    operand: &'p Operand,
    pointer: Value<'m>,
    batch: Value<'m>,
    /// The part of m or n, which does not change along k.
    outer: Part<'m>,
    /// Dimension of the tile that k runs along.
    k_dim: usize,
    /// Loops of k, and their number of steps.
    k: &'p [(Size, Size)],
    extent: Size,
    /// Whether tiles are whole: one is there or not.
    whole: bool,
    /// Which tiles along k the block sums, if not all.
    run: Option<Run<'m>>,
    shared: Shared<'m>,
}

impl<'m> Stream<'_, 'm> {
    /// Offsets and mask of the tile from `k` on.
    fn offsets(&self, builder: TileBuilder<'m>, k: Value<'m>) -> Result<(Tile<'m>, Option<Tile<'m>>), LoweringError> {
        let layout = &self.plan.global;
        // Tiles past the end are asked for by the pipeline; the mask makes them zeros.
        let part = self.operand.part(builder, Axis::K, self.k, layout, self.k_dim, k, !self.whole)?;
        let (rows, columns) = if self.k_dim == 0 { (&part, &self.outer) } else { (&self.outer, &part) };
        let (offsets, mask) = self.operand.offsets(builder, layout, self.batch, rows, columns)?;
        let code = builder.scalar();
        let end = match self.run {
            Some(run) => run.end,
            None if self.whole => self.extent.value(code)?,
            None => return Ok((offsets, mask)),
        };
        let exists = code.compare_int(IntegerPredicate::UnsignedLess, k, end)?;
        let exists = builder.splat(exists, DType::Bool, layout)?;
        Ok((offsets, and_masks(builder, &mask, &exists)?))
    }

    /// The term from which the tile of a number on counts, of those that the block sums.
    fn start(&self, code: Scalar<'m>, tile: Value<'m>) -> Result<Value<'m>, LoweringError> {
        let tile = self.run.map_or(Ok(tile), |run| run.tile(code, tile))?;
        Ok(code.scale(tile, self.plan.fragment.shape()[self.k_dim] as i32)?)
    }

    fn load(&self, builder: TileBuilder<'m>, k: Value<'m>) -> Result<Tile<'m>, LoweringError> {
        let (offsets, mask) = self.offsets(builder, k)?;
        let element = memory_type(self.operand.dtype);
        let other = builder.scalar().zero(element)?;
        let access = Access { contiguity: self.plan.contiguity, uniform: 1 };
        Ok(builder.load(self.pointer, &offsets, mask.as_ref().map(|mask| (mask, other)), element, access)?)
    }

    fn copy(&self, builder: TileBuilder<'m>, k: Value<'m>, slot: Value<'m>) -> Result<(), LoweringError> {
        let (offsets, mask) = self.offsets(builder, k)?;
        Ok(builder.async_copy(self.pointer, &offsets, mask.as_ref(), &self.shared, slot, self.plan.contiguity)?)
    }
}

fn can_copy(plan: &OperandPlan, operand: &Operand) -> bool {
    let bytes = plan.contiguity * memory_type(operand.dtype).size() as u32;
    // The run must also be one in shared memory.
    bytes >= 4
        && tenon_layout::vector_width(&plan.global, &plan.shared, memory_type(operand.dtype).size() as u32)
            .is_ok_and(|width| width >= plan.contiguity)
}

impl GemmPlan {
    /// Whether both operands go to shared memory without registers.
    fn copies(&self) -> bool {
        self.asynchronous && can_copy(&self.a, &self.problem.a) && can_copy(&self.b, &self.problem.b)
    }

    /// Tiles of each operand in shared memory.
    pub(super) fn slots(&self) -> u32 {
        if self.copies() { ASYNC_STAGES } else { 2 }
    }
}

pub(super) fn build<'m>(
    plan: &GemmPlan,
    builder: TileBuilder<'m>,
    body: &Body,
    [inputs, outputs, workspaces]: [&[Value<'m>]; 3],
) -> Result<(), LoweringError> {
    let problem = &plan.problem;
    let code = builder.scalar();
    let (m, n, k) = (problem.extent(Axis::M), problem.extent(Axis::N), problem.extent(Axis::K));
    let block = builder.program_id(0)?;
    let (tile, part) = plan.split.part(code, problem, plan.tile_k, block)?;
    let run = part.as_ref().map(|part| part.run);
    let (rest, tile_n) = Parts { size: n, part: plan.tile_n }.div_rem(code, tile)?;
    let (batch, tile_m) = Parts { size: m, part: plan.tile_m }.div_rem(code, rest)?;
    let start_m = code.scale(tile_m, plan.tile_m as i32)?;
    let start_n = code.scale(tile_n, plan.tile_n as i32)?;
    let (asynchronous, slots) = (plan.copies(), plan.slots());
    let whole = k.is_multiple_of(plan.tile_k);
    let stream = |operand_plan: &'_ OperandPlan, is_a: bool| -> Result<_, LoweringError> {
        let operand = if is_a { &problem.a } else { &problem.b };
        let ValueRef::Input(input) = operand.value else { return Err(body.error("an operand that is no input")) };
        let (axis, start, dimension, extent, tile) =
            if is_a { (Axis::M, start_m, 0, m, plan.tile_m) } else { (Axis::N, start_n, 1, n, plan.tile_n) };
        let masked = !extent.is_multiple_of(tile);
        let outer = operand.part(builder, axis, problem.loops(axis), &operand_plan.global, dimension, start, masked)?;
        let shared = builder.alloc(slots, memory_type(operand.dtype), operand_plan.shared.clone())?;
        Ok((input, operand, outer, shared, operand.batch_offset(code, batch, &problem.batch)?))
    };
    let (a_input, a_operand, a_outer, a_shared, a_batch) = stream(&plan.a, true)?;
    let (b_input, b_operand, b_outer, b_shared, b_batch) = stream(&plan.b, false)?;
    let a = Stream {
        plan: &plan.a,
        operand: a_operand,
        pointer: inputs[a_input],
        batch: a_batch,
        outer: a_outer,
        k_dim: 1,
        k: &problem.k,
        extent: k,
        whole,
        run,
        shared: a_shared,
    };
    let b = Stream {
        plan: &plan.b,
        operand: b_operand,
        pointer: inputs[b_input],
        batch: b_batch,
        outer: b_outer,
        k_dim: 0,
        k: &problem.k,
        extent: k,
        whole,
        run,
        shared: b_shared,
    };
    let zero = if problem.accumulate.is_float() { Number::Float(0.0) } else { Number::Integer(0) };
    let accumulator = splat(builder, zero, problem.accumulate, &plan.accumulator)?;
    let tiles: Count = match part {
        Some(_) => plan.split.tiles.into(),
        None => Parts { size: k, part: plan.tile_k }.into(),
    };
    let total = if asynchronous {
        pipeline_async(plan, builder, &a, &b, accumulator, tiles)?
    } else {
        pipeline_registers(plan, builder, &a, &b, accumulator, tiles)?
    };
    let place = [start_m, start_n, batch];
    match part {
        None => epilogue(&plan.result(), builder, body, inputs, outputs, total, place),
        Some(part) => part.combine(builder, &total, workspaces, |builder, total| {
            epilogue(&plan.result(), builder, body, inputs, outputs, total, place)
        }),
    }
}

/// a · b + c from a slot of shared memory.
fn multiply<'m>(
    plan: &GemmPlan,
    builder: TileBuilder<'m>,
    a: &Stream<'_, 'm>,
    b: &Stream<'_, 'm>,
    slot: Value<'m>,
    accumulator: &Tile<'m>,
) -> Result<Tile<'m>, LoweringError> {
    let mut left = builder.local_load(&a.shared, slot, &plan.a.fragment)?;
    let mut right = builder.local_load(&b.shared, slot, &plan.b.fragment)?;
    let instruction = match plan.unit {
        Unit::TensorCore(instruction) => instruction.name.as_str(),
        Unit::ThreePasses(instruction) => {
            return tf32::multiply(builder, &instruction.name, &left, &right, accumulator);
        }
        Unit::CudaCore => {
            let accumulate = plan.problem.accumulate;
            left = cast_tile(builder, &left, plan.problem.a.dtype, accumulate)?;
            right = cast_tile(builder, &right, plan.problem.b.dtype, accumulate)?;
            "fma"
        }
    };
    Ok(builder.mma(instruction, &left, &right, accumulator)?)
}

/// Copies run two tiles ahead of the multipliers.
fn pipeline_async<'m>(
    plan: &GemmPlan,
    builder: TileBuilder<'m>,
    a: &Stream<'_, 'm>,
    b: &Stream<'_, 'm>,
    accumulator: Tile<'m>,
    tiles: Count,
) -> Result<Tile<'m>, LoweringError> {
    let code = builder.scalar();
    for stage in 0..ASYNC_STAGES - 1 {
        let start = code.i32((stage * plan.tile_k) as i32)?;
        let slot = code.i32(stage as i32)?;
        let start = if a.run.is_some() { a.start(code, slot)? } else { start };
        a.copy(builder, start, slot)?;
        b.copy(builder, start, slot)?;
        builder.async_commit()?;
    }
    // The slot that is read goes round with the loop: a remainder would cost more than the copies.
    let first = code.i32(0)?;
    let result = for_range_with(builder, tiles, 1, &[first], &[accumulator], |inner, tile, scalars, carried| {
        let code = inner.scalar();
        let slot = scalars[0];
        inner.async_wait(ASYNC_STAGES - 2)?;
        inner.barrier()?;
        let ahead = code.offset(tile, ASYNC_STAGES as i32 - 1)?;
        let start = a.start(code, ahead)?;
        let (least, last) = (code.i32(0)?, code.i32(ASYNC_STAGES as i32 - 1)?);
        // As many slots ahead as there are, less one, is the slot before.
        let is_first = code.compare_int(IntegerPredicate::Equal, slot, least)?;
        let free = code.select(is_first, last, code.offset(slot, -1)?)?;
        a.copy(inner, start, free)?;
        b.copy(inner, start, free)?;
        inner.async_commit()?;
        let sum = multiply(plan, inner, a, b, slot, &carried[0])?;
        let is_last = code.compare_int(IntegerPredicate::Equal, slot, last)?;
        let next = code.select(is_last, least, code.offset(slot, 1)?)?;
        Ok((vec![next], vec![sum]))
    })?;
    // No copy may be under way when the block ends.
    builder.async_wait(0)?;
    result.into_iter().next().ok_or_else(|| LoweringError::unsupported("scf.for", "no result"))
}

/// The next tiles wait in registers while the present ones are multiplied.
fn pipeline_registers<'m>(
    plan: &GemmPlan,
    builder: TileBuilder<'m>,
    a: &Stream<'_, 'm>,
    b: &Stream<'_, 'm>,
    accumulator: Tile<'m>,
    tiles: Count,
) -> Result<Tile<'m>, LoweringError> {
    let code = builder.scalar();
    let zero = code.i32(0)?;
    let start = if a.run.is_some() { a.start(code, zero)? } else { zero };
    let (first_a, first_b) = (a.load(builder, start)?, b.load(builder, start)?);
    builder.local_store(&first_a, &a.shared, zero)?;
    builder.local_store(&first_b, &b.shared, zero)?;
    builder.barrier()?;
    let result = for_range(builder, tiles, 1, &[accumulator], |inner, tile, carried| {
        let code = inner.scalar();
        let next = code.offset(tile, 1)?;
        let start = a.start(code, next)?;
        let (next_a, next_b) = (a.load(inner, start)?, b.load(inner, start)?);
        let one = code.i32(1)?;
        let slot = code.op("arith.andi", &[tile, one])?;
        let sum = multiply(plan, inner, a, b, slot, &carried[0])?;
        let other = code.op("arith.andi", &[next, one])?;
        inner.local_store(&next_a, &a.shared, other)?;
        inner.local_store(&next_b, &b.shared, other)?;
        inner.barrier()?;
        Ok(vec![sum])
    })?;
    result.into_iter().next().ok_or_else(|| LoweringError::unsupported("scf.for", "no result"))
}

/// Evaluates the rest of the body on the accumulator and stores the results.
pub(super) fn epilogue<'m>(
    plan: &ResultTile<'_>,
    builder: TileBuilder<'m>,
    body: &Body,
    inputs: &[Value<'m>],
    outputs: &[Value<'m>],
    total: Tile<'m>,
    [start_m, start_n, batch]: [Value<'m>; 3],
) -> Result<(), LoweringError> {
    let problem = plan.problem;
    let (layout, contiguity) = result_layout(plan)?;
    let layout = &layout;
    let value = cast_tile(builder, &total, problem.accumulate, problem.dtype)?;
    let value = builder.convert_layout(&value, layout)?;
    let wide = is_wide(&body.shape(ValueRef::Node(problem.anchor, 0)).sizes);
    let mut mask = None;
    let mut offsets = Vec::new();
    for (axis, start, dimension, tile) in [(Axis::M, start_m, 0, plan.tile_m), (Axis::N, start_n, 1, plan.tile_n)] {
        let loops = problem.loops(axis);
        let number = line(builder, layout, dimension, start)?;
        let offset = super::super::reduce::scattered(builder, &number, loops, wide)?;
        offsets.push(builder.spread(&offset, dimension, layout)?);
        let extent = problem.extent(axis);
        if !extent.is_multiple_of(tile) {
            let inside = super::super::reduce::below(builder, &number, extent)?;
            mask = and_masks(builder, &mask, &builder.spread(&inside, dimension, layout)?)?;
        }
    }
    let batch_offset = {
        let code = builder.scalar();
        let mut rest = batch;
        let mut sum = code.int(0, offset_type(wide))?;
        for (position, (size, stride)) in problem.batch.iter().enumerate().rev() {
            let (quotient, own) = if position == 0 { (rest, rest) } else { size.div_rem(code, rest)? };
            rest = quotient;
            sum = code.add(sum, stride.scale_to(code, own, wide)?)?;
        }
        sum
    };
    let linear = builder.map1(&[&offsets[0], &offsets[1]], layout, offset_type(wide), |code, values| {
        Ok(code.add(code.add(values[0], values[1])?, batch_offset)?)
    })?;
    let shape = body.shape(ValueRef::Node(problem.anchor, 0));
    let index = Index::from_linear(&shape.sizes, linear, contiguity).as_own();
    let mut evaluator = Evaluator::new(body, inputs);
    evaluator.bind(ValueRef::Node(problem.anchor, 0), value);
    for (output, target) in Destination::all(body, outputs) {
        let shape = body.shape(output);
        if let Some(moved) = Moved::of(body, output) {
            moved.store(builder, &evaluator, &index, &mask, target)?;
            continue;
        }
        let index = index.reshaped(builder, &shape.sizes)?;
        let value = evaluator.value_at(builder, output, &index, &mask)?;
        store(builder, target, &index, &value, &mask)?;
    }
    Ok(())
}

/// The layout that the result is stored in, and how many registers in a row are consecutive, aligned elements of it.
///
/// Threads hold pairs of elements after a matrix instruction, and rows that lie apart; where the result's rows allow wider access, elements
/// change threads through shared memory first, so that what follows (operands of the epilogue, the result) moves by 16 bytes: unless that
/// memory is what a second block needs.
fn result_layout(plan: &ResultTile<'_>) -> Result<(TileLayout, u32), LoweringError> {
    let bytes = memory_type(plan.problem.dtype).size() as u32;
    let own = result_contiguity(plan, plan.accumulator.vector_width_along(1, bytes)?);
    let threads = plan.accumulator.threads();
    let widest = (16 / bytes).clamp(1, plan.tile_n).min((plan.tile_m * plan.tile_n / threads).max(1));
    let wide = result_contiguity(plan, widest);
    if wide <= own || !plan.may_move {
        return Ok((plan.accumulator.clone(), own));
    }
    Ok((TileLayout::contiguous(&[plan.tile_m, plan.tile_n], &[1, 0], wide, threads / 32)?, wide))
}

/// At most `width` elements in a row of a tile that are consecutive and aligned in the result.
fn result_contiguity(plan: &ResultTile<'_>, width: u32) -> u32 {
    let problem = plan.problem;
    let Some((size, _)) = problem.n.last().copied().filter(|(_, stride)| *stride == 1) else { return 1 };
    let mut width = common(width, size);
    let others = problem.n[..problem.n.len() - 1].iter().chain(&problem.m).chain(&problem.batch);
    for (_, stride) in others {
        while width > 1 && !stride.is_multiple_of(width) {
            width /= 2;
        }
    }
    width
}
