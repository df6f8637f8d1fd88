//! The pipeline of a product by warpgroups, and its epilogue.
//!
//! A slot of shared memory holds a tile of A and one of B. The producer waits until a slot is empty, says how many bytes come, and starts the
//! copies; their bytes complete the slot's phase. The other warps wait for it, multiply, and say that the slot is empty.

use tenon_hw_dialect::{IntegerPredicate, Scalar, TileBuilder, WarpgroupOperand};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::super::build::epilogue;
use super::super::operand::indices;
use super::super::problem::Axis;
use super::plan::TmaPlan;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::control::{for_range_with, keep};
use crate::schedule::evaluate::splat;
use crate::schedule::scalar::Number;
use crate::schedule::size::{Count, Parts};
use crate::schedule::tensor_map::SLOT_ALIGNMENT;

/// The slot behind one, and the parity of its phase.
fn next<'m>(
    code: Scalar<'m>,
    slots: u32,
    slot: Value<'m>,
    parity: Value<'m>,
) -> Result<(Value<'m>, Value<'m>), IrError> {
    let (first, last) = (code.i32(0)?, code.i32(slots as i32 - 1)?);
    let is_last = code.compare_int(IntegerPredicate::Equal, slot, last)?;
    let flips = code.convert("arith.extui", is_last, DType::I32)?;
    Ok((code.select(is_last, first, code.offset(slot, 1)?)?, code.op("arith.xori", &[parity, flips])?))
}

pub(super) fn build<'m>(
    plan: &TmaPlan,
    builder: TileBuilder<'m>,
    body: &Body,
    [inputs, outputs, workspaces, maps]: [&[Value<'m>]; 4],
) -> Result<(), LoweringError> {
    let problem = &plan.problem;
    let code = builder.scalar();
    let (m, n, k) = (problem.extent(Axis::M), problem.extent(Axis::N), problem.extent(Axis::K));
    let &[a_map, b_map] = maps else { return Err(body.error("a product without tensor maps of its operands")) };
    let block = builder.program_id(0)?;
    let (tile, part) = plan.split.part(code, problem, plan.tile_k, block)?;
    let run = part.as_ref().map(|part| part.run);
    let (rest, tile_n) = Parts { size: n, part: plan.tile_n }.div_rem(code, tile)?;
    let (batch, tile_m) = Parts { size: m, part: plan.tile_m }.div_rem(code, rest)?;
    let start_m = code.scale(tile_m, plan.tile_m as i32)?;
    let start_n = code.scale(tile_n, plan.tile_n as i32)?;
    let (element, slots) = (problem.a.dtype, plan.slots);
    let a = plan.a.shared_layout(plan.tile_m, plan.tile_k)?;
    let b = plan.b.shared_layout(plan.tile_n, plan.tile_k)?;
    let bytes = u64::from(a.elements() + b.elements()) * element.size() as u64;
    let a = builder.alloc_aligned(slots, element, a, SLOT_ALIGNMENT)?;
    let b = builder.alloc_aligned(slots, element, b, SLOT_ALIGNMENT)?;
    let full = builder.mbarriers(slots, 1)?;
    let empty = builder.mbarriers(slots, plan.warps)?;
    builder.barrier()?;
    // What a run has beyond the last term is copied as zeros.
    let tiles: Count = match part {
        Some(_) => plan.split.tiles.into(),
        None => Parts { size: k, part: plan.tile_k }.into(),
    };

    let mut failure = None;
    let produced = builder.producer(|producer| {
        let code = producer.scalar();
        let batch = indices(code, batch, &problem.batch)?;
        // The first round finds all slots empty.
        let start = [code.i32(0)?, code.i32(1)?];
        let copies = for_range_with(producer, tiles, 1, &start, &[], |inner, tile, scalars, _| {
            let code = inner.scalar();
            let (slot, parity) = (scalars[0], scalars[1]);
            let tile = run.map_or(Ok(tile), |run| run.tile(code, tile))?;
            let k = code.scale(tile, plan.tile_k as i32)?;
            inner.mbarrier_wait(&empty, slot, parity)?;
            inner.mbarrier_expect(&full, slot, bytes)?;
            inner.tma_load(a_map, &plan.a.coordinates(start_m, k, &batch), &a, slot, &full)?;
            inner.tma_load(b_map, &plan.b.coordinates(start_n, k, &batch), &b, slot, &full)?;
            let (slot, parity) = next(code, slots, slot, parity)?;
            Ok((vec![slot, parity], Vec::new()))
        });
        copies.map(|_| ()).map_err(|error| keep(error, &mut failure))
    });
    match failure {
        Some(error) => return Err(error),
        None => produced?,
    }

    let zero = if problem.accumulate.is_float() { Number::Float(0.0) } else { Number::Integer(0) };
    let sums = splat(builder, zero, problem.accumulate, &plan.accumulator)?;
    let start = [code.i32(0)?, code.i32(0)?];
    let total = for_range_with(builder, tiles, 1, &start, &[sums], |inner, _, scalars, carried| {
        let (slot, parity) = (scalars[0], scalars[1]);
        inner.mbarrier_wait(&full, slot, parity)?;
        let left = WarpgroupOperand::Shared(&a, slot);
        let sums = inner.wgmma(&plan.instruction.name, left, (&b, slot), &carried[0])?;
        inner.mbarrier_arrive(&empty, slot)?;
        let (slot, parity) = next(inner.scalar(), slots, slot, parity)?;
        Ok((vec![slot, parity], vec![sums]))
    })?;
    let total = total.into_iter().next().ok_or_else(|| body.error("a loop without a result"))?;
    builder.dealloc(&a)?;
    builder.dealloc(&b)?;
    let place = [start_m, start_n, batch];
    match part {
        None => epilogue(&plan.result(), builder, body, inputs, outputs, total, place),
        Some(part) => part.combine(builder, &total, workspaces, |builder, total| {
            epilogue(&plan.result(), builder, body, inputs, outputs, total, place)
        }),
    }
}
