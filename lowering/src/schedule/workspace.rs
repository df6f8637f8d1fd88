//! Memory of a launch besides its operands and results.

use tenon_tensor::DType;

/// A range of elements that a kernel takes a pointer to, behind those of its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelWorkspace {
    /// Element type.
    pub element: DType,
    /// How many elements, whatever the extents.
    pub elements: u64,
    /// Whether they are zero before the launch, and again behind it; else they hold nothing before it, and nothing is read behind it.
    pub zeroed: bool,
}
