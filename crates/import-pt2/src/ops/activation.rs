//! Activations. What torch computes in one kernel is computed here in f32 for f16 and bf16, and rounded once.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::{Function, Softmax};
use tenon_tensor::DType;

use super::promotion::wide;
use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// The operand in the type that it is computed in, and the type of the result.
fn begin(op: &mut OpImport<'_, '_, '_>) -> Result<(Handle, DType, DType), OpError> {
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    let compute = wide(dtype);
    Ok((op.cast(x, compute)?, compute, dtype))
}

pub(super) fn relu(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let zero = op.scalar(0.0, op.element(x))?;
    one(op.apply(Function::Max, &[x, zero])?)
}

fn between(op: &mut OpImport<'_, '_, '_>, x: Handle, low: f64, high: f64) -> Result<Handle, OpError> {
    let dtype = op.element(x);
    let (low, high) = (op.scalar(low, dtype)?, op.scalar(high, dtype)?);
    let above = op.apply(Function::Max, &[x, low])?;
    Ok(op.apply(Function::Min, &[above, high])?)
}

/// Clamping to `min_val` and `max_val`, or 0 and 6.
pub(super) fn hardtanh(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let (low, high) = match op.name {
        "relu6" => (0.0, 6.0),
        _ => (op.float("min_val")?, op.float("max_val")?),
    };
    one(between(op, x, low, high)?)
}

/// min(max(x + 3, 0), 6) / 6, for hardswish times x.
pub(super) fn hard(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, compute, dtype) = begin(op)?;
    let (three, sixth) = (op.scalar(3.0, compute)?, op.scalar(6.0, compute)?);
    let shifted = op.apply(Function::Add, &[x, three])?;
    let gate = between(op, shifted, 0.0, 6.0)?;
    let product = if op.name == "hardswish" { op.apply(Function::Multiply, &[x, gate])? } else { gate };
    let result = op.apply(Function::Divide, &[product, sixth])?;
    one(op.cast(result, dtype)?)
}

/// x · sigmoid(x)
pub(super) fn silu(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, _, dtype) = begin(op)?;
    let gate = op.apply(Function::Sigmoid, &[x])?;
    let result = op.apply(Function::Multiply, &[x, gate])?;
    one(op.cast(result, dtype)?)
}

/// x/2 · (1 + erf(x/√2)), or its approximation by tanh.
pub(super) fn gelu(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, compute, dtype) = begin(op)?;
    let (half, unit) = (op.scalar(0.5, compute)?, op.scalar(1.0, compute)?);
    let curve = match op.text("approximate")?.as_str() {
        "none" => {
            let scale = op.scalar(std::f64::consts::FRAC_1_SQRT_2, compute)?;
            let scaled = op.apply(Function::Multiply, &[x, scale])?;
            op.apply(Function::Erf, &[scaled])?
        }
        "tanh" => {
            let scale = op.scalar((2.0 / std::f64::consts::PI).sqrt(), compute)?;
            let cubic = op.scalar(0.044_715, compute)?;
            let square = op.apply(Function::Multiply, &[x, x])?;
            let cube = op.apply(Function::Multiply, &[square, x])?;
            let bent = op.apply(Function::Multiply, &[cubic, cube])?;
            let inner = op.apply(Function::Add, &[x, bent])?;
            let inner = op.apply(Function::Multiply, &[scale, inner])?;
            op.apply(Function::Tanh, &[inner])?
        }
        other => return Err(op.invalid(format!("`approximate` is {other:?}"))),
    };
    let gate = op.apply(Function::Add, &[unit, curve])?;
    let product = op.apply(Function::Multiply, &[x, gate])?;
    let result = op.apply(Function::Multiply, &[half, product])?;
    one(op.cast(result, dtype)?)
}

/// Below 0 another curve: ELU, SELU, CELU and LeakyReLU.
pub(super) fn bent(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, compute, dtype) = begin(op)?;
    let zero = op.scalar(0.0, compute)?;
    // scale · x above 0, factor · (e^(rate · x) - 1) below; LeakyReLU is a line.
    let (factor, scale, rate) = match op.name {
        "elu" => {
            let (alpha, scale) = (op.float("alpha")?, op.float("scale")?);
            (alpha * scale, scale, op.float("input_scale")?)
        }
        "selu" => (1.673_263_242_354_377_2 * 1.050_700_987_355_480_5, 1.050_700_987_355_480_5, 1.0),
        "celu" => {
            let alpha = op.float("alpha")?;
            (alpha, 1.0, 1.0 / alpha)
        }
        _ => {
            let slope = op.float("negative_slope")?;
            let slope = op.scalar(slope, compute)?;
            let line = op.apply(Function::Multiply, &[x, slope])?;
            let above = op.apply(Function::Greater, &[x, zero])?;
            let result = op.apply(Function::Select, &[above, x, line])?;
            return one(op.cast(result, dtype)?);
        }
    };
    let times = |op: &mut OpImport<'_, '_, '_>, x: Handle, factor: f64| -> Result<Handle, OpError> {
        if factor == 1.0 {
            return Ok(x);
        }
        let factor = op.scalar(factor, compute)?;
        Ok(op.apply(Function::Multiply, &[x, factor])?)
    };
    let inner = times(op, x, rate)?;
    let curve = op.apply(Function::Expm1, &[inner])?;
    let below = times(op, curve, factor)?;
    let straight = times(op, x, scale)?;
    let negative = op.apply(Function::LessEqual, &[x, zero])?;
    let result = op.apply(Function::Select, &[negative, below, straight])?;
    one(op.cast(result, dtype)?)
}

/// A slope for negative elements, one or one a channel.
pub(super) fn prelu(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let weight = op.tensor("weight")?;
    let rank = op.rank(x);
    let mut shape = op.extents(weight);
    if shape.len() == 1 && rank > 1 {
        shape.resize(rank - 1, 1.into());
    } else if shape.len() == 1 {
        shape.truncate(rank);
    }
    let weight = op.reshape(weight, shape)?;
    let zero = op.scalar(0.0, op.element(x))?;
    let scaled = op.apply(Function::Multiply, &[weight, x])?;
    let above = op.apply(Function::Greater, &[x, zero])?;
    one(op.apply(Function::Select, &[above, x, scaled])?)
}

/// ln(1 + e^(beta·x)) / beta, x itself where beta·x is above the threshold.
pub(super) fn softplus(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, compute, dtype) = begin(op)?;
    let (beta, threshold) = (op.float("beta")?, op.float("threshold")?);
    let (beta, threshold) = (op.scalar(beta, compute)?, op.scalar(threshold, compute)?);
    let scaled = op.apply(Function::Multiply, &[x, beta])?;
    let curve = op.apply(Function::Exp, &[scaled])?;
    let curve = op.apply(Function::Log1p, &[curve])?;
    let curve = op.apply(Function::Divide, &[curve, beta])?;
    let high = op.apply(Function::Greater, &[scaled, threshold])?;
    let result = op.apply(Function::Select, &[high, x, curve])?;
    one(op.cast(result, dtype)?)
}

/// ln(1 + eˣ) without overflow: max(x, 0) + ln(1 + e^-|x|)
fn log_one_plus_exp(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<Handle, OpError> {
    let zero = op.scalar(0.0, op.element(x))?;
    let size = op.apply(Function::Abs, &[x])?;
    let falling = op.apply(Function::Negate, &[size])?;
    let small = op.apply(Function::Exp, &[falling])?;
    let small = op.apply(Function::Log1p, &[small])?;
    let above = op.apply(Function::Max, &[x, zero])?;
    Ok(op.apply(Function::Add, &[above, small])?)
}

/// x · tanh(ln(1 + eˣ)), and -ln(1 + e⁻ˣ).
pub(super) fn by_softplus(op: &mut OpImport<'_, '_, '_>) -> Results {
    let (x, _, dtype) = begin(op)?;
    let result = if op.name == "mish" {
        let curve = log_one_plus_exp(op, x)?;
        let gate = op.apply(Function::Tanh, &[curve])?;
        op.apply(Function::Multiply, &[x, gate])?
    } else {
        let negative = op.apply(Function::Negate, &[x])?;
        let curve = log_one_plus_exp(op, negative)?;
        op.apply(Function::Negate, &[curve])?
    };
    one(op.cast(result, dtype)?)
}

/// The first half of a dimension times the sigmoid of the second.
pub(super) fn glu(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let axis = op.axis_argument("dim", op.rank(x))?;
    let size = op.at(x, axis).extent.clone();
    let half = size.div_exact(&2.into()).ok_or_else(|| op.invalid(format!("{} does not divide in two", op.ty(x))))?;
    let first = op.slice(x, axis, 0.into(), half.clone())?;
    let second = op.slice(x, axis, half.clone(), half)?;
    let dtype = op.element(x);
    let compute = wide(dtype);
    let (first, second) = (op.cast(first, compute)?, op.cast(second, compute)?);
    let gate = op.apply(Function::Sigmoid, &[second])?;
    let result = op.apply(Function::Multiply, &[first, gate])?;
    one(op.cast(result, dtype)?)
}

/// Elements near 0 become 0; softshrink draws the others nearer, threshold keeps what is above it.
pub(super) fn shrink(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    if op.name == "threshold" {
        let (threshold, value) = (op.float("threshold")?, op.float("value")?);
        let (threshold, value) = (op.scalar(threshold, dtype)?, op.scalar(value, dtype)?);
        let below = op.apply(Function::LessEqual, &[x, threshold])?;
        return one(op.apply(Function::Select, &[below, value, x])?);
    }
    let bound = op.float("lambd")?;
    let (high, low, zero) = (op.scalar(bound, dtype)?, op.scalar(-bound, dtype)?, op.scalar(0.0, dtype)?);
    let (mut above, mut below) = (x, x);
    if op.name == "softshrink" {
        above = op.apply(Function::Subtract, &[x, high])?;
        below = op.apply(Function::Add, &[x, high])?;
    }
    let is_above = op.apply(Function::Greater, &[x, high])?;
    let is_below = op.apply(Function::Less, &[x, low])?;
    let inner = op.apply(Function::Select, &[is_below, below, zero])?;
    one(op.apply(Function::Select, &[is_above, above, inner])?)
}

/// Softmax and its logarithm along a dimension; of `dtype` where that is given.
pub(super) fn softmax(op: &mut OpImport<'_, '_, '_>) -> Results {
    let mut x = op.tensor("self")?;
    if op.has("dtype")
        && let Some(dtype) = op.dtype("dtype")?
    {
        x = op.cast(x, dtype)?;
    }
    if op.has("half_to_float") && op.flag("half_to_float")? {
        x = op.cast(x, DType::F32)?;
    }
    if op.rank(x) == 0 {
        let value = if op.name.contains("log") { 0.0 } else { 1.0 };
        return one(op.scalar(value, op.element(x))?);
    }
    let axis = op.axis_argument("dim", op.rank(x))? as i64;
    let log = op.name.contains("log");
    one(op.emit_one(Softmax { axis, log }, &[x])?)
}
