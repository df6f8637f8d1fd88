//! QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.

use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Cast, Dequantize, Function, Quantize, ReduceKind};
use tenon_tensor::DType;

use super::cast::type_attribute;
use super::integer_product::Factor;
use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::{OpImport, Outputs};

/// Scale (and zero point, or zeros of type `dtype`) in the shape that the dialect takes: a list of one number becomes a scalar.
fn parameters(op: &mut OpImport<'_, '_, '_>, dtype: DType) -> Result<(Handle, Handle), ImportError> {
    let scale = op.input(1)?;
    let zero = match op.optional(2)? {
        Some(zero) => zero,
        None => {
            let zero = op.scalar(0.0, dtype)?;
            let shape = op.extents(scale);
            op.broadcast(zero, shape)?
        }
    };
    if op.rank(scale) <= 1 && op.dim_count(scale) == Some(1) {
        return Ok((op.as_scalar(scale)?, op.as_scalar(zero)?));
    }
    Ok((scale, zero))
}

fn axis_and_block(op: &OpImport<'_, '_, '_>, x: Handle, scale: Handle) -> Result<(i64, i64), ImportError> {
    if op.since < 13 {
        return Ok((0, 0));
    }
    let axis = op.node.int_or("axis", 1)?;
    let block_size = if op.since >= 21 { op.node.int_or("block_size", 0)? } else { 0 };
    if block_size < 0 {
        return Err(op.node.attribute_error("block_size", "0 or more", format!("is {block_size}")));
    }
    // Without meaning for one scale.
    let axis = if op.rank(scale) == 0 { 0 } else { op.axis(axis, op.rank(x))? as i64 };
    Ok((axis, block_size))
}

/// QuantizeLinear.
pub(super) fn quantize(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let x = op.input(0)?;
    let declared = if op.since >= 21 && op.node.int_or("output_dtype", 0)? != 0 {
        type_attribute(op, "output_dtype")?
    } else {
        None
    };
    let precision =
        if op.since >= 23 && op.node.int_or("precision", 0)? != 0 { type_attribute(op, "precision")? } else { None };
    if let Some(precision) = precision.filter(|precision| !precision.is_float() || precision.bits() < 16) {
        return Err(op.node.attribute_error("precision", "a float of 16 bits or more", format!("is {precision}")));
    }
    let dtype = match op.optional(2)? {
        Some(zero) => op.dtype(zero),
        None => declared.unwrap_or(DType::U8),
    };
    if declared.is_some_and(|declared| declared != dtype) {
        return Err(op.node.attribute_error("output_dtype", "the zero point's type", format!("is {dtype}")));
    }
    let saturate = op.since < 19 || op.node.flag_or("saturate", true)? || !dtype.is_float();
    let (scale, zero) = parameters(op, dtype)?;
    let (axis, block_size) = axis_and_block(op, x, scale)?;
    if saturate && precision.is_none() {
        let scale = if op.dtype(scale).is_float() { scale } else { op.cast(scale, DType::F32)? };
        return Ok(vec![op.emit(Quantize { dtype, axis, block_size }, &[x, scale, zero])?]);
    }
    // In steps: the quotient in the precision that was asked for, the sum, the conversion.
    let precision = precision.unwrap_or_else(|| {
        let (x, scale) = (op.dtype(x), op.dtype(scale));
        if x.bits() == 16 && (scale == x || scale == DType::F8E8M0FNU) { x } else { DType::F32 }
    });
    let scale = spread(op, x, scale, axis as usize, block_size)?;
    let zero = spread(op, x, zero, axis as usize, block_size)?;
    let [x, scale, zero] = [op.cast(x, precision)?, op.cast(scale, precision)?, op.cast(zero, DType::F32)?];
    let quotient = op.apply(Function::Divide, &[x, scale])?;
    if dtype.is_float() {
        let zero = op.cast(zero, precision)?;
        let sum = op.apply(Function::Add, &[quotient, zero])?;
        return Ok(vec![op.emit(Cast { dtype, saturate }, &[sum])?]);
    }
    let rounded = op.apply(Function::Round, &[quotient])?;
    let rounded = op.cast(rounded, DType::F32)?;
    let sum = op.apply(Function::Add, &[rounded, zero])?;
    // `graph.cast` clamps to the range.
    Ok(vec![op.emit(Cast { dtype, saturate: false }, &[sum])?])
}

/// Scales or zero points in a shape that broadcasts against `x`.
fn spread(
    op: &mut OpImport<'_, '_, '_>,
    x: Handle,
    scale: Handle,
    axis: usize,
    block_size: i64,
) -> Result<Handle, ImportError> {
    if block_size == 0 {
        return if op.rank(scale) == 0 { Ok(scale) } else { op.along_axis(scale, axis, op.rank(x)) };
    }
    // Each scale as many times as a block has elements, cut at the end of the axis.
    let mut shape = op.extents(scale);
    let blocks = shape[axis].clone();
    shape.insert(axis + 1, DimExpr::constant(1));
    let split = op.reshape(scale, shape.clone())?;
    shape[axis + 1] = DimExpr::constant(block_size);
    let repeated = op.broadcast(split, shape.clone())?;
    shape.remove(axis + 1);
    let all = blocks.mul(&DimExpr::constant(block_size));
    shape[axis] = all.ok_or_else(|| op.invalid("the number of blocks is too complex an expression"))?;
    let flat = op.reshape(repeated, shape)?;
    let size = op.extents(x)[axis].clone();
    op.slice(flat, axis, DimExpr::constant(0), size)
}

/// DequantizeLinear.
pub(super) fn dequantize(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=3)?;
    let x = op.input(0)?;
    let declared = if op.since >= 23 && op.node.int_or("output_dtype", 0)? != 0 {
        type_attribute(op, "output_dtype")?
    } else {
        None
    };
    let (scale, zero) = parameters(op, op.dtype(x))?;
    let dtype = declared.unwrap_or_else(|| op.dtype(scale));
    let (axis, block_size) = axis_and_block(op, x, scale)?;
    let is_byte = matches!(op.dtype(x), DType::I8 | DType::U8);
    let is_weight = is_byte && op.importer.builder.tensor(x).is_some() && op.importer.builder.tensor(zero).is_some();
    if is_weight && block_size == 0 && dtype == DType::F32 && op.dtype(scale) == DType::F32 {
        // A weight less its zero point, where that is bytes again, times its scales: the form in which products take it.
        let axis = axis as usize;
        if let Factor { value, zero: None } = Factor::of(op, x, Some(zero), axis)? {
            let wide = op.cast(value, dtype)?;
            let scale = spread(op, x, scale, axis, 0)?;
            return Ok(vec![op.apply(Function::Multiply, &[wide, scale])?]);
        }
    }
    Ok(vec![op.emit(Dequantize { dtype, axis, block_size }, &[x, scale, zero])?])
}

/// DynamicQuantizeLinear to ui8: the range of the data, widened to hold 0, is spread over 0 to 255. Where
/// all are 0 the range is taken as 1, so that the scale is finite.
pub(super) fn dynamic(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    Ok(dynamic_of(op, x)?.to_vec())
}

/// A value quantised to ui8 by its own range, its scale and its zero point.
pub(super) fn dynamic_of(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<[Handle; 3], ImportError> {
    let dtype = op.dtype(x);
    let axes: Vec<usize> = (0..op.rank(x)).collect();
    let (zero, levels) = (op.scalar(0.0, dtype)?, op.scalar(255.0, dtype)?);
    let high = op.reduce(ReduceKind::Max, x, &axes, false)?;
    let high = op.apply(Function::Max, &[high, zero])?;
    let low = op.reduce(ReduceKind::Min, x, &axes, false)?;
    let low = op.apply(Function::Min, &[low, zero])?;
    let span = op.apply(Function::Subtract, &[high, low])?;
    let none = op.apply(Function::Equal, &[span, zero])?;
    let one = op.scalar(1.0, dtype)?;
    let span = op.apply(Function::Select, &[none, one, span])?;
    let scale = op.apply(Function::Divide, &[span, levels])?;
    let quotient = op.apply(Function::Divide, &[low, scale])?;
    let point = op.apply(Function::Subtract, &[zero, quotient])?;
    let point = op.apply(Function::Min, &[point, levels])?;
    let point = op.apply(Function::Max, &[point, zero])?;
    let point = op.apply(Function::Round, &[point])?;
    let point = op.cast(point, DType::U8)?;
    let y = op.emit(Quantize { dtype: DType::U8, axis: 0, block_size: 0 }, &[x, scale, point])?;
    Ok([y, scale, point])
}
