//! Sums along k that several blocks share, in one launch.
//!
//! Where the result has few tiles and sums are long, `blocks` blocks share a tile. Each sums a run of tiles along k, writes its partial sums to a workspace and
//! arrives at the tile's counter (`hw.arrive`); the last one adds the partial sums of all **in the order of the runs**, its own included, and goes on to the epilogue. So the
//! result does not depend on which block is last, and there are no atomics on floats.
//!
//! **Numbers.** Partial sums are of the type that the product accumulates in, so no value is rounded to another type, but the sum of an element has another grouping than
//! the loop along k gives it. For floats that is of the class `reassociates`: where a recipe asks for `exact`, products are not split. Sums of integers wrap, and are
//! the same in any order. A sum of k terms in runs of k / s is within (k / s + s − 1) u Σ |a b| for k u Σ |a b| of the loop, which is no more; the bound of three passes of
//! tf32 becomes (28 + 3 k / 4 s + s − 1) u Σ |a b|, which is no more than that of one run as long as s ≤ 3 k / 4.

use tenon_hw_dialect::{Access, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_target::Target;
use tenon_tensor::DType;

use super::problem::{Axis, Problem};
use crate::LoweringError;
use crate::schedule::KernelWorkspace;
use crate::schedule::candidate::L2_BYTES;
use crate::schedule::control::{for_between, when};
use crate::schedule::numeric_class::NumericClass;

/// Most blocks that share a tile.
const MOST_BLOCKS: u32 = 32;
/// Fewest tiles along k that are worth a block: what fills the pipeline.
const LEAST_TILES: u32 = 4;
/// Clocks from the last product of a block to the first sum of partial sums: they reach the L2 cache, the counter is counted, and they are read.
const HANDOVER_CLOCKS: u64 = 2048;

/// How blocks share the sums of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    /// Blocks of a tile.
    pub(super) blocks: u32,
    /// Tiles along k that each of them sums; the last one may have fewer.
    pub(super) tiles: u32,
}

/// A tile of the result with how its sums are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) tile: [u32; 2],
    pub(super) split: Split,
}

impl Shared {
    /// Bytes that all blocks read of operands, `operands` for a tile, and write and read of partial sums.
    pub(super) fn bytes(self, problem: &Problem, operands: u64) -> u64 {
        let partial =
            if self.split.is_one() { 0 } else { 2 * u64::from(self.split.blocks) * partial_bytes(problem, self.tile) };
        tiles_of(problem, self.tile).saturating_mul(operands.saturating_add(partial))
    }
}

/// Blocks, whole waves of them, and the time in 64ths of a clock times the rate of multiply-adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) blocks: u64,
    pub(super) waves: u64,
    pub(super) time: u128,
}

impl Estimate {
    /// Of a product whose multiprocessors each compute one block at a time, `per_term` for each term of a sum.
    pub(super) fn new(
        problem: &Problem,
        target: &Target,
        rate: u32,
        shared: Shared,
        tile_k: u32,
        per_term: u64,
    ) -> Self {
        let Shared { tile, split } = shared;
        let (tiles, sms) = (tiles_of(problem, tile), u64::from(target.gpu.sms.max(1)));
        let blocks = tiles.saturating_mul(u64::from(split.blocks));
        let waves = blocks.div_ceil(sms);
        let (depth, handover) = if split.is_one() {
            (problem.extent(Axis::K).capacity(), 0)
        } else {
            // Each block writes its sums; the last one of a tile reads those of all.
            let bytes = partial_bytes(problem, tile) * (waves + tiles.div_ceil(sms) * u64::from(split.blocks));
            (u64::from(split.tiles) * u64::from(tile_k), HANDOVER_CLOCKS * L2_BYTES + bytes)
        };
        let products = u128::from(waves) * u128::from(per_term) * u128::from(depth);
        Estimate { blocks, waves, time: products + u128::from(handover) * u128::from(rate.max(1)) }
    }

    /// Clocks of a multiprocessor.
    pub(super) fn clocks(&self, rate: u32) -> u64 {
        u64::try_from(self.time / u128::from(L2_BYTES * u64::from(rate.max(1)))).unwrap_or(u64::MAX)
    }
}

/// Bytes of the sums of a tile.
fn partial_bytes(problem: &Problem, [rows, columns]: [u32; 2]) -> u64 {
    u64::from(rows) * u64::from(columns) * problem.accumulate.size() as u64
}

/// Tiles of the result, with all extents at their capacities.
fn tiles_of(problem: &Problem, [rows, columns]: [u32; 2]) -> u64 {
    let along = |axis: Axis, part: u32| problem.extent(axis).capacity().div_ceil(u64::from(part.max(1)));
    along(Axis::M, rows).saturating_mul(along(Axis::N, columns)).saturating_mul(problem.extent(Axis::Batch).capacity())
}

/// The tiles to weigh, each whole and with the split of the least time, if it can be split; the chosen one, of equals the first.
pub(super) fn weigh(
    problem: &Problem,
    class: NumericClass,
    target: &Target,
    tile_k: u32,
    tiles: &[[u32; 2]],
    time: impl Fn(Shared) -> u128,
) -> (Vec<Shared>, Option<Shared>) {
    let mut weighed = Vec::new();
    for tile in tiles {
        weighed.push(Shared { tile: *tile, split: Split::ONE });
        let splits =
            splits(problem, class, target, tile_k, *tile).into_iter().map(|split| Shared { tile: *tile, split });
        weighed.extend(splits.min_by_key(|shared| time(*shared)));
    }
    let least = weighed.iter().copied().min_by_key(|shared| time(*shared));
    (weighed, least)
}

/// Ways to split a product by tiles of the result.
fn splits(problem: &Problem, class: NumericClass, target: &Target, tile_k: u32, tile: [u32; 2]) -> Vec<Split> {
    let permitted = !problem.accumulate.is_float() || class >= NumericClass::Reassociates;
    // A partial sum of fewer bits would be rounded more often than one loop rounds it.
    let is_wide = problem.accumulate.size() >= 4;
    // Where blocks begin along k is decided here, so that the length must be known.
    let Some(depth) = problem.extent(Axis::K).known().filter(|_| permitted && is_wide) else { return Vec::new() };
    let tiles = tiles_of(problem, tile);
    if tiles >= 2 * u64::from(target.gpu.sms) {
        return Vec::new();
    }
    let Ok(along_k) = u32::try_from(depth.div_ceil(u64::from(tile_k.max(1)))) else { return Vec::new() };
    let mut splits: Vec<Split> = Vec::new();
    for blocks in 2..=MOST_BLOCKS {
        let each = along_k.div_ceil(blocks);
        if each < LEAST_TILES {
            break;
        }
        // Runs of so many tiles may be fewer than there were to be.
        let split = Split { blocks: along_k.div_ceil(each), tiles: each };
        let bytes = tiles * u64::from(split.blocks) * partial_bytes(problem, tile);
        // What the L2 cache does not hold would take longer than is counted here.
        if splits.last() != Some(&split) && split.blocks > 1 && bytes <= target.gpu.l2.bytes.min(1 << 31) {
            splits.push(split);
        }
    }
    splits
}

/// The run of tiles along k of a block.
#[derive(Clone, Copy)]
pub(super) struct Run<'m> {
    /// Its first tile.
    first: Value<'m>,
    /// The term behind its last one.
    pub(super) end: Value<'m>,
}

impl<'m> Run<'m> {
    /// The number of a tile of the run among all along k.
    pub(super) fn tile(self, code: Scalar<'m>, tile: Value<'m>) -> Result<Value<'m>, LoweringError> {
        Ok(code.add(tile, self.first)?)
    }
}

/// What a block does of a tile that is split.
pub(super) struct Part<'m> {
    split: Split,
    /// The tile of the result, and which of its runs.
    tile: Value<'m>,
    number: Value<'m>,
    pub(super) run: Run<'m>,
}

impl Split {
    /// One block computes all of a tile.
    pub(super) const ONE: Split = Split { blocks: 1, tiles: 0 };

    pub(super) fn is_one(self) -> bool {
        self.blocks == 1
    }

    /// Memory for partial sums, and a counter for each tile.
    pub(super) fn workspaces(self, problem: &Problem, tile: [u32; 2]) -> Vec<KernelWorkspace> {
        if self.is_one() {
            return Vec::new();
        }
        let tiles = tiles_of(problem, tile);
        let elements = tiles * u64::from(self.blocks) * u64::from(tile[0]) * u64::from(tile[1]);
        vec![
            KernelWorkspace { element: problem.accumulate, elements, zeroed: false },
            KernelWorkspace { element: DType::I32, elements: tiles, zeroed: true },
        ]
    }

    /// The tile of a block, and its part of it where there are several.
    pub(super) fn part<'m>(
        self,
        code: Scalar<'m>,
        problem: &Problem,
        tile_k: u32,
        block: Value<'m>,
    ) -> Result<(Value<'m>, Option<Part<'m>>), LoweringError> {
        if self.is_one() {
            return Ok((block, None));
        }
        let (tile, number) = code.div_rem(block, self.blocks as i32)?;
        let first = code.scale(number, self.tiles as i32)?;
        let behind = code.scale(code.offset(first, self.tiles as i32)?, tile_k as i32)?;
        let end = code.op("arith.minui", &[behind, problem.extent(Axis::K).value(code)?])?;
        Ok((tile, Some(Part { split: self, tile, number, run: Run { first, end } })))
    }
}

impl<'m> Part<'m> {
    /// Writes the block's partial sums; where it is the last of its tile, adds those of all and goes on with them.
    pub(super) fn combine(
        &self,
        builder: TileBuilder<'m>,
        sums: &Tile<'m>,
        workspaces: &[Value<'m>],
        then: impl FnOnce(TileBuilder<'m>, Tile<'m>) -> Result<(), LoweringError>,
    ) -> Result<(), LoweringError> {
        let &[partial, counters] = workspaces else {
            return Err(LoweringError::unsupported("hw.kernel", "a split product without its workspaces"));
        };
        let (code, layout, element) = (builder.scalar(), &sums.ty.layout, sums.ty.element);
        let contiguity = layout.vector_width_along(1, element.size() as u32)?;
        let index = index(builder, layout)?;
        let size = layout.elements() as i32;
        let blocks = self.split.blocks as i32;
        let at = |builder: TileBuilder<'m>, part: Value<'m>| -> Result<Tile<'m>, LoweringError> {
            let start = builder.scalar().scale(part, size)?;
            Ok(builder.map1(&[&index], layout, DType::I32, |code, values| Ok(code.add(values[0], start)?))?)
        };
        let first = code.scale(self.tile, blocks)?;
        builder.store(partial, &at(builder, code.add(first, self.number)?)?, sums, None, contiguity)?;
        let before = builder.arrive(counters, self.tile, code.i32(blocks)?)?;
        let is_last = code.compare_int(IntegerPredicate::Equal, before, code.i32(blocks - 1)?)?;
        let access = Access { contiguity, uniform: 1 };
        when(builder, is_last, |inner| {
            let code = inner.scalar();
            let total = inner.load(partial, &at(inner, first)?, None, element, access)?;
            let range = [code.i32(1)?, code.i32(blocks)?];
            let add = if element.is_float() { "arith.addf" } else { "arith.addi" };
            let total = for_between(inner, range, &[total], |inner, part, carried| {
                let part = inner.scalar().add(first, part)?;
                let part = inner.load(partial, &at(inner, part)?, None, element, access)?;
                let sum =
                    inner.map1(&[&carried[0], &part], layout, element, |code, values| Ok(code.op(add, values)?))?;
                Ok(vec![sum])
            })?;
            let total = total.into_iter().next();
            then(inner, total.ok_or_else(|| LoweringError::unsupported("scf.for", "no result"))?)
        })
    }
}

/// The row-major index of each place of a tile.
fn index<'m>(builder: TileBuilder<'m>, layout: &TileLayout) -> Result<Tile<'m>, LoweringError> {
    let columns = layout.shape().get(1).copied().unwrap_or(1);
    let (rows, own) = (builder.iota(0, layout)?, builder.iota(1, layout)?);
    Ok(builder.map1(&[&rows, &own], layout, DType::I32, |code, values| {
        Ok(code.add(code.scale(values[0], columns as i32)?, values[1])?)
    })?)
}
