//! Reductions over dimensions, and running ones.

use tenon_graph_builder::{Handle, product};
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{ArgReduce, Function, ReduceKind, Scan, ScanKind};
use tenon_tensor::DType;

use super::promotion::{float_of, wide};
use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results, one};

/// The axes of the argument `dim`, all of them where it is left out or empty; and whether they are kept.
fn axes(op: &OpImport<'_, '_, '_>, x: Handle) -> Result<(Vec<usize>, bool), OpError> {
    let rank = op.rank(x);
    let keep = op.has("keepdim") && op.flag("keepdim")?;
    let given = match op.has("dim") && !op.is_none("dim") {
        true => op.ints("dim")?,
        false => Vec::new(),
    };
    if given.is_empty() || rank == 0 {
        return Ok(((0..rank).collect(), keep));
    }
    Ok((op.axes(&given, rank)?, keep))
}

/// Sums, products and means. Integers sum in i64.
pub(super) fn arithmetic(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let kind = match op.name {
        "mean" => ReduceKind::Mean,
        "prod" => ReduceKind::Product,
        _ => ReduceKind::Sum,
    };
    let own = op.element(x);
    let dtype = match op.dtype("dtype")? {
        Some(dtype) => dtype,
        None if own.is_float() => own,
        None if kind == ReduceKind::Mean => return Err(op.invalid("the mean of integers has no type")),
        None => DType::I64,
    };
    let (axes, keep) = axes(op, x)?;
    // Reductions of f16 and bf16 sum in f32 by themselves.
    let x = op.cast(x, dtype)?;
    one(op.reduce(kind, x, &axes, keep)?)
}

/// The largest or smallest; with a dimension, of max and min the first index too.
pub(super) fn extremum(op: &mut OpImport<'_, '_, '_>) -> Results {
    if op.has("other") {
        let dtype = op.result_type(&["self", "other"])?;
        let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
        return one(op.apply(if op.name == "max" { Function::Max } else { Function::Min }, &[x, y])?);
    }
    let x = op.tensor("self")?;
    let largest = op.name.contains("max");
    let kind = if largest { ReduceKind::Max } else { ReduceKind::Min };
    let (axes, keep) = axes(op, x)?;
    let values = op.reduce(kind, x, &axes, keep)?;
    if matches!(op.name, "amax" | "amin") || !op.has("dim") {
        return one(values);
    }
    let index = arg_reduce(op, x, axes.first().copied(), keep, !largest)?;
    Ok(vec![Out::New(values), Out::New(index)])
}

fn arg_reduce(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    axis: Option<usize>,
    keep: bool,
    minimum: bool,
) -> Result<Handle, OpError> {
    let rank = op.rank(x);
    let Some(axis) = axis.filter(|_| rank > 0) else { return Ok(op.symbolic(DType::I64, &[], vec![0.into()])) };
    Ok(op.emit_one(ArgReduce { minimum, axis: axis as i64, keep_dims: keep, last: false }, &[x])?)
}

/// The first index of the largest or smallest; over all elements where there is no dimension.
pub(super) fn arg_extremum(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let minimum = op.name == "argmin";
    let keep = op.flag("keepdim")?;
    if op.is_none("dim") {
        let shape = op.extents(x);
        let all = product(&shape).ok_or_else(|| op.unsupported("a number of elements this large"))?;
        let list = op.reshape(x, vec![all])?;
        let index = arg_reduce(op, list, Some(0), false, minimum)?;
        return match keep {
            true => one(op.reshape(index, vec![DimExpr::constant(1); shape.len()])?),
            false => one(index),
        };
    }
    let axis = op.axis_argument("dim", op.rank(x))?;
    one(arg_reduce(op, x, Some(axis), keep, minimum)?)
}

/// Whether one or all are not 0.
pub(super) fn truth(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let (axes, keep) = axes(op, x)?;
    let x = op.cast(x, DType::Bool)?;
    one(op.reduce(if op.name == "any" { ReduceKind::Any } else { ReduceKind::All }, x, &axes, keep)?)
}

/// How many are not 0.
pub(super) fn count(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let (axes, _) = axes(op, x)?;
    let x = op.cast(x, DType::Bool)?;
    let x = op.cast(x, DType::I64)?;
    one(op.reduce(ReduceKind::Sum, x, &axes, false)?)
}

/// Variance in the type that it is computed in, with its mean; both with the axes kept.
fn variance(op: &mut OpImport<'_, '_, '_>, x: Handle, axes: &[usize]) -> Result<(Handle, Handle), OpError> {
    let compute = op.element(x);
    let correction = match (op.has("correction"), op.has("unbiased")) {
        (true, _) => op.optional_float("correction")?.unwrap_or(1.0),
        (_, true) => f64::from(u8::from(op.flag("unbiased")?)),
        _ => 1.0,
    };
    let mean = op.reduce(ReduceKind::Mean, x, axes, true)?;
    let centred = op.apply(Function::Subtract, &[x, mean])?;
    let squares = op.apply(Function::Multiply, &[centred, centred])?;
    let sum = op.reduce(ReduceKind::Sum, squares, axes, true)?;
    let sizes: Vec<DimExpr> = axes.iter().map(|axis| op.at(x, *axis).extent.clone()).collect();
    let count = product(&sizes).ok_or_else(|| op.unsupported("a number of elements this large"))?;
    let divisor = match count.as_constant() {
        Some(count) => op.scalar((count as f64 - correction).max(0.0), compute)?,
        None => {
            let count = op.symbolic(DType::I64, &[], vec![count]);
            let count = op.cast(count, compute)?;
            let correction = op.scalar(correction, compute)?;
            op.apply(Function::Subtract, &[count, correction])?
        }
    };
    Ok((op.apply(Function::Divide, &[sum, divisor])?, mean))
}

/// var, std, and both with the mean.
pub(super) fn spread(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    let (axes, keep) = axes(op, x)?;
    let compute = wide(dtype);
    let x = op.cast(x, compute)?;
    let kept = op.extents(x);
    let (mut value, mean) = variance(op, x, &axes)?;
    if op.name.starts_with("std") {
        value = op.apply(Function::Sqrt, &[value])?;
    }
    let mut outs = Vec::new();
    for result in [value, mean].into_iter().take(if op.name.ends_with("_mean") { 2 } else { 1 }) {
        let mut result = op.cast(result, dtype)?;
        if !keep {
            let shape = kept
                .iter()
                .enumerate()
                .filter(|(axis, _)| !axes.contains(axis))
                .map(|(_, size)| size.clone())
                .collect();
            result = op.reshape(result, shape)?;
        }
        outs.push(Out::New(result));
    }
    Ok(outs)
}

/// ln Σ eˣ, shifted by the largest element.
pub(super) fn log_sum_exp(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = float_of(op.element(x));
    let compute = wide(dtype);
    let x = op.cast(x, compute)?;
    let (axes, keep) = axes(op, x)?;
    let largest = op.reduce(ReduceKind::Max, x, &axes, true)?;
    let infinite = op.apply(Function::IsInf, &[largest])?;
    let zero = op.scalar(0.0, compute)?;
    let shift = op.apply(Function::Select, &[infinite, zero, largest])?;
    let shifted = op.apply(Function::Subtract, &[x, shift])?;
    let terms = op.apply(Function::Exp, &[shifted])?;
    let sum = op.reduce(ReduceKind::Sum, terms, &axes, true)?;
    let logarithm = op.apply(Function::Log, &[sum])?;
    let mut result = op.apply(Function::Add, &[logarithm, shift])?;
    if !keep {
        let shape = op.extents(x);
        let shape =
            shape.into_iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| size).collect();
        result = op.reshape(result, shape)?;
    }
    one(op.cast(result, dtype)?)
}

/// Norms over dimensions, by their order.
pub(super) fn norm(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = op.dtype("dtype").ok().flatten().unwrap_or(op.element(x));
    let order = match op.has("ord") {
        true => op.float("ord")?,
        false => {
            if op.has("p") && !op.is_none("p") {
                op.float("p")?
            } else {
                2.0
            }
        }
    };
    let compute = wide(dtype);
    let x = op.cast(x, compute)?;
    let (axes, keep) = axes(op, x)?;
    let sizes = op.apply(Function::Abs, &[x])?;
    let result = if order == f64::INFINITY || order == f64::NEG_INFINITY {
        op.reduce(if order > 0.0 { ReduceKind::Max } else { ReduceKind::Min }, sizes, &axes, keep)?
    } else if order == 0.0 {
        let zero = op.scalar(0.0, compute)?;
        let there = op.apply(Function::NotEqual, &[x, zero])?;
        let there = op.cast(there, compute)?;
        op.reduce(ReduceKind::Sum, there, &axes, keep)?
    } else if order == 1.0 {
        op.reduce(ReduceKind::Sum, sizes, &axes, keep)?
    } else if order == 2.0 {
        let squares = op.apply(Function::Multiply, &[x, x])?;
        let sum = op.reduce(ReduceKind::Sum, squares, &axes, keep)?;
        op.apply(Function::Sqrt, &[sum])?
    } else {
        let (exponent, root) = (op.scalar(order, compute)?, op.scalar(1.0 / order, compute)?);
        let powers = op.apply(Function::Power, &[sizes, exponent])?;
        let sum = op.reduce(ReduceKind::Sum, powers, &axes, keep)?;
        op.apply(Function::Power, &[sum, root])?
    };
    one(op.cast(result, dtype)?)
}

/// Running sums, products and extrema along a dimension.
pub(super) fn running(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let kind = match op.name {
        "cumsum" => ScanKind::Sum,
        "cumprod" => ScanKind::Product,
        "cummax" => ScanKind::Max,
        _ => ScanKind::Min,
    };
    let own = op.element(x);
    let sums = matches!(kind, ScanKind::Sum | ScanKind::Product);
    let given = if op.has("dtype") { op.dtype("dtype")? } else { None };
    let dtype = given.unwrap_or(if own.is_float() || !sums { own } else { DType::I64 });
    let x = op.cast(x, dtype)?;
    let rank = op.rank(x);
    if rank == 0 {
        return one(x);
    }
    let axis = op.axis_argument("dim", rank)? as i64;
    one(op.emit_one(Scan { kind, axis, exclusive: false, reverse: false }, &[x])?)
}
