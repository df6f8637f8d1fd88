//! Results that are parts of concatenations: a kernel writes its part where it lies in the whole.
//!
//! A part spans whole dimensions behind the axis, so that it is a number of runs, one in each run of the whole: the number of an element in the whole
//! follows from that in the part by one division, and where there is one run by none.

use tenon_graph_dialect::{ConcatenatedPart, Dim, DimExpr, destination};
use tenon_hw_dialect::TileBuilder;
use tenon_ir::Value;

use crate::LoweringError;
use crate::schedule::index::{Coordinate, Index, common};
use crate::schedule::size::{Amount, ExtentTable, Size, check_factors, is_wide, offset_type};

/// Where a result lies: in a whole, which may lie in a larger one.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    runs: Vec<Runs>,
}

/// Runs of a part in runs of a whole.
#[derive(Debug, Clone)]
struct Runs {
    /// Number of runs.
    count: Size,
    /// Elements of a run of the part, and of the whole.
    part: Size,
    whole: Size,
    /// Where a run of the part begins in that of the whole. Numbers are arguments too, so that kernels that differ by them are one.
    start: Amount,
    /// The largest power of two that divides it.
    alignment: u32,
}

/// The product of sizes.
fn run(dims: &[Dim], table: &mut ExtentTable) -> Result<Size, LoweringError> {
    let sizes = dims.iter().map(|dim| {
        let capacity = dim.capacity.ok_or_else(|| LoweringError::unbounded("a part without a largest size"))?;
        table.size(&dim.extent, capacity)
    });
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    check_factors(&sizes)?;
    Ok(sizes.iter().product())
}

impl Runs {
    fn of(part: &ConcatenatedPart, table: &mut ExtentTable) -> Result<Self, LoweringError> {
        let ConcatenatedPart { operands, index, axis } = part;
        let too_complex =
            || LoweringError::padded("where a part of a concatenation begins is too complex an expression");
        let own = &operands[*index];
        let mut length = DimExpr::constant(0);
        let mut start = DimExpr::constant(0);
        let mut capacity = 0u64;
        for (place, operand) in operands.iter().enumerate() {
            if place == *index {
                start = length.clone();
            }
            let dim = &operand.dims[*axis];
            length = length.add(&dim.extent).ok_or_else(too_complex)?;
            capacity = capacity.saturating_add(dim.capacity.unwrap_or(u64::MAX));
        }
        let start = own.dims[axis + 1..].iter().try_fold(start, |start, dim| start.mul(&dim.extent));
        let start = start.ok_or_else(too_complex)?;
        match start.as_constant() {
            Some(_) => table.add_number(&start)?,
            None => table.add(&start)?,
        }
        let mut whole = own.dims[*axis..].to_vec();
        whole[0] = Dim { capacity: Some(capacity), extent: length };
        let runs = Runs {
            count: run(&own.dims[..*axis], table)?,
            part: run(&own.dims[*axis..], table)?,
            whole: run(&whole, table)?,
            alignment: start.as_constant().map_or(1, |start| 1 << start.trailing_zeros().min(31)),
            start: table.amount(&start)?,
        };
        if is_wide(&[runs.count, runs.whole]) {
            return Err(LoweringError::shape("a concatenation of 2^31 elements or more that is written in parts"));
        }
        Ok(runs)
    }

    fn index<'m>(&self, builder: TileBuilder<'m>, index: &Index<'m>) -> Result<Index<'m>, LoweringError> {
        let sizes = [self.count, self.whole];
        let contiguity = |run: u32| common(run.min(self.alignment), self.whole);
        if self.start == Amount::Number(0) && (self.count == 1 || self.part == self.whole) {
            return index.reshaped(builder, &sizes);
        }
        let index = index.reshaped(builder, &[self.count, self.part])?;
        if self.count == 1 {
            let linear = index.linear(builder)?;
            let moved = builder.map1(&[&linear], &index.layout, offset_type(false), |code, values| {
                Ok(self.start.add(code, values[0])?)
            })?;
            return Ok(Index::from_linear(&sizes, moved, contiguity(index.contiguity)));
        }
        let mut coordinates = index.coordinates(builder)?;
        let inner = super::evaluate::coordinate_tile(builder, &coordinates[1], &index.layout)?;
        let moved = builder.map1(&[&inner], &index.layout, offset_type(false), |code, values| {
            Ok(self.start.add(code, values[0])?)
        })?;
        coordinates[1] = Coordinate::Tile(moved);
        Ok(Index::from_coordinates(&sizes, coordinates, &index.layout, contiguity(index.contiguity)))
    }
}

impl Placement {
    /// Reads where a kernel's result lies.
    pub(super) fn of(result: Value<'_>, table: &mut ExtentTable) -> Result<Self, LoweringError> {
        let parts = destination(result).map(|destination| destination.parts).unwrap_or_default();
        let runs = parts.iter().map(|part| Runs::of(part, table)).collect::<Result<Vec<_>, _>>()?;
        Ok(Placement { runs })
    }

    /// Whether the result has memory of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The index in the memory that is written, of places that look at `index` of the result.
    pub(super) fn index<'m>(&self, builder: TileBuilder<'m>, index: &Index<'m>) -> Result<Index<'m>, LoweringError> {
        self.runs.iter().try_fold(index.clone(), |index, runs| runs.index(builder, &index))
    }
}
