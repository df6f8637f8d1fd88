//! Quantisation: simulated in floats, and to integers by `quantized_decomposed`.
//!
//! Steps and their order are those of torch: x · (1/scale) is rounded, the zero point added, the range cut.

use tenon_graph_builder::Handle;
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
    let x = op.tensor("self")?;
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
