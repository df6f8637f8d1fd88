//! Kernels around one reduction: sums and the like, arg-reductions, softmax, normalisation.
//!
//! The reduced tensor is seen as rows (one a kept position) of columns (the reduced ones). A block has a tile of rows; where a row does not fit
//! into registers, it goes over it in chunks. Which elements a place of the tile looks at is an [`Index`], so that any axes, prologues and
//! epilogues are alike. Rows are combined in a fixed order: registers, lanes, warps.

mod normalize;
mod simple;
mod softmax;

pub(super) use simple::{Combiner, extreme};

use tenon_graph_dialect::Operator;
use tenon_hw_dialect::{IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, Node, Shape, ValueRef, axis, strides};
use crate::schedule::evaluate::{Destination, Evaluator, Mask, store};
use crate::schedule::index::{Index, common, line};
use crate::schedule::scalar::{compute_type, memory_type, widen};
use crate::schedule::size::{Size, is_wide, offset_type};
use crate::schedule::{KernelShape, parts};

/// Warps of a block; of rows that have an access for more threads, up to twice as many.
const WARPS: u32 = 4;
const MOST_WARPS: u32 = 8;
/// Widest tile of columns: 16 registers a thread in each live tile.
const MAX_COLUMNS: u32 = 4096;

/// Rows, columns and their tile.
pub(super) struct ReducePlan {
    /// The reduction in the body.
    anchor: usize,
    /// Sizes of the kept and of the reduced dimensions, and their strides in the reduced tensor.
    kept: Vec<(Size, Size)>,
    reduced: Vec<(Size, Size)>,
    rows: Size,
    columns: Size,
    tile_rows: u32,
    tile_columns: u32,
    /// Registers in a row that are consecutive columns in memory.
    vector: u32,
    warps: u32,
    layout: TileLayout,
}

impl ReducePlan {
    pub(super) fn new(body: &Body) -> Result<Self, LoweringError> {
        let (anchor, axes) = body.anchor(|node| axes(body, node))?;
        let shape = body.shape(body.nodes[anchor].operands[0]);
        let element_strides = strides(&shape.sizes);
        let pick = |wanted: bool| -> Vec<(Size, Size)> {
            let dims = (0..shape.sizes.len()).filter(|dim| axes.contains(dim) == wanted);
            dims.map(|dim| (shape.sizes[dim], element_strides[dim])).collect()
        };
        let (kept, reduced) = (pick(false), pick(true));
        if is_wide(&kept.iter().map(|(size, _)| *size).collect::<Vec<_>>())
            || is_wide(&reduced.iter().map(|(size, _)| *size).collect::<Vec<_>>())
        {
            return Err(LoweringError::shape("a reduction over, or to, 2^31 elements or more"));
        }
        let count = |dims: &[(Size, Size)]| dims.iter().map(|(size, _)| size).product::<Size>();
        let (rows, columns) = (count(&kept), count(&reduced));
        let last_reduced = reduced.last().is_some_and(|(_, stride)| *stride == 1);
        let widest = (16 / memory_type(shape.dtype).size() as u32).clamp(1, 8);
        let run = if last_reduced { reduced.last().map_or(Size::fixed(1), |(size, _)| *size) } else { Size::fixed(1) };
        let most = columns.capacity_u32().clamp(1, 1 << 31);
        let vector = common(widest, run).min(most.next_power_of_two() / 32).max(1);
        let tile_columns = most.next_power_of_two().clamp(1, MAX_COLUMNS);
        let lanes = (tile_columns / vector).clamp(1, 32);
        let accesses = tile_columns / (vector * lanes);
        let warps = accesses.clamp(WARPS, MOST_WARPS);
        let warps_along = accesses.clamp(1, warps);
        let warps_across = warps / warps_along;
        let tile_rows = warps_across * (32 / lanes);
        let layout = TileLayout::blocked(
            &[tile_rows, tile_columns],
            &[1, vector],
            &[32 / lanes, lanes],
            &[warps_across, warps_along],
            &[1, 0],
        )?;
        Ok(ReducePlan { anchor, kept, reduced, rows, columns, tile_rows, tile_columns, vector, warps, layout })
    }

    pub(super) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        Ok(KernelShape::line(self.warps, parts(self.rows, self.tile_rows, body)?))
    }

    pub(super) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        let rows = Rows::new(self, builder, body, inputs, outputs)?;
        match &body.nodes[self.anchor].operator {
            Operator::Reduce(reduce) => rows.reduce(builder, reduce),
            Operator::ArgReduce(reduce) => rows.arg_reduce(builder, reduce),
            Operator::Softmax(softmax) => rows.softmax(builder, softmax),
            Operator::Normalize(normalize) => rows.normalize(builder, normalize),
            other => Err(body.error(format!("`{}` is no reduction", other.name()))),
        }
    }
}

/// Reduced axes of a node that this family is built around.
fn axes(body: &Body, node: &Node) -> Option<Vec<usize>> {
    let list = match &node.operator {
        Operator::Reduce(reduce) => reduce.axes.clone(),
        Operator::ArgReduce(reduce) => vec![reduce.axis],
        Operator::Softmax(softmax) => vec![softmax.axis],
        Operator::Normalize(normalize) => normalize.axes.clone(),
        _ => return None,
    };
    let rank = body.shape(node.operands[0]).sizes.len();
    Some(list.into_iter().map(|number| axis(number, rank)).collect())
}

/// A kernel being built: the block's rows.
struct Rows<'p, 'b, 'm> {
    plan: &'p ReducePlan,
    body: &'b Body,
    evaluator: Evaluator<'b, 'm>,
    outputs: &'b [Value<'m>],
    /// Number of each row, in the layout of a row vector.
    row: Tile<'m>,
    /// Offset of each row's first element in the reduced tensor, spread over the tile.
    row_offset: Tile<'m>,
    /// Rows that exist, as a row vector and spread over the tile; none if all do.
    row_mask: Option<(Tile<'m>, Tile<'m>)>,
}

/// A chunk of columns of the block's rows.
struct Chunk<'m> {
    /// Where each place looks in the reduced tensor.
    index: Index<'m>,
    /// Places that lie in a row and in a column that exist.
    mask: Mask<'m>,
    /// Number of each column, spread over the tile.
    column: Tile<'m>,
}

impl<'p, 'b, 'm> Rows<'p, 'b, 'm> {
    fn new(
        plan: &'p ReducePlan,
        builder: TileBuilder<'m>,
        body: &'b Body,
        inputs: &'b [Value<'m>],
        outputs: &'b [Value<'m>],
    ) -> Result<Self, LoweringError> {
        let block = builder.program_id(0)?;
        let start = builder.scalar().scale(block, plan.tile_rows as i32)?;
        let row = line(builder, &plan.layout, 0, start)?;
        let wide = is_wide(&body.shape(body.nodes[plan.anchor].operands[0]).sizes);
        let row_offset = scattered(builder, &row, &plan.kept, wide)?;
        let row_offset = builder.spread(&row_offset, 0, &plan.layout)?;
        let row_mask = if plan.rows.is_multiple_of(plan.tile_rows) {
            None
        } else {
            let mask = below(builder, &row, plan.rows)?;
            let spread = builder.spread(&mask, 0, &plan.layout)?;
            Some((mask, spread))
        };
        Ok(Rows { plan, body, evaluator: Evaluator::new(body, inputs), outputs, row, row_offset, row_mask })
    }

    fn node(&self) -> &'b Node {
        &self.body.nodes[self.plan.anchor]
    }

    /// Type of the reduced tensor.
    fn input(&self) -> &'b Shape {
        self.body.shape(self.node().operands[0])
    }

    fn anchor(&self) -> ValueRef {
        ValueRef::Node(self.plan.anchor, 0)
    }

    /// The columns from `start` on.
    fn chunk(&self, builder: TileBuilder<'m>, start: Value<'m>) -> Result<Chunk<'m>, LoweringError> {
        let plan = self.plan;
        let column = line(builder, &plan.layout, 1, start)?;
        let wide = is_wide(&self.input().sizes);
        let offset = scattered(builder, &column, &plan.reduced, wide)?;
        let offset = builder.spread(&offset, 1, &plan.layout)?;
        let linear = builder.map1(&[&self.row_offset, &offset], &plan.layout, offset_type(wide), |code, values| {
            Ok(code.add(values[0], values[1])?)
        })?;
        let index = Index::from_linear(&self.input().sizes, linear, plan.vector).as_own();
        let mut mask = self.row_mask.as_ref().map(|(_, spread)| spread.clone());
        if !plan.columns.fills(plan.tile_columns) {
            let inside = below(builder, &column, plan.columns)?;
            let inside = builder.spread(&inside, 1, &plan.layout)?;
            mask = crate::schedule::evaluate::and_masks(builder, &mask, &inside)?;
        }
        let column = builder.spread(&column, 1, &plan.layout)?;
        Ok(Chunk { index, mask, column })
    }

    /// The reduced tensor's elements in a chunk, in their compute type.
    fn elements(&self, builder: TileBuilder<'m>, chunk: &Chunk<'m>) -> Result<Tile<'m>, LoweringError> {
        let dtype = self.input().dtype;
        let index = chunk.index.clone().as_other();
        let value = self.evaluator.value_at(builder, self.node().operands[0], &index, &chunk.mask)?;
        if compute_type(dtype) == value.ty.element {
            return Ok(value);
        }
        crate::schedule::evaluate::map(builder, &[&value], compute_type(dtype), |code, values| {
            widen(code, values[0], dtype)
        })
    }

    /// Whether a row is one chunk.
    fn fits(&self) -> bool {
        self.plan.columns.capacity() <= u64::from(self.plan.tile_columns)
    }

    /// Writes the kernel's results, given the anchor's value as a row vector of its register type.
    fn store_rows(&self, builder: TileBuilder<'m>, value: Tile<'m>) -> Result<(), LoweringError> {
        let mut evaluator = self.evaluator.clone();
        evaluator.bind(self.anchor(), value);
        let mask = self.row_mask.as_ref().map(|(row, _)| row.clone());
        for (output, target) in Destination::all(self.body, self.outputs) {
            let shape = self.body.shape(output);
            let index = Index::from_linear(&shape.sizes, self.row.clone(), 1).as_own();
            let value = evaluator.value_at(builder, output, &index, &mask)?;
            store(builder, target, &index, &value, &mask)?;
        }
        Ok(())
    }

    /// Writes the kernel's results in a chunk, given the anchor's value there in its register type.
    fn store_chunk(&self, builder: TileBuilder<'m>, chunk: &Chunk<'m>, value: Tile<'m>) -> Result<(), LoweringError> {
        let mut evaluator = self.evaluator.clone();
        evaluator.bind(self.anchor(), value);
        for (output, target) in Destination::all(self.body, self.outputs) {
            let shape = self.body.shape(output);
            let index = chunk.index.reshaped(builder, &shape.sizes)?;
            let value = evaluator.value_at(builder, output, &index, &chunk.mask)?;
            store(builder, target, &index, &value, &chunk.mask)?;
        }
        Ok(())
    }

    /// A row vector repeated over the tile.
    fn over_columns(&self, builder: TileBuilder<'m>, rows: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        Ok(builder.spread(rows, 0, &self.plan.layout)?)
    }
}

/// Whether what is computed in f32 is rounded to 16 bits.
fn is_16_bits(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Offsets of row-major numbers over dimensions of given sizes and strides: i64 if `wide`, else i32.
pub(super) fn scattered<'m>(
    builder: TileBuilder<'m>,
    number: &Tile<'m>,
    dims: &[(Size, Size)],
    wide: bool,
) -> Result<Tile<'m>, LoweringError> {
    Ok(builder.map1(&[number], &number.ty.layout, offset_type(wide), |code, values| {
        let mut rest = values[0];
        let mut sum = None;
        for (position, (size, stride)) in dims.iter().enumerate().rev() {
            let (quotient, own) = if position == 0 { (rest, rest) } else { size.div_rem(code, rest)? };
            rest = quotient;
            let term = stride.scale_to(code, own, wide)?;
            sum = Some(match sum {
                None => term,
                Some(sum) => code.add(sum, term)?,
            });
        }
        match sum {
            Some(sum) => Ok(sum),
            None => Ok(code.int(0, offset_type(wide))?),
        }
    })?)
}

/// Where a tile of i32 is below a number.
pub(super) fn below<'m>(builder: TileBuilder<'m>, tile: &Tile<'m>, bound: Size) -> Result<Tile<'m>, LoweringError> {
    Ok(builder.map1(&[tile], &tile.ty.layout, DType::Bool, |code, values| {
        Ok(code.compare_int(IntegerPredicate::UnsignedLess, values[0], bound.value(code)?)?)
    })?)
}
