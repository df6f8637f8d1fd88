//! The producer, and the loop over the keys of the warps that compute.
//!
//! Queries are copied once. A slot of shared memory holds a tile of keys, another one of values; each kind has its own barriers, so that the first
//! product need not wait for values, and keys are replaced while softmax goes on.

use tenon_hw_dialect::{Mbarriers, Scalar, Shared, Tile, TileBuilder, TileType, WarpgroupOperand};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::super::keys::KeyTiles;
use super::super::result::finish;
use super::super::scores::{Place, Softmax};
use super::operand::TmaOperand;
use super::plan::{SLOTS, TmaPlan};
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::control::{for_between, keep};
use crate::schedule::evaluate::{Evaluator, cast_tile, map, splat};
use crate::schedule::scalar::Number;
use crate::schedule::size::Parts;
use crate::schedule::tensor_map::SLOT_ALIGNMENT;

const _: () = assert!(SLOTS.is_power_of_two());

/// Keys or values on their way: slots, and barriers that say which are full and which are empty.
struct Channel<'p, 'm> {
    operand: &'p TmaOperand,
    map: Value<'m>,
    shared: Shared<'m>,
    full: Mbarriers<'m>,
    empty: Mbarriers<'m>,
    /// Bytes of a slot.
    bytes: u64,
}

/// A block being built.
struct Block<'p, 'b, 'm> {
    plan: &'p TmaPlan,
    softmax: Softmax<'p, 'b, 'm>,
    queries: Shared<'m>,
    k: Channel<'p, 'm>,
    v: Channel<'p, 'm>,
}

/// The slot of a tile of keys, and the parity of the phase in which it is full.
fn slot<'m>(code: Scalar<'m>, tile: Value<'m>) -> Result<[Value<'m>; 2], IrError> {
    let slot = code.op("arith.andi", &[tile, code.i32(SLOTS as i32 - 1)?])?;
    let turn = code.op("arith.shrui", &[tile, code.i32(SLOTS.trailing_zeros() as i32)?])?;
    Ok([slot, code.op("arith.andi", &[turn, code.i32(1)?])?])
}

pub(super) fn build<'m>(
    plan: &TmaPlan,
    builder: TileBuilder<'m>,
    body: &Body,
    [inputs, outputs, maps]: [&[Value<'m>]; 3],
) -> Result<(), LoweringError> {
    let problem = &plan.problem;
    let code = builder.scalar();
    let &[q_map, k_map, v_map] = maps else { return Err(body.error("attention without tensor maps of its operands")) };
    let block = builder.program_id(0)?;
    let (rest, tile) = Parts { size: problem.queries, part: plan.tile_queries }.div_rem(code, block)?;
    let (batch, head) = problem.heads.div_rem(code, rest)?;
    let query = code.scale(tile, plan.tile_queries as i32)?;
    let (group, _) = code.div_rem(head, problem.heads_of_group as i32)?;
    let evaluator = Evaluator::new(body, inputs);
    let softmax = Softmax { tile: plan.tile(), evaluator: &evaluator, place: Place { batch, head, query } };
    let tiles = KeyTiles::new(&softmax, code)?;

    let element = problem.dtype;
    let q_layout = plan.q.shared_layout(plan.tile_queries, plan.depth)?;
    let q_bytes = u64::from(q_layout.elements()) * element.size() as u64;
    let queries = builder.alloc_aligned(1, element, q_layout, SLOT_ALIGNMENT)?;
    let channel = |operand, map, depth: u32| -> Result<Channel<'_, 'm>, LoweringError> {
        let operand: &TmaOperand = operand;
        let layout = operand.shared_layout(plan.tile_keys, depth)?;
        let bytes = u64::from(layout.elements()) * element.size() as u64;
        let shared = builder.alloc_aligned(SLOTS, element, layout, SLOT_ALIGNMENT)?;
        let (full, empty) = (builder.mbarriers(SLOTS, 1)?, builder.mbarriers(SLOTS, plan.warps)?);
        Ok(Channel { operand, map, shared, full, empty, bytes })
    };
    let (k, v) = (channel(&plan.k, k_map, plan.depth)?, channel(&plan.v, v_map, plan.width)?);
    let there = builder.mbarriers(1, 1)?;
    builder.barrier()?;

    let zero = code.i32(0)?;
    let mut failure = None;
    builder
        .producer(|producer| {
            producer.mbarrier_expect(&there, zero, q_bytes)?;
            producer.tma_load(q_map, &plan.q.coordinates(query, head, batch, zero), &queries, zero, &there)?;
            let step = producer.scalar().i32(1)?;
            producer.for_loop(zero, tiles.count, step, &[], |inner, tile, _| {
                let copied = (|| -> Result<(), LoweringError> {
                    let code = inner.scalar();
                    let [slot, parity] = slot(code, tile)?;
                    // The first round finds all slots empty.
                    let emptied = code.op("arith.xori", &[parity, code.i32(1)?])?;
                    let key = code.scale(tile, plan.tile_keys as i32)?;
                    for Channel { operand, map, shared, full, empty, bytes } in [&k, &v] {
                        inner.mbarrier_wait(empty, slot, emptied)?;
                        inner.mbarrier_expect(full, slot, *bytes)?;
                        inner.tma_load(*map, &operand.coordinates(key, group, batch, zero), shared, slot, full)?;
                    }
                    Ok(())
                })();
                copied.map(|()| Vec::new()).map_err(|error| keep(error, &mut failure))
            })?;
            Ok(())
        })
        .map_err(|error| failure.take().unwrap_or(LoweringError::Hw(error)))?;

    let own = Block { plan, softmax, queries, k, v };
    let rows = plan.scores.slice(1)?;
    let mut carried = vec![
        splat(builder, Number::Float(f64::NEG_INFINITY), DType::F32, &rows)?,
        splat(builder, Number::Float(0.0), DType::F32, &rows)?,
        splat(builder, Number::Float(0.0), DType::F32, &plan.sums)?,
    ];
    builder.mbarrier_wait(&there, zero, zero)?;
    if tiles.has_full {
        carried = for_between(builder, [zero, tiles.full], &carried, |inner, tile, carried| {
            own.turn(inner, tile, carried, false)
        })?;
    }
    if tiles.has_edge {
        let first = if tiles.has_full { tiles.full } else { zero };
        carried = for_between(builder, [first, tiles.count], &carried, |inner, tile, carried| {
            own.turn(inner, tile, carried, true)
        })?;
    }
    for shared in [&own.queries, &own.k.shared, &own.v.shared] {
        builder.dealloc(shared)?;
    }
    finish(&own.softmax, builder, body, outputs, &carried[1], &carried[2..])
}

impl<'m> Block<'_, '_, 'm> {
    /// One tile of keys: running maximum, running sum, results.
    fn turn(
        &self,
        builder: TileBuilder<'m>,
        tile: Value<'m>,
        carried: &[Tile<'m>],
        edge: bool,
    ) -> Result<Vec<Tile<'m>>, LoweringError> {
        let plan = self.plan;
        let code = builder.scalar();
        let [slot, parity] = slot(code, tile)?;
        let [first, second] = plan.instructions.map(|instruction| instruction.name.as_str());
        let zero = code.i32(0)?;
        builder.mbarrier_wait(&self.k.full, slot, parity)?;
        let queries = WarpgroupOperand::Shared(&self.queries, zero);
        let ty = TileType::new(DType::F32, plan.scores.clone());
        let products = builder.wgmma_product(first, queries, (&self.k.shared, slot), &ty)?;
        builder.mbarrier_arrive(&self.k.empty, slot)?;

        let key = code.scale(tile, plan.tile_keys as i32)?;
        let step = self.softmax.step(builder, &products, key, edge, [&carried[0], &carried[1]])?;
        let weights = cast_tile(builder, &step.weights, DType::F32, plan.problem.dtype)?;
        let weights = builder.convert_layout(&weights, &plan.weights)?;
        let decay = builder.spread(&step.decay, 0, &plan.sums)?;
        let sums = map(builder, &[&carried[2], &decay], DType::F32, |code, values| Ok(code.op("arith.mulf", values)?))?;

        builder.mbarrier_wait(&self.v.full, slot, parity)?;
        let weights = WarpgroupOperand::Registers(&weights);
        let sums = builder.wgmma(second, weights, (&self.v.shared, slot), &sums)?;
        builder.mbarrier_arrive(&self.v.empty, slot)?;
        Ok(vec![step.maximum, step.sum, sums])
    }
}
