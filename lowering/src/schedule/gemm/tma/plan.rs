//! Whether a product is one for tensor maps and warpgroups, and its tile.

use tenon_graph_dialect::DimExpr;
use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_layout::{TileLayout, wgmma_accumulator};
use tenon_target::{FragmentScheme, Instructions, MatrixInstruction, Target};
use tenon_tensor::DType;

use super::super::plan::tensor_type;
use super::super::problem::{Axis, Problem};
use super::super::result::ResultTile;
use super::super::split::{Estimate, Shared, Split, weigh};
use super::operand::TmaOperand;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::candidate::L2_BYTES;
use crate::schedule::numeric_class::NumericClass;
use crate::schedule::tensor_map::{RESERVED_BYTES, SWIZZLE_BYTES};
use crate::schedule::{Candidate, KernelShape, KernelTensorMap, KernelWorkspace, parts};

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Warps that copy.
const PRODUCER_WARPS: u32 = 1;
/// Registers of a thread that hold sums, at most: as many are left for all else, or more.
const SUM_REGISTERS: u32 = 128;
/// Slots that are worth having: one is multiplied while the others are on their way.
const MOST_SLOTS: u64 = 6;

/// The tile of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    rows: u32,
    columns: u32,
    warpgroups: u32,
    /// Slots of shared memory for each operand.
    slots: u32,
}

/// Rows and columns of tiles, and warpgroups that share them by rows. Of equal time the first is taken: what reads less comes first.
const TILES: [[u32; 3]; 5] = [[128, 256, 2], [128, 128, 1], [64, 256, 1], [64, 128, 1], [64, 64, 1]];

/// A product's schedule.
pub(in crate::schedule::gemm) struct TmaPlan {
    pub(super) problem: Problem,
    pub(super) instruction: &'static MatrixInstruction,
    pub(super) tile_m: u32,
    pub(super) tile_n: u32,
    pub(super) tile_k: u32,
    pub(super) split: Split,
    pub(super) warps: u32,
    pub(super) slots: u32,
    pub(super) a: TmaOperand,
    pub(super) b: TmaOperand,
    pub(super) accumulator: TileLayout,
    weighed: Vec<(Tile, Split)>,
    rate: u32,
}

/// The instruction for columns of a tile; none where the target has none on such operands.
fn instruction(problem: &Problem, target: &Target, columns: u32) -> Option<&'static MatrixInstruction> {
    let (a, b, c) = (problem.a.dtype, problem.b.dtype, problem.accumulate);
    let table = Instructions::table();
    let rows = table.matrix_instructions_for(target, a, b, c);
    rows.into_iter().find(|row| row.fragments == FragmentScheme::Wgmma && row.n == columns && !row.tf32)
}

/// Slots of a tile where so many blocks share a multiprocessor.
fn slots(target: &Target, bytes: u64, blocks: u64) -> u32 {
    let limits = &target.architecture.limits;
    let shared = (u64::from(limits.shared_memory_per_sm) / blocks).min(u64::from(limits.shared_memory_per_block));
    (shared.saturating_sub(RESERVED_BYTES) / bytes.max(1)).min(MOST_SLOTS) as u32
}

impl TmaPlan {
    /// What the schedule is called.
    pub(in crate::schedule::gemm) const NAME: &'static str = "tma wgmma";

    /// A plan, or why there is none.
    pub(in crate::schedule::gemm) fn new(
        problem: &Problem,
        class: NumericClass,
        target: &Target,
    ) -> Result<Result<Self, String>, LoweringError> {
        let features = &target.architecture.features;
        if !features.wgmma || !features.tma || !features.mbarrier {
            return Ok(Err(format!("{} has no warpgroups that multiply", target.architecture.name)));
        }
        if !matches!(problem.a.dtype, DType::F16 | DType::BF16) || instruction(problem, target, 64).is_none() {
            let (a, b, c) = (problem.a.dtype, problem.b.dtype, problem.accumulate);
            return Ok(Err(format!("there is no instruction for {a} by {b} summed in {c}")));
        }
        let (a, b) = match (TmaOperand::new(problem, Axis::M), TmaOperand::new(problem, Axis::N)) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(reason), _) | (_, Err(reason)) => return Ok(Err(reason)),
        };
        let element = problem.a.dtype.size() as u32;
        let tile_k = SWIZZLE_BYTES / element;
        let rate = tensor_type(problem.a.dtype).and_then(|operands| target.tensor_rate(operands)).unwrap_or(1);
        let mut tiles = Vec::new();
        for [rows, columns, warpgroups] in TILES {
            // Two blocks of one warpgroup share a multiprocessor, so that one multiplies while the other waits.
            let slots = slots(target, u64::from((rows + columns) * SWIZZLE_BYTES), if warpgroups == 1 { 2 } else { 1 });
            let sums = rows * columns / (warpgroups * WARPGROUP * 32);
            if slots >= 2 && sums <= SUM_REGISTERS && instruction(problem, target, columns).is_some() {
                tiles.push(Tile { rows, columns, warpgroups, slots });
            }
        }
        let shapes: Vec<_> = tiles.iter().map(|tile| [tile.rows, tile.columns]).collect();
        let time = |shared| estimate(problem, target, rate, shared, tile_k).time;
        let (all, least) = weigh(problem, class, target, tile_k, &shapes, time);
        let with_tile = |shared: Shared| {
            let tile = tiles.iter().copied().find(|tile| [tile.rows, tile.columns] == shared.tile);
            tile.map(|tile| (tile, shared.split))
        };
        let weighed = all.into_iter().filter_map(with_tile).collect();
        let Some((chosen, split)) = least.and_then(with_tile) else {
            return Ok(Err("no tile fits shared memory".to_owned()));
        };
        let Some(instruction) = instruction(problem, target, chosen.columns) else {
            return Ok(Err("there is no instruction of so many columns".to_owned()));
        };
        let accumulator = wgmma_accumulator([chosen.rows, chosen.columns], [chosen.warpgroups, 1])?;
        Ok(Ok(TmaPlan {
            problem: problem.clone(),
            instruction,
            tile_m: chosen.rows,
            tile_n: chosen.columns,
            tile_k,
            split,
            warps: chosen.warpgroups * WARPGROUP,
            slots: chosen.slots,
            a,
            b,
            accumulator,
            weighed,
            rate,
        }))
    }

    /// The tiles that were weighed.
    pub(in crate::schedule::gemm) fn candidates(&self, target: &Target) -> Vec<Candidate> {
        let depth = self.problem.extent(Axis::K).capacity();
        let element = self.problem.a.dtype.size() as u64;
        let of = |(tile, split): &(Tile, Split)| {
            let shared = Shared { tile: [tile.rows, tile.columns], split: *split };
            let estimate = estimate(&self.problem, target, self.rate, shared, self.tile_k);
            let lines = u64::from(tile.rows + tile.columns);
            let shared_bytes = lines * u64::from(SWIZZLE_BYTES) * u64::from(tile.slots);
            let warps = tile.warpgroups * WARPGROUP + PRODUCER_WARPS;
            Candidate {
                schedule: Self::NAME,
                tile: [tile.rows, tile.columns, self.tile_k],
                splits: split.blocks,
                warps,
                blocks: estimate.blocks,
                waves: estimate.waves,
                occupancy: Candidate::occupancy_of(target, warps, shared_bytes),
                stages: tile.slots,
                bytes: shared.bytes(&self.problem, lines.saturating_mul(depth).saturating_mul(element)),
                clocks: estimate.clocks(self.rate),
                chosen: shared == Shared { tile: [self.tile_m, self.tile_n], split: self.split },
            }
        };
        self.weighed.iter().map(of).collect()
    }

    pub(in crate::schedule::gemm) fn workspaces(&self) -> Vec<KernelWorkspace> {
        self.split.workspaces(&self.problem, [self.tile_m, self.tile_n])
    }

    /// One block a tile of the result and run along k, those of a row of tiles after one another.
    pub(in crate::schedule::gemm) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let tiles_m = parts(self.problem.extent(Axis::M), self.tile_m, body)?;
        let tiles_n = parts(self.problem.extent(Axis::N), self.tile_n, body)?;
        let batches = parts(self.problem.extent(Axis::Batch), 1, body)?;
        let blocks = tiles_m.mul(&tiles_n).and_then(|tiles| tiles.mul(&batches));
        let blocks = blocks.and_then(|tiles| tiles.mul(&DimExpr::constant(i64::from(self.split.blocks))));
        let blocks = blocks.ok_or_else(|| body.error("the number of blocks is too complex an expression"))?;
        Ok(KernelShape { producer_warps: PRODUCER_WARPS, ..KernelShape::line(self.warps, blocks) })
    }

    /// Those of A and B.
    pub(in crate::schedule::gemm) fn tensor_maps(&self, body: &Body) -> Result<Vec<KernelTensorMap>, LoweringError> {
        let a = self.a.tensor_map(body, self.tile_m, self.tile_k)?;
        Ok(vec![a, self.b.tensor_map(body, self.tile_n, self.tile_k)?])
    }

    /// The tile of the result, as the epilogue takes it: shared memory of the slots is free by then.
    pub(super) fn result(&self) -> ResultTile<'_> {
        let (tile_m, tile_n) = (self.tile_m, self.tile_n);
        ResultTile { problem: &self.problem, tile_m, tile_n, accumulator: &self.accumulator, may_move: true }
    }

    pub(in crate::schedule::gemm) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        values: [&[Value<'m>]; 4],
    ) -> Result<(), LoweringError> {
        super::build::build(self, builder, body, values)
    }
}

/// What the model of time says: the longer of multiplications and loads, which overlap.
fn estimate(problem: &Problem, target: &Target, rate: u32, shared: Shared, tile_k: u32) -> Estimate {
    let [rows, columns] = shared.tile.map(u64::from);
    let multiply = rows * columns * L2_BYTES;
    let load = (rows + columns) * problem.a.dtype.size() as u64 * u64::from(rate.max(1));
    Estimate::new(problem, target, rate, shared, tile_k, multiply.max(load))
}
