//! `graph.recurrence`: the operators that its definition writes it out as, one step after another.

use tenon_graph_dialect::operators::{Recurrence, StepEmitter};
use tenon_graph_dialect::{Operator, TensorType};

use crate::array::Array;
use crate::evaluate::{Call, Evaluate, evaluate_arrays};
use crate::{Mode, ReferenceError};

impl Evaluate for Recurrence {
    fn evaluate(&self, call: &Call<'_>) -> Result<Vec<Array>, ReferenceError> {
        let types: Vec<TensorType> = call.inputs.iter().map(type_of).collect();
        self.write_out(&mut Evaluator { mode: call.mode }, call.inputs, &types)
    }
}

fn type_of(array: &Array) -> TensorType {
    TensorType::fixed(array.dtype, &array.shape.iter().map(|size| *size as u64).collect::<Vec<_>>())
}

/// Applies operators at once.
struct Evaluator {
    mode: Mode,
}

impl StepEmitter for Evaluator {
    type Value = Array;
    type Error = ReferenceError;

    fn emit(
        &mut self,
        operator: Operator,
        operands: &[Array],
        ty: Option<&TensorType>,
    ) -> Result<Array, ReferenceError> {
        let types: Vec<TensorType> = operands.iter().map(type_of).collect();
        let results = match ty {
            Some(ty) => vec![ty.clone()],
            None => operator.infer(&types)?,
        };
        let mut values = evaluate_arrays(&operator, operands, &results, self.mode)?;
        Ok(values.swap_remove(0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::operators::{Activation, ActivationFunction, RecurrenceKind, RecurrenceOperand};
    use tenon_tensor::Tensor;

    fn layer(kind: RecurrenceKind, optional: &[RecurrenceOperand]) -> Recurrence {
        let functions: &[ActivationFunction] = match kind {
            RecurrenceKind::Rnn => &[ActivationFunction::Tanh],
            RecurrenceKind::Gru => &[ActivationFunction::Sigmoid, ActivationFunction::Tanh],
            RecurrenceKind::Lstm => &[ActivationFunction::Sigmoid, ActivationFunction::Tanh, ActivationFunction::Tanh],
        };
        let own = |function: &ActivationFunction| Activation { function: *function, alpha: 0.0, beta: 0.0 };
        Recurrence {
            kind,
            activations: functions.iter().map(own).collect(),
            clip: None,
            reverse: false,
            linear_before_reset: false,
            couples_gates: false,
            optional: optional.to_vec(),
        }
    }

    fn close(found: &Tensor, expected: &[f64]) {
        let found = found.to_f64_vec().unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
    }

    /// One hidden unit, by the equations of ONNX.
    #[test]
    fn one_unit_follows_the_equations() {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let x = f32s(&[2, 1, 1], &[0.5, -1.0]);
        let first = (0.5f64).tanh();
        let results = run_all(layer(RecurrenceKind::Rnn, &[]), &[x, f32s(&[1, 1], &[2.0])], Mode::Typed);
        close(&results[0], &[first, (-1.0 + 2.0 * first).tanh()]);
        close(&results[1], &[(-1.0 + 2.0 * first).tanh()]);

        let x = f32s(&[1, 1, 3], &[0.5, -1.0, 0.25]);
        let inputs = [x, f32s(&[1, 3], &[2.0, -1.0, 0.5]), f32s(&[1, 1], &[0.3])];
        let results = run_all(layer(RecurrenceKind::Gru, &[RecurrenceOperand::Hidden]), &inputs, Mode::Typed);
        let (update, reset) = (sigmoid(0.5 + 0.6), sigmoid(-1.0 - 0.3));
        let candidate = (0.25 + 0.5 * reset * 0.3).tanh();
        close(&results[1], &[(1.0 - update) * candidate + update * 0.3]);

        let x = f32s(&[1, 1, 4], &[0.5, -1.0, 0.25, 1.5]);
        let inputs = [x, f32s(&[1, 4], &[2.0, -1.0, 0.5, 1.0]), f32s(&[1, 1], &[0.3]), f32s(&[1, 1], &[-0.8])];
        let optional = [RecurrenceOperand::Hidden, RecurrenceOperand::Memory];
        let results = run_all(layer(RecurrenceKind::Lstm, &optional), &inputs, Mode::Typed);
        let (input, output, forget) = (sigmoid(0.5 + 0.6), sigmoid(-1.0 - 0.3), sigmoid(0.25 + 0.15));
        let memory = forget * -0.8 + input * (1.5f64 + 0.3).tanh();
        close(&results[2], &[memory]);
        close(&results[1], &[output * memory.tanh()]);
    }

    /// Behind a row's length its state stays and its outputs are 0; in reverse it begins there.
    #[test]
    fn rows_end_at_their_lengths() {
        let x = f32s(&[2, 2, 1], &[0.5, 0.25, -1.0, 9.0]);
        let inputs = [x, f32s(&[1, 1], &[2.0]), i64s(&[2], &[2, 1])];
        let forward = layer(RecurrenceKind::Rnn, &[RecurrenceOperand::Lengths]);
        let results = run_all(forward.clone(), &inputs, Mode::Typed);
        let (first, short) = (0.5f64.tanh(), 0.25f64.tanh());
        let last = (-1.0 + 2.0 * first).tanh();
        close(&results[0], &[first, short, last, 0.0]);
        close(&results[1], &[last, short]);
        let results = run_all(Recurrence { reverse: true, ..forward }, &inputs, Mode::Typed);
        let first = (-1.0f64).tanh();
        close(&results[1], &[(0.5 + 2.0 * first).tanh(), short]);
        close(&results[0], &[(0.5 + 2.0 * first).tanh(), short, first, 0.0]);
    }
}
