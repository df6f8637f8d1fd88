//! One step of a recurrent layer.
//!
//! Source: ONNX RNN, GRU, LSTM: the equations. Gates lie one after another: z, r, h of a GRU; i, o, f, c of an LSTM.

use tenon_graph_dialect::operators::Function;

use super::activation::Activation;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// Which layer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rnn,
    Gru,
    Lstm,
}

impl Kind {
    pub(super) fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    pub(super) fn default_activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }

    pub(super) fn activations(self) -> usize {
        self.default_activations().len()
    }
}

/// A cell with its options.
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) hidden: i64,
    pub(super) activations: Vec<Activation>,
    pub(super) clip: Option<f32>,
    pub(super) linear_before_reset: bool,
    pub(super) couples_gates: bool,
    /// Weights of the memory in the gates i, o, f, one after another.
    pub(super) peepholes: Option<Handle>,
}

/// What a step takes and gives.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// `[batch, hidden]`.
    pub(super) hidden: Handle,
    /// The memory of an LSTM.
    pub(super) memory: Option<Handle>,
}

/// Products of the hidden state with its weights, by the gates they are for.
pub(super) trait StateProduct {
    /// The product of a state with the weights of gates `first` to `last`, that one left out.
    fn of(
        &mut self,
        op: &mut OpImport<'_, '_, '_>,
        state: Handle,
        first: usize,
        last: usize,
    ) -> Result<Handle, ImportError>;
}

impl Cell {
    /// Gates `first` to `last` of a value that has all.
    fn gates(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        value: Handle,
        first: usize,
        last: usize,
    ) -> Result<Handle, ImportError> {
        let axis = op.rank(value) - 1;
        let (start, size) = (first as i64 * self.hidden, (last - first) as i64 * self.hidden);
        op.slice(value, axis, start.into(), size.into())
    }

    /// An activation behind the clip.
    fn activate(&self, op: &mut OpImport<'_, '_, '_>, index: usize, x: Handle) -> Result<Handle, ImportError> {
        let mut x = x;
        if let Some(clip) = self.clip {
            let dtype = op.dtype(x);
            let (low, high) = (op.scalar(f64::from(-clip), dtype)?, op.scalar(f64::from(clip), dtype)?);
            let above = op.apply(Function::Max, &[x, low])?;
            x = op.apply(Function::Min, &[above, high])?;
        }
        self.activations[index].apply(op, x)
    }

    /// The next state. `x` is the step's input times its weights, with all biases but `reset_bias`, which is of the state's product in
    /// the gate h of a GRU whose reset comes after that product.
    pub(super) fn step(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        x: Handle,
        reset_bias: Option<Handle>,
        state: State,
        product: &mut dyn StateProduct,
    ) -> Result<State, ImportError> {
        match self.kind {
            Kind::Rnn => {
                let recurrent = product.of(op, state.hidden, 0, 1)?;
                let sum = op.apply(Function::Add, &[x, recurrent])?;
                Ok(State { hidden: self.activate(op, 0, sum)?, memory: None })
            }
            Kind::Gru => self.gru(op, x, reset_bias, state, product),
            Kind::Lstm => self.lstm(op, x, state, product),
        }
    }

    fn gru(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        x: Handle,
        reset_bias: Option<Handle>,
        state: State,
        product: &mut dyn StateProduct,
    ) -> Result<State, ImportError> {
        let last = if self.linear_before_reset { 3 } else { 2 };
        let recurrent = product.of(op, state.hidden, 0, last)?;
        let (x_zr, r_zr) = (self.gates(op, x, 0, 2)?, self.gates(op, recurrent, 0, 2)?);
        let sum = op.apply(Function::Add, &[x_zr, r_zr])?;
        let zr = self.activate(op, 0, sum)?;
        let (update, reset) = (self.gates(op, zr, 0, 1)?, self.gates(op, zr, 1, 2)?);
        let inner = if self.linear_before_reset {
            let mut inner = self.gates(op, recurrent, 2, 3)?;
            if let Some(bias) = reset_bias {
                inner = op.apply(Function::Add, &[inner, bias])?;
            }
            op.apply(Function::Multiply, &[reset, inner])?
        } else {
            let kept = op.apply(Function::Multiply, &[reset, state.hidden])?;
            product.of(op, kept, 2, 3)?
        };
        let x_h = self.gates(op, x, 2, 3)?;
        let sum = op.apply(Function::Add, &[x_h, inner])?;
        let candidate = self.activate(op, 1, sum)?;
        let one = op.scalar(1.0, op.dtype(update))?;
        let rest = op.apply(Function::Subtract, &[one, update])?;
        let new = op.apply(Function::Multiply, &[rest, candidate])?;
        let old = op.apply(Function::Multiply, &[update, state.hidden])?;
        Ok(State { hidden: op.apply(Function::Add, &[new, old])?, memory: None })
    }

    fn lstm(
        &self,
        op: &mut OpImport<'_, '_, '_>,
        x: Handle,
        state: State,
        product: &mut dyn StateProduct,
    ) -> Result<State, ImportError> {
        let memory = state.memory.ok_or_else(|| op.invalid("an LSTM without memory"))?;
        let recurrent = product.of(op, state.hidden, 0, 4)?;
        let sum = op.apply(Function::Add, &[x, recurrent])?;
        // A gate's sum, with the weighted memory where there are peepholes: `place` is the gate's among those of the peepholes.
        let gate = |op: &mut OpImport<'_, '_, '_>, gate: usize, place: usize, memory: Handle| {
            let own = self.gates(op, sum, gate, gate + 1)?;
            let Some(peepholes) = self.peepholes else { return Ok(own) };
            let weight = self.gates(op, peepholes, place, place + 1)?;
            let weighted = op.apply(Function::Multiply, &[weight, memory])?;
            op.apply(Function::Add, &[own, weighted])
        };
        let input = gate(op, 0, 0, memory)?;
        let input = self.activate(op, 0, input)?;
        let forget = if self.couples_gates {
            let one = op.scalar(1.0, op.dtype(input))?;
            op.apply(Function::Subtract, &[one, input])?
        } else {
            let forget = gate(op, 2, 2, memory)?;
            self.activate(op, 0, forget)?
        };
        let candidate = self.gates(op, sum, 3, 4)?;
        let candidate = self.activate(op, 1, candidate)?;
        let kept = op.apply(Function::Multiply, &[forget, memory])?;
        let added = op.apply(Function::Multiply, &[input, candidate])?;
        let memory = op.apply(Function::Add, &[kept, added])?;
        let output = gate(op, 1, 1, memory)?;
        let output = self.activate(op, 0, output)?;
        // The clip is on the sums of the gates; ONNX Runtime and OpenVINO leave the memory as it is.
        let curve = self.activations[2].apply(op, memory)?;
        Ok(State { hidden: op.apply(Function::Multiply, &[output, curve])?, memory: Some(memory) })
    }
}
