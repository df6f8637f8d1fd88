//! Activation functions, as their definitions in the ONNX operator list say, from scalar functions. NaN passes through all but
//! ThresholdedRelu.

use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// The only input, a scalar 0 and the element type.
fn unary(op: &mut OpImport<'_, '_, '_>) -> Result<(Handle, Handle, DType), ImportError> {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    Ok((x, op.scalar(0.0, dtype)?, dtype))
}

/// A float attribute as a scalar of the input's type.
fn parameter(op: &mut OpImport<'_, '_, '_>, name: &str, default: f32, dtype: DType) -> Result<Handle, ImportError> {
    let value = op.node.float_or(name, default)?;
    op.scalar(f64::from(value), dtype)
}

/// max(x, 0)
pub(super) fn relu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, _) = unary(op)?;
    Ok(vec![op.apply(Function::Max, &[x, zero])?])
}

/// x below 0 is multiplied by alpha.
pub(super) fn leaky_relu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 0.01, dtype)?;
    let scaled = op.apply(Function::Multiply, &[x, alpha])?;
    let negative = op.apply(Function::Less, &[x, zero])?;
    Ok(vec![op.apply(Function::Select, &[negative, scaled, x])?])
}

/// x below 0 is multiplied by a slope that broadcasts to it.
pub(super) fn prelu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (x, slope) = (op.input(0)?, op.input(1)?);
    let zero = op.scalar(0.0, op.dtype(x))?;
    let scaled = op.apply(Function::Multiply, &[x, slope])?;
    if op.rank(scaled) != op.rank(x) {
        return Err(op.invalid(format!("the slope {} does not broadcast to {}", op.ty(slope), op.ty(x))));
    }
    let negative = op.apply(Function::Less, &[x, zero])?;
    Ok(vec![op.apply(Function::Select, &[negative, scaled, x])?])
}

/// min(max(x, low), high); limits are attributes before version 11.
pub(super) fn clip(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=if op.since < 11 { 1 } else { 3 })?;
    let mut x = op.input(0)?;
    let dtype = op.dtype(x);
    let limits = if op.since < 11 {
        let mut limit = |name: &str| -> Result<Option<Handle>, ImportError> {
            let value = op.node.float(name)?;
            value.map(|value| op.scalar(f64::from(value), dtype)).transpose()
        };
        [limit("min")?, limit("max")?]
    } else {
        [op.optional(1)?, op.optional(2)?]
    };
    for (limit, function) in limits.into_iter().zip([Function::Max, Function::Min]) {
        if let Some(limit) = limit {
            let limit = op.as_scalar(limit)?;
            x = op.apply(function, &[x, limit])?;
        }
    }
    Ok(vec![x])
}

/// max(0, min(1, alpha·x + beta))
fn hard_sigmoid_of(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    alpha: Handle,
    beta: Handle,
) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    let (zero, one) = (op.scalar(0.0, dtype)?, op.scalar(1.0, dtype)?);
    let scaled = op.apply(Function::Multiply, &[x, alpha])?;
    let shifted = op.apply(Function::Add, &[scaled, beta])?;
    let below = op.apply(Function::Min, &[shifted, one])?;
    op.apply(Function::Max, &[below, zero])
}

/// max(0, min(1, alpha·x + beta))
pub(super) fn hard_sigmoid(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, _, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 0.2, dtype)?;
    let beta = parameter(op, "beta", 0.5, dtype)?;
    Ok(vec![hard_sigmoid_of(op, x, alpha, beta)?])
}

/// x · max(0, min(1, x/6 + 1/2))
pub(super) fn hard_swish(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, _, dtype) = unary(op)?;
    let (alpha, beta) = (op.scalar(f64::from(1.0f32 / 6.0), dtype)?, op.scalar(0.5, dtype)?);
    let gate = hard_sigmoid_of(op, x, alpha, beta)?;
    Ok(vec![op.apply(Function::Multiply, &[x, gate])?])
}

/// x below 0 becomes alpha·(eˣ - 1).
pub(super) fn elu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 1.0, dtype)?;
    let curve = op.apply(Function::Expm1, &[x])?;
    let scaled = op.apply(Function::Multiply, &[alpha, curve])?;
    let negative = op.apply(Function::Less, &[x, zero])?;
    Ok(vec![op.apply(Function::Select, &[negative, scaled, x])?])
}

/// gamma · (x, or below 0: alpha·(eˣ - 1))
pub(super) fn selu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 1.673_263_2, dtype)?;
    let gamma = parameter(op, "gamma", 1.050_701, dtype)?;
    let curve = op.apply(Function::Expm1, &[x])?;
    let scaled = op.apply(Function::Multiply, &[alpha, curve])?;
    let negative = op.apply(Function::LessEqual, &[x, zero])?;
    let chosen = op.apply(Function::Select, &[negative, scaled, x])?;
    Ok(vec![op.apply(Function::Multiply, &[gamma, chosen])?])
}

/// max(0, x) + min(0, alpha·(e^(x/alpha) - 1))
pub(super) fn celu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 1.0, dtype)?;
    let ratio = op.apply(Function::Divide, &[x, alpha])?;
    let curve = op.apply(Function::Expm1, &[ratio])?;
    let scaled = op.apply(Function::Multiply, &[alpha, curve])?;
    let below = op.apply(Function::Min, &[scaled, zero])?;
    let above = op.apply(Function::Max, &[x, zero])?;
    Ok(vec![op.apply(Function::Add, &[above, below])?])
}

/// x·(1 + erf(x/√2))/2, or its approximation by tanh.
pub(super) fn gelu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, _, dtype) = unary(op)?;
    let (half, one) = (op.scalar(0.5, dtype)?, op.scalar(1.0, dtype)?);
    let curve = match op.node.string_or("approximate", "none")? {
        "none" => {
            let root = op.scalar(std::f64::consts::SQRT_2, dtype)?;
            let ratio = op.apply(Function::Divide, &[x, root])?;
            op.apply(Function::Erf, &[ratio])?
        }
        "tanh" => {
            let square = op.apply(Function::Multiply, &[x, x])?;
            let cube = op.apply(Function::Multiply, &[square, x])?;
            let factor = op.scalar(0.044715, dtype)?;
            let bend = op.apply(Function::Multiply, &[cube, factor])?;
            let sum = op.apply(Function::Add, &[x, bend])?;
            let scale = op.scalar((2.0 / std::f64::consts::PI).sqrt(), dtype)?;
            let inner = op.apply(Function::Multiply, &[sum, scale])?;
            op.apply(Function::Tanh, &[inner])?
        }
        other => return Err(op.node.attribute_error("approximate", "none or tanh", format!("is {other:?}"))),
    };
    let sum = op.apply(Function::Add, &[curve, one])?;
    let product = op.apply(Function::Multiply, &[x, sum])?;
    Ok(vec![op.apply(Function::Multiply, &[product, half])?])
}

/// ln(1 + eˣ), as max(x, 0) + ln(1 + e^-|x|), which does not overflow.
fn softplus_of(op: &mut OpImport<'_, '_, '_>, x: Handle, zero: Handle) -> Result<Handle, ImportError> {
    let size = op.apply(Function::Abs, &[x])?;
    let negated = op.apply(Function::Negate, &[size])?;
    let small = op.apply(Function::Exp, &[negated])?;
    let rest = op.apply(Function::Log1p, &[small])?;
    let above = op.apply(Function::Max, &[x, zero])?;
    op.apply(Function::Add, &[above, rest])
}

/// ln(1 + eˣ)
pub(super) fn softplus(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, _) = unary(op)?;
    Ok(vec![softplus_of(op, x, zero)?])
}

/// x · tanh(ln(1 + eˣ))
pub(super) fn mish(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, _) = unary(op)?;
    let soft = softplus_of(op, x, zero)?;
    let gate = op.apply(Function::Tanh, &[soft])?;
    Ok(vec![op.apply(Function::Multiply, &[x, gate])?])
}

/// x / (1 + |x|)
pub(super) fn softsign(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, _, dtype) = unary(op)?;
    let one = op.scalar(1.0, dtype)?;
    let size = op.apply(Function::Abs, &[x])?;
    let divisor = op.apply(Function::Add, &[size, one])?;
    Ok(vec![op.apply(Function::Divide, &[x, divisor])?])
}

/// x above alpha stays; all else, NaN included, becomes 0.
pub(super) fn thresholded_relu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let alpha = parameter(op, "alpha", 1.0, dtype)?;
    let above = op.apply(Function::Greater, &[x, alpha])?;
    Ok(vec![op.apply(Function::Select, &[above, x, zero])?])
}

/// x below -lambd plus bias, above lambd minus bias, between: 0.
pub(super) fn shrink(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, zero, dtype) = unary(op)?;
    let limit = op.node.float_or("lambd", 0.5)?;
    let bias = parameter(op, "bias", 0.0, dtype)?;
    let (low, high) = (op.scalar(f64::from(-limit), dtype)?, op.scalar(f64::from(limit), dtype)?);
    let below = op.apply(Function::Less, &[x, low])?;
    let above = op.apply(Function::Greater, &[x, high])?;
    let (raised, lowered) = (op.apply(Function::Add, &[x, bias])?, op.apply(Function::Subtract, &[x, bias])?);
    let rest = op.apply(Function::Select, &[above, lowered, zero])?;
    Ok(vec![op.apply(Function::Select, &[below, raised, rest])?])
}

/// x · sigmoid(alpha·x)
pub(super) fn swish(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let (x, _, dtype) = unary(op)?;
    let alpha = op.node.float_or("alpha", 1.0)?;
    Ok(vec![swish_of(op, x, alpha, dtype)?])
}

fn swish_of(op: &mut OpImport<'_, '_, '_>, x: Handle, alpha: f32, dtype: DType) -> Result<Handle, ImportError> {
    let mut inner = x;
    if alpha != 1.0 {
        let alpha = op.scalar(f64::from(alpha), dtype)?;
        inner = op.apply(Function::Multiply, &[x, alpha])?;
    }
    let gate = op.apply(Function::Sigmoid, &[inner])?;
    op.apply(Function::Multiply, &[x, gate])
}

/// A · sigmoid(alpha·A) · B
pub(super) fn swiglu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (a, b) = (op.input(0)?, op.input(1)?);
    let alpha = op.node.float_or("alpha", 1.0)?;
    let gate = swish_of(op, a, alpha, op.dtype(a))?;
    Ok(vec![op.apply(Function::Multiply, &[gate, b])?])
}
