//! One step of the optimisers of `ai.onnx.preview.training`: Adagrad, Adam, Momentum. Functions of their inputs, element by element.
//!
//! Inputs: the learning rate, the number of steps before, and then for each kind of state all of its tensors. Outputs: the tensors and their
//! states after the step, in the same order.

use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// What a step has besides the tensors.
struct Step {
    rate: Handle,
    /// Steps before this one, as a number of the tensors' type.
    count: Handle,
    /// Whether there were steps before this one.
    later: Handle,
}

/// Applies `update` to each tensor with its gradient and states; `kinds` counts tensor, gradient and states.
fn each(
    op: &mut OpImport<'_, '_, '_>,
    kinds: usize,
    update: impl Fn(&mut OpImport<'_, '_, '_>, &Step, &[Handle]) -> Outputs,
) -> Outputs {
    let inputs = op.inputs()?;
    if inputs.len() < 2 + kinds || !(inputs.len() - 2).is_multiple_of(kinds) {
        return Err(op.invalid(format!("{} inputs are no rate, count and {kinds} of every tensor", inputs.len())));
    }
    let tensors = (inputs.len() - 2) / kinds;
    let mut outputs = vec![Vec::new(); kinds - 1];
    for index in 0..tensors {
        let operands: Vec<Handle> = (0..kinds).map(|kind| inputs[2 + kind * tensors + index]).collect();
        let dtype = op.dtype(operands[0]);
        if !dtype.is_float() {
            return Err(op.invalid(format!("a tensor of {dtype} takes no step")));
        }
        let (rate, count) = (op.as_scalar(inputs[0])?, op.as_scalar(inputs[1])?);
        let zero = op.scalar(0.0, op.dtype(count))?;
        let later = op.apply(Function::Greater, &[count, zero])?;
        let step = Step { rate: op.cast(rate, dtype)?, count: op.cast(count, dtype)?, later };
        for (list, result) in outputs.iter_mut().zip(update(op, &step, &operands)?) {
            list.push(result);
        }
    }
    Ok(outputs.concat())
}

/// `factor` · x + y
fn scale_add(op: &mut OpImport<'_, '_, '_>, factor: f64, x: Handle, y: Handle) -> Result<Handle, ImportError> {
    let factor = op.scalar(factor, op.dtype(x))?;
    let product = op.apply(Function::Multiply, &[factor, x])?;
    op.apply(Function::Add, &[product, y])
}

/// √x + `epsilon`
fn root(op: &mut OpImport<'_, '_, '_>, x: Handle, epsilon: f64) -> Result<Handle, ImportError> {
    let root = op.apply(Function::Sqrt, &[x])?;
    let epsilon = op.scalar(epsilon, op.dtype(x))?;
    op.apply(Function::Add, &[root, epsilon])
}

/// Adagrad: x - rate / (1 + count · decay) · g / (√h + ε), where h gathers g².
pub(super) fn adagrad(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let decay = f64::from(op.node.float_or("decay_factor", 0.0)?);
    let epsilon = f64::from(op.node.float_or("epsilon", 0.0)?);
    let norm = f64::from(op.node.float_or("norm_coefficient", 0.0)?);
    each(op, 3, |op, step, operands| {
        let [x, g, h] = operands else { return Err(op.invalid("a tensor lacks its state")) };
        let one = op.scalar(1.0, op.dtype(*x))?;
        let slowed = scale_add(op, decay, step.count, one)?;
        let rate = op.apply(Function::Divide, &[step.rate, slowed])?;
        let g = scale_add(op, norm, *x, *g)?;
        let square = op.apply(Function::Multiply, &[g, g])?;
        let h = op.apply(Function::Add, &[*h, square])?;
        let divisor = root(op, h, epsilon)?;
        let change = op.apply(Function::Multiply, &[rate, g])?;
        let change = op.apply(Function::Divide, &[change, divisor])?;
        Ok(vec![op.apply(Function::Subtract, &[*x, change])?, h])
    })
}

/// Adam: x - rate · v / (√h + ε) with means of g and g² that are corrected for their beginning.
pub(super) fn adam(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let alpha = f64::from(op.node.float_or("alpha", 0.9)?);
    let beta = f64::from(op.node.float_or("beta", 0.999)?);
    let epsilon = f64::from(op.node.float_or("epsilon", 0.0)?);
    let norm = f64::from(op.node.float_or("norm_coefficient", 0.0)?);
    let norm_after = f64::from(op.node.float_or("norm_coefficient_post", 0.0)?);
    for (name, share) in [("alpha", alpha), ("beta", beta)] {
        if !(0.0..=1.0).contains(&share) {
            return Err(op.node.attribute_error(name, "between 0 and 1", format!("is {share}")));
        }
    }
    each(op, 4, |op, step, operands| {
        let [x, g, v, h] = operands else { return Err(op.invalid("a tensor lacks its states")) };
        let dtype = op.dtype(*x);
        let g = scale_add(op, norm, *x, *g)?;
        let mean = |op: &mut OpImport<'_, '_, '_>, factor: f64, state: Handle, new: Handle| {
            let share = op.scalar(1.0 - factor, dtype)?;
            let new = op.apply(Function::Multiply, &[share, new])?;
            scale_add(op, factor, state, new)
        };
        let v = mean(op, alpha, *v, g)?;
        let square = op.apply(Function::Multiply, &[g, g])?;
        let h = mean(op, beta, *h, square)?;
        let divisor = root(op, h, epsilon)?;

        // The factor √(1 - βᵗ) / (1 - αᵗ), in f64: both powers are near 1.
        let count = op.cast(step.count, DType::F64)?;
        let one = op.scalar(1.0, DType::F64)?;
        let rest = |op: &mut OpImport<'_, '_, '_>, factor: f64| {
            let logarithm = op.scalar(factor.ln(), DType::F64)?;
            let exponent = op.apply(Function::Multiply, &[logarithm, count])?;
            let power = op.apply(Function::Exp, &[exponent])?;
            op.apply(Function::Subtract, &[one, power])
        };
        let upper = rest(op, beta)?;
        let upper = op.apply(Function::Sqrt, &[upper])?;
        let lower = rest(op, alpha)?;
        let correction = op.apply(Function::Divide, &[upper, lower])?;
        let correction = op.apply(Function::Select, &[step.later, correction, one])?;
        let correction = op.cast(correction, dtype)?;
        let rate = op.apply(Function::Multiply, &[step.rate, correction])?;

        let change = op.apply(Function::Divide, &[v, divisor])?;
        let change = op.apply(Function::Multiply, &[rate, change])?;
        let x = op.apply(Function::Subtract, &[*x, change])?;
        let share = op.scalar(1.0 - norm_after, dtype)?;
        Ok(vec![op.apply(Function::Multiply, &[share, x])?, v, h])
    })
}

/// Momentum, plain or after Nesterov: v = α·v + β·g (at the first step: + g), x - rate · v or x - rate · (g + α·v).
pub(super) fn momentum(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let required = |name: &str| op.node.required(name, op.node.float(name)?).map(f64::from);
    let (alpha, beta, norm) = (required("alpha")?, required("beta")?, required("norm_coefficient")?);
    let nesterov = match op.node.required("mode", op.node.string("mode")?)? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(op.node.attribute_error("mode", "standard or nesterov", format!("is {other:?}"))),
    };
    each(op, 3, |op, step, operands| {
        let [x, g, v] = operands else { return Err(op.invalid("a tensor lacks its state")) };
        let dtype = op.dtype(*x);
        let g = scale_add(op, norm, *x, *g)?;
        let (beta, one) = (op.scalar(beta, dtype)?, op.scalar(1.0, dtype)?);
        let share = op.apply(Function::Select, &[step.later, beta, one])?;
        let new = op.apply(Function::Multiply, &[share, g])?;
        let v = scale_add(op, alpha, *v, new)?;
        let change = if nesterov { scale_add(op, alpha, v, g)? } else { v };
        let change = op.apply(Function::Multiply, &[step.rate, change])?;
        Ok(vec![op.apply(Function::Subtract, &[*x, change])?, v])
    })
}
