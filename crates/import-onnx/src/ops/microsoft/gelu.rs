//! Gelu, BiasGelu, FastGelu, QuickGelu. f16 and bf16 compute in f32 and round once.

use tenon_graph_dialect::operators::Function;

use super::{wide, wide_sum};
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// The input, and a bias along its last dimension, as one wide value.
fn biased(op: &mut OpImport<'_, '_, '_>) -> Result<Handle, ImportError> {
    let x = op.input(0)?;
    let Some(bias) = op.optional(1)? else { return wide_sum(op, &[x]) };
    if op.rank(bias) != 1 || op.rank(x) == 0 {
        return Err(op.invalid(format!("the bias {} must be a list", op.ty(bias))));
    }
    let sum = wide_sum(op, &[x, bias])?;
    if op.extents(sum) != op.extents(x) {
        return Err(op.invalid(format!("the bias {} does not fit {}", op.ty(bias), op.ty(x))));
    }
    Ok(sum)
}

/// x/2 · (1 + curve), rounded to the input's type.
fn gate(op: &mut OpImport<'_, '_, '_>, x: Handle, curve: Handle) -> Outputs {
    let dtype = op.dtype(x);
    let (half, one) = (op.scalar(0.5, dtype)?, op.scalar(1.0, dtype)?);
    let scaled = op.apply(Function::Multiply, &[x, half])?;
    let sum = op.apply(Function::Add, &[curve, one])?;
    let product = op.apply(Function::Multiply, &[scaled, sum])?;
    let dtype = op.dtype(op.input(0)?);
    Ok(vec![op.cast(product, dtype)?])
}

/// x/2 · (1 + erf(x/√2)), of the input or of its sum with a bias.
pub(in crate::ops) fn gelu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(if op.node.op_type() == "Gelu" { 1..=1 } else { 2..=2 })?;
    let x = biased(op)?;
    let factor = op.scalar(std::f64::consts::FRAC_1_SQRT_2, op.dtype(x))?;
    let ratio = op.apply(Function::Multiply, &[x, factor])?;
    let curve = op.apply(Function::Erf, &[ratio])?;
    gate(op, x, curve)
}

/// x/2 · (1 + tanh(0.797885·x + 0.035677·x³)), of the input or of its sum with a bias.
pub(in crate::ops) fn fast_gelu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=2)?;
    let x = biased(op)?;
    let dtype = op.dtype(x);
    let (linear, cubic) = (op.scalar(0.797_885, dtype)?, op.scalar(0.035_677, dtype)?);
    let square = op.apply(Function::Multiply, &[x, x])?;
    let bend = op.apply(Function::Multiply, &[cubic, square])?;
    let factor = op.apply(Function::Add, &[bend, linear])?;
    let inner = op.apply(Function::Multiply, &[x, factor])?;
    let curve = op.apply(Function::Tanh, &[inner])?;
    gate(op, x, curve)
}

/// x · sigmoid(alpha·x).
pub(in crate::ops) fn quick_gelu(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let dtype = op.dtype(x);
    let alpha = op.node.float_or("alpha", 1.702)?;
    let x = op.cast(x, wide(dtype))?;
    let alpha = op.scalar(f64::from(alpha), op.dtype(x))?;
    let scaled = op.apply(Function::Multiply, &[x, alpha])?;
    let gate = op.apply(Function::Sigmoid, &[scaled])?;
    let product = op.apply(Function::Multiply, &[x, gate])?;
    Ok(vec![op.cast(product, dtype)?])
}
