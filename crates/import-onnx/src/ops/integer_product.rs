//! Products of quantised integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv. Sums are exact, in i32.

use tenon_graph_dialect::operators::{Convolution, Function, Quantize};
use tenon_tensor::DType;

use super::convolution::kernel_of;
use super::matmul::product;
use super::padding::Geometry;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// The value of input `index` less the zero point of input `zero`, in i32. A zero point that is a list goes along `axis`.
fn centred(op: &mut OpImport<'_, '_, '_>, index: usize, zero: usize, axis: usize) -> Result<Handle, ImportError> {
    let x = op.input(index)?;
    if op.dtype(x).bits() != 8 || !op.dtype(x).is_integer() {
        return Err(op.invalid(format!("input number {index} must be of 8-bit integers, not {}", op.dtype(x))));
    }
    let rank = op.rank(x);
    let x = op.cast(x, DType::I32)?;
    let Some(zero) = op.optional(zero)? else { return Ok(x) };
    let zero = op.cast(zero, DType::I32)?;
    let zero = match op.rank(zero) {
        1 if op.dim(zero, 0).is_one() => op.as_scalar(zero)?,
        1 if axis < rank => op.along_axis(zero, axis, rank)?,
        _ => zero,
    };
    op.apply(Function::Subtract, &[x, zero])
}

/// Scales of two factors multiplied, as a list along `axis` where one is a list.
fn scales(op: &mut OpImport<'_, '_, '_>, lists: [(usize, usize); 2], rank: usize) -> Result<Handle, ImportError> {
    let mut factors = Vec::with_capacity(2);
    for (index, axis) in lists {
        let scale = op.input(index)?;
        factors.push(match op.rank(scale) {
            1 if op.dim(scale, 0).is_one() => op.as_scalar(scale)?,
            1 if axis < rank => op.along_axis(scale, axis, rank)?,
            _ => scale,
        });
    }
    op.apply(Function::Multiply, &factors)
}

/// The sums as floats by `scale`, quantised by the scale and zero point of inputs `at` and `at + 1`.
fn requantize(op: &mut OpImport<'_, '_, '_>, sums: Handle, scale: Handle, at: usize) -> Outputs {
    let floats = op.cast(sums, op.dtype(scale))?;
    let real = op.apply(Function::Multiply, &[floats, scale])?;
    let (scale, zero) = (op.input(at)?, op.input(at + 1)?);
    let (scale, zero) = (op.as_scalar(scale)?, op.as_scalar(zero)?);
    let dtype = op.dtype(zero);
    Ok(vec![op.emit(Quantize { dtype, axis: 0, block_size: 0 }, &[real, scale, zero])?])
}

/// MatMulInteger.
pub(super) fn matmul_integer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let (rows, columns) = (op.rank(op.input(0)?), op.rank(op.input(1)?));
    let lhs = centred(op, 0, 2, rows.saturating_sub(2))?;
    let rhs = centred(op, 1, 3, columns.saturating_sub(1))?;
    Ok(vec![product(op, lhs, rhs, DType::I32)?])
}

/// QLinearMatMul. Source: ONNX QLinearMatMul: rows of A and columns of B may have scales of their own.
pub(super) fn qlinear_matmul(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(8..=8)?;
    let (rows, columns) = (op.rank(op.input(0)?), op.rank(op.input(3)?));
    let lhs = centred(op, 0, 2, rows.saturating_sub(2))?;
    let rhs = centred(op, 3, 5, columns.saturating_sub(1))?;
    let sums = product(op, lhs, rhs, DType::I32)?;
    let rank = op.rank(sums);
    let scale = scales(op, [(1, rank.saturating_sub(2)), (4, rank.saturating_sub(1))], rank)?;
    requantize(op, sums, scale, 6)
}

fn convolve(op: &mut OpImport<'_, '_, '_>, x: Handle, weight: Handle) -> Result<Handle, ImportError> {
    let mut geometry = Geometry::read(op, x, Some(kernel_of(op, weight)?), true)?;
    geometry.resolve(op, &op.ty(x).dims[2..])?;
    let x = geometry.pad_free(op, x, 0.0)?;
    let convolution = Convolution {
        accumulate: DType::I32,
        dtype: DType::I32,
        output_padding: vec![0; geometry.kernel.len()],
        strides: geometry.strides,
        dilations: geometry.dilations,
        // Padding is the zero point, which is 0 here.
        pad_begin: geometry.begin,
        pad_end: geometry.end,
        groups: op.node.int_or("group", 1)?,
        transposed: false,
    };
    op.emit(convolution, &[x, weight])
}

/// ConvInteger.
pub(super) fn conv_integer(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=4)?;
    let x = centred(op, 0, 2, 1)?;
    let weight = centred(op, 1, 3, 0)?;
    Ok(vec![convolve(op, x, weight)?])
}

/// QLinearConv. The bias is in units of the product of the scales.
pub(super) fn qlinear_conv(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(8..=9)?;
    let x = centred(op, 0, 2, 1)?;
    let weight = centred(op, 3, 5, 0)?;
    let mut sums = convolve(op, x, weight)?;
    let rank = op.rank(sums);
    if let Some(bias) = op.optional(8)? {
        let bias = op.along_axis(bias, 1, rank)?;
        sums = op.apply(Function::Add, &[sums, bias])?;
    }
    let scale = scales(op, [(1, 1), (4, 1)], rank)?;
    requantize(op, sums, scale, 6)
}
