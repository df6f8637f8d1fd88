//! A recurrent layer as operators, one step after another.

use tenon_tensor::DType;

use super::{CellCode, CellState, Recurrence, RecurrenceKind, RecurrenceOperand};
use crate::operators::{Broadcast, Cast, Concat, Constant, Contract, Elementwise, Function, Reshape, Slice};
use crate::{Dim, DimExpr, Operator, OperatorKind, SemanticError, TensorType};

/// Most operands of one concatenation.
const MOST: usize = 128;

/// What applies operators.
pub trait StepEmitter {
    /// A tensor.
    type Value: Clone;
    /// What may go wrong.
    type Error: From<SemanticError>;

    /// Applies an operator with one result, of this type where the operands do not tell it.
    ///
    /// # Errors
    /// Operands that it does not take.
    fn emit(
        &mut self,
        operator: Operator,
        operands: &[Self::Value],
        ty: Option<&TensorType>,
    ) -> Result<Self::Value, Self::Error>;
}

impl Recurrence {
    /// Applies the layer as operators that round where it rounds. `types` are those of the operands.
    ///
    /// # Errors
    /// A number of steps that is not known, and those of the emitter.
    pub fn write_out<E: StepEmitter>(
        &self,
        emitter: &mut E,
        operands: &[E::Value],
        types: &[TensorType],
    ) -> Result<Vec<E::Value>, E::Error> {
        let results = self.infer(types)?;
        let dtype = types[0].dtype;
        let steps = types[0].dims[0].known().and_then(|steps| i64::try_from(steps).ok());
        let steps = steps.ok_or_else(|| {
            super::shape_error(
                Self::NAME,
                format!("the steps of {} are not a number, so they cannot be written out", types[0]),
            )
        })?;
        let sizes: Vec<DimExpr> = results[1].dims.iter().map(|dim| dim.extent.clone()).collect();
        let mut steps_of =
            Steps { recurrence: self, emitter, operands, types, dtype, state: &results[1], sizes, x: None };
        let mut state = CellState {
            hidden: steps_of.first(RecurrenceOperand::Hidden)?,
            memory: steps_of.first(RecurrenceOperand::Memory)?,
        };
        let valid = steps_of.lengths()?;
        let mut rows = vec![None; usize::try_from(steps).unwrap_or(0)];
        for step in 0..steps {
            let at = if self.reverse { steps - 1 - step } else { step };
            steps_of.x = Some(steps_of.at(at)?);
            let next = self.step(&mut steps_of, &state)?;
            let mut output = next.hidden.clone();
            state = match &valid {
                None => next,
                Some(lengths) => {
                    let valid = steps_of.before(at, lengths)?;
                    let zero = steps_of.number(0.0)?;
                    let mut select =
                        |new: E::Value, old: E::Value| steps_of.apply(Function::Select, &[valid.clone(), new, old]);
                    output = select(output, zero)?;
                    let hidden = select(next.hidden, state.hidden)?;
                    let memory = match self.kind {
                        RecurrenceKind::Lstm => select(next.memory, state.memory)?,
                        _ => hidden.clone(),
                    };
                    CellState { hidden, memory }
                }
            };
            rows[at as usize] = Some(steps_of.row(output)?);
        }
        let sequence = steps_of.joined(rows.into_iter().flatten().collect(), &results[0])?;
        let mut values = vec![sequence, state.hidden];
        if self.kind == RecurrenceKind::Lstm {
            values.push(state.memory);
        }
        Ok(values)
    }
}

/// A layer being written out.
struct Steps<'a, E: StepEmitter> {
    recurrence: &'a Recurrence,
    emitter: &'a mut E,
    operands: &'a [E::Value],
    types: &'a [TensorType],
    dtype: DType,
    /// A state, and its sizes.
    state: &'a TensorType,
    sizes: Vec<DimExpr>,
    /// What the step's input gives to all gates.
    x: Option<E::Value>,
}

impl<E: StepEmitter> Steps<'_, E> {
    fn hidden(&self) -> i64 {
        self.sizes[1].as_constant().unwrap_or(0)
    }

    fn slice(
        &mut self,
        value: &E::Value,
        dims: &[DimExpr],
        axis: usize,
        start: i64,
        size: i64,
    ) -> Result<E::Value, E::Error> {
        let mut starts = vec![DimExpr::constant(0); dims.len()];
        let mut sizes = dims.to_vec();
        starts[axis] = start.into();
        sizes[axis] = size.into();
        self.emitter.emit(Slice { starts, sizes, steps: vec![1; dims.len()] }.into(), std::slice::from_ref(value), None)
    }

    fn optional(&self, which: RecurrenceOperand) -> Option<E::Value> {
        self.recurrence.operand(which).map(|place| self.operands[place].clone())
    }

    /// The first state.
    fn first(&mut self, which: RecurrenceOperand) -> Result<E::Value, E::Error> {
        match self.optional(which) {
            Some(value) => Ok(value),
            None => {
                let zero = self.number(0.0)?;
                self.emitter.emit(Broadcast { shape: self.sizes.clone() }.into(), &[zero], Some(self.state))
            }
        }
    }

    /// Lengths as an i64 column.
    fn lengths(&mut self) -> Result<Option<E::Value>, E::Error> {
        let Some(lengths) = self.optional(RecurrenceOperand::Lengths) else { return Ok(None) };
        let place = self.recurrence.operand(RecurrenceOperand::Lengths).unwrap_or(0);
        let lengths = match self.types[place].dtype {
            DType::I64 => lengths,
            _ => self.emitter.emit(Cast { dtype: DType::I64, saturate: false }.into(), &[lengths], None)?,
        };
        let shape = vec![self.sizes[0].clone(), 1.into()];
        Ok(Some(self.emitter.emit(Reshape { shape }.into(), &[lengths], None)?))
    }

    /// Which rows have a step.
    fn before(&mut self, step: i64, lengths: &E::Value) -> Result<E::Value, E::Error> {
        let value = tenon_tensor::Tensor::from_i64(Vec::new(), &[step]);
        let value = value.map_err(|error| super::attribute_error(Recurrence::NAME, error.to_string()))?;
        let step = self.emitter.emit(Constant { value }.into(), &[], None)?;
        self.apply(Function::Less, &[step, lengths.clone()])
    }

    /// What the inputs of a step give to all gates.
    fn at(&mut self, step: i64) -> Result<E::Value, E::Error> {
        let dims: Vec<DimExpr> = self.types[0].dims.iter().map(|dim| dim.extent.clone()).collect();
        let slice = self.slice(&self.operands[0].clone(), &dims, 0, step, 1)?;
        self.emitter.emit(Reshape { shape: dims[1..].to_vec() }.into(), &[slice], None)
    }

    fn row(&mut self, state: E::Value) -> Result<E::Value, E::Error> {
        let shape = [1.into()].into_iter().chain(self.sizes.clone()).collect();
        self.emitter.emit(Reshape { shape }.into(), &[state], None)
    }

    fn joined(&mut self, rows: Vec<E::Value>, ty: &TensorType) -> Result<E::Value, E::Error> {
        if rows.is_empty() {
            let zero = self.number(0.0)?;
            let shape = ty.dims.iter().map(|dim: &Dim| dim.extent.clone()).collect();
            return self.emitter.emit(Broadcast { shape }.into(), &[zero], Some(ty));
        }
        let mut rows = rows;
        while rows.len() > 1 {
            let parts = rows.chunks(MOST).map(|part| match part {
                [only] => Ok(only.clone()),
                part => self.emitter.emit(Concat { axis: 0 }.into(), part, None),
            });
            rows = parts.collect::<Result<_, _>>()?;
        }
        Ok(rows.swap_remove(0))
    }
}

impl<E: StepEmitter> CellCode for Steps<'_, E> {
    type Value = E::Value;
    type Error = E::Error;

    fn apply(&mut self, function: Function, operands: &[E::Value]) -> Result<E::Value, E::Error> {
        self.emitter.emit(Elementwise { function }.into(), operands, None)
    }

    fn number(&mut self, value: f64) -> Result<E::Value, E::Error> {
        let value = tenon_tensor::Tensor::from_f64s(self.dtype, Vec::new(), &[value]);
        let value = value.map_err(|error| super::attribute_error(Recurrence::NAME, error.to_string()))?;
        self.emitter.emit(Constant { value }.into(), &[], None)
    }

    fn input(&mut self, gate: usize) -> Result<E::Value, E::Error> {
        let x = self.x.clone().ok_or_else(|| super::shape_error(Recurrence::NAME, "a step without an input"))?;
        let dims = [self.sizes[0].clone(), self.types[0].dims[2].extent.clone()];
        self.slice(&x, &dims, 1, gate as i64 * self.hidden(), self.hidden())
    }

    fn products(&mut self, state: &E::Value, first: usize, last: usize) -> Result<Vec<E::Value>, E::Error> {
        let hidden = self.hidden();
        let mut weights = self.operands[1].clone();
        let count = (last - first) as i64;
        if last - first != self.recurrence.kind.gates() {
            let dims = [hidden.into(), self.types[0].dims[2].extent.clone()];
            weights = self.slice(&weights, &dims, 1, first as i64 * hidden, count * hidden)?;
        }
        let contract = Contract {
            lhs: "mk".to_owned(),
            rhs: "kn".to_owned(),
            result: "mn".to_owned(),
            accumulate: self.dtype,
            dtype: self.dtype,
        };
        let product = self.emitter.emit(contract.into(), &[state.clone(), weights], None)?;
        let dims = [self.sizes[0].clone(), (count * hidden).into()];
        (0..count).map(|gate| self.slice(&product, &dims, 1, gate * hidden, hidden)).collect()
    }

    fn reset_bias(&mut self) -> Result<Option<E::Value>, E::Error> {
        Ok(self.optional(RecurrenceOperand::ResetBias))
    }

    fn peephole(&mut self, gate: usize) -> Result<Option<E::Value>, E::Error> {
        let Some(weights) = self.optional(RecurrenceOperand::Peepholes) else { return Ok(None) };
        let hidden = self.hidden();
        self.slice(&weights, &[(3 * hidden).into()], 0, gate as i64 * hidden, hidden).map(Some)
    }
}
