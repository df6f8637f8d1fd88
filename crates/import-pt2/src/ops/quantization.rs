//! Quantisation: simulated in floats, and to integers by `quantized_decomposed`.
//!
//! Steps and their order are those of torch: x · (1/scale) is rounded, the zero point added, the range cut.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::error::OpError;
use crate::import::op::{OpImport, Out, Results, Scalar, one};

/// Scale and zero point in a float type, each a scalar or one a channel.
fn parameters(op: &mut OpImport<'_, '_, '_>, x: Handle, dtype: DType) -> Result<[Handle; 2], OpError> {
    let rank = op.rank(x);
    let axis = match op.has("axis") {
        true => Some(op.axis_argument("axis", rank)?),
        false => None,
    };
    let names = match op.has("scales") {
        true => ["scales", "zero_points"],
        false => ["scale", "zero_point"],
    };
    let mut found = [x; 2];
    for (name, slot) in names.into_iter().zip(&mut found) {
        if op.is_none(name) {
            *slot = op.scalar(0.0, dtype)?;
            continue;
        }
        let value = op.operand(name, dtype)?;
        let mut shape = op.extents(value);
        match axis {
            Some(axis) if shape.len() == 1 => shape.resize(rank - axis, 1.into()),
            // One number, whatever its shape.
            _ => shape.clear(),
        }
        *slot = op.reshape(value, shape)?;
    }
    Ok(found)
}

/// The quantised numbers, still as floats, before the range is cut.
fn levels(op: &mut OpImport<'_, '_, '_>, x: Handle, scale: Handle, zero: Handle) -> Result<Handle, OpError> {
    let dtype = op.element(x);
    let unit = op.scalar(1.0, dtype)?;
    let inverse = op.apply(Function::Divide, &[unit, scale])?;
    let scaled = op.apply(Function::Multiply, &[x, inverse])?;
    let rounded = op.apply(Function::Round, &[scaled])?;
    Ok(op.apply(Function::Add, &[rounded, zero])?)
}

fn cut(op: &mut OpImport<'_, '_, '_>, x: Handle, low: f64, high: f64) -> Result<Handle, OpError> {
    let dtype = op.element(x);
    let (low, high) = (op.scalar(low, dtype)?, op.scalar(high, dtype)?);
    let above = op.apply(Function::Max, &[x, low])?;
    Ok(op.apply(Function::Min, &[above, high])?)
}

/// Quantised and back, as quantisation-aware training leaves it.
pub(super) fn fake(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor(if op.has("input") { "input" } else { "self" })?;
    let dtype = op.element(x);
    let compute = super::promotion::wide(dtype);
    if op.has("fake_quant_enabled") {
        let enabled = op.tensor("fake_quant_enabled")?;
        match op.importer.builder.tensor(enabled).and_then(|tensor| tensor.get_f64(0)) {
            Some(0.0) => return Ok(vec![Out::New(x)]),
            Some(_) => {}
            None => return Err(OpError::NotKnown("whether quantisation is on".to_owned())),
        }
    }
    let wide = op.cast(x, compute)?;
    let [scale, zero] = parameters(op, wide, compute)?;
    let (low, high) = (op.float("quant_min")?, op.float("quant_max")?);
    let level = levels(op, wide, scale, zero)?;
    let inside = cut(op, level, low, high)?;
    let shifted = op.apply(Function::Subtract, &[inside, zero])?;
    let result = op.apply(Function::Multiply, &[shifted, scale])?;
    let result = op.cast(result, dtype)?;
    if op.output_names().len() < 2 {
        return one(result);
    }
    let mask = op.apply(Function::Equal, &[level, inside])?;
    Ok(vec![Out::New(result), Out::New(mask)])
}

/// Floats to integers.
pub(super) fn quantize(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let x = op.cast(x, DType::F32)?;
    let dtype = op.dtype("dtype")?.ok_or_else(|| op.invalid("the argument `dtype` is missing"))?;
    let [scale, zero] = parameters(op, x, DType::F32)?;
    let (low, high) = limits(op)?;
    let level = levels(op, x, scale, zero)?;
    let inside = cut(op, level, low, high)?;
    one(op.cast(inside, dtype)?)
}

fn limits(op: &mut OpImport<'_, '_, '_>) -> Result<(f64, f64), OpError> {
    let number = |op: &mut OpImport<'_, '_, '_>, name: &str| -> Result<f64, OpError> {
        match op.scalar_argument(name)? {
            Scalar::Int(value) => {
                value.as_constant().map(|value| value as f64).ok_or_else(|| OpError::NotKnown(format!("`{name}`")))
            }
            Scalar::Float(value) => Ok(value),
            Scalar::Bool(value) => Ok(f64::from(u8::from(value))),
        }
    };
    Ok((number(op, "quant_min")?, number(op, "quant_max")?))
}

/// (x - zero point) · scale
pub(super) fn dequantize(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let dtype = if op.has("out_dtype") { op.dtype("out_dtype")? } else { None }.unwrap_or(DType::F32);
    let x = op.cast(x, DType::F32)?;
    let [scale, zero] = parameters(op, x, DType::F32)?;
    let shifted = op.apply(Function::Subtract, &[x, zero])?;
    let result = op.apply(Function::Multiply, &[shifted, scale])?;
    one(op.cast(result, dtype)?)
}

/// Rows that share a scale as the last dimension: those of a tensor, or with `group_size` so many elements of one. Gives the operand in that shape,
/// and the shape of scales and zero points.
fn rows(op: &mut OpImport<'_, '_, '_>, x: Handle) -> Result<(Handle, Vec<DimExpr>), OpError> {
    let mut shape = op.extents(x);
    let Some(last) = shape.pop() else { return Err(op.invalid("a scalar has no rows")) };
    if !op.has("group_size") {
        let scales = shape.iter().cloned().chain([1.into()]).collect();
        return Ok((x, scales));
    }
    let size = op.fixed(x, shape.len(), "groups")?;
    let mut group = op.int("group_size")?;
    let scales = op.tensor("scales")?;
    // One group for all of a row, whatever the size that is asked for.
    if group > size && op.extents(scales).last().and_then(DimExpr::as_constant) == Some(1) {
        group = size;
    }
    if group < 2 || size % group != 0 {
        return Err(op.invalid(format!("groups of {group} in a dimension of {last}")));
    }
    shape.push((size / group).into());
    let scales = shape.iter().cloned().chain([1.into()]).collect();
    shape.push(group.into());
    Ok((op.reshape(x, shape)?, scales))
}

/// Floats to integers, with a scale for each row or group: x · (1/scale) + zero point, rounded and cut.
pub(super) fn quantize_rows(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let whole = op.extents(x);
    let dtype = op.dtype("dtype")?.ok_or_else(|| op.invalid("the argument `dtype` is missing"))?;
    let compute = op.result_type(&["input", "scales"])?;
    let x = op.cast(x, compute)?;
    let (x, shape) = rows(op, x)?;
    let scale = op.operand("scales", compute)?;
    let scale = op.reshape(scale, shape.clone())?;
    let zero = op.operand("zero_points", compute)?;
    let zero = op.reshape(zero, shape)?;
    let unit = op.scalar(1.0, compute)?;
    let inverse = op.apply(Function::Divide, &[unit, scale])?;
    let scaled = op.apply(Function::Multiply, &[x, inverse])?;
    let shifted = op.apply(Function::Add, &[scaled, zero])?;
    let level = op.apply(Function::Round, &[shifted])?;
    let (low, high) = limits(op)?;
    let inside = cut(op, level, low, high)?;
    let result = op.cast(inside, dtype)?;
    one(op.reshape(result, whole)?)
}

/// (x - zero point) · scale, with a scale for each row or group.
pub(super) fn dequantize_rows(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let whole = op.extents(x);
    let dtype = op.dtype("output_dtype")?.unwrap_or(DType::F32);
    let (x, shape) = rows(op, x)?;
    let x = op.cast(x, DType::I64)?;
    let shifted = match op.is_none("zero_points") {
        true => x,
        false => {
            let zero = op.operand("zero_points", DType::I64)?;
            let zero = op.reshape(zero, shape.clone())?;
            op.apply(Function::Subtract, &[x, zero])?
        }
    };
    let scale = op.tensor("scales")?;
    let compute = op.element(scale);
    let scale = op.reshape(scale, shape)?;
    let shifted = op.cast(shifted, compute)?;
    let result = op.apply(Function::Multiply, &[shifted, scale])?;
    let result = op.cast(result, dtype)?;
    one(op.reshape(result, whole)?)
}

/// Another element type.
pub(super) fn convert(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("input")?;
    let dtype = op.dtype("dtype")?.ok_or_else(|| op.invalid("the argument `dtype` is missing"))?;
    one(op.cast(x, dtype)?)
}
