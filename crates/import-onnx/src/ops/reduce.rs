//! The Reduce operators.
//!
//! Axes are an attribute, and since version 18 (ReduceSum: 13) an input. Absent and empty axes mean all, or with `noop_with_empty_axes`
//! none; the function of the elements (square, logarithm, …) applies even then.

use tenon_graph_dialect::operators::{Function, ReduceKind};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

fn axes(op: &OpImport<'_, '_, '_>, rank: usize) -> Result<Vec<usize>, ImportError> {
    let as_input = op.since >= if op.node.op_type() == "ReduceSum" { 13 } else { 18 };
    op.takes(1..=if as_input { 2 } else { 1 })?;
    let (axes, keeps_all) = if as_input {
        let keeps_all = op.node.flag_or("noop_with_empty_axes", false)?;
        let axes = match op.optional(1)? {
            Some(_) => op.known_ints(1, "the number of dimensions")?,
            None => Vec::new(),
        };
        (axes, keeps_all)
    } else {
        (op.node.ints("axes")?.unwrap_or_default().to_vec(), false)
    };
    match (axes.is_empty(), keeps_all) {
        (true, true) => Ok(Vec::new()),
        (true, false) => Ok((0..rank).collect()),
        (false, _) => op.axes(&axes, rank),
    }
}

/// Every Reduce operator.
pub(super) fn reduce(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let x = op.input(0)?;
    let axes = axes(op, op.rank(x))?;
    let keep = op.node.flag_or("keepdims", true)?;
    let dtype = op.dtype(x);
    let kind = match op.node.op_type() {
        "ReduceSum" => ReduceKind::Sum,
        "ReduceMean" => ReduceKind::Mean,
        "ReduceMax" => ReduceKind::Max,
        "ReduceMin" => ReduceKind::Min,
        "ReduceProd" => ReduceKind::Product,
        _ => {
            // Squares and exponentials of narrow floats overflow before the root or logarithm brings them back.
            let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
            let x = op.cast(x, wide)?;
            let result = composite(op, x, &axes, keep)?;
            return Ok(vec![op.cast(result, dtype)?]);
        }
    };
    Ok(vec![op.reduce(kind, x, &axes, keep)?])
}

/// ReduceL1, L2, SumSquare, LogSum, LogSumExp.
fn composite(op: &mut OpImport<'_, '_, '_>, x: Handle, axes: &[usize], keep: bool) -> Result<Handle, ImportError> {
    let name = op.node.op_type().to_owned();
    match name.as_str() {
        "ReduceL1" => {
            let sizes = op.apply(Function::Abs, &[x])?;
            op.reduce(ReduceKind::Sum, sizes, axes, keep)
        }
        "ReduceL2" | "ReduceSumSquare" => {
            let squares = op.apply(Function::Multiply, &[x, x])?;
            let sum = op.reduce(ReduceKind::Sum, squares, axes, keep)?;
            if name == "ReduceSumSquare" { Ok(sum) } else { float_function(op, Function::Sqrt, sum) }
        }
        "ReduceLogSum" => {
            let sum = op.reduce(ReduceKind::Sum, x, axes, keep)?;
            float_function(op, Function::Log, sum)
        }
        "ReduceLogSumExp" => log_sum_exp(op, x, axes, keep),
        other => Err(op.unsupported(format!("the reduction {other}"))),
    }
}

/// A function of floats applied to numbers of any kind: integers go through f64.
fn float_function(op: &mut OpImport<'_, '_, '_>, function: Function, x: Handle) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    if dtype.is_float() {
        return op.apply(function, &[x]);
    }
    let wide = op.cast(x, DType::F64)?;
    let result = op.apply(function, &[wide])?;
    op.cast(result, dtype)
}

/// ln Σ eˣ, with the largest element subtracted first where it is finite.
fn log_sum_exp(op: &mut OpImport<'_, '_, '_>, x: Handle, axes: &[usize], keep: bool) -> Result<Handle, ImportError> {
    let dtype = op.dtype(x);
    if !dtype.is_float() {
        let wide = op.cast(x, DType::F64)?;
        let result = log_sum_exp(op, wide, axes, keep)?;
        return op.cast(result, dtype);
    }
    if axes.is_empty() {
        return Ok(x);
    }
    let largest = op.reduce(ReduceKind::Max, x, axes, true)?;
    let infinite = op.apply(Function::IsInf, &[largest])?;
    let zero = op.scalar(0.0, dtype)?;
    let shift = op.apply(Function::Select, &[infinite, zero, largest])?;
    let shifted = op.apply(Function::Subtract, &[x, shift])?;
    let powers = op.apply(Function::Exp, &[shifted])?;
    let sum = op.reduce(ReduceKind::Sum, powers, axes, true)?;
    let logarithm = op.apply(Function::Log, &[sum])?;
    let result = op.apply(Function::Add, &[logarithm, shift])?;
    if keep {
        return Ok(result);
    }
    let kept = (0..op.rank(x)).filter(|axis| !axes.contains(axis));
    let shape = kept.map(|axis| op.dim(x, axis).extent.clone()).collect();
    op.reshape(result, shape)
}
