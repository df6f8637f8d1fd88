//! Activation functions of recurrent layers, by the names of their attribute.
//!
//! Source: ONNX LSTM: the functions with their parameters and defaults. Parameters are given in lists, an entry for each function that has
//! one, in order; where a list ends, defaults hold.

use tenon_graph_dialect::operators::Function;

use super::cell::Kind;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// A function with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Activation {
    name: &'static str,
    alpha: f64,
    beta: f64,
}

/// Name, default alpha, default beta; `None`: the function has no such parameter.
const FUNCTIONS: &[(&str, Option<f32>, Option<f32>)] = &[
    ("affine", Some(1.0), Some(0.0)),
    ("elu", Some(1.0), None),
    ("hardsigmoid", Some(0.2), Some(0.5)),
    ("leakyrelu", Some(0.01), None),
    ("relu", None, None),
    ("scaledtanh", Some(1.0), Some(1.0)),
    ("sigmoid", None, None),
    ("softplus", None, None),
    ("softsign", None, None),
    ("tanh", None, None),
    ("thresholdedrelu", Some(1.0), None),
];

/// Reads the functions of all directions, one after another.
pub(super) fn activations(
    op: &OpImport<'_, '_, '_>,
    kind: Kind,
    directions: usize,
) -> Result<Vec<Activation>, ImportError> {
    let defaults = kind.default_activations();
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
        let (name, alpha, beta) = row.ok_or_else(|| op.unsupported(format!("the activation `{name}`")))?;
        let parameter = |default: &Option<f32>, given: &mut std::slice::Iter<'_, f32>| {
            default.map_or(0.0, |default| f64::from(given.next().copied().unwrap_or(default)))
        };
        list.push(Activation { name, alpha: parameter(alpha, &mut alphas), beta: parameter(beta, &mut betas) });
    }
    Ok(list)
}

impl Activation {
    /// The function applied to a value.
    pub(super) fn apply(self, op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, ImportError> {
        let dtype = op.dtype(x);
        let alpha = op.scalar(self.alpha, dtype)?;
        let beta = op.scalar(self.beta, dtype)?;
        let (zero, one) = (op.scalar(0.0, dtype)?, op.scalar(1.0, dtype)?);
        match self.name {
            "relu" => op.apply(Function::Max, &[x, zero]),
            "sigmoid" => op.apply(Function::Sigmoid, &[x]),
            "tanh" => op.apply(Function::Tanh, &[x]),
            "affine" => {
                let scaled = op.apply(Function::Multiply, &[x, alpha])?;
                op.apply(Function::Add, &[scaled, beta])
            }
            "leakyrelu" => {
                let scaled = op.apply(Function::Multiply, &[x, alpha])?;
                let negative = op.apply(Function::Less, &[x, zero])?;
                op.apply(Function::Select, &[negative, scaled, x])
            }
            "thresholdedrelu" => {
                let above = op.apply(Function::Greater, &[x, alpha])?;
                op.apply(Function::Select, &[above, x, zero])
            }
            "scaledtanh" => {
                let scaled = op.apply(Function::Multiply, &[x, beta])?;
                let curve = op.apply(Function::Tanh, &[scaled])?;
                op.apply(Function::Multiply, &[curve, alpha])
            }
            "hardsigmoid" => {
                let scaled = op.apply(Function::Multiply, &[x, alpha])?;
                let shifted = op.apply(Function::Add, &[scaled, beta])?;
                let below = op.apply(Function::Min, &[shifted, one])?;
                op.apply(Function::Max, &[below, zero])
            }
            "elu" => {
                let curve = op.apply(Function::Expm1, &[x])?;
                let scaled = op.apply(Function::Multiply, &[curve, alpha])?;
                let negative = op.apply(Function::Less, &[x, zero])?;
                op.apply(Function::Select, &[negative, scaled, x])
            }
            "softsign" => {
                let size = op.apply(Function::Abs, &[x])?;
                let divisor = op.apply(Function::Add, &[size, one])?;
                op.apply(Function::Divide, &[x, divisor])
            }
            _ => {
                // Softplus, as max(x, 0) + ln(1 + e^-|x|), which does not overflow.
                let size = op.apply(Function::Abs, &[x])?;
                let negated = op.apply(Function::Negate, &[size])?;
                let small = op.apply(Function::Exp, &[negated])?;
                let rest = op.apply(Function::Log1p, &[small])?;
                let above = op.apply(Function::Max, &[x, zero])?;
                op.apply(Function::Add, &[above, rest])
            }
        }
    }
}
