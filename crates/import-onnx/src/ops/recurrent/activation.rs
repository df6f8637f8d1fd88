//! Activation functions of recurrent layers, by the names of their attribute.
//!
//! Source: ONNX LSTM: the functions with their parameters and defaults. Parameters are given in lists, an entry for each function that has
//! one, in order; where a list ends, defaults hold.

use tenon_graph_dialect::operators::{Activation, ActivationFunction, RecurrenceKind};

use crate::error::ImportError;
use crate::import::node::OpImport;

/// Name, function, default alpha, default beta; `None`: the function has no such parameter.
const FUNCTIONS: &[(&str, ActivationFunction, Option<f32>, Option<f32>)] = &[
    ("affine", ActivationFunction::Affine, Some(1.0), Some(0.0)),
    ("elu", ActivationFunction::Elu, Some(1.0), None),
    ("hardsigmoid", ActivationFunction::HardSigmoid, Some(0.2), Some(0.5)),
    ("leakyrelu", ActivationFunction::LeakyRelu, Some(0.01), None),
    ("relu", ActivationFunction::Relu, None, None),
    ("scaledtanh", ActivationFunction::ScaledTanh, Some(1.0), Some(1.0)),
    ("sigmoid", ActivationFunction::Sigmoid, None, None),
    ("softplus", ActivationFunction::Softplus, None, None),
    ("softsign", ActivationFunction::Softsign, None, None),
    ("tanh", ActivationFunction::Tanh, None, None),
    ("thresholdedrelu", ActivationFunction::ThresholdedRelu, Some(1.0), None),
];

fn default_activations(kind: RecurrenceKind) -> &'static [&'static str] {
    match kind {
        RecurrenceKind::Rnn => &["Tanh"],
        RecurrenceKind::Gru => &["Sigmoid", "Tanh"],
        RecurrenceKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    }
}

/// Reads the functions of all directions, one after another.
pub(super) fn activations(
    op: &OpImport<'_, '_, '_>,
    kind: RecurrenceKind,
    directions: usize,
) -> Result<Vec<Activation>, ImportError> {
    let defaults = default_activations(kind);
    let count = defaults.len() * directions;
    let names = match op.node.strings("activations")? {
        Some(names) if names.len() == count => names,
        Some(names) => {
            return Err(op.node.attribute_error("activations", "a list of functions", format!("has {}", names.len())));
        }
        None => defaults.iter().copied().cycle().take(count).collect(),
    };
    let mut alphas = op.node.floats("activation_alpha")?.unwrap_or_default().iter();
    let mut betas = op.node.floats("activation_beta")?.unwrap_or_default().iter();
    let mut list = Vec::with_capacity(count);
    for name in names {
        let plain = name.to_ascii_lowercase();
        let row = FUNCTIONS.iter().find(|row| row.0 == plain);
        let (_, function, alpha, beta) = row.ok_or_else(|| op.unsupported(format!("the activation `{name}`")))?;
        let parameter = |default: &Option<f32>, given: &mut std::slice::Iter<'_, f32>| {
            default.map_or(0.0, |default| f64::from(given.next().copied().unwrap_or(default)))
        };
        list.push(Activation {
            function: *function,
            alpha: parameter(alpha, &mut alphas),
            beta: parameter(beta, &mut betas),
        });
    }
    Ok(list)
}
