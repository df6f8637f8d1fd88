//! Col2Im: blocks of an image put back, added where they overlap.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Function, Gather, GatherKind, ReduceKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::node::{OpImport, Outputs, product};

/// Most elements of a block, and entries of the table of an axis.
const MAX_CELLS: i64 = 1 << 24;

/// Where along one axis an element of the image is found: for each place and each cell of a block, the block's number, or none.
struct Axis {
    blocks: i64,
    /// Block numbers, 0 where there is none: `[image, cells of a block]`.
    index: Vec<f64>,
    /// Whether there is one.
    hit: Vec<f64>,
    size: i64,
    cells: i64,
}

/// Input `[N, C · ∏block, blocks]`, result `[N, C, image…]`: each element of the image is the sum over the blocks that hold it.
pub(super) fn col2im(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(3..=3)?;
    let x = op.input(0)?;
    let image = op.known_ints(1, "the shape of the result")?;
    let block = op.known_ints(2, "the shape of the result")?;
    let axes = image.len();
    let list = |name: &str, default: i64, count: usize| -> Result<Vec<i64>, ImportError> {
        let list = op.node.ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        match list.len() == count && list.iter().all(|entry| (default..=1 << 31).contains(entry)) {
            true => Ok(list),
            false => {
                let expected = "one entry an axis (pads: two), neither negative nor, but for pads, 0";
                Err(op.node.attribute_error(name, expected, format!("is {list:?}")))
            }
        }
    };
    let dilations = list("dilations", 1, axes)?;
    let strides = list("strides", 1, axes)?;
    let pads = list("pads", 0, 2 * axes)?;
    let sensible = |sizes: &[i64]| sizes.iter().all(|size| (1..=1 << 31).contains(size));
    if op.rank(x) != 3 || axes == 0 || block.len() != axes || !sensible(&image) || !sensible(&block) {
        let reason = format!("{} holds no blocks {block:?} of an image {image:?}", op.ty(x));
        return Err(op.invalid(reason));
    }
    let mut tables = Vec::new();
    for axis in 0..axes {
        let entries = image[axis].saturating_mul(block[axis]);
        if entries > MAX_CELLS {
            return Err(op.unsupported("an image this large"));
        }
        let reach = dilations[axis] * (block[axis] - 1) + 1;
        let span = image[axis] + pads[axis] + pads[axes + axis] - reach;
        let blocks = if span < 0 { 0 } else { span / strides[axis] + 1 };
        let places = (0..image[axis]).flat_map(|place| (0..block[axis]).map(move |cell| (place, cell)));
        let found = places.map(|(place, cell)| {
            let start = place + pads[axis] - cell * dilations[axis];
            let number = start.div_euclid(strides[axis]);
            (start.rem_euclid(strides[axis]) == 0 && (0..blocks).contains(&number)).then_some(number as f64)
        });
        let found: Vec<Option<f64>> = found.collect();
        let index = found.iter().map(|number| number.unwrap_or(0.0)).collect();
        let hit = found.iter().map(|number| f64::from(u8::from(number.is_some()))).collect();
        tables.push(Axis { blocks, index, hit, size: image[axis], cells: block[axis] });
    }
    let too_large = || op.unsupported("an image this large");
    let blocks = tables.iter().try_fold(1i64, |count, axis| count.checked_mul(axis.blocks)).ok_or_else(too_large)?;
    let cells = block.iter().try_fold(1i64, |count, size| count.checked_mul(*size)).ok_or_else(too_large)?;
    if cells > MAX_CELLS {
        return Err(op.unsupported(format!("a block of {cells} elements")));
    }
    let columns = op.fixed_dim(x, 1, "blocks")?;
    if columns % cells != 0 || op.dim(x, 2).differs(&tenon_graph_dialect::Dim::fixed(blocks as u64)) {
        return Err(op.invalid(format!("{} holds no {blocks} blocks of {cells} elements", op.ty(x))));
    }

    // Numbers of a cell and a block among all, for each place of the image: [image…, block…].
    let (mut index, mut hit) = (op.scalar(0.0, DType::I64)?, None);
    for (axis, table) in tables.iter().enumerate() {
        let mut shape = vec![1; 2 * axes];
        shape[axis] = table.size as usize;
        shape[axes + axis] = table.cells as usize;
        let along = op.literal(DType::I64, &shape, &table.index)?;
        let size = op.scalar(table.blocks as f64, DType::I64)?;
        let rows = op.apply(Function::Multiply, &[index, size])?;
        index = op.apply(Function::Add, &[rows, along])?;
        let inside = op.literal(DType::Bool, &shape, &table.hit)?;
        hit = Some(match hit {
            Some(hit) => op.apply(Function::And, &[hit, inside])?,
            None => inside,
        });
    }
    let mut cell = vec![1; axes];
    cell.extend(block.iter().map(|size| *size as usize));
    let first: Vec<f64> = (0..cells).map(|cell| (cell * blocks) as f64).collect();
    let first = op.literal(DType::I64, &cell, &first)?;
    let index = op.apply(Function::Add, &[index, first])?;
    let all = product(&op.extents(x)[2..]).and_then(|blocks| blocks.mul(&DimExpr::constant(cells)));
    let all = all.ok_or_else(|| op.unsupported("an image this large"))?;
    let batch = op.dim(x, 0).extent.clone();
    let x = op.reshape(x, vec![batch, DimExpr::constant(columns / cells), all])?;
    let mut parts = op.emit(Gather { kind: GatherKind::Take, axis: 2, batch_dims: 0 }, &[x, index])?;
    if let Some(hit) = hit {
        let zero = op.scalar(0.0, op.dtype(parts))?;
        parts = op.apply(Function::Select, &[hit, parts, zero])?;
    }
    let summed: Vec<usize> = (2 + axes..2 + 2 * axes).collect();
    Ok(vec![op.reduce(ReduceKind::Sum, parts, &summed, false)?])
}
