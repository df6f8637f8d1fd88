//! All steps of one direction.

use tenon_graph_dialect::operators::{CellState, Contract, Function, Recurrence, RecurrenceKind, RecurrenceOperand};
use tenon_graph_dialect::{DimExpr, Operator};
use tenon_tensor::DType;

use super::super::sequence::stack;
use super::quantized::{Quantized, QuantizedSteps};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// Weights of a direction, `[inputs, gates · hidden]` and `[hidden, gates · hidden]`.
pub(super) enum Weights {
    /// As they are.
    Float { input: Handle, state: Handle },
    /// Integers with scales; what they multiply is quantised as it is at each step.
    Quantized { input: Quantized, state: Quantized },
}

/// One direction of a layer.
pub(super) struct Direction {
    /// The cell; its optional operands are those of this.
    pub(super) recurrence: Recurrence,
    pub(super) units: i64,
    pub(super) batch: DimExpr,
    pub(super) dtype: DType,
    pub(super) weights: Weights,
    /// Of the input's product, then of the state's: `[2 · gates · hidden]`.
    pub(super) bias: Option<Handle>,
    pub(super) hidden: Option<Handle>,
    pub(super) memory: Option<Handle>,
    pub(super) peepholes: Option<Handle>,
    /// Steps that each row has.
    pub(super) lengths: Option<Handle>,
}

/// What a direction gives.
pub(super) struct Done {
    /// `[steps, batch, hidden]`.
    pub(super) sequence: Handle,
    /// `[batch, hidden]`.
    pub(super) hidden: Handle,
    pub(super) memory: Option<Handle>,
}

/// A list of matrices times a matrix.
fn product(op: &mut OpImport<'_, '_, '_>, lhs: Handle, weight: Handle) -> Result<Handle, ImportError> {
    let dtype = op.dtype(lhs);
    let contract =
        Contract { lhs: "smk".to_owned(), rhs: "kn".to_owned(), result: "smn".to_owned(), accumulate: dtype, dtype };
    op.emit(contract, &[lhs, weight])
}

/// Runs a direction over `x`, `[steps, batch, inputs]`.
pub(super) fn run(op: &mut OpImport<'_, '_, '_>, x: Handle, direction: Direction) -> Result<Done, ImportError> {
    let (gates, size) = (direction.recurrence.kind.gates(), direction.units);
    let mut inputs = match &direction.weights {
        Weights::Float { input, .. } => product(op, x, *input)?,
        Weights::Quantized { input, .. } => input.product(op, x)?,
    };
    let mut reset_bias = None;
    if let Some(bias) = direction.bias {
        let whole = gates as i64 * size;
        let of_input = op.slice(bias, 0, 0.into(), whole.into())?;
        let of_state = op.slice(bias, 0, whole.into(), whole.into())?;
        inputs = op.apply(Function::Add, &[inputs, of_input])?;
        if direction.recurrence.linear_before_reset {
            // The bias of gate h belongs to the product that the reset gate is applied to.
            let first = op.slice(of_state, 0, 0.into(), (2 * size).into())?;
            let zeros = op.scalar(0.0, direction.dtype)?;
            let zeros = op.broadcast(zeros, vec![size.into()])?;
            let first = stack(op, &[first, zeros], 0, true)?;
            inputs = op.apply(Function::Add, &[inputs, first])?;
            reset_bias = Some(op.slice(of_state, 0, (2 * size).into(), size.into())?);
        } else {
            inputs = op.apply(Function::Add, &[inputs, of_state])?;
        }
    }
    match direction.weights {
        Weights::Float { state, .. } => kept(op, inputs, state, reset_bias, direction),
        Weights::Quantized { state, .. } => written_out(op, inputs, state, direction),
    }
}

/// The steps as one operator.
fn kept(
    op: &mut OpImport<'_, '_, '_>,
    inputs: Handle,
    weights: Handle,
    reset_bias: Option<Handle>,
    direction: Direction,
) -> Result<Done, ImportError> {
    let mut recurrence = direction.recurrence;
    let mut operands = vec![inputs, weights];
    for (which, operand) in [
        (RecurrenceOperand::Hidden, direction.hidden),
        (RecurrenceOperand::Memory, direction.memory),
        (RecurrenceOperand::ResetBias, reset_bias),
        (RecurrenceOperand::Peepholes, direction.peepholes),
        (RecurrenceOperand::Lengths, direction.lengths),
    ] {
        if let Some(operand) = operand {
            recurrence.optional.push(which);
            operands.push(operand);
        }
    }
    let results = op.emit_all(Operator::from(recurrence), &operands)?;
    match results[..] {
        [sequence, hidden] => Ok(Done { sequence, hidden, memory: None }),
        [sequence, hidden, memory] => Ok(Done { sequence, hidden, memory: Some(memory) }),
        _ => Err(op.invalid("a recurrence gives a sequence and its last state")),
    }
}

/// The steps one after another.
fn written_out(
    op: &mut OpImport<'_, '_, '_>,
    inputs: Handle,
    weights: Quantized,
    direction: Direction,
) -> Result<Done, ImportError> {
    let steps = op.fixed_dim(inputs, 0, "a recurrence")?;
    let Direction { recurrence, units, batch, dtype, hidden, memory, peepholes, lengths, .. } = direction;
    let zero = op.scalar(0.0, dtype)?;
    let zeros = op.broadcast(zero, vec![batch.clone(), units.into()])?;
    let mut state = CellState { hidden: hidden.unwrap_or(zeros), memory: memory.unwrap_or(zeros) };
    let lengths = match lengths {
        Some(lengths) => Some(op.reshape(lengths, vec![batch, 1.into()])?),
        None => None,
    };
    let mut outputs = vec![zeros; usize::try_from(steps).unwrap_or(0)];
    for step in 0..steps {
        let at = if recurrence.reverse { steps - 1 - step } else { step };
        let x = op.element(inputs, 0, at)?;
        let mut code = QuantizedSteps { op, x, weights, peepholes, units, gates: recurrence.kind.gates(), dtype };
        let next = recurrence.step(&mut code, &state)?;
        let mut output = next.hidden;
        state = match lengths {
            None => next,
            Some(lengths) => {
                let at = op.scalar(at as f64, op.dtype(lengths))?;
                let valid = op.apply(Function::Less, &[at, lengths])?;
                output = op.apply(Function::Select, &[valid, next.hidden, zero])?;
                CellState {
                    hidden: op.apply(Function::Select, &[valid, next.hidden, state.hidden])?,
                    memory: op.apply(Function::Select, &[valid, next.memory, state.memory])?,
                }
            }
        };
        outputs[at as usize] = output;
    }
    if outputs.is_empty() {
        return Err(op.unsupported("a recurrence over no steps"));
    }
    let sequence = stack(op, &outputs, 0, false)?;
    let memory = (recurrence.kind == RecurrenceKind::Lstm).then_some(state.memory);
    Ok(Done { sequence, hidden: state.hidden, memory })
}
