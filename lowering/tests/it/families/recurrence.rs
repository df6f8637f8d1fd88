//! Recurrent layers in one kernel.

use tenon_graph_dialect::operators::{Activation, ActivationFunction, Recurrence, RecurrenceKind, RecurrenceOperand};
use tenon_tensor::{DType, Tensor};

use super::{rounding, types};
use crate::graph_kernels::{F32, case, check_on, random, t};

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

/// A layer over `[steps, batch]` with hidden units, all values random, weights small so that gates do not saturate.
fn check(layer: &Recurrence, dtype: DType, [steps, batch, units]: [u64; 3]) {
    let whole = units * layer.kind.gates() as u64;
    let scaled = |shape: &[u64], seed: u64, factor: f64| {
        let tensor = random(&t(dtype, shape), seed);
        let values: Vec<f64> = tensor.iter_f64().unwrap().map(|value| value * factor).collect();
        Tensor::from_f64s(dtype, tensor.shape().to_vec(), &values).unwrap()
    };
    let factor = 0.5 / (units as f64).sqrt();
    let mut inputs = vec![scaled(&[steps, batch, whole], 1, 0.7), scaled(&[units, whole], 2, factor)];
    for (place, operand) in layer.optional.iter().enumerate() {
        let seed = place as u64 + 3;
        inputs.push(match operand {
            RecurrenceOperand::Hidden | RecurrenceOperand::Memory => scaled(&[batch, units], seed, 0.5),
            RecurrenceOperand::ResetBias => scaled(&[units], seed, 0.5),
            RecurrenceOperand::Peepholes => scaled(&[3 * units], seed, 0.5),
            RecurrenceOperand::Lengths => {
                // All, none, some, and more than there are.
                let length = |row: u64| [steps as i64, 0, steps as i64 / 2, steps as i64 + 3][row as usize % 4];
                let lengths: Vec<f64> = (0..batch).map(|row| length(row) as f64).collect();
                Tensor::from_f64s(DType::I32, vec![batch as usize], &lengths).unwrap()
            }
        });
    }
    // Sums of products in another order, carried from step to step.
    check_on(case("recurrence", &types(&inputs), 10.0 * rounding(dtype)), &inputs, &|at, v| {
        tenon_graph_dialect::Operator::from(layer.clone()).build(at, v).unwrap()
    });
}

#[test]
fn cells_and_sizes() {
    use RecurrenceOperand::*;
    for kind in RecurrenceKind::ALL {
        for sizes in [[1, 1, 1], [3, 2, 5], [4, 1, 32], [2, 3, 48], [2, 1, 130]] {
            check(&layer(*kind, &[]), F32, sizes);
        }
        check(&layer(*kind, &[Hidden]), DType::F64, [3, 2, 20]);
    }
}

#[test]
fn options_of_cells() {
    use RecurrenceOperand::*;
    let plain = |kind, optional: &[RecurrenceOperand]| layer(kind, optional);
    let gru = Recurrence { linear_before_reset: true, ..plain(RecurrenceKind::Gru, &[Lengths, ResetBias, Hidden]) };
    let lstm = plain(RecurrenceKind::Lstm, &[Memory, Peepholes, Hidden]);
    for base in [
        gru.clone(),
        Recurrence { reverse: true, ..gru },
        plain(RecurrenceKind::Gru, &[Hidden, Lengths]),
        lstm.clone(),
        Recurrence { couples_gates: true, clip: Some(0.4), ..lstm },
        Recurrence { reverse: true, ..plain(RecurrenceKind::Lstm, &[Lengths, Memory]) },
        Recurrence { reverse: true, ..plain(RecurrenceKind::Rnn, &[Lengths]) },
    ] {
        check(&base, F32, [5, 4, 24]);
    }
}

#[test]
fn activations() {
    for function in ActivationFunction::ALL {
        let own = Activation { function: *function, alpha: 0.3, beta: 0.6 };
        check(&Recurrence { activations: vec![own], ..layer(RecurrenceKind::Rnn, &[]) }, F32, [3, 1, 7]);
    }
}
