//! All steps of one direction.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Contract, Function};
use tenon_tensor::DType;

use super::super::sequence::stack;
use super::cell::{Cell, Kind, State, StateProduct};
use super::quantized::{Quantized, QuantizedProduct};
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
    pub(super) reversed: bool,
    pub(super) steps: i64,
    pub(super) batch: DimExpr,
    pub(super) dtype: DType,
    pub(super) weights: Weights,
    /// Of the input's product, then of the state's: `[2 · gates · hidden]`.
    pub(super) bias: Option<Handle>,
    pub(super) hidden: Option<Handle>,
    pub(super) memory: Option<Handle>,
    pub(super) cell: Cell,
}

/// What a direction gives.
pub(super) struct Done {
    /// `[steps, batch, hidden]`.
    pub(super) sequence: Handle,
    /// `[batch, hidden]`.
    pub(super) hidden: Handle,
    pub(super) memory: Option<Handle>,
}

/// Products with floats.
struct FloatProduct {
    weight: Handle,
    hidden: i64,
    gates: usize,
}

impl StateProduct for FloatProduct {
    fn of(
        &mut self,
        op: &mut OpImport<'_, '_, '_>,
        state: Handle,
        first: usize,
        last: usize,
    ) -> Result<Handle, ImportError> {
        let weight = match (first, last) {
            (0, last) if last == self.gates => self.weight,
            _ => {
                let (start, size) = (first as i64 * self.hidden, (last - first) as i64 * self.hidden);
                op.slice(self.weight, 1, start.into(), size.into())?
            }
        };
        product(op, state, weight)
    }
}

/// A matrix, or a list of them, times a matrix.
fn product(op: &mut OpImport<'_, '_, '_>, lhs: Handle, weight: Handle) -> Result<Handle, ImportError> {
    let dtype = op.dtype(lhs);
    let labels = if op.rank(lhs) == 3 { ("smk", "smn") } else { ("mk", "mn") };
    let contract = Contract {
        lhs: labels.0.to_owned(),
        rhs: "kn".to_owned(),
        result: labels.1.to_owned(),
        accumulate: dtype,
        dtype,
    };
    op.emit(contract, &[lhs, weight])
}

/// Runs a direction over `x`, `[steps, batch, inputs]`; `valid` says which steps rows have.
pub(super) fn run(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    direction: Direction,
    valid: Option<Handle>,
) -> Result<Done, ImportError> {
    let Direction { reversed, steps, batch, dtype, weights, bias, hidden, memory, cell } = direction;
    let (gates, size) = (cell.kind.gates(), cell.hidden);
    let (mut inputs, mut state_product): (Handle, Box<dyn StateProduct>) = match weights {
        Weights::Float { input, state } => {
            (product(op, x, input)?, Box::new(FloatProduct { weight: state, hidden: size, gates }))
        }
        Weights::Quantized { input, state } => {
            (input.product(op, x)?, Box::new(QuantizedProduct { weight: state, hidden: size, gates }))
        }
    };
    let mut reset_bias = None;
    if let Some(bias) = bias {
        let whole = gates as i64 * size;
        let of_input = op.slice(bias, 0, 0.into(), whole.into())?;
        let of_state = op.slice(bias, 0, whole.into(), whole.into())?;
        inputs = op.apply(Function::Add, &[inputs, of_input])?;
        if cell.kind == Kind::Gru && cell.linear_before_reset {
            // The bias of gate h belongs to the product that the reset gate is applied to.
            let first = op.slice(of_state, 0, 0.into(), (2 * size).into())?;
            let zeros = op.scalar(0.0, dtype)?;
            let zeros = op.broadcast(zeros, vec![size.into()])?;
            let first = stack(op, &[first, zeros], 0, true)?;
            inputs = op.apply(Function::Add, &[inputs, first])?;
            reset_bias = Some(op.slice(of_state, 0, (2 * size).into(), size.into())?);
        } else {
            inputs = op.apply(Function::Add, &[inputs, of_state])?;
        }
    }
    let zero = op.scalar(0.0, dtype)?;
    let zeros = op.broadcast(zero, vec![batch, size.into()])?;
    let mut state =
        State { hidden: hidden.unwrap_or(zeros), memory: (cell.kind == Kind::Lstm).then(|| memory.unwrap_or(zeros)) };
    let mut outputs = vec![zeros; steps as usize];
    for step in 0..steps {
        let at = if reversed { steps - 1 - step } else { step };
        let x = op.element(inputs, 0, at)?;
        let next = cell.step(op, x, reset_bias, state, state_product.as_mut())?;
        let mut output = next.hidden;
        state = match valid {
            None => next,
            Some(valid) => {
                let valid = op.element(valid, 0, at)?;
                output = op.apply(Function::Select, &[valid, next.hidden, zero])?;
                let hidden = op.apply(Function::Select, &[valid, next.hidden, state.hidden])?;
                let memory = match (next.memory, state.memory) {
                    (Some(new), Some(old)) => Some(op.apply(Function::Select, &[valid, new, old])?),
                    _ => None,
                };
                State { hidden, memory }
            }
        };
        outputs[at as usize] = output;
    }
    if outputs.is_empty() {
        return Err(op.unsupported("a recurrence over no steps"));
    }
    let sequence = stack(op, &outputs, 0, false)?;
    Ok(Done { sequence, hidden: state.hidden, memory: state.memory })
}
