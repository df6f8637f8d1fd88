//! Functions between quantised tensors, computed in f32.

use tenon_graph_dialect::operators::{Concat, Dequantize, Function, Quantize, ReduceKind, Softmax};
use tenon_tensor::DType;

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// A scale or zero point as the dialect takes it: a list of one number is a scalar.
pub(super) fn parameter(op: &mut OpImport<'_, '_, '_>, index: usize) -> Result<Handle, ImportError> {
    let parameter = op.input(index)?;
    if op.dim_count(parameter) == Some(1) { op.as_scalar(parameter) } else { Ok(parameter) }
}

/// The real values of the quantised input `index`; scale and zero point are the two inputs after it.
fn dequantized(op: &mut OpImport<'_, '_, '_>, index: usize) -> Result<Handle, ImportError> {
    let x = op.input(index)?;
    let scale = parameter(op, index + 1)?;
    let dtype = op.dtype(x);
    let zero = zero_point(op, index + 2, dtype)?;
    if op.rank(scale) != 0 {
        return Err(op.unsupported("a scale for each channel"));
    }
    let dtype = op.dtype(scale);
    op.emit(Dequantize { dtype, axis: 0, block_size: 0 }, &[x, scale, zero])
}

/// A zero point, 0 where it is left out.
fn zero_point(op: &mut OpImport<'_, '_, '_>, index: usize, dtype: DType) -> Result<Handle, ImportError> {
    match op.optional(index)? {
        Some(zero) if op.dtype(zero) != dtype => {
            Err(op.invalid(format!("the zero point, {}, is not {dtype}", op.ty(zero))))
        }
        Some(_) => parameter(op, index),
        None => op.scalar(0.0, dtype),
    }
}

/// Real values quantised by the scale and zero point of inputs `at` and `at + 1`, in the type of input 0 or `of`.
fn quantized(op: &mut OpImport<'_, '_, '_>, real: Handle, at: usize, of: usize) -> Outputs {
    let dtype = op.dtype(op.input(of)?);
    let scale = parameter(op, at)?;
    let zero = zero_point(op, at + 1, dtype)?;
    Ok(vec![op.emit(Quantize { dtype, axis: 0, block_size: 0 }, &[real, scale, zero])?])
}

/// QLinearAdd and QLinearMul.
pub(in crate::ops) fn binary(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(7..=8)?;
    let function = if op.node.op_type() == "QLinearAdd" { Function::Add } else { Function::Multiply };
    let operands = [dequantized(op, 0)?, dequantized(op, 3)?];
    let result = op.apply(function, &operands)?;
    quantized(op, result, 6, 0)
}

/// QLinearSigmoid and QLinearLeakyRelu.
pub(in crate::ops) fn unary(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(4..=5)?;
    let x = dequantized(op, 0)?;
    let result = match op.node.op_type() {
        "QLinearSigmoid" => op.apply(Function::Sigmoid, &[x])?,
        _ => {
            let dtype = op.dtype(x);
            let alpha = op.scalar(f64::from(op.node.float_or("alpha", 0.01)?), dtype)?;
            let zero = op.scalar(0.0, dtype)?;
            let small = op.apply(Function::Multiply, &[x, alpha])?;
            let negative = op.apply(Function::Less, &[x, zero])?;
            op.apply(Function::Select, &[negative, small, x])?
        }
    };
    quantized(op, result, 3, 0)
}

/// QLinearSoftmax, along one axis, or before version 13 of ONNX's own operators along all from `axis` on.
pub(in crate::ops) fn softmax(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(5..=5)?;
    let x = dequantized(op, 0)?;
    let rank = op.rank_at_least(x, 1)?;
    let opset = op.node.required("opset", op.node.int("opset")?)?;
    let axis = op.axis(op.node.int_or("axis", -1)?, rank)?;
    if opset < 13 && axis + 1 != rank {
        return Err(op.unsupported("a softmax along several axes"));
    }
    let result = op.emit(Softmax { axis: axis as i64, log: false }, &[x])?;
    quantized(op, result, 3, 0)
}

/// QLinearGlobalAveragePool: over all dimensions but batch and channels.
pub(in crate::ops) fn global_average_pool(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(5..=5)?;
    let x = dequantized(op, 0)?;
    let rank = op.rank_at_least(x, 3)?;
    let channels_last = op.node.flag_or("channels_last", false)?;
    let axes: Vec<usize> = if channels_last { (1..rank - 1).collect() } else { (2..rank).collect() };
    let result = op.reduce(ReduceKind::Mean, x, &axes, true)?;
    quantized(op, result, 3, 0)
}

/// QLinearConcat: the result's scale and zero point come first, then three inputs for each part.
pub(in crate::ops) fn concat(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let count = op.node.inputs.len();
    if count < 5 || !(count - 2).is_multiple_of(3) {
        return Err(op.invalid(format!("{count} inputs are no scale, zero point and three of every part")));
    }
    let axis = op.node.required("axis", op.node.int("axis")?)?;
    let parts = (2..count).step_by(3).map(|index| dequantized(op, index)).collect::<Result<Vec<_>, _>>()?;
    let axis = op.axis(axis, op.rank(parts[0]))? as i64;
    let whole = op.emit(Concat { axis }, &parts)?;
    quantized(op, whole, 0, 2)
}
