//! Tensor maps that a kernel takes: how the launch describes an operand for copies of boxes.
//!
//! Rules of tensor maps (CUDA driver API, `cuTensorMapEncodeTiled`): one to five dimensions, the innermost dense, strides of the others
//! multiples of 16 bytes below 2^40, sizes below 2^32. Buffers begin at multiples of 256 bytes.

use tenon_graph_dialect::DimExpr;
use tenon_hw_dialect::TensorMapType;
use tenon_tensor::DType;

use super::size::Size;

/// Width of the swizzle of 128 bytes: the box has as many bytes in its innermost dimension.
pub(crate) const SWIZZLE_BYTES: u32 = 128;
/// What strides are multiples of, in bytes.
const STRIDE_BYTES: u32 = 16;
/// What a slot of shared memory that boxes are copied to must be aligned to, in bytes: the pattern of the widest swizzle.
pub(crate) const SLOT_ALIGNMENT: u32 = 1024;
/// What a block takes of shared memory besides its slots: barriers, what alignment loses, and what the system keeps.
pub(crate) const RESERVED_BYTES: u64 = 3072;

/// Why a tensor map cannot have a stride, in elements of some bytes, of the operand called `name`; none where it can.
pub(crate) fn stride_refusal(name: &str, stride: Size, element_bytes: u32) -> Option<String> {
    if !stride.is_multiple_of(STRIDE_BYTES / element_bytes) {
        return Some(format!(
            "a stride of {name}, {stride:?} elements, is not known to be a multiple of {STRIDE_BYTES} bytes"
        ));
    }
    let bytes = stride.capacity().saturating_mul(u64::from(element_bytes));
    (bytes >= 1 << 40).then(|| format!("a stride of {name} is 2^40 bytes or more"))
}

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
