//! Tiles, matrix instruction and layouts of a product on a target.

use tenon_graph_dialect::{DimExpr, Operator};
use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_layout::{SharedAccess, SharedLayout, TileLayout};
use tenon_target::{FragmentScheme, Instructions, MatrixInstruction, Order, Target, TensorType};
use tenon_tensor::DType;

use super::problem::{Axis, Problem};
use super::result::ResultTile;
use super::split::{Estimate, Shared, Split, weigh};
use super::{tf32, warps};
use crate::LoweringError;
use crate::fragments::Fragments;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::candidate::L2_BYTES;
use crate::schedule::numeric_class::NumericClass;
use crate::schedule::scalar::{is_narrow_float, is_sub_byte, memory_type};
use crate::schedule::size::Size;
use crate::schedule::{Candidate, KernelShape, KernelWorkspace, parts};

/// Slots of shared memory of an asynchronous pipeline.
pub(super) const MOST_SLOTS: u32 = 3;
/// What a block takes of shared memory besides, at most: what the system keeps, and what alignment loses.
const RESERVED_BYTES: u64 = 2048;

/// Bytes of a run along k that one iteration multiplies by matrix instructions; those of three passes multiply, and hold, thrice as much of each.
const TENSOR_K_BYTES: u32 = 64;
const THREE_PASS_K_BYTES: u32 = 32;
/// Terms that one iteration multiplies on CUDA cores.
const CUDA_CORE_K: u32 = 16;

/// How products are computed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    /// By a matrix instruction.
    TensorCore(&'static MatrixInstruction),
    /// By a matrix instruction of tf32, each product of f32 in three passes.
    ThreePasses(&'static MatrixInstruction),
    /// Fused multiply-adds (integers: multiplies and adds) of each thread.
    CudaCore,
}

/// An operand's tile on its way to the multipliers.
pub(super) struct OperandPlan {
    /// Layout that global memory is read in.
    pub(super) global: TileLayout,
    /// Registers in a row that are consecutive elements of global memory.
    pub(super) contiguity: u32,
    pub(super) shared: SharedLayout,
    /// Layout that the multipliers take.
    pub(super) fragment: TileLayout,
}

/// A matrix product's schedule.
pub(in crate::schedule) struct GemmPlan {
    pub(super) problem: Problem,
    pub(super) unit: Unit,
    pub(super) tile_m: u32,
    pub(super) tile_n: u32,
    pub(super) tile_k: u32,
    /// How blocks share the sums of a tile.
    pub(super) split: Split,
    /// Warps of a block.
    pub(super) warps: u32,
    pub(super) a: OperandPlan,
    pub(super) b: OperandPlan,
    pub(super) accumulator: TileLayout,
    /// Whether the target copies to shared memory without registers.
    pub(super) asynchronous: bool,
    /// Shared memory of a multiprocessor, in bytes.
    shared_memory: u64,
    /// The tiles that were weighed, and multiply-adds of the graph's that a multiprocessor does in a clock.
    weighed: Vec<Shared>,
    rate: u32,
}

/// A power of two that holds `extent`, within bounds.
fn tile(extent: Size, least: u32, most: u32) -> u32 {
    extent.capacity_u32().clamp(1, 1 << 31).next_power_of_two().clamp(least, most)
}

/// The type that tensor cores know a type by.
pub(super) fn tensor_type(dtype: DType) -> Option<TensorType> {
    Some(match dtype {
        DType::F16 => TensorType::F16,
        DType::BF16 => TensorType::BF16,
        DType::F32 => TensorType::Tf32,
        DType::F64 => TensorType::F64,
        DType::I8 | DType::U8 => TensorType::I8,
        DType::F8E4M3FN | DType::F8E5M2 => TensorType::F8,
        _ => return None,
    })
}

/// Rows and columns that the result's tile may have for a matrix instruction: of 32, 64 or 128 and of up to 256, or less where the product is smaller. Small
/// ones are for products of few tiles, which leave multiprocessors without work.
///
/// Those above 64 need their accumulators and fragments in registers: they are left to operands that are copied to shared memory without
/// registers and whose places need no check.
fn tensor_tiles(problem: &Problem, target: &Target, least: [u32; 2], most: u32, depth: u32) -> Vec<[u32; 2]> {
    let (m, n) = (problem.extent(Axis::M), problem.extent(Axis::N));
    let of = |rows: u32, columns: u32| [tile(m, least[0], rows), tile(n, least[1], columns)];
    let bytes = problem.a.dtype.size() as u32;
    let reading = |axis, shape| Reading::new(problem, axis, shape, warps::LEAST).contiguity * bytes >= 4;
    let is_copied =
        target.architecture.features.cp_async && reading(Axis::M, [most, depth]) && reading(Axis::N, [depth, most]);
    if most < 64 || problem.accumulate.size() > 4 {
        return vec![of(most, most)];
    }
    let mut tiles = vec![[32, 32], [32, 64], [64, 32], [64, 64]];
    if is_plain(problem) && is_copied {
        tiles.extend([[64, 128], [128, 64], [128, 128], [128, 256]]);
    }
    distinct(tiles.into_iter().map(|[rows, columns]| of(rows, columns)))
}

/// Each tile once, in order.
fn distinct(shapes: impl IntoIterator<Item = [u32; 2]>) -> Vec<[u32; 2]> {
    let mut tiles = Vec::new();
    for tile in shapes {
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles
}

/// Whether no place of an operand needs a check of its own.
fn is_plain(problem: &Problem) -> bool {
    !problem.a.dims.iter().chain(&problem.b.dims).any(|dim| dim.checked)
}

/// What the model of time says: multiplications and loads do not overlap.
fn estimate(problem: &Problem, target: &Target, rate: u32, shared: Shared, tile_k: u32) -> Estimate {
    let [rows, columns] = shared.tile.map(u64::from);
    let multiply = rows * columns * L2_BYTES;
    let load = (rows + columns) * problem.a.dtype.size() as u64 * u64::from(rate.max(1));
    Estimate::new(problem, target, rate, shared, tile_k, multiply + load)
}

/// How tensor cores compute a product.
struct TensorCores {
    /// The matrix instructions, the fastest first; none where CUDA cores compute it.
    instructions: Vec<(&'static MatrixInstruction, Fragments<'static>)>,
    /// Products that each one of the graph takes.
    passes: u32,
    /// Multiply-adds of the graph's that a multiprocessor does in a clock.
    rate: u32,
}

impl TensorCores {
    /// By instructions that take the operands in the types that they have and sum in the type that the graph says; of f32 as tf32 where the class
    /// of the kernel allows it.
    fn of(problem: &Problem, body: &Body, target: &Target) -> Self {
        let none = TensorCores { instructions: Vec::new(), passes: 1, rate: 1 };
        let Some(rate) = tensor_type(problem.a.dtype).and_then(|operands| target.tensor_rate(operands)) else {
            return none;
        };
        let (a, b, accumulate) = (problem.a.dtype, problem.b.dtype, problem.accumulate);
        let table = Instructions::table();
        let (rows, passes) = match tf32::passes(problem, body.numeric_class, target) {
            Some(passes) => (table.tf32_instructions_for(target), passes),
            None => (table.matrix_instructions_for(target, a, b, accumulate), 1),
        };
        let instructions = rows.into_iter().filter_map(|row| Some((row, Fragments::of(row)?))).collect();
        TensorCores { instructions, passes, rate: (rate / passes).max(1) }
    }
}

/// Which dimension of an operand's tile lies together in global memory.
struct Reading {
    /// Dimensions, fastest first.
    order: [usize; 2],
    /// Elements of a run.
    contiguity: u32,
}

impl Reading {
    /// Of A `[m, k]` or B `[k, n]`, by the threads of so many warps.
    fn new(problem: &Problem, outer: Axis, shape: [u32; 2], warps: u32) -> Self {
        let (operand, outer_dim) = if outer == Axis::M { (&problem.a, 0) } else { (&problem.b, 1) };
        let inner_dim = 1 - outer_dim;
        let widest = (16 / memory_type(operand.dtype).size() as u32).max(1);
        let along_k = operand.contiguity(&problem.k, Axis::K, widest.min(shape[inner_dim]));
        let along_outer = operand.contiguity(problem.loops(outer), outer, widest.min(shape[outer_dim]));
        let k_is_dense =
            operand.dims.iter().any(|dim| dim.stride == 1 && dim.terms.iter().any(|term| term.axis == Axis::K));
        let k_first = along_k > along_outer || (along_k == along_outer && k_is_dense);
        let (order, contiguity) =
            if k_first { ([inner_dim, outer_dim], along_k) } else { ([outer_dim, inner_dim], along_outer) };
        let per_thread = (shape[0] * shape[1] / (warps * 32)).max(1);
        Reading { order, contiguity: contiguity.min(per_thread) }
    }

    /// The order's name for matrix instructions.
    fn matrix_order(&self) -> Order {
        if self.order[0] == 1 { Order::Row } else { Order::Column }
    }
}

/// Whether the bits of an element are no number that a product can take as it is.
fn is_packed(dtype: DType) -> bool {
    is_narrow_float(dtype) || is_sub_byte(dtype)
}

/// Why operands whose bits are no numbers cannot be multiplied; none where they can, or where there are none.
fn packed_refusal(problem: &Problem, class: NumericClass, has_instruction: bool) -> Option<String> {
    let dtype = [problem.a.dtype, problem.b.dtype].into_iter().find(|dtype| is_packed(*dtype))?;
    match class {
        _ if !has_instruction => Some(format!("operands of {dtype}; cast them to f16 or i8")),
        NumericClass::Approximates => None,
        _ => Some(format!(
            "operands of {dtype}: tensor cores may sum their products with fewer digits than f32, which is of the class \"approximates\" \
             (`semantic.numerics.rewrites`); allow it, or cast the operands to f16"
        )),
    }
}

impl GemmPlan {
    /// A plan, or none where computing element by element is better: groups of few channels.
    pub(in crate::schedule) fn new(body: &Body, target: &Target) -> Result<Option<Self>, LoweringError> {
        let problem = Problem::read(body)?;
        if [Axis::Batch, Axis::M, Axis::N, Axis::K].iter().any(|axis| problem.extent(*axis).capacity() >= 1 << 31) {
            return Err(LoweringError::shape("a product with 2^31 rows, columns, batches or terms, or more"));
        }
        if let Operator::Convolution(convolution) = &body.nodes[problem.anchor].operator
            && convolution.groups > 1
            && problem.extent(Axis::M).capacity().min(problem.extent(Axis::N).capacity()) < 8
        {
            return Ok(None);
        }
        if !matches!((problem.a.value, problem.b.value), (ValueRef::Input(_), ValueRef::Input(_))) {
            return Err(LoweringError::unsupported(
                body.nodes[problem.anchor].operator.name(),
                "operands that are computed inside the kernel",
            ));
        }
        let [m, n, k] = [Axis::M, Axis::N, Axis::K].map(|axis| problem.extent(axis));
        let wide = problem.accumulate.size() == 8;
        let TensorCores { instructions: candidates, passes, mut rate } = TensorCores::of(&problem, body, target);
        if let Some(reason) = packed_refusal(&problem, body.numeric_class, !candidates.is_empty()) {
            return Err(LoweringError::unsupported(body.nodes[problem.anchor].operator.name(), reason));
        }
        let class = body.numeric_class;
        let mut weighed = Vec::new();
        let (Shared { tile: [tile_m, tile_n], split }, tile_k) = match candidates.first() {
            Some((_, fragments)) => {
                let [rows, columns, depth] = fragments.tile();
                let most = if wide { 32 } else { 64 };
                let [across, along] = warps::of_instruction([0, 0]);
                let bytes = if passes == 1 { TENSOR_K_BYTES } else { THREE_PASS_K_BYTES };
                let tile_k = (bytes / problem.a.dtype.size() as u32).max(depth);
                let tiles = tensor_tiles(&problem, target, [rows * across, columns * along], most, tile_k);
                let time = |shared| estimate(&problem, target, rate, shared, tile_k).time;
                // Of equals the smallest.
                let (all, least) = weigh(&problem, class, target, tile_k, &tiles, time);
                weighed = all;
                (least.unwrap_or(Shared { tile: [rows * across, columns * along], split: Split::ONE }), tile_k)
            }
            None if wide => (Shared { tile: [tile(m, 16, 32), tile(n, 16, 32)], split: Split::ONE }, tile(k, 4, 8)),
            None => {
                let least = [tile(m, 16, 64), tile(n, 16, 64)];
                let tile_k = tile(k, 4, CUDA_CORE_K);
                let computes_f32 = problem.accumulate == DType::F32;
                let mut tiles = vec![least];
                if problem.a.dtype == DType::F32 && is_plain(&problem) {
                    tiles = distinct([least, [tile(m, 16, 128), tile(n, 16, 128)]]);
                }
                if computes_f32 {
                    rate = target.architecture.rates.fma_f32.max(1);
                    let time = |shared| estimate(&problem, target, rate, shared, tile_k).time;
                    let (all, found) = weigh(&problem, class, target, tile_k, &tiles, time);
                    // Of one tile as a whole there is nothing to say.
                    weighed = if all.len() > 1 || tiles.len() > 1 || is_plain(&problem) { all } else { Vec::new() };
                    (found.unwrap_or(Shared { tile: least, split: Split::ONE }), tile_k)
                } else {
                    (Shared { tile: least, split: Split::ONE }, tile_k)
                }
            }
        };
        let grid = match candidates.first() {
            Some(_) => warps::of_instruction([tile_m, tile_n]),
            None => warps::of_cuda_cores([tile_m, tile_n]),
        };
        let warps = grid[0] * grid[1];
        let a_reading = Reading::new(&problem, Axis::M, [tile_m, tile_k], warps);
        let b_reading = Reading::new(&problem, Axis::N, [tile_k, tile_n], warps);
        // sm_70 has an instruction for each order of the operands; the others take rows of A and columns of B.
        let orders = (a_reading.matrix_order(), b_reading.matrix_order());
        let chosen = candidates
            .iter()
            .find(|(row, _)| row.fragments != FragmentScheme::Volta || (row.a_order, row.b_order) == orders);
        let (unit, accumulator, fragment_a, fragment_b) = match chosen {
            Some((row, fragments)) => (
                if passes == 1 { Unit::TensorCore(row) } else { Unit::ThreePasses(row) },
                fragments.accumulator([tile_m, tile_n], grid)?,
                fragments.operand_a([tile_m, tile_k], grid)?,
                fragments.operand_b([tile_k, tile_n], grid)?,
            ),
            None => {
                let per_thread = [(tile_m / 16).clamp(1, 4), (tile_n / 8).clamp(1, 4)];
                let layout = TileLayout::blocked(&[tile_m, tile_n], &per_thread, &[4, 8], &grid, &[1, 0])?;
                let (a, b) = (layout.dot_operand_a(tile_k)?, layout.dot_operand_b(tile_k)?);
                (Unit::CudaCore, layout, a, b)
            }
        };
        let ldmatrix = target.architecture.features.ldmatrix;
        let a = OperandPlan::new(&a_reading, 1, problem.a.dtype, fragment_a, unit, warps, ldmatrix)?;
        let b = OperandPlan::new(&b_reading, 0, problem.b.dtype, fragment_b, unit, warps, ldmatrix)?;
        let asynchronous = target.architecture.features.cp_async;
        let shared_memory = u64::from(target.architecture.limits.shared_memory_per_sm);
        Ok(Some(GemmPlan {
            problem,
            unit,
            tile_m,
            tile_n,
            tile_k,
            split,
            warps,
            a,
            b,
            accumulator,
            asynchronous,
            shared_memory,
            weighed,
            rate,
        }))
    }

    /// The tiles that were weighed; none where there is one.
    pub(in crate::schedule) fn candidates(&self, target: &Target) -> Vec<Candidate> {
        let (problem, stages) = (&self.problem, self.slots());
        let depth = problem.extent(Axis::K).capacity();
        let element = problem.a.dtype.size() as u64;
        let of = |shared: Shared| {
            let estimate = estimate(problem, target, self.rate, shared, self.tile_k);
            let Shared { tile: [rows, columns], split } = shared;
            let lines = u64::from(rows + columns);
            let warps = match self.unit {
                Unit::CudaCore => warps::of_cuda_cores([rows, columns]),
                Unit::TensorCore(_) | Unit::ThreePasses(_) => warps::of_instruction([rows, columns]),
            };
            let warps = warps[0] * warps[1];
            let shared_bytes = lines * u64::from(self.tile_k) * element * u64::from(stages);
            Candidate {
                schedule: "mma.sync",
                tile: [rows, columns, self.tile_k],
                splits: split.blocks,
                warps,
                blocks: estimate.blocks,
                waves: estimate.waves,
                occupancy: Candidate::occupancy_of(target, warps, shared_bytes),
                stages,
                bytes: shared.bytes(problem, lines.saturating_mul(depth).saturating_mul(element)),
                clocks: estimate.clocks(self.rate),
                chosen: shared == self.shared(),
            }
        };
        self.weighed.iter().map(|tile| of(*tile)).collect()
    }

    fn shared(&self) -> Shared {
        Shared { tile: [self.tile_m, self.tile_n], split: self.split }
    }

    pub(in crate::schedule) fn workspaces(&self) -> Vec<KernelWorkspace> {
        self.split.workspaces(&self.problem, [self.tile_m, self.tile_n])
    }

    /// One block a tile of the result and run along k, those of a row of tiles after one another.
    pub(in crate::schedule) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let tiles_m = parts(self.problem.extent(Axis::M), self.tile_m, body)?;
        let tiles_n = parts(self.problem.extent(Axis::N), self.tile_n, body)?;
        let batches = parts(self.problem.extent(Axis::Batch), 1, body)?;
        let blocks = tiles_m.mul(&tiles_n).and_then(|tiles| tiles.mul(&batches));
        let blocks = blocks.and_then(|tiles| tiles.mul(&DimExpr::constant(i64::from(self.split.blocks))));
        let blocks = blocks.ok_or_else(|| body.error("the number of blocks is too complex an expression"))?;
        Ok(KernelShape::line(self.warps, blocks))
    }

    /// The tile of the result, as the epilogue takes it.
    pub(super) fn result(&self) -> ResultTile<'_> {
        ResultTile {
            problem: &self.problem,
            tile_m: self.tile_m,
            tile_n: self.tile_n,
            accumulator: &self.accumulator,
            may_move: !matches!(self.unit, Unit::CudaCore) && self.result_fits(),
        }
    }

    /// Whether a multiprocessor holds two blocks that have a tile of the result in shared memory beside the slots of the operands.
    fn result_fits(&self) -> bool {
        let (rows, columns, depth) = (u64::from(self.tile_m), u64::from(self.tile_n), u64::from(self.tile_k));
        let slots = (rows + columns) * depth * self.problem.a.dtype.size() as u64 * u64::from(MOST_SLOTS);
        let result = rows * columns * memory_type(self.problem.dtype).size() as u64;
        2 * (slots + result + RESERVED_BYTES) <= self.shared_memory
    }

    pub(in crate::schedule) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        values: [&[Value<'m>]; 3],
    ) -> Result<(), LoweringError> {
        super::build::build(self, builder, body, values)
    }
}

impl OperandPlan {
    /// Of a tile whose dimension `k_dim` is summed over.
    fn new(
        reading: &Reading,
        k_dim: usize,
        dtype: DType,
        fragment: TileLayout,
        unit: Unit,
        warps: u32,
        ldmatrix: bool,
    ) -> Result<Self, LoweringError> {
        let bytes = memory_type(dtype).size() as u32;
        let shape = fragment.shape().to_vec();
        let global = TileLayout::contiguous(&shape, &reading.order, reading.contiguity, warps)?;
        let shared_order = match unit {
            // Matrix instructions take 32-bit registers of elements along k; `ldmatrix` transposes those of 16 bits alone.
            Unit::TensorCore(_) | Unit::ThreePasses(_) if bytes == 1 => [k_dim, 1 - k_dim],
            Unit::TensorCore(_) | Unit::ThreePasses(_) => reading.order,
            // CUDA cores read rows of A and columns of B side by side, so those lie together.
            Unit::CudaCore => [1 - k_dim, k_dim],
        };
        let read = match unit {
            Unit::TensorCore(_) | Unit::ThreePasses(_) if ldmatrix => SharedAccess::matrix(&fragment),
            _ => SharedAccess::vector(&fragment),
        };
        let shared =
            SharedLayout::choose_swizzle(&shape, &shared_order, bytes, &[SharedAccess::vector(&global), read])?.layout;
        Ok(OperandPlan { global, contiguity: reading.contiguity, shared, fragment })
    }
}
