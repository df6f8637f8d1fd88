//! The steps of a recurrent layer in one kernel: a block has a row of the batch and goes through all its steps.
//!
//! A step multiplies the hidden state by weights that are read anew, `[units, depth]` at a time: threads own units, and warps share the depth.
//! What the state is multiplied from is published to the block in the memory of the last hidden state, between barriers. Each thread keeps the
//! state of its own units in registers.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{CellCode, CellState, Function, Recurrence, RecurrenceKind, RecurrenceOperand};
use tenon_hw_dialect::{Access, IntegerPredicate, Tile, TileBuilder, line_layout};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::control::for_range;
use crate::schedule::evaluate::{Destination, Evaluator, Mask, coordinate_tile, map, splat, store};
use crate::schedule::index::{Coordinate, Index, common, line};
use crate::schedule::reduce::below;
use crate::schedule::scalar::{self, Number, register_type};
use crate::schedule::size::Size;
use crate::schedule::{KernelShape, parts};

/// Most hidden units: a thread holds a sum of each gate for its share.
const MOST_UNITS: u64 = 1024;
const MOST_WARPS: u32 = 16;
/// Depth of a thread: sums that do not wait for one another.
const DEPTH: u32 = 4;

/// The layer in the body, and how threads share its work.
pub(super) struct RecurrencePlan {
    layer: Recurrence,
    anchor: usize,
    units: u32,
    dtype: DType,
    warps: u32,
    /// Of `[units, depth]`.
    layout: TileLayout,
    /// Of units alone.
    line: TileLayout,
}

impl RecurrencePlan {
    pub(super) fn new(body: &Body) -> Result<Self, LoweringError> {
        let (anchor, layer) = body.anchor(|node| match &node.operator {
            Operator::Recurrence(layer) => Some(layer.clone()),
            _ => None,
        })?;
        let weights = body.shape(body.nodes[anchor].operands[1]);
        let units = weights.sizes[0].known().filter(|units| (1..=MOST_UNITS).contains(units));
        let units = units.ok_or_else(|| {
            let what = format!("{} hidden units, more than {MOST_UNITS}, in one kernel", weights.sizes[0].capacity());
            LoweringError::unsupported("graph.recurrence", what)
        })? as u32;
        let places = units.next_power_of_two().max(32);
        let across = (places / 32).min(MOST_WARPS);
        let along = (MOST_WARPS / across).min(places / DEPTH);
        let (per_thread, per_warp, warps) = ([1, DEPTH], [32, 1], [across, along]);
        let layout = TileLayout::blocked(&[places, DEPTH * along], &per_thread, &per_warp, &warps, &[1, 0])?;
        let line = line_layout(&layout, 0)?;
        Ok(RecurrencePlan { layer, anchor, units, dtype: weights.dtype, warps: across * along, layout, line })
    }

    pub(super) fn shape(&self, body: &Body) -> Result<KernelShape, LoweringError> {
        let batch = body.nodes[self.anchor].results[0].sizes[1];
        Ok(KernelShape::line(self.warps, parts(batch, 1, body)?))
    }

    pub(super) fn build<'m>(
        &self,
        builder: TileBuilder<'m>,
        body: &Body,
        inputs: &[Value<'m>],
        outputs: &[Value<'m>],
    ) -> Result<(), LoweringError> {
        let node = &body.nodes[self.anchor];
        let own: Vec<ValueRef> = (0..node.results.len()).map(|result| ValueRef::Node(self.anchor, result)).collect();
        if body.outputs != own {
            return Err(body.error("a recurrent layer yields its results and nothing else"));
        }
        let unit = line(builder, &self.layout, 0, builder.scalar().i32(0)?)?;
        let exists = below(builder, &unit, Size::fixed(u64::from(self.units)))?;
        let exists = (!self.units.is_power_of_two() || self.units < 32).then_some(exists);
        let row = builder.program_id(0)?;
        let evaluator = Evaluator::new(body, inputs);
        let mut cell = Cell { plan: self, body, evaluator, outputs, builder, unit, exists, row, step: None };
        let first = CellState {
            hidden: cell.first(RecurrenceOperand::Hidden)?,
            memory: cell.first(RecurrenceOperand::Memory)?,
        };
        let lengths = cell.length()?;
        let steps = node.results[0].sizes[0];
        let has_memory = self.layer.kind == RecurrenceKind::Lstm;
        let mut carried = vec![first.hidden];
        carried.extend(has_memory.then_some(first.memory));
        let last = for_range(builder, steps, 1, &carried, |inner, number, tiles| {
            let code = inner.scalar();
            let step = if self.layer.reverse {
                code.op("arith.subi", &[code.offset(steps.value(code)?, -1)?, number])?
            } else {
                number
            };
            let mut cell = Cell { builder: inner, step: Some(step), ..cell.clone() };
            let state = CellState { hidden: tiles[0].clone(), memory: tiles.last().unwrap_or(&tiles[0]).clone() };
            let mut next = self.layer.step(&mut cell, &state)?;
            let mut shown = next.hidden.clone();
            if let Some(length) = &lengths {
                let valid = inner.map1(&[length], &self.line, DType::Bool, |code, values| {
                    Ok(code.compare_int(IntegerPredicate::SignedGreater, values[0], step)?)
                })?;
                let zero = cell.number(0.0)?;
                let mut select =
                    |new: Tile<'m>, old: Tile<'m>| cell.apply(Function::Select, &[valid.clone(), new, old]);
                shown = select(shown, zero)?;
                next = CellState {
                    hidden: select(next.hidden, state.hidden)?,
                    memory: select(next.memory, state.memory)?,
                };
            }
            cell.write(0, &shown)?;
            let mut tiles = vec![next.hidden];
            tiles.extend(has_memory.then_some(next.memory));
            Ok(tiles)
        })?;
        // Others may still read the state of the last step.
        builder.barrier()?;
        for (result, tile) in last.iter().enumerate() {
            cell.step = None;
            cell.write(result + 1, tile)?;
        }
        Ok(())
    }
}

/// A step being built, or what is before and behind the steps.
#[derive(Clone)]
struct Cell<'p, 'm> {
    plan: &'p RecurrencePlan,
    body: &'p Body,
    evaluator: Evaluator<'p, 'm>,
    outputs: &'p [Value<'m>],
    builder: TileBuilder<'m>,
    /// The unit of each place, i32.
    unit: Tile<'m>,
    /// Places whose unit exists; none if all do.
    exists: Mask<'m>,
    /// The block's row of the batch, i32.
    row: Value<'m>,
    /// The place in the sequence, i32.
    step: Option<Value<'m>>,
}

impl<'p, 'm> Cell<'p, 'm> {
    fn everywhere(&self, value: Value<'m>) -> Result<Coordinate<'m>, LoweringError> {
        Ok(Coordinate::Tile(self.builder.splat(value, DType::I32, &self.plan.line)?))
    }

    /// Units `start` to `start + units` of a dimension that holds several for each unit.
    fn units_from(&self, part: usize) -> Result<Coordinate<'m>, LoweringError> {
        if part == 0 {
            return Ok(Coordinate::Tile(self.unit.clone()));
        }
        let start = i32::try_from(part as u64 * u64::from(self.plan.units)).unwrap_or(i32::MAX);
        let shifted = self
            .builder
            .map1(&[&self.unit], &self.plan.line, DType::I32, |code, values| Ok(code.offset(values[0], start)?))?;
        Ok(Coordinate::Tile(shifted))
    }

    /// Values of an operand, one for each unit.
    fn read(&self, operand: usize, coordinates: Vec<Coordinate<'m>>) -> Result<Tile<'m>, LoweringError> {
        let operand = self.body.nodes[self.plan.anchor].operands[operand];
        let at = Index::from_coordinates(&self.body.shape(operand).sizes, coordinates, &self.plan.line, 1);
        self.evaluator.value_at(self.builder, operand, &at, &self.exists)
    }

    /// The first state.
    fn first(&mut self, which: RecurrenceOperand) -> Result<Tile<'m>, LoweringError> {
        match self.plan.layer.operand(which) {
            Some(operand) => self.read(operand, vec![self.everywhere(self.row)?, self.units_from(0)?]),
            None => self.number(0.0),
        }
    }

    /// How many steps the row has, i32 in every place.
    fn length(&self) -> Result<Option<Tile<'m>>, LoweringError> {
        let Some(operand) = self.plan.layer.operand(RecurrenceOperand::Lengths) else { return Ok(None) };
        let length = self.read(operand, vec![self.everywhere(self.row)?])?;
        let dtype = self.body.shape(self.body.nodes[self.plan.anchor].operands[operand]).dtype;
        let capacity = self.body.nodes[self.plan.anchor].results[0].sizes[0].capacity();
        // A length beyond the sequence is all of it; what is left fits 32 bits.
        let wide =
            map(self.builder, &[&length], DType::I64, |code, values| scalar::cast(code, values[0], dtype, DType::I64))?;
        let most = i64::try_from(capacity).unwrap_or(i64::MAX).min(i64::from(i32::MAX));
        Ok(Some(self.builder.map1(&[&wide], &self.plan.line, DType::I32, |code, values| {
            let high = code.op("arith.minsi", &[values[0], code.int(most, DType::I64)?])?;
            let low = code.op("arith.maxsi", &[high, code.int(0, DType::I64)?])?;
            Ok(code.convert("arith.trunci", low, DType::I32)?)
        })?))
    }

    /// Writes a result's values of the row: those of the step, or of the whole.
    fn write(&self, result: usize, tile: &Tile<'m>) -> Result<(), LoweringError> {
        let shape = &self.body.nodes[self.plan.anchor].results[result];
        let mut coordinates = vec![self.everywhere(self.row)?, self.units_from(0)?];
        if let Some(step) = self.step {
            coordinates.insert(0, self.everywhere(step)?);
        }
        let at = Index::from_coordinates(&shape.sizes, coordinates, &self.plan.line, 1);
        let target = Destination { body: self.body, output: result, pointer: self.outputs[result] };
        store(self.builder, target, &at, tile, &self.exists)
    }

    /// Shows a state to the whole block.
    fn publish(&self, state: &Tile<'m>) -> Result<(), LoweringError> {
        self.builder.barrier()?;
        Cell { step: None, ..self.clone() }.write(1, state)?;
        Ok(self.builder.barrier()?)
    }

    /// What was published of the units from `start` on, in every place of `[units, depth]` of that depth.
    fn published(
        &self,
        inner: TileBuilder<'m>,
        depth: &Tile<'m>,
        exists: &Tile<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let shape = &self.body.nodes[self.plan.anchor].results[1];
        let row = Coordinate::Tile(inner.splat(self.row, DType::I32, &depth.ty.layout)?);
        let at = Index::from_coordinates(&shape.sizes, vec![row, Coordinate::Tile(depth.clone())], &depth.ty.layout, 1);
        let offsets = at.linear(inner)?;
        let zero = inner.scalar().zero(self.plan.dtype)?;
        let access = Access { contiguity: common(DEPTH, Size::fixed(u64::from(self.plan.units))), uniform: 1 };
        let values = inner.load(self.outputs[1], &offsets, Some((exists, zero)), self.plan.dtype, access)?;
        Ok(inner.spread(&values, 1, &self.plan.layout)?)
    }
}

impl<'m> CellCode for Cell<'_, 'm> {
    type Value = Tile<'m>;
    type Error = LoweringError;

    fn apply(&mut self, function: Function, operands: &[Tile<'m>]) -> Result<Tile<'m>, LoweringError> {
        let dtype = self.plan.dtype;
        let result = if function.is_predicate() { DType::Bool } else { register_type(dtype) };
        let operands: Vec<&Tile<'m>> = operands.iter().collect();
        map(self.builder, &operands, result, |code, values| scalar::apply(code, function, dtype, values))
    }

    fn number(&mut self, value: f64) -> Result<Tile<'m>, LoweringError> {
        splat(self.builder, Number::Float(value), self.plan.dtype, &self.plan.line)
    }

    fn input(&mut self, gate: usize) -> Result<Tile<'m>, LoweringError> {
        let step = self.step.ok_or_else(|| self.body.error("a step outside the sequence"))?;
        self.read(0, vec![self.everywhere(step)?, self.everywhere(self.row)?, self.units_from(gate)?])
    }

    fn products(&mut self, state: &Tile<'m>, first: usize, last: usize) -> Result<Vec<Tile<'m>>, LoweringError> {
        self.publish(state)?;
        let (plan, body) = (self.plan, self.body);
        let weights = body.nodes[plan.anchor].operands[1];
        let sizes = &body.shape(weights).sizes;
        let units = Size::fixed(u64::from(plan.units));
        let columns = (first..last)
            .map(|gate| {
                let column = coordinate_tile(self.builder, &self.units_from(gate)?, &plan.line)?;
                Ok(self.builder.spread(&column, 0, &plan.layout)?)
            })
            .collect::<Result<Vec<_>, LoweringError>>()?;
        let exists = match &self.exists {
            Some(exists) => Some(self.builder.spread(exists, 0, &plan.layout)?),
            None => None,
        };
        let zero = self.builder.zeros(plan.dtype, &plan.layout)?;
        let depth = plan.layout.shape()[1];
        let sums = for_range(self.builder, units, depth, &vec![zero; last - first], |inner, start, carried| {
            let place = line(inner, &plan.layout, 1, start)?;
            let inside = below(inner, &place, units)?;
            let state = self.published(inner, &place, &inside)?;
            let inside = inner.spread(&inside, 1, &plan.layout)?;
            let mask = match &exists {
                Some(exists) => inner.map1(&[exists, &inside], &plan.layout, DType::Bool, |code, values| {
                    Ok(code.op("arith.andi", values)?)
                })?,
                None => inside,
            };
            let mask = (exists.is_some() || !units.fills(depth)).then_some(mask);
            let place = Coordinate::Tile(inner.spread(&place, 1, &plan.layout)?);
            let mut next = Vec::with_capacity(carried.len());
            for (sum, column) in carried.iter().zip(&columns) {
                let coordinates = vec![place.clone(), Coordinate::Tile(column.clone())];
                let at = Index::from_coordinates(sizes, coordinates, &plan.layout, 1);
                let weight = self.evaluator.value_at(inner, weights, &at, &mask)?;
                next.push(inner.map1(&[&state, &weight, sum], &plan.layout, plan.dtype, |code, values| {
                    Ok(code.op("math.fma", values)?)
                })?);
            }
            Ok(next)
        })?;
        let sums: Vec<&Tile<'m>> = sums.iter().collect();
        let reduced = self.builder.reduce(1, &sums, |code, sum, new| {
            sum.iter()
                .zip(new)
                .map(|(a, b)| code.op("arith.addf", &[*a, *b]))
                .collect::<Result<Vec<_>, _>>()
                .map_err(Into::into)
        })?;
        reduced.iter().map(|tile| Ok(self.builder.convert_layout(tile, &plan.line)?)).collect()
    }

    fn reset_bias(&mut self) -> Result<Option<Tile<'m>>, LoweringError> {
        let Some(operand) = self.plan.layer.operand(RecurrenceOperand::ResetBias) else { return Ok(None) };
        self.read(operand, vec![self.units_from(0)?]).map(Some)
    }

    fn peephole(&mut self, gate: usize) -> Result<Option<Tile<'m>>, LoweringError> {
        let Some(operand) = self.plan.layer.operand(RecurrenceOperand::Peepholes) else { return Ok(None) };
        self.read(operand, vec![self.units_from(gate)?]).map(Some)
    }
}
