//! An operand as boxes of a tensor, by the rules of [`crate::schedule::tensor_map`].

use tenon_graph_dialect::DimExpr;
use tenon_ir::Value;
use tenon_layout::SharedLayout;
use tenon_tensor::DType;

use super::super::problem::{Axis, Problem};
use crate::LoweringError;
use crate::schedule::KernelTensorMap;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::size::Size;
use crate::schedule::tensor_map::{SWIZZLE_BYTES, stride_refusal};

/// Most dimensions.
const MOST_DIMENSIONS: usize = 5;

/// The index along a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Along {
    /// Rows of A, columns of B.
    Outer,
    K,
    /// A loop of the batch.
    Batch(usize),
}

struct Dimension {
    size: Size,
    /// In elements.
    stride: Size,
    along: Along,
}

/// An operand that can be copied in boxes.
pub(super) struct TmaOperand {
    /// The kernel's input.
    input: usize,
    dtype: DType,
    /// Innermost first.
    dimensions: Vec<Dimension>,
    /// Whether elements along k are consecutive.
    pub(super) k_major: bool,
    /// The dimension of a tile of shared memory that k runs along.
    k_dim: usize,
}

impl TmaOperand {
    /// A (of rows `Axis::M`) or B (of columns `Axis::N`) of a product, or why it cannot be copied so.
    pub(super) fn new(problem: &Problem, outer: Axis) -> Result<Self, String> {
        let (operand, name, k_dim) = match outer {
            Axis::M => (&problem.a, "A", 1),
            _ => (&problem.b, "B", 0),
        };
        let ValueRef::Input(input) = operand.value else {
            return Err(format!("{name} is computed inside the kernel"));
        };
        for (axis, what) in [(outer, if outer == Axis::M { "rows" } else { "columns" }), (Axis::K, "terms")] {
            match problem.loops(axis).len() {
                1 => {}
                0 => return Err(format!("{what} of {name} are one: a box needs a dimension of them")),
                count => return Err(format!("{what} of {name} lie along {count} dimensions, not one")),
            }
        }
        let mut dimensions = Vec::new();
        for dim in operand.dims.iter().filter(|dim| dim.checked || !dim.terms.is_empty()) {
            let along = match dim.terms.as_slice() {
                [term] if dim.is_plain(term.axis, term.position) => match term.axis {
                    Axis::K => Along::K,
                    Axis::Batch => Along::Batch(term.position),
                    _ => Along::Outer,
                },
                _ => return Err(format!("a coordinate of {name} is no plain index")),
            };
            if dimensions.iter().any(|known: &Dimension| known.along == along) {
                return Err(format!("{name} is read along a diagonal"));
            }
            dimensions.push(Dimension { size: dim.size, stride: dim.stride, along });
        }
        let has = |along: Along| dimensions.iter().any(|dimension| dimension.along == along);
        if !has(Along::Outer) || !has(Along::K) {
            return Err(format!("{name} is no matrix"));
        }
        // Rows and terms before the batch, whose boxes have one element along it.
        dimensions.sort_by_key(|dimension| {
            (dimension.stride != 1, matches!(dimension.along, Along::Batch(_)), dimension.stride.capacity())
        });
        let innermost = &dimensions[0];
        if innermost.stride != 1 || matches!(innermost.along, Along::Batch(_)) {
            return Err(format!("neither rows nor columns of {name} are consecutive elements"));
        }
        let k_major = innermost.along == Along::K;
        let bytes = operand.dtype.size() as u32;
        if !k_major && bytes != 2 {
            return Err(format!("{name} is not consecutive along k, and has no elements of 16 bits"));
        }
        if dimensions.len() > MOST_DIMENSIONS {
            return Err(format!("{name} has {} dimensions, more than {MOST_DIMENSIONS}", dimensions.len()));
        }
        if let Some(reason) = dimensions[1..].iter().find_map(|dimension| stride_refusal(name, dimension.stride, bytes))
        {
            return Err(reason);
        }
        Ok(TmaOperand { input, dtype: operand.dtype, dimensions, k_major, k_dim })
    }

    /// How a tile of `outer` rows or columns and `depth` terms lies in shared memory.
    pub(super) fn shared_layout(&self, outer: u32, depth: u32) -> Result<SharedLayout, LoweringError> {
        let mut shape = [outer; 2];
        shape[self.k_dim] = depth;
        let order = if self.k_major { [self.k_dim, 1 - self.k_dim] } else { [1 - self.k_dim, self.k_dim] };
        Ok(SharedLayout::tma(&shape, &order, self.dtype.size() as u32, SWIZZLE_BYTES)?)
    }

    /// The tensor map of boxes that such tiles are copied in.
    pub(super) fn tensor_map(&self, body: &Body, outer: u32, depth: u32) -> Result<KernelTensorMap, LoweringError> {
        let bytes = self.dtype.size() as u32;
        let sizes = self.dimensions.iter().map(|dimension| dimension.size.expression(&body.extents));
        let strides = self.dimensions[1..].iter().map(|dimension| -> Result<DimExpr, LoweringError> {
            (dimension.stride * Size::from(bytes)).expression(&body.extents)
        });
        let tile = self.dimensions.iter().enumerate().map(|(index, dimension)| match dimension.along {
            _ if index == 0 => SWIZZLE_BYTES / bytes,
            Along::Outer => outer,
            Along::K => depth,
            Along::Batch(_) => 1,
        });
        Ok(KernelTensorMap {
            buffer: self.input,
            element: self.dtype,
            sizes: sizes.collect::<Result<_, _>>()?,
            strides: strides.collect::<Result<_, _>>()?,
            tile: tile.collect(),
            swizzle: SWIZZLE_BYTES,
        })
    }

    /// Coordinates of a box, innermost first.
    pub(super) fn coordinates<'m>(&self, outer: Value<'m>, k: Value<'m>, batch: &[Value<'m>]) -> Vec<Value<'m>> {
        let coordinate = |dimension: &Dimension| match dimension.along {
            Along::Outer => outer,
            Along::K => k,
            Along::Batch(position) => batch[position],
        };
        self.dimensions.iter().map(coordinate).collect()
    }
}
