//! Fragments of the matrix instructions that `mma.sync` names, as layouts over a tile.
//!
//! Schedules build tiles in these layouts, and expansion checks tiles against them, so both ask here.

use tenon_layout::{LayoutError, MmaShape, TileLayout, volta_accumulator, volta_operand_a, volta_operand_b};
use tenon_target::{Emission, FragmentScheme, MatrixInstruction, Order};

/// The fragments of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragments<'i>(&'i MatrixInstruction);

impl<'i> Fragments<'i> {
    /// Of an instruction that a warp executes by `nvvm.mma.sync`, or of one of 8-bit floats, which have intrinsics; none of others.
    pub(crate) fn of(instruction: &'i MatrixInstruction) -> Option<Self> {
        let by_warp = instruction.fragments != FragmentScheme::Wgmma;
        let emitted = match &instruction.emission {
            Emission::Nvvm(operation) => operation == "nvvm.mma.sync",
            Emission::Intrinsic(_) => instruction.a.is_float() && instruction.a.bits() == 8,
            Emission::Inline(_) => false,
        };
        (by_warp && emitted).then_some(Fragments(instruction))
    }

    /// Rows, columns and depth of what a warp computes by one instruction.
    pub(crate) fn tile(self) -> [u32; 3] {
        match self.0.fragments {
            // Four products of 8 × 8 × 4 side by side.
            FragmentScheme::Volta => [16, 16, 4],
            _ => [self.0.m, self.0.n, self.0.k],
        }
    }

    fn common(self) -> MmaShape {
        let MatrixInstruction { m, n, k, a, .. } = *self.0;
        MmaShape { m, n, k, element_bits: a.bits() }
    }

    /// The accumulator `[m, n]` over rows × columns of warps.
    pub(crate) fn accumulator(self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        match self.0.fragments {
            FragmentScheme::Volta => volta_accumulator(shape, self.0.c.bits(), warps),
            _ => self.common().accumulator(shape, warps),
        }
    }

    /// Operand A `[m, k]`, for an accumulator over the same warps.
    pub(crate) fn operand_a(self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        match self.0.fragments {
            FragmentScheme::Volta => volta_operand_a(shape, self.0.a_order == Order::Row, warps),
            _ => self.common().operand_a(shape, warps),
        }
    }

    /// Operand B `[k, n]`, for an accumulator over the same warps.
    pub(crate) fn operand_b(self, shape: [u32; 2], warps: [u32; 2]) -> Result<TileLayout, LayoutError> {
        match self.0.fragments {
            FragmentScheme::Volta => volta_operand_b(shape, self.0.b_order == Order::Row, warps),
            _ => self.common().operand_b(shape, warps),
        }
    }
}
