//! The loop over the keys by `mma.sync` or on CUDA cores.
//!
//! Queries come first; then, while a tile of keys and values is multiplied, the next is on its way. One barrier a turn separates the readers of a
//! slot from its next writer.

use tenon_hw_dialect::{Tile, TileBuilder};
use tenon_ir::Value;
use tenon_tensor::DType;

use super::keys::KeyTiles;
use super::plan::{AttentionPlan, Chunk, SLOTS};
use super::problem::Source;
use super::result::finish;
use super::scores::{Place, Softmax};
use super::stream::Stream;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::control::for_between;
use crate::schedule::evaluate::{Evaluator, cast_tile, map, splat};
use crate::schedule::scalar::{Number, memory_type};
use crate::schedule::size::{Parts, Size};

/// A block being built.
struct Block<'p, 'b, 'm> {
    plan: &'p AttentionPlan,
    softmax: Softmax<'p, 'b, 'm>,
    q: Stream<'p, 'm>,
    k: Stream<'p, 'm>,
    v: Stream<'p, 'm>,
    /// Queries in registers, by chunk.
    held: Vec<Tile<'m>>,
    /// Where only whole tiles are asked for: the last one. A tile past it is asked for in its place.
    last: Option<Value<'m>>,
}

pub(super) fn build<'m>(
    plan: &AttentionPlan,
    builder: TileBuilder<'m>,
    body: &Body,
    inputs: &[Value<'m>],
    outputs: &[Value<'m>],
) -> Result<(), LoweringError> {
    let problem = &plan.problem;
    let code = builder.scalar();
    let block = builder.program_id(0)?;
    let (rest, tile) = Parts { size: problem.queries, part: plan.tile_queries }.div_rem(code, block)?;
    let (batch, head) = problem.heads.div_rem(code, rest)?;
    let query = code.scale(tile, plan.tile_queries as i32)?;
    let (group, _) = code.div_rem(head, problem.heads_of_group as i32)?;
    let stream = |chunk: &'_ Chunk, source: &'_ Source, slots: u32| -> Result<_, LoweringError> {
        let head = if std::ptr::eq(source, &problem.q) { head } else { group };
        let base = code.add(source.strides[0].scale(code, batch)?, source.strides[1].scale(code, head)?)?;
        Ok((inputs[source.input], base, builder.alloc(slots, memory_type(problem.dtype), chunk.shared.clone())?))
    };
    let whole_keys = plan.tile().has_whole_keys();
    let tail = |size: Size, whole: bool| if whole { None } else { Some(size) };
    let whole_queries = problem.queries.is_multiple_of(plan.tile_queries);
    let (pointer, base, shared) = stream(&plan.q, &problem.q, plan.depth.1)?;
    let q = Stream {
        chunk: &plan.q,
        source: &problem.q,
        pointer,
        base,
        shared,
        positions_dim: 0,
        positions: tail(problem.queries, whole_queries),
        depth: problem.depth,
        chunks: plan.depth,
    };
    let (pointer, base, shared) = stream(&plan.k, &problem.k, SLOTS * plan.depth.1)?;
    let k = Stream {
        chunk: &plan.k,
        source: &problem.k,
        pointer,
        base,
        shared,
        positions_dim: 1,
        positions: tail(problem.keys, whole_keys),
        depth: problem.depth,
        chunks: plan.depth,
    };
    let (pointer, base, shared) = stream(&plan.v, &problem.v, SLOTS * plan.width.1)?;
    let v = Stream {
        chunk: &plan.v,
        source: &problem.v,
        pointer,
        base,
        shared,
        positions_dim: 0,
        positions: tail(problem.keys, whole_keys),
        depth: problem.width,
        chunks: plan.width,
    };
    let evaluator = Evaluator::new(body, inputs);
    let softmax = Softmax { tile: plan.tile(), evaluator: &evaluator, place: Place { batch, head, query } };

    let tiles = KeyTiles::new(&softmax, code)?;
    let last = if whole_keys { Some(code.offset(tiles.all, -1)?) } else { None };
    let mut own = Block { plan, softmax, q, k, v, held: Vec::new(), last };

    let zero = code.i32(0)?;
    own.q.copy(builder, query, zero)?;
    builder.async_commit()?;
    own.ask(builder, zero)?;
    if plan.holds_queries {
        builder.async_wait(1)?;
        builder.barrier()?;
        for chunk in 0..plan.depth.1 {
            own.held.push(own.q.fragment(builder, zero, chunk)?);
        }
    }
    let rows = plan.scores.slice(1)?;
    let mut carried = vec![
        splat(builder, Number::Float(f64::NEG_INFINITY), DType::F32, &rows)?,
        splat(builder, Number::Float(0.0), DType::F32, &rows)?,
    ];
    for _ in 0..plan.width.1 {
        carried.push(splat(builder, Number::Float(0.0), DType::F32, &plan.sums)?);
    }
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
    // No copy may be under way when the block ends.
    builder.async_wait(0)?;
    finish(&own.softmax, builder, body, outputs, &carried[1], &carried[2..])
}

impl<'m> Block<'_, '_, 'm> {
    /// Starts to copy a tile of keys and values.
    fn ask(&self, builder: TileBuilder<'m>, tile: Value<'m>) -> Result<(), LoweringError> {
        let code = builder.scalar();
        let slot = code.op("arith.andi", &[tile, code.i32(SLOTS as i32 - 1)?])?;
        let tile = match self.last {
            Some(last) => code.op("arith.minsi", &[tile, last])?,
            None => tile,
        };
        let start = code.scale(tile, self.plan.tile_keys as i32)?;
        self.k.copy(builder, start, code.scale(slot, self.plan.depth.1 as i32)?)?;
        self.v.copy(builder, start, code.scale(slot, self.plan.width.1 as i32)?)?;
        Ok(builder.async_commit()?)
    }

    /// One tile of keys: running maximum, running sum, then results by chunk.
    fn turn(
        &self,
        builder: TileBuilder<'m>,
        tile: Value<'m>,
        carried: &[Tile<'m>],
        edge: bool,
    ) -> Result<Vec<Tile<'m>>, LoweringError> {
        let plan = self.plan;
        let code = builder.scalar();
        builder.async_wait(0)?;
        builder.barrier()?;
        self.ask(builder, code.offset(tile, 1)?)?;
        let slot = code.op("arith.andi", &[tile, code.i32(SLOTS as i32 - 1)?])?;
        let names = plan.instructions.map(|[first, second]| [first.name.as_str(), second.name.as_str()]);
        let [first, second] = names.unwrap_or(["fma", "fma"]);

        let k_slot = code.scale(slot, plan.depth.1 as i32)?;
        let zero = code.i32(0)?;
        let mut products = splat(builder, Number::Float(0.0), DType::F32, &plan.scores)?;
        for chunk in 0..plan.depth.1 {
            let left = match self.held.get(chunk as usize) {
                Some(held) => held.clone(),
                None => self.q.fragment(builder, zero, chunk)?,
            };
            let right = self.k.fragment(builder, k_slot, chunk)?;
            let (left, right) = (self.operand(builder, &left)?, self.operand(builder, &right)?);
            products = builder.mma(first, &left, &right, &products)?;
        }
        let key = code.scale(tile, plan.tile_keys as i32)?;
        let step = self.softmax.step(builder, &products, key, edge, [&carried[0], &carried[1]])?;
        let weights = cast_tile(builder, &step.weights, DType::F32, plan.operand_type())?;
        let weights = builder.convert_layout(&weights, &plan.weights)?;
        let decay = builder.spread(&step.decay, 0, &plan.sums)?;
        let v_slot = code.scale(slot, plan.width.1 as i32)?;
        let mut next = vec![step.maximum, step.sum];
        for chunk in 0..plan.width.1 {
            let sums = map(builder, &[&carried[2 + chunk as usize], &decay], DType::F32, |code, values| {
                Ok(code.op("arith.mulf", values)?)
            })?;
            let right = self.v.fragment(builder, v_slot, chunk)?;
            let right = self.operand(builder, &right)?;
            next.push(builder.mma(second, &weights, &right, &sums)?);
        }
        Ok(next)
    }

    fn operand(&self, builder: TileBuilder<'m>, tile: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        cast_tile(builder, tile, self.plan.problem.dtype, self.plan.operand_type())
    }
}
