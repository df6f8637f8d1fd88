//! One step of a recurrent layer, for whatever computes it: operators that it is written out as, the interpreter, a kernel.

use crate::operators::Function;

use super::{Recurrence, RecurrenceKind};

/// What a step is written with.
pub trait CellCode {
    /// Values of one gate: a number for each row of the batch and each hidden unit, or one that is broadcast to them.
    type Value: Clone;
    /// What may go wrong.
    type Error;

    /// A scalar function.
    ///
    /// # Errors
    /// Operands that it does not take.
    fn apply(&mut self, function: Function, operands: &[Self::Value]) -> Result<Self::Value, Self::Error>;

    /// A number, rounded to the type that is computed in.
    ///
    /// # Errors
    /// A number that cannot be made.
    fn number(&mut self, value: f64) -> Result<Self::Value, Self::Error>;

    /// What the step's input gives to a gate.
    ///
    /// # Errors
    /// A gate that there is not.
    fn input(&mut self, gate: usize) -> Result<Self::Value, Self::Error>;

    /// The products of a state with the weights of gates `first` to `last`, that one left out.
    ///
    /// # Errors
    /// Gates that there are not.
    fn products(&mut self, state: &Self::Value, first: usize, last: usize) -> Result<Vec<Self::Value>, Self::Error>;

    /// The bias of the state's product in gate h, where the layer has one.
    ///
    /// # Errors
    /// A bias that cannot be read.
    fn reset_bias(&mut self) -> Result<Option<Self::Value>, Self::Error>;

    /// The weight of the memory in gate i, o or f, where the layer has them.
    ///
    /// # Errors
    /// A gate that there is not.
    fn peephole(&mut self, gate: usize) -> Result<Option<Self::Value>, Self::Error>;
}

/// What a step takes and gives.
#[derive(Debug, Clone)]
pub struct CellState<V> {
    /// The hidden state.
    pub hidden: V,
    /// The memory of an LSTM; the hidden state again for other cells, which do not read it.
    pub memory: V,
}

impl Recurrence {
    /// The next state.
    ///
    /// # Errors
    /// Those of the code that computes.
    pub fn step<C: CellCode>(
        &self,
        code: &mut C,
        state: &CellState<C::Value>,
    ) -> Result<CellState<C::Value>, C::Error> {
        let hidden = match self.kind {
            RecurrenceKind::Rnn => {
                let products = code.products(&state.hidden, 0, 1)?;
                let sum = self.sum(code, 0, &products[0])?;
                self.activate(code, 0, sum)?
            }
            RecurrenceKind::Gru => self.gru(code, &state.hidden)?,
            RecurrenceKind::Lstm => return self.lstm(code, state),
        };
        Ok(CellState { memory: hidden.clone(), hidden })
    }

    /// A gate's input and product together.
    fn sum<C: CellCode>(&self, code: &mut C, gate: usize, product: &C::Value) -> Result<C::Value, C::Error> {
        let input = code.input(gate)?;
        code.apply(Function::Add, &[input, product.clone()])
    }

    /// An activation behind the clip.
    fn activate<C: CellCode>(&self, code: &mut C, index: usize, x: C::Value) -> Result<C::Value, C::Error> {
        let mut x = x;
        if let Some(clip) = self.clip {
            let (low, high) = (code.number(-clip)?, code.number(clip)?);
            let above = code.apply(Function::Max, &[x, low])?;
            x = code.apply(Function::Min, &[above, high])?;
        }
        self.activations[index].apply(code, &x)
    }

    fn gru<C: CellCode>(&self, code: &mut C, hidden: &C::Value) -> Result<C::Value, C::Error> {
        let last = if self.linear_before_reset { 3 } else { 2 };
        let products = code.products(hidden, 0, last)?;
        let update = self.sum(code, 0, &products[0])?;
        let update = self.activate(code, 0, update)?;
        let reset = self.sum(code, 1, &products[1])?;
        let reset = self.activate(code, 0, reset)?;
        let inner = match products.get(2) {
            Some(product) => {
                let mut inner = product.clone();
                if let Some(bias) = code.reset_bias()? {
                    inner = code.apply(Function::Add, &[inner, bias])?;
                }
                code.apply(Function::Multiply, &[reset, inner])?
            }
            None => {
                let kept = code.apply(Function::Multiply, &[reset, hidden.clone()])?;
                code.products(&kept, 2, 3)?.swap_remove(0)
            }
        };
        let sum = self.sum(code, 2, &inner)?;
        let candidate = self.activate(code, 1, sum)?;
        let one = code.number(1.0)?;
        let rest = code.apply(Function::Subtract, &[one, update.clone()])?;
        let new = code.apply(Function::Multiply, &[rest, candidate])?;
        let old = code.apply(Function::Multiply, &[update, hidden.clone()])?;
        code.apply(Function::Add, &[new, old])
    }

    fn lstm<C: CellCode>(&self, code: &mut C, state: &CellState<C::Value>) -> Result<CellState<C::Value>, C::Error> {
        let products = code.products(&state.hidden, 0, 4)?;
        let input = self.peeped(code, 0, &products[0], &state.memory)?;
        let input = self.activate(code, 0, input)?;
        let forget = if self.couples_gates {
            let one = code.number(1.0)?;
            code.apply(Function::Subtract, &[one, input.clone()])?
        } else {
            let forget = self.peeped(code, 2, &products[2], &state.memory)?;
            self.activate(code, 0, forget)?
        };
        let candidate = self.sum(code, 3, &products[3])?;
        let candidate = self.activate(code, 1, candidate)?;
        let kept = code.apply(Function::Multiply, &[forget, state.memory.clone()])?;
        let added = code.apply(Function::Multiply, &[input, candidate])?;
        let memory = code.apply(Function::Add, &[kept, added])?;
        let output = self.peeped(code, 1, &products[1], &memory)?;
        let output = self.activate(code, 0, output)?;
        // The clip is on the sums of the gates; ONNX Runtime and OpenVINO leave the memory as it is.
        let curve = self.activations[2].apply(code, &memory)?;
        Ok(CellState { hidden: code.apply(Function::Multiply, &[output, curve])?, memory })
    }

    /// A gate's sum, with the weighted memory where there are peepholes.
    fn peeped<C: CellCode>(
        &self,
        code: &mut C,
        gate: usize,
        product: &C::Value,
        memory: &C::Value,
    ) -> Result<C::Value, C::Error> {
        let sum = self.sum(code, gate, product)?;
        let Some(weight) = code.peephole(gate)? else { return Ok(sum) };
        let weighted = code.apply(Function::Multiply, &[weight, memory.clone()])?;
        code.apply(Function::Add, &[sum, weighted])
    }
}
