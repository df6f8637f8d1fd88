//! Whether attention is one for tensor maps and warpgroups, and its tile.

use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_layout::{TileLayout, wgmma_accumulator, wgmma_operand_a};
use tenon_target::{FragmentScheme, Instructions, MatrixInstruction, Target};
use tenon_tensor::DType;

use super::super::choice::{Time, tile_clocks};
use super::super::problem::Problem;
use super::super::tile::BlockTile;
use super::operand::TmaOperand;
use crate::LoweringError;
use crate::schedule::body::Body;
use crate::schedule::tensor_map::{RESERVED_BYTES, SWIZZLE_BYTES};
use crate::schedule::{Candidate, KernelShape, KernelTensorMap, parts};

/// Warps of a warpgroup.
const WARPGROUP: u32 = 4;
/// Warps that copy.
const PRODUCER_WARPS: u32 = 1;
/// Queries of a warpgroup: the rows of an instruction.
const ROWS: u32 = 64;
/// Tiles of keys and of values in shared memory: one is multiplied while the other is on its way.
pub(super) const SLOTS: u32 = 2;
/// Registers of a thread for scores, weights and results, at most: as many are left for all else.
const TILE_REGISTERS: u32 = 128;
/// The same where a block of one warpgroup has a multiprocessor to itself.
const LONE_TILE_REGISTERS: u32 = 176;

/// The tile of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    warpgroups: u32,
    keys: u32,
    /// Blocks that share a multiprocessor.
    blocks: u32,
}

/// Warpgroups and keys of tiles. Of equal time the first is taken: what reads less comes first.
const TILES: [[u32; 2]; 7] = [[2, 128], [2, 64], [2, 32], [1, 128], [1, 64], [1, 32], [1, 16]];

/// Attention's schedule.
pub(in crate::schedule::attention) struct TmaPlan {
    pub(super) problem: Problem,
    /// Instructions of the products with the keys and with the values.
    pub(super) instructions: [&'static MatrixInstruction; 2],
    pub(super) warps: u32,
    pub(super) tile_queries: u32,
    pub(super) tile_keys: u32,
    /// Elements of a head of queries and keys, and of values, with what fills their boxes.
    pub(super) depth: u32,
    pub(super) width: u32,
    pub(super) q: TmaOperand,
    pub(super) k: TmaOperand,
    pub(super) v: TmaOperand,
    /// Layouts of a tile of scores, of weights as the second product takes them, and of results.
    pub(super) scores: TileLayout,
    pub(super) weights: TileLayout,
    pub(super) sums: TileLayout,
    weighed: Vec<Tile>,
    chosen: Tile,
}

/// The instruction for columns of a product; none where the target has none on such operands.
fn instruction(target: &Target, dtype: DType, columns: u32) -> Option<&'static MatrixInstruction> {
    let rows = Instructions::table().matrix_instructions_for(target, dtype, dtype, DType::F32);
    rows.into_iter().find(|row| row.fragments == FragmentScheme::Wgmma && row.n == columns)
}

/// Bytes of shared memory that a tile takes.
fn shared_bytes(problem: &Problem, [depth, width]: [u32; 2], warpgroups: u32, keys: u32) -> u64 {
    let lines = u64::from(warpgroups * ROWS * depth) + u64::from(SLOTS * keys * (depth + width));
    lines * problem.dtype.size() as u64
}

/// A size of heads as boxes hold it.
fn boxed(size: u32, dtype: DType) -> u32 {
    size.next_power_of_two().max(SWIZZLE_BYTES / dtype.size() as u32)
}

impl TmaPlan {
    /// What the schedule is called.
    pub(in crate::schedule::attention) const NAME: &'static str = "tma wgmma";

    /// A plan, or why there is none.
    pub(in crate::schedule::attention) fn new(
        problem: &Problem,
        target: &Target,
    ) -> Result<Result<Self, String>, LoweringError> {
        let features = &target.architecture.features;
        if !features.wgmma || !features.tma || !features.mbarrier {
            return Ok(Err(format!("{} has no warpgroups that multiply", target.architecture.name)));
        }
        let dtype = problem.dtype;
        if !matches!(dtype, DType::F16 | DType::BF16) {
            return Ok(Err(format!(
                "there is no instruction for {dtype} by {dtype} whose right operand may lie in either order"
            )));
        }
        let heads = [problem.batch, problem.groups];
        let k_sizes = [heads[0], heads[1], problem.keys, problem.depth.into()];
        let v_sizes = [heads[0], heads[1], problem.keys, problem.width.into()];
        let q_sizes = [problem.batch, problem.heads, problem.queries, problem.depth.into()];
        let operands = [
            TmaOperand::new("the queries", &problem.q, q_sizes, dtype, 0),
            TmaOperand::new("the keys", &problem.k, k_sizes, dtype, 1),
            TmaOperand::new("the values", &problem.v, v_sizes, dtype, 0),
        ];
        let [q, k, v] = match operands {
            [Ok(q), Ok(k), Ok(v)] => [q, k, v],
            [Err(reason), ..] | [_, Err(reason), _] | [.., Err(reason)] => return Ok(Err(reason)),
        };
        let (depth, width) = (boxed(problem.depth, dtype), boxed(problem.width, dtype));
        // A box has 64 positions in a row where these are consecutive.
        let least = if k.positions_first || v.positions_first { SWIZZLE_BYTES / dtype.size() as u32 } else { 16 };
        let most = problem.keys.capacity_u32().clamp(1, 1 << 20).next_power_of_two().max(least);
        let weighed = Self::tiles(problem, target, [depth, width], [least, most]);
        let time = |tile: &Tile| Self::time(problem, target, [depth, width], *tile).clocks;
        let Some(chosen) = weighed.iter().copied().min_by_key(time) else {
            return Ok(Err("registers or shared memory hold no tile".to_owned()));
        };
        let (Some(first), Some(second)) = (instruction(target, dtype, chosen.keys), instruction(target, dtype, width))
        else {
            return Ok(Err(format!("there is no instruction of {} and {width} columns", chosen.keys)));
        };
        let (queries, groups) = (chosen.warpgroups * ROWS, [chosen.warpgroups, 1]);
        Ok(Ok(TmaPlan {
            problem: problem.clone(),
            instructions: [first, second],
            warps: chosen.warpgroups * WARPGROUP,
            tile_queries: queries,
            tile_keys: chosen.keys,
            depth,
            width,
            q,
            k,
            v,
            scores: wgmma_accumulator([queries, chosen.keys], groups)?,
            weights: wgmma_operand_a([queries, chosen.keys], 8 * dtype.size() as u32, groups)?,
            sums: wgmma_accumulator([queries, width], groups)?,
            weighed,
            chosen,
        }))
    }

    /// Tiles that registers and shared memory hold, of keys within bounds.
    fn tiles(problem: &Problem, target: &Target, sizes: [u32; 2], [least, most]: [u32; 2]) -> Vec<Tile> {
        let limits = &target.architecture.limits;
        let mut tiles = Vec::new();
        let attention = &problem.attention;
        let is_masked = problem.mask.is_some();
        let is_capped = attention.softcap.is_some();
        // What a score needs besides: elements of a mask and their offsets, an order of times beside it, the hyperbolic tangent of a cap.
        let extras = [is_masked, is_masked && attention.causal.is_some(), is_capped];
        let extras = extras.into_iter().filter(|extra| *extra).count() as u32;
        // ptxas computes tangents of many scores at once while it loads a mask: that fits only where threads have all their registers.
        let most_warpgroups = if is_masked && is_capped { 1 } else { 2 };
        for [warpgroups, keys] in TILES {
            // Scores and results in f32, weights in pairs.
            let scores = keys / 2;
            let registers = scores * (1 + extras) + scores / 2 + sizes[1] / 2;
            let bytes = shared_bytes(problem, sizes, warpgroups, keys) + RESERVED_BYTES;
            let shares = |blocks: u32| u64::from(limits.shared_memory_per_sm) / u64::from(blocks) >= bytes;
            let blocks = if warpgroups == 1 && registers <= TILE_REGISTERS && shares(2) { 2 } else { 1 };
            let bound = if warpgroups == 1 && blocks == 1 { LONE_TILE_REGISTERS } else { TILE_REGISTERS };
            let fits = registers <= bound && bytes <= u64::from(limits.shared_memory_per_block);
            if fits && warpgroups <= most_warpgroups && (least..=most).contains(&keys) {
                tiles.push(Tile { warpgroups, keys, blocks });
            }
        }
        tiles
    }

    /// Its warpgroups, or those of two blocks, multiply and compute weights by turns.
    fn time(problem: &Problem, target: &Target, sizes: [u32; 2], tile: Tile) -> Time {
        let [multiply, load, weigh] = tile_clocks(problem, target, [tile.warpgroups * ROWS, tile.keys], sizes);
        let clocks = if tile.warpgroups > 1 { multiply.max(load).max(weigh) } else { (multiply + weigh).max(load) };
        Time::new(problem, target, [tile.warpgroups * ROWS, tile.keys], clocks)
    }

    /// The tiles that were weighed.
    pub(in crate::schedule::attention) fn candidates(&self, target: &Target) -> Vec<Candidate> {
        let sizes = [self.depth, self.width];
        let of = |tile: &Tile| {
            let warps = tile.warpgroups * WARPGROUP + PRODUCER_WARPS;
            let bytes = shared_bytes(&self.problem, sizes, tile.warpgroups, tile.keys);
            let time = Self::time(&self.problem, target, sizes, *tile);
            time.candidate(&self.problem, Self::NAME, warps, Candidate::occupancy_of(target, warps, bytes), SLOTS)
        };
        let chosen = |tile: &Tile| *tile == self.chosen;
        self.weighed.iter().map(|tile| Candidate { chosen: chosen(tile), ..of(tile) }).collect()
    }

    /// What softmax and the result know of a block.
    pub(super) fn tile(&self) -> BlockTile<'_> {
        BlockTile {
            problem: &self.problem,
            queries: self.tile_queries,
            keys: self.tile_keys,
            warps: self.warps,
            width: (self.width, 1),
            scores: &self.scores,
            sums: &self.sums,
            by_instruction: true,
        }
    }

    /// One block a tile of queries, those of a head after one another.
    pub(in crate::schedule::attention) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let tiles = parts(self.problem.queries, self.tile_queries, body)?;
        let heads = parts(self.problem.batch * self.problem.heads, 1, body)?;
        let blocks =
            tiles.mul(&heads).ok_or_else(|| body.error("the number of blocks is too complex an expression"))?;
        Ok(KernelShape { producer_warps: PRODUCER_WARPS, ..KernelShape::line(self.warps, blocks) })
    }

    /// Those of queries, keys and values.
    pub(in crate::schedule::attention) fn tensor_maps(
        &self,
        body: &Body,
    ) -> Result<Vec<KernelTensorMap>, LoweringError> {
        Ok(vec![
            self.q.tensor_map(body, self.tile_queries, self.depth)?,
            self.k.tensor_map(body, self.tile_keys, self.depth)?,
            self.v.tensor_map(body, self.tile_keys, self.width)?,
        ])
    }

    pub(in crate::schedule::attention) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        values: [&[Value<'m>]; 3],
    ) -> Result<(), LoweringError> {
        super::build::build(self, builder, body, values)
    }
}
