//! Constant.

use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};

/// The tensor, number or list of numbers that an attribute holds.
pub(super) fn constant(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(0..=0)?;
    if let Some(tensor) = op.node.tensor("value")? {
        return Ok(vec![op.importer.builder.constant(tensor.clone())]);
    }
    if op.since >= 12 {
        if let Some(value) = op.node.int("value_int")? {
            let list = op.integers(&[value])?;
            return Ok(vec![op.as_scalar(list)?]);
        }
        if let Some(values) = op.node.ints("value_ints")? {
            return Ok(vec![op.integers(values)?]);
        }
        if let Some(value) = op.node.float("value_float")? {
            return Ok(vec![op.scalar(f64::from(value), DType::F32)?]);
        }
        if let Some(values) = op.node.floats("value_floats")? {
            let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            return Ok(vec![op.literal(DType::F32, &[values.len()], &values)?]);
        }
    }
    match op.node.attributes.iter().next() {
        Some((name, _)) => Err(op.unsupported(format!("a constant given by `{name}`"))),
        None => Err(op.invalid("the constant has no value")),
    }
}
