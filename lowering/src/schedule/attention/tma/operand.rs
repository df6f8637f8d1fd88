//! Queries, keys or values as boxes of a tensor, by the rules of [`crate::schedule::tensor_map`].

use tenon_graph_dialect::DimExpr;
use tenon_ir::Value;
use tenon_layout::SharedLayout;
use tenon_tensor::DType;

use super::super::problem::{RANK, Source};
use crate::LoweringError;
use crate::schedule::KernelTensorMap;
use crate::schedule::body::Body;
use crate::schedule::size::Size;
use crate::schedule::tensor_map::{SWIZZLE_BYTES, stride_refusal};

/// An operand that can be copied in boxes, each of one head.
pub(super) struct TmaOperand {
    input: usize,
    dtype: DType,
    /// Sizes and strides in elements of depth, positions, heads and batch, the innermost first.
    dimensions: [(Size, Size); RANK],
    /// Whether positions are consecutive elements, and not those of a head.
    pub(super) positions_first: bool,
    /// The dimension of a tile of shared memory that positions run along.
    positions_dim: usize,
}

impl TmaOperand {
    /// The operand called `name`, of sizes in the operation's order, or why it cannot be copied so.
    pub(super) fn new(
        name: &str,
        source: &Source,
        sizes: [Size; RANK],
        dtype: DType,
        positions_dim: usize,
    ) -> Result<Self, String> {
        let [batch, heads, positions, depth] = [0, 1, 2, 3].map(|dim| (sizes[dim], source.strides[dim]));
        let positions_first = depth.1 != 1;
        if positions_first && positions.1 != 1 {
            return Err(format!("neither positions nor elements of a head of {name} are consecutive"));
        }
        let [inner, outer] = if positions_first { [positions, depth] } else { [depth, positions] };
        let dimensions = [inner, outer, heads, batch];
        let bytes = dtype.size() as u32;
        if let Some(reason) = dimensions[1..].iter().find_map(|(_, stride)| stride_refusal(name, *stride, bytes)) {
            return Err(reason);
        }
        Ok(TmaOperand { input: source.input, dtype, dimensions, positions_first, positions_dim })
    }

    /// How a tile of so many positions and elements of a head lies in shared memory.
    pub(super) fn shared_layout(&self, positions: u32, depth: u32) -> Result<SharedLayout, LoweringError> {
        let mut shape = [depth; 2];
        shape[self.positions_dim] = positions;
        let fastest = if self.positions_first { self.positions_dim } else { 1 - self.positions_dim };
        Ok(SharedLayout::tma(&shape, &[fastest, 1 - fastest], self.dtype.size() as u32, SWIZZLE_BYTES)?)
    }

    /// The tensor map of boxes that such tiles are copied in.
    pub(super) fn tensor_map(&self, body: &Body, positions: u32, depth: u32) -> Result<KernelTensorMap, LoweringError> {
        let bytes = self.dtype.size() as u32;
        let sizes = self.dimensions.iter().map(|(size, _)| size.expression(&body.extents));
        let strides = self.dimensions[1..].iter().map(|(_, stride)| -> Result<DimExpr, LoweringError> {
            (*stride * Size::from(bytes)).expression(&body.extents)
        });
        let outer = if self.positions_first { depth } else { positions };
        Ok(KernelTensorMap {
            buffer: self.input,
            element: self.dtype,
            sizes: sizes.collect::<Result<_, _>>()?,
            strides: strides.collect::<Result<_, _>>()?,
            tile: vec![SWIZZLE_BYTES / bytes, outer, 1, 1],
            swizzle: SWIZZLE_BYTES,
        })
    }

    /// Coordinates of the boxes of a head from a position on, innermost first.
    pub(super) fn coordinates<'m>(
        &self,
        position: Value<'m>,
        head: Value<'m>,
        batch: Value<'m>,
        zero: Value<'m>,
    ) -> [Value<'m>; RANK] {
        let [inner, outer] = if self.positions_first { [position, zero] } else { [zero, position] };
        [inner, outer, head, batch]
    }
}
