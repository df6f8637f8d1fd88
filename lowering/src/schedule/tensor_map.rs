//! Tensor maps that a kernel takes: how the launch describes an operand for copies of boxes.

use tenon_graph_dialect::DimExpr;
use tenon_hw_dialect::TensorMapType;
use tenon_tensor::DType;

/// A tensor map of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTensorMap {
    /// Which of the kernel's pointers the tensor lies at.
    pub buffer: usize,
    /// Element type.
    pub element: DType,
    /// Sizes, innermost first.
    pub sizes: Vec<DimExpr>,
    /// Distances in bytes of neighbours along all dimensions but the innermost.
    pub strides: Vec<DimExpr>,
    /// Sizes of the box that one instruction copies, innermost first.
    pub tile: Vec<u32>,
    /// Width in bytes of the swizzle in shared memory.
    pub swizzle: u32,
}

impl KernelTensorMap {
    /// The type of the kernel's argument.
    pub fn ty(&self) -> TensorMapType {
        TensorMapType { element: self.element, tile: self.tile.clone(), swizzle: self.swizzle }
    }
}
