//! Reading an image between its elements: what GridSample and DeformConv share.
//!
//! Each sampled place is a weighted sum of the elements around it. Their indices and weights are computed for all places and corners, all corners
//! of all channels are gathered at once, and the sum is over the corners.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, ReduceKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, product};

/// How an element between the given ones follows from them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpolation {
    Nearest,
    Linear,
    /// Cubic convolution with the coefficient -0.75.
    Cubic,
}

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The image mirrored at its outermost elements' centres (`corners`) or edges, again and again.
    Reflection {
        corners: bool,
    },
}

/// Each corner along one axis, `[B, Q, 1…, corners, 1…]`: one dimension an axis.
struct Corners {
    index: Handle,
    weight: Option<Handle>,
    /// Where there is an element; absent: everywhere.
    hit: Option<Handle>,
}

/// Samples of `image` `[B, C, D…]` at `coordinates`, one `[B, Q]` an axis of the image, counted in elements: `[B, Q, C]`.
///
/// Coordinates must be floats of the type that weights are computed in; the result has it too.
pub(super) fn sample(
    op: &mut OpImport<'_, '_, '_>,
    image: Handle,
    coordinates: &[Handle],
    interpolation: Interpolation,
    outside: Outside,
) -> Result<Handle, ImportError> {
    let dims = op.extents(image);
    let (batch, channels, sizes) = (dims[0].clone(), dims[1].clone(), &dims[2..]);
    let rank = sizes.len();
    let wide = op.dtype(coordinates[0]);
    let count = match interpolation {
        Interpolation::Nearest => 1,
        Interpolation::Linear => 2,
        Interpolation::Cubic => 4,
    };

    // One dimension of corners for each axis: [B, Q, corners of axis 0, corners of axis 1, …].
    let places = op.dim(coordinates[0], 1).extent.clone();
    let (mut index, mut weight, mut hit) = (None, None, None);
    for (axis, coordinate) in coordinates.iter().enumerate() {
        let mut shape = vec![batch.clone(), places.clone()];
        shape.resize(2 + rank, DimExpr::constant(1));
        let coordinate = op.reshape(*coordinate, shape)?;
        let mut corners = vec![1; 2 + rank];
        corners[2 + axis] = count;
        let along = corners_of(op, coordinate, &sizes[axis], interpolation, outside, &corners)?;
        index = Some(match index {
            None::<Handle> => along.index,
            Some(index) => {
                let size = op.importer.builder.symbolic(DType::I64, &[], vec![sizes[axis].clone()]);
                let rows = op.apply(Function::Multiply, &[index, size])?;
                op.apply(Function::Add, &[rows, along.index])?
            }
        });
        weight = both(op, Function::Multiply, weight, along.weight)?;
        hit = both(op, Function::And, hit, along.hit)?;
    }
    let index = index.ok_or_else(|| op.invalid("an image without spatial dimensions"))?;

    // Channels last, so that one index reads all of them.
    let too_large = || op.unsupported("an image this large");
    let pixels = product(sizes).ok_or_else(too_large)?;
    let corners = (count as i64).pow(rank as u32);
    let reads = places.mul(&DimExpr::constant(corners)).ok_or_else(too_large)?;
    let image = op.reshape(image, vec![batch.clone(), channels.clone(), pixels])?;
    let image = op.transpose(image, vec![0, 2, 1])?;
    let index = op.reshape(index, vec![batch.clone(), reads, DimExpr::constant(1)])?;
    let read = op.emit(Gather { kind: GatherKind::Nd, axis: 0, batch_dims: 1 }, &[image, index])?;
    let corners = DimExpr::constant(corners);
    let mut read = op.reshape(read, vec![batch.clone(), places.clone(), corners.clone(), channels.clone()])?;
    let each = vec![batch.clone(), places.clone(), corners, DimExpr::constant(1)];
    if let Some(hit) = hit {
        let hit = op.reshape(hit, each.clone())?;
        let zero = op.scalar(0.0, op.dtype(read))?;
        read = op.apply(Function::Select, &[hit, read, zero])?;
    }
    let Some(weight) = weight else { return op.reshape(read, vec![batch, places, channels]) };
    let read = op.cast(read, wide)?;
    let weight = op.reshape(weight, each)?;
    let parts = op.apply(Function::Multiply, &[read, weight])?;
    op.reduce(ReduceKind::Sum, parts, &[2], false)
}

/// What two axes come to, either of which may have nothing to say.
fn both(
    op: &mut OpImport<'_, '_, '_>,
    function: Function,
    outer: Option<Handle>,
    inner: Option<Handle>,
) -> Result<Option<Handle>, ImportError> {
    match (outer, inner) {
        (Some(outer), Some(inner)) => op.apply(function, &[outer, inner]).map(Some),
        (outer, inner) => Ok(outer.or(inner)),
    }
}

/// The elements around a coordinate along an axis of `size` elements; `shape` places the corners in a dimension of their own.
fn corners_of(
    op: &mut OpImport<'_, '_, '_>,
    coordinate: Handle,
    size: &DimExpr,
    interpolation: Interpolation,
    outside: Outside,
    shape: &[usize],
) -> Result<Corners, ImportError> {
    let dtype = op.dtype(coordinate);
    let size = op.importer.builder.symbolic(DType::I64, &[], vec![size.clone()]);
    let size = op.cast(size, dtype)?;
    let one = op.scalar(1.0, dtype)?;
    let last = op.apply(Function::Subtract, &[size, one])?;
    let mut x = coordinate;
    if interpolation == Interpolation::Nearest {
        x = op.apply(Function::Round, &[x])?;
    }
    if interpolation != Interpolation::Cubic {
        // A cubic kernel reaches over the border; what it reads there is brought inside below, as PyTorch and ONNX Runtime have it.
        x = inside(op, x, last, outside)?;
    }
    let (places, weight) = match interpolation {
        Interpolation::Nearest => (x, None),
        _ => {
            let base = op.apply(Function::Floor, &[x])?;
            let part = op.apply(Function::Subtract, &[x, base])?;
            let offsets: &[f64] =
                if interpolation == Interpolation::Linear { &[0.0, 1.0] } else { &[-1.0, 0.0, 1.0, 2.0] };
            let offsets = op.literal(dtype, shape, offsets)?;
            let places = op.apply(Function::Add, &[base, offsets])?;
            let distance = op.apply(Function::Subtract, &[part, offsets])?;
            let distance = op.apply(Function::Abs, &[distance])?;
            let weight = match interpolation {
                Interpolation::Cubic => cubic(op, distance)?,
                _ => op.apply(Function::Subtract, &[one, distance])?,
            };
            (places, Some(weight))
        }
    };
    let zero = op.scalar(0.0, dtype)?;
    // Corners may lie outside where the coordinate does not.
    let (places, hit) = if outside == Outside::Zeros {
        let above = op.apply(Function::GreaterEqual, &[places, zero])?;
        let below = op.apply(Function::LessEqual, &[places, last])?;
        let hit = op.apply(Function::And, &[above, below])?;
        // What does not count is read where there is an element, whatever the coordinate (NaN too).
        (op.apply(Function::Select, &[hit, places, zero])?, Some(hit))
    } else {
        let places = inside(op, places, last, outside)?;
        // Half an element around the image is its outermost one; NaN is read as the first.
        let above = op.apply(Function::GreaterEqual, &[places, zero])?;
        let places = op.apply(Function::Select, &[above, places, zero])?;
        (op.apply(Function::Min, &[places, last])?, None)
    };
    let index = op.cast(places, DType::I64)?;
    Ok(Corners { index, weight, hit })
}

/// A coordinate brought inside of 0 to `last`, or to half an element around; zeros leave it where it is.
fn inside(op: &mut OpImport<'_, '_, '_>, x: Handle, last: Handle, outside: Outside) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    let zero = op.scalar(0.0, dtype)?;
    match outside {
        Outside::Zeros => Ok(x),
        Outside::Border => {
            let x = op.apply(Function::Max, &[x, zero])?;
            op.apply(Function::Min, &[x, last])
        }
        Outside::Reflection { corners } => {
            let (low, range) = match corners {
                true => (zero, last),
                false => {
                    let one = op.scalar(1.0, dtype)?;
                    (op.scalar(-0.5, dtype)?, op.apply(Function::Add, &[last, one])?)
                }
            };
            let period = op.apply(Function::Add, &[range, range])?;
            let distance = op.apply(Function::Subtract, &[x, low])?;
            let distance = op.apply(Function::Abs, &[distance])?;
            let place = op.apply(Function::Remainder, &[distance, period])?;
            let back = op.apply(Function::Subtract, &[period, place])?;
            let place = op.apply(Function::Min, &[place, back])?;
            // A single element between corners mirrors to itself.
            let single = op.apply(Function::Equal, &[range, zero])?;
            let place = op.apply(Function::Select, &[single, zero, place])?;
            let mirrored = op.apply(Function::Add, &[place, low])?;
            // What is inside keeps its bits.
            let high = op.apply(Function::Add, &[low, range])?;
            let above = op.apply(Function::GreaterEqual, &[x, low])?;
            let below = op.apply(Function::LessEqual, &[x, high])?;
            let stays = op.apply(Function::And, &[above, below])?;
            op.apply(Function::Select, &[stays, x, mirrored])
        }
    }
}

/// Weight of an element at a distance of 0 to 2, by cubic convolution (R. G. Keys, 1981) with the coefficient -0.75.
fn cubic(op: &mut OpImport<'_, '_, '_>, distance: Handle) -> Result<Handle, ImportError> {
    const A: f64 = -0.75;
    let dtype = op.dtype(distance);
    let polynomial = |op: &mut OpImport<'_, '_, '_>, coefficients: [f64; 4]| {
        let mut value = op.scalar(coefficients[0], dtype)?;
        for coefficient in &coefficients[1..] {
            let coefficient = op.scalar(*coefficient, dtype)?;
            let product = op.apply(Function::Multiply, &[value, distance])?;
            value = op.apply(Function::Add, &[product, coefficient])?;
        }
        Ok::<Handle, ImportError>(value)
    };
    let near = polynomial(op, [A + 2.0, -(A + 3.0), 0.0, 1.0])?;
    let far = polynomial(op, [A, -5.0 * A, 8.0 * A, -4.0 * A])?;
    let one = op.scalar(1.0, dtype)?;
    let is_near = op.apply(Function::LessEqual, &[distance, one])?;
    op.apply(Function::Select, &[is_near, near, far])
}
