//! Tiles, matrix instructions and layouts of attention on a target.

use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_layout::{SharedAccess, SharedLayout, TileLayout};
use tenon_target::{FragmentScheme, Instructions, MatrixInstruction, Order, Target};
use tenon_tensor::DType;

use super::choice::{Time, tile_clocks};
use super::problem::{Problem, Source};
use super::tile::BlockTile;
use crate::LoweringError;
use crate::fragments::Fragments;
use crate::schedule::body::Body;
use crate::schedule::index::common;
use crate::schedule::size::Size;
use crate::schedule::{Candidate, KernelShape, parts};

/// Deepest head that the registers of a block hold the results of.
pub(crate) const MOST_DEPTH: u32 = 256;
/// Tiles of keys and values that are in shared memory: one is read while the next is on its way.
pub(super) const SLOTS: u32 = 2;
/// Architectures whose code of a tile takes more registers.
const TIGHT: [&str; 2] = ["sm_70", "sm_120a"];
/// Deepest head whose queries stay in registers.
const HELD_DEPTH: u32 = 128;

/// A part of a tile, as deep as one product takes it, on its way to the multipliers.
pub(super) struct Chunk {
    /// Layout that global memory is read in.
    pub(super) global: TileLayout,
    /// Registers in a row that are consecutive elements of global memory.
    pub(super) contiguity: u32,
    pub(super) shared: SharedLayout,
    /// Layout that the multipliers take.
    pub(super) fragment: TileLayout,
}

/// Attention's schedule.
pub(in crate::schedule) struct AttentionPlan {
    pub(super) problem: Problem,
    /// Instructions of the products with the keys and with the values; none on CUDA cores.
    pub(super) instructions: Option<[&'static MatrixInstruction; 2]>,
    pub(super) warps: u32,
    pub(super) tile_queries: u32,
    pub(super) tile_keys: u32,
    /// Depth of a chunk of queries and keys, and their number.
    pub(super) depth: (u32, u32),
    /// Width of a chunk of values, and their number.
    pub(super) width: (u32, u32),
    pub(super) q: Chunk,
    pub(super) k: Chunk,
    pub(super) v: Chunk,
    /// Layouts of a tile of scores, of weights as the second product takes them, and of a chunk of results.
    pub(super) scores: TileLayout,
    pub(super) weights: TileLayout,
    pub(super) sums: TileLayout,
    /// Whether queries stay in registers.
    pub(super) holds_queries: bool,
}

/// How much a block has.
#[derive(Clone, Copy)]
struct Tiles {
    queries: u32,
    keys: u32,
    warps: u32,
}

/// The size of chunks, of some powers of two, that covers `size` with the least left over, of those the largest; and their number.
fn chunks(size: u32, sizes: &[u32]) -> (u32, u32) {
    let chunk = sizes.iter().copied().min_by_key(|chunk| (size.max(1).next_multiple_of(*chunk), u32::MAX - chunk));
    let chunk = chunk.unwrap_or(1);
    (chunk, size.max(1).div_ceil(chunk))
}

/// Which dimension of an operand's tile lies together in global memory, and elements of a run.
struct Reading {
    positions_first: bool,
    contiguity: u32,
}

impl Reading {
    /// Of an operand whose positions (third dimension) and depth (fourth) make a tile of some sizes.
    fn new(source: &Source, dtype: DType, positions: (Size, u32), depth: (u32, u32), threads: u32) -> Self {
        let positions_first = source.strides[3] != 1 && source.strides[2] == 1;
        let per_thread = (positions.1 * depth.1 / threads).max(1);
        let widest = (16 / dtype.size() as u32).min(per_thread);
        let (run, others) = if positions_first {
            (common(widest.min(positions.1), positions.0), [0, 1, 3])
        } else {
            (common(widest.min(depth.1), depth.0), [0, 1, 2])
        };
        let is_dense = source.strides[if positions_first { 2 } else { 3 }] == 1;
        let mut contiguity = if is_dense { run } else { 1 };
        while others.iter().any(|dim| !source.strides[*dim].is_multiple_of(contiguity)) {
            contiguity /= 2;
        }
        Reading { positions_first, contiguity }
    }
}

/// Instructions for a product of rows of A and of B as they lie in memory.
fn instruction(target: &Target, dtype: DType, orders: [Order; 2]) -> Option<&'static MatrixInstruction> {
    let rows = Instructions::table().matrix_instructions_for(target, dtype, dtype, DType::F32);
    rows.into_iter()
        .filter(|row| Fragments::of(row).is_some())
        .find(|row| row.fragments != FragmentScheme::Volta || [row.a_order, row.b_order] == orders)
}

impl AttentionPlan {
    pub(in crate::schedule) fn new(body: &Body, target: &Target) -> Result<Self, LoweringError> {
        let problem = Problem::read(body)?;
        if problem.depth > MOST_DEPTH || problem.width > MOST_DEPTH {
            let reason = format!("heads of {} and {}; at most {MOST_DEPTH}", problem.depth, problem.width);
            return Err(LoweringError::unsupported("graph.attention", reason));
        }
        // What lies together in q and k along a row of the product, and in v along a column of it.
        let order = |source: &Source| {
            if source.strides[3] != 1 && source.strides[2] == 1 {
                (Order::Column, Order::Row)
            } else {
                (Order::Row, Order::Column)
            }
        };
        let with_keys = [order(&problem.q).0, order(&problem.k).1];
        let with_values = [Order::Row, order(&problem.v).0];
        let instructions = match problem.dtype {
            DType::F16 | DType::BF16 => {
                let of = |orders| instruction(target, problem.dtype, orders);
                of(with_keys).zip(of(with_values)).map(|(first, second)| [first, second])
            }
            _ => None,
        };
        let mut problem = Some(problem);
        let limit = u64::from(target.architecture.limits.shared_memory_per_block);
        for tiles in Self::candidates(problem.as_ref(), instructions.is_some(), target) {
            let Some(own) = problem.take() else { break };
            let plan = Self::with(own, instructions, tiles, target.architecture.features.ldmatrix)?;
            if plan.shared_bytes() <= limit {
                return Ok(plan);
            }
            problem = Some(plan.problem);
        }
        Err(LoweringError::unsupported("graph.attention", "shared memory does not hold one warp's tiles"))
    }

    /// Tiles from the largest to the least; the first that fits into shared memory is taken.
    fn candidates(problem: Option<&Problem>, by_instruction: bool, target: &Target) -> Vec<Tiles> {
        let Some(problem) = problem else { return Vec::new() };
        let queries = problem.queries.capacity_u32().max(1);
        let keys = problem.keys.capacity_u32().clamp(1, 1 << 20).next_power_of_two();
        let deepest = problem.depth.max(problem.width);
        let tiles = |queries: u32, keys: u32, warps: u32| Tiles { queries, keys, warps };
        let mut list = Vec::new();
        if by_instruction {
            let keys_of = |most: u32| keys.clamp(16, most);
            // Two rows of instructions a warp leave no registers for masks, and on some architectures ptxas spills without them.
            let is_tight = TIGHT.contains(&target.architecture.name.to_string().as_str());
            if queries > 64 && deepest <= 64 && problem.mask.is_none() && !is_tight {
                list.push(tiles(128, keys_of(64), 4));
            }
            let warps = queries.div_ceil(16).next_power_of_two().min(4);
            // Results of deep heads take half of the registers.
            let most = match deepest {
                ..=64 if !is_tight => 64,
                ..=128 => 32,
                _ => 16,
            };
            list.push(tiles(16 * warps, keys_of(most), warps));
            list.push(tiles(16 * warps, keys_of(16), warps));
            list.push(tiles(16, 16, 1));
        } else {
            if deepest <= 128 && queries > 32 {
                list.push(tiles(64, 16, 4));
            }
            list.extend([tiles(32, 16, 4), tiles(16, 16, 4), tiles(16, 8, 4)]);
        }
        list
    }

    fn with(
        problem: Problem,
        instructions: Option<[&'static MatrixInstruction; 2]>,
        tiles: Tiles,
        ldmatrix: bool,
    ) -> Result<Self, LoweringError> {
        let Tiles { queries, keys, warps } = tiles;
        let (depth, width) = match instructions {
            Some([first, _]) => {
                let least = Fragments::of(first).map_or(16, |fragments| fragments.tile()[2]).max(16);
                (chunks(problem.depth, &[64, 32, least]), chunks(problem.width, &[64, 32, 16]))
            }
            None => (chunks(problem.depth, &[16]), chunks(problem.width, &[32, 16, 8])),
        };
        let dtype = problem.dtype;
        let reading = |source: &Source, positions: (Size, u32), depth: (u32, u32)| {
            Reading::new(source, dtype, positions, depth, warps * 32)
        };
        let q_reading = reading(&problem.q, (problem.queries, queries), (problem.depth, depth.0));
        let k_reading = reading(&problem.k, (problem.keys, keys), (problem.depth, depth.0));
        let v_reading = reading(&problem.v, (problem.keys, keys), (problem.width, width.0));
        let over = [warps, 1];
        let (scores, q_fragment, k_fragment, sums, weights, v_fragment) = match instructions {
            Some([first, second]) => {
                let missing = || LoweringError::unsupported("graph.attention", "an instruction without fragments");
                let (first, second) =
                    (Fragments::of(first).ok_or_else(missing)?, Fragments::of(second).ok_or_else(missing)?);
                (
                    first.accumulator([queries, keys], over)?,
                    first.operand_a([queries, depth.0], over)?,
                    first.operand_b([depth.0, keys], over)?,
                    second.accumulator([queries, width.0], over)?,
                    second.operand_a([queries, keys], over)?,
                    second.operand_b([keys, width.0], over)?,
                )
            }
            None => {
                let layout = |columns: u32| {
                    let per_thread = [queries / (4 * warps), (columns / 8).clamp(1, 4)];
                    TileLayout::blocked(&[queries, columns], &per_thread, &[4, 8], &[warps, 1], &[1, 0])
                };
                let (scores, sums) = (layout(keys)?, layout(width.0)?);
                let (q, k) = (scores.dot_operand_a(depth.0)?, scores.dot_operand_b(depth.0)?);
                let (weights, v) = (sums.dot_operand_a(keys)?, sums.dot_operand_b(keys)?);
                (scores, q, k, sums, weights, v)
            }
        };
        let by_matrix = instructions.is_some();
        let chunk = |reading: &Reading, positions_dim: usize, k_dim: usize, fragment: TileLayout| {
            Chunk::new(reading, positions_dim, k_dim, dtype, fragment, warps, by_matrix, ldmatrix)
        };
        let q = chunk(&q_reading, 0, 1, q_fragment)?;
        let k = chunk(&k_reading, 1, 0, k_fragment)?;
        let v = chunk(&v_reading, 0, 0, v_fragment)?;
        let holds_queries = by_matrix && problem.depth <= HELD_DEPTH;
        Ok(AttentionPlan {
            problem,
            instructions,
            warps,
            tile_queries: queries,
            tile_keys: keys,
            depth,
            width,
            q,
            k,
            v,
            scores,
            weights,
            sums,
            holds_queries,
        })
    }

    /// Shared memory of a block at most: what operands take, and the larger of what moves between threads.
    fn shared_bytes(&self) -> u64 {
        let bytes = self.problem.dtype.size() as u64;
        let (depth, width) = (u64::from(self.depth.0 * self.depth.1), u64::from(self.width.0 * self.width.1));
        let (queries, keys) = (u64::from(self.tile_queries), u64::from(self.tile_keys));
        let operands = queries * depth + u64::from(SLOTS) * keys * (depth + width);
        let moved = match self.instructions {
            Some(_) => queries * keys.max(u64::from(self.width.0)) * bytes,
            None => queries * keys * 4,
        };
        operands * bytes + moved + 1024
    }

    /// What the model says of it: multiplying, loading and computing weights do not overlap. None on CUDA cores.
    pub(super) fn candidate(&self, target: &Target) -> Option<Candidate> {
        self.instructions?;
        let tile = [self.tile_queries, self.tile_keys];
        let sizes = [self.depth.0 * self.depth.1, self.width.0 * self.width.1];
        let clocks = tile_clocks(&self.problem, target, tile, sizes).into_iter().sum();
        let occupancy = Candidate::occupancy_of(target, self.warps, self.shared_bytes());
        let time = Time::new(&self.problem, target, tile, clocks);
        Some(time.candidate(&self.problem, "mma.sync", self.warps, occupancy, SLOTS))
    }

    /// What softmax and the result know of a block.
    pub(super) fn tile(&self) -> BlockTile<'_> {
        BlockTile {
            problem: &self.problem,
            queries: self.tile_queries,
            keys: self.tile_keys,
            warps: self.warps,
            width: self.width,
            scores: &self.scores,
            sums: &self.sums,
            by_instruction: self.instructions.is_some(),
        }
    }

    /// The type that both products take their operands in.
    pub(super) fn operand_type(&self) -> DType {
        if self.instructions.is_some() { self.problem.dtype } else { DType::F32 }
    }

    /// One block a tile of queries, those of a head after one another.
    pub(in crate::schedule) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let tiles = parts(self.problem.queries, self.tile_queries, body)?;
        let heads = parts(self.problem.batch * self.problem.heads, 1, body)?;
        let blocks =
            tiles.mul(&heads).ok_or_else(|| body.error("the number of blocks is too complex an expression"))?;
        Ok(KernelShape::line(self.warps, blocks))
    }

    pub(in crate::schedule) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        super::build::build(self, builder, body, inputs, outputs)
    }
}

impl Chunk {
    /// Of a tile with positions along `positions_dim` that a product sums over `k_dim` of.
    #[allow(clippy::too_many_arguments)]
    fn new(
        reading: &Reading,
        positions_dim: usize,
        k_dim: usize,
        dtype: DType,
        fragment: TileLayout,
        warps: u32,
        by_matrix: bool,
        ldmatrix: bool,
    ) -> Result<Self, LoweringError> {
        let shape = fragment.shape().to_vec();
        let fastest = if reading.positions_first { positions_dim } else { 1 - positions_dim };
        let order = [fastest, 1 - fastest];
        let bytes = dtype.size() as u32;
        let global = TileLayout::contiguous(&shape, &order, reading.contiguity, warps)?;
        // CUDA cores read rows of A and columns of B side by side, so those lie together.
        let shared_order = if by_matrix { order } else { [1 - k_dim, k_dim] };
        let read =
            if by_matrix && ldmatrix { SharedAccess::matrix(&fragment) } else { SharedAccess::vector(&fragment) };
        let shared =
            SharedLayout::choose_swizzle(&shape, &shared_order, bytes, &[SharedAccess::vector(&global), read])?.layout;
        Ok(Chunk { global, contiguity: reading.contiguity, shared, fragment })
    }
}

#[cfg(test)]
mod tests {
    use super::chunks;

    #[test]
    fn chunks_waste_least() {
        assert_eq!(chunks(64, &[64, 32, 16]), (64, 1));
        assert_eq!(chunks(128, &[64, 32, 16]), (64, 2));
        assert_eq!(chunks(96, &[64, 32, 16]), (32, 3));
        assert_eq!(chunks(80, &[64, 32, 16]), (16, 5));
        assert_eq!(chunks(5, &[64, 32, 16]), (16, 1));
        assert_eq!(chunks(0, &[16]), (16, 1));
    }
}
