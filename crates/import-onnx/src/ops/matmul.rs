//! MatMul and Gemm as contractions.
//!
//! A batch dimension of 1 that broadcasts is dropped by a reshape; its label is then absent from the operand.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Contract, Function};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs, accumulator};

/// Letters for batch dimensions; k, m and n are the matrix dimensions.
const BATCH: &str = "abcdefghijlopqrstuvwxyz";

/// A matrix product as NumPy's `matmul` defines it for all ranks; the result has the type `dtype`.
pub(super) fn product(
    op: &mut OpImport<'_, '_, '_>,
    lhs: Handle,
    rhs: Handle,
    dtype: DType,
) -> Result<Handle, ImportError> {
    let (left_rank, right_rank) = (op.rank(lhs), op.rank(rhs));
    if left_rank == 0 || right_rank == 0 {
        return Err(op.invalid("a scalar has no matrix product"));
    }
    let batch = left_rank.max(right_rank).max(2) - 2;
    if batch > BATCH.len() {
        return Err(op.unsupported(format!("a matrix product of rank {}", batch + 2)));
    }
    let letters: Vec<char> = BATCH.chars().take(batch).collect();
    let (mut left_labels, mut right_labels) = (String::new(), String::new());
    let (mut left_shape, mut right_shape) = (Vec::new(), Vec::new());
    let mut result: String = letters.iter().collect();
    for (index, letter) in letters.iter().enumerate() {
        let dim = |handle: Handle, rank: usize| {
            (index + rank).checked_sub(batch + 2).map(|axis| op.dim(handle, axis).clone())
        };
        let (left, right) = (dim(lhs, left_rank), dim(rhs, right_rank));
        let stretches = |own: &tenon_graph_dialect::Dim, other: &Option<tenon_graph_dialect::Dim>| {
            own.is_one() && other.as_ref().is_some_and(|other| !other.is_one())
        };
        if let Some(own) = left.as_ref().filter(|own| !stretches(own, &right)) {
            left_labels.push(*letter);
            left_shape.push(own.extent.clone());
        }
        if let Some(own) = right.as_ref().filter(|own| !stretches(own, &left)) {
            right_labels.push(*letter);
            right_shape.push(own.extent.clone());
        }
    }
    let keep_matrix = |handle: Handle, rank: usize, shape: &mut Vec<DimExpr>| {
        let dims = &op.ty(handle).dims;
        shape.extend(dims[rank.saturating_sub(2)..].iter().map(|dim| dim.extent.clone()));
    };
    keep_matrix(lhs, left_rank, &mut left_shape);
    keep_matrix(rhs, right_rank, &mut right_shape);
    if left_rank > 1 {
        left_labels.push('m');
        result.push('m');
    }
    left_labels.push('k');
    right_labels.push('k');
    if right_rank > 1 {
        right_labels.push('n');
        result.push('n');
    }
    let lhs = op.reshape(lhs, left_shape)?;
    let rhs = op.reshape(rhs, right_shape)?;
    let accumulate = accumulator(op.dtype(lhs));
    op.emit(Contract { lhs: left_labels, rhs: right_labels, result, accumulate, dtype }, &[lhs, rhs])
}

/// MatMul of any ranks, with broadcasting of batch dimensions.
pub(super) fn matmul(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (lhs, rhs) = (op.input(0)?, op.input(1)?);
    let dtype = op.dtype(lhs);
    Ok(vec![product(op, lhs, rhs, dtype)?])
}

/// Gemm: alpha·A·B + beta·C, A and B transposed on request; C broadcasts and may be absent since version 11.
pub(super) fn gemm(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(if op.since < 11 { 3..=3 } else { 2..=3 })?;
    let (lhs, rhs) = (op.input(0)?, op.input(1)?);
    let alpha = op.node.float_or("alpha", 1.0)?;
    let beta = op.node.float_or("beta", 1.0)?;
    let labels =
        |transposed: bool, plain: &str, swapped: &str| if transposed { swapped.to_owned() } else { plain.to_owned() };
    let left = labels(op.node.flag_or("transA", false)?, "mk", "km");
    let right = labels(op.node.flag_or("transB", false)?, "kn", "nk");
    let dtype = op.dtype(lhs);
    let accumulate = accumulator(dtype);
    let contract = Contract { lhs: left, rhs: right, result: "mn".to_owned(), accumulate, dtype };
    let mut result = op.emit(contract, &[lhs, rhs])?;
    result = scale(op, result, alpha, "alpha")?;
    if let Some(bias) = op.optional(2)? {
        let bias = scale(op, bias, beta, "beta")?;
        let sum = op.apply(Function::Add, &[result, bias])?;
        if op.rank(sum) != 2 {
            return Err(op.invalid(format!("C, {}, does not broadcast to a matrix", op.ty(bias))));
        }
        result = sum;
    }
    Ok(vec![result])
}

fn scale(op: &mut OpImport<'_, '_, '_>, value: Handle, factor: f32, name: &str) -> Result<Handle, ImportError> {
    if factor == 1.0 {
        return Ok(value);
    }
    let dtype = op.dtype(value);
    if !dtype.is_float() && factor.fract() != 0.0 {
        return Err(op.unsupported(format!("`{name}` = {factor} for elements of type {dtype}")));
    }
    let factor = op.scalar(f64::from(factor), dtype)?;
    op.apply(Function::Multiply, &[value, factor])
}
