//! Tiles and layouts of a matrix product.

use tenon_graph_dialect::Operator;
use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;
use tenon_layout::{MmaShape, SharedAccess, SharedLayout, TileLayout};
use tenon_tensor::DType;

use super::problem::{Axis, Problem};
use crate::LoweringError;
use crate::schedule::KernelShape;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::scalar::memory_type;

pub(super) const WARPS: u32 = 4;

/// How products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// `mma.sync.m16n8k16` with f32 accumulators.
    TensorCore,
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
    pub(super) a: OperandPlan,
    pub(super) b: OperandPlan,
    pub(super) accumulator: TileLayout,
}

/// A power of two that holds `extent`, within bounds.
fn tile(extent: u32, least: u32, most: u32) -> u32 {
    extent.max(1).next_power_of_two().clamp(least, most)
}

impl GemmPlan {
    /// A plan, or none where computing element by element is better: groups of few channels.
    pub(in crate::schedule) fn new(body: &Body) -> Result<Option<Self>, LoweringError> {
        let problem = Problem::read(body)?;
        if let Operator::Convolution(convolution) = &body.nodes[problem.anchor].operator
            && convolution.groups > 1
            && problem.extent(Axis::M).min(problem.extent(Axis::N)) < 8
        {
            return Ok(None);
        }
        if !matches!((problem.a.value, problem.b.value), (ValueRef::Input(_), ValueRef::Input(_))) {
            return Err(LoweringError::unsupported(
                body.nodes[problem.anchor].operator.name(),
                "operands that are computed inside the kernel",
            ));
        }
        let (m, n) = (problem.extent(Axis::M), problem.extent(Axis::N));
        let tensor_core =
            problem.a.dtype == DType::F16 && problem.b.dtype == DType::F16 && problem.accumulate == DType::F32;
        let unit = if tensor_core { Unit::TensorCore } else { Unit::CudaCore };
        let (tile_m, tile_n, tile_k) = match unit {
            Unit::TensorCore => (tile(m, 32, 64), tile(n, 16, 64), 32),
            Unit::CudaCore if problem.accumulate.size() == 8 => (tile(m, 16, 32), tile(n, 16, 32), 8),
            Unit::CudaCore => (tile(m, 16, 64), tile(n, 16, 64), 16),
        };
        let (accumulator, fragment_a, fragment_b) = match unit {
            Unit::TensorCore => {
                let shape = MmaShape { m: 16, n: 8, k: 16, element_bits: 16 };
                let warps = [2, 2];
                (
                    shape.accumulator([tile_m, tile_n], warps)?,
                    shape.operand_a([tile_m, tile_k], warps)?,
                    shape.operand_b([tile_k, tile_n], warps)?,
                )
            }
            Unit::CudaCore => {
                let per_thread = [(tile_m / 16).clamp(1, 4), (tile_n / 8).clamp(1, 4)];
                let layout = TileLayout::blocked(&[tile_m, tile_n], &per_thread, &[4, 8], &[WARPS, 1], &[1, 0])?;
                let (a, b) = (layout.dot_operand_a(tile_k)?, layout.dot_operand_b(tile_k)?);
                (layout, a, b)
            }
        };
        let a = Self::operand(&problem, Axis::M, fragment_a, unit)?;
        let b = Self::operand(&problem, Axis::N, fragment_b, unit)?;
        Ok(Some(GemmPlan { problem, unit, tile_m, tile_n, tile_k, a, b, accumulator }))
    }

    /// A is `[m, k]`, B is `[k, n]`.
    fn operand(problem: &Problem, outer: Axis, fragment: TileLayout, unit: Unit) -> Result<OperandPlan, LoweringError> {
        let (operand, outer_dim) = if outer == Axis::M { (&problem.a, 0) } else { (&problem.b, 1) };
        let inner_dim = 1 - outer_dim;
        let shape = fragment.shape().to_vec();
        let bytes = memory_type(operand.dtype).size() as u32;
        let widest = (16 / bytes).max(1);
        let along_k = operand.contiguity(&problem.k, Axis::K, widest.min(shape[inner_dim]));
        let along_outer = operand.contiguity(problem.loops(outer), outer, widest.min(shape[outer_dim]));
        let k_is_dense =
            operand.dims.iter().any(|dim| dim.stride == 1 && dim.terms.iter().any(|term| term.axis == Axis::K));
        let k_first = along_k > along_outer || (along_k == along_outer && k_is_dense);
        let (order, contiguity) =
            if k_first { ([inner_dim, outer_dim], along_k) } else { ([outer_dim, inner_dim], along_outer) };
        let per_thread = (shape[0] * shape[1] / (WARPS * 32)).max(1);
        let contiguity = contiguity.min(per_thread);
        let global = TileLayout::contiguous(&shape, &order, contiguity, WARPS)?;
        // CUDA cores read rows of A and columns of B side by side, so those lie together; ldmatrix reads what global memory had together.
        let shared_order = match unit {
            Unit::TensorCore => order,
            Unit::CudaCore => [outer_dim, inner_dim],
        };
        let accesses = match unit {
            Unit::TensorCore => [SharedAccess::vector(&global), SharedAccess::matrix(&fragment)],
            Unit::CudaCore => [SharedAccess::vector(&global), SharedAccess::vector(&fragment)],
        };
        let shared = SharedLayout::choose_swizzle(&shape, &shared_order, bytes, &accesses)?.layout;
        Ok(OperandPlan { global, contiguity, shared, fragment })
    }

    pub(in crate::schedule) fn shape(&self) -> KernelShape {
        let tiles =
            self.problem.extent(Axis::M).div_ceil(self.tile_m) * self.problem.extent(Axis::N).div_ceil(self.tile_n);
        KernelShape { warps: WARPS, grid: [(tiles * self.problem.extent(Axis::Batch)).max(1), 1, 1] }
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
