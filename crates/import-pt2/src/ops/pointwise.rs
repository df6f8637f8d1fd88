//! Functions of several tensors, element by element.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use super::promotion::{float_of, wide};
use crate::error::OpError;
use crate::import::op::{OpImport, Results, Scalar, one};

/// The names of the two operands: a tensor, then a tensor or number.
fn operands(op: &OpImport<'_, '_, '_>) -> [&'static str; 2] {
    match op.has("exponent") {
        true => ["self", "exponent"],
        false => ["self", "other"],
    }
}

/// A function of two operands in their common type.
fn binary(op: &mut OpImport<'_, '_, '_>, function: Function) -> Results {
    let [a, b] = operands(op);
    let dtype = op.result_type(&[a, b])?;
    let (x, y) = (op.operand(a, dtype)?, op.operand(b, dtype)?);
    one(op.apply(function, &[x, y])?)
}

/// Add and subtract: the second operand times `alpha`.
pub(super) fn sum(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let [first, second] = if op.name == "rsub" { ["other", "self"] } else { ["self", "other"] };
    let (x, mut y) = (op.operand(first, dtype)?, op.operand(second, dtype)?);
    let alpha = op.scalar_argument("alpha")?;
    if alpha != Scalar::Int(1.into()) && alpha != Scalar::Float(1.0) {
        let factor = op.scalar_tensor(&alpha, dtype)?;
        y = op.apply(Function::Multiply, &[y, factor])?;
    }
    if op.name == "add" && dtype == DType::Bool {
        return one(op.apply(Function::Or, &[x, y])?);
    }
    one(op.apply(if op.name == "add" { Function::Add } else { Function::Subtract }, &[x, y])?)
}

pub(super) fn multiply(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
    one(op.apply(if dtype == DType::Bool { Function::And } else { Function::Multiply }, &[x, y])?)
}

/// Quotients: true, rounded down or towards 0.
pub(super) fn divide(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let mode = match op.name {
        "floor_divide" => "floor".to_owned(),
        _ if op.has("rounding_mode") && !op.is_none("rounding_mode") => op.text("rounding_mode")?,
        _ => String::new(),
    };
    let compute = if mode.is_empty() { float_of(dtype) } else { dtype };
    let (x, y) = (op.operand("self", compute)?, op.operand("other", compute)?);
    let result = match mode.as_str() {
        "" => op.apply(Function::Divide, &[x, y])?,
        "trunc" if compute.is_float() => {
            let quotient = op.apply(Function::Divide, &[x, y])?;
            op.apply(Function::Trunc, &[quotient])?
        }
        "trunc" => op.apply(Function::Divide, &[x, y])?,
        "floor" => floor_quotient(op, x, y, compute)?,
        other => return Err(op.invalid(format!("`rounding_mode` is {other:?}"))),
    };
    one(result)
}

/// (x - (x mod y)) / y, the remainder with the divisor's sign, rounded to the nearest integer: exact where x / y rounds up to one.
fn floor_quotient(op: &mut OpImport<'_, '_, '_>, x: Handle, y: Handle, dtype: DType) -> Result<Handle, OpError> {
    let rest = op.apply(Function::Modulo, &[x, y])?;
    let whole = op.apply(Function::Subtract, &[x, rest])?;
    let quotient = op.apply(Function::Divide, &[whole, y])?;
    match dtype.is_float() {
        true => Ok(op.apply(Function::Round, &[quotient])?),
        false => Ok(quotient),
    }
}

/// Functions that are one of the dialect's in the operands' common type.
pub(super) fn direct(op: &mut OpImport<'_, '_, '_>) -> Results {
    let function = match op.name {
        "atan2" | "arctan2" => {
            let dtype = float_of(op.result_type(&["self", "other"])?);
            let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
            return one(op.apply(Function::Atan2, &[x, y])?);
        }
        "fmod" => Function::Remainder,
        "remainder" => Function::Modulo,
        "maximum" => Function::Max,
        "minimum" => Function::Min,
        "eq" => Function::Equal,
        "ne" | "not_equal" => Function::NotEqual,
        "lt" | "less" => Function::Less,
        "le" | "less_equal" => Function::LessEqual,
        "gt" | "greater" => Function::Greater,
        "ge" | "greater_equal" => Function::GreaterEqual,
        other => return Err(op.unsupported(format!("the function {other}"))),
    };
    let dtype = op.result_type(&["self", "other"])?;
    if dtype == DType::Bool && !matches!(function, Function::Equal | Function::NotEqual | Function::Max | Function::Min)
    {
        let (x, y) = (op.operand("self", DType::U8)?, op.operand("other", DType::U8)?);
        return one(op.apply(function, &[x, y])?);
    }
    binary(op, function)
}

/// The larger or smaller, where NaN loses.
pub(super) fn ignoring_nan(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
    let result = op.apply(if op.name == "fmax" { Function::Max } else { Function::Min }, &[x, y])?;
    if !dtype.is_float() {
        return one(result);
    }
    let (no_x, no_y) = (op.apply(Function::IsNan, &[x])?, op.apply(Function::IsNan, &[y])?);
    let result = op.apply(Function::Select, &[no_x, y, result])?;
    one(op.apply(Function::Select, &[no_y, x, result])?)
}

/// Powers. Small whole exponents are products.
pub(super) fn power(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "exponent"])?;
    if op.is_number("exponent") && dtype.is_float() {
        let exponent = op.float("exponent")?;
        let x = op.operand("self", dtype)?;
        let result = match exponent {
            1.0 => Some(x),
            2.0 => Some(op.apply(Function::Multiply, &[x, x])?),
            3.0 => {
                let wide = wide(dtype);
                let x = op.cast(x, wide)?;
                let square = op.apply(Function::Multiply, &[x, x])?;
                let cube = op.apply(Function::Multiply, &[square, x])?;
                Some(op.cast(cube, dtype)?)
            }
            0.5 => Some(op.apply(Function::Sqrt, &[x])?),
            -0.5 => Some(op.apply(Function::Rsqrt, &[x])?),
            -1.0 => Some(op.apply(Function::Reciprocal, &[x])?),
            _ => None,
        };
        if let Some(result) = result {
            return one(result);
        }
    }
    binary(op, Function::Power)
}

/// Logical functions of truth values.
pub(super) fn logical(op: &mut OpImport<'_, '_, '_>) -> Results {
    let function = match op.name {
        "logical_and" => Function::And,
        "logical_or" => Function::Or,
        _ => Function::Xor,
    };
    let (x, y) = (op.operand("self", DType::Bool)?, op.operand("other", DType::Bool)?);
    one(op.apply(function, &[x, y])?)
}

/// Bitwise functions; of truth values the logical ones.
pub(super) fn bitwise(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let is_bool = dtype == DType::Bool;
    let function = match op.name {
        "bitwise_and" | "__and__" => {
            if is_bool {
                Function::And
            } else {
                Function::BitAnd
            }
        }
        "bitwise_or" | "__or__" => {
            if is_bool {
                Function::Or
            } else {
                Function::BitOr
            }
        }
        "bitwise_xor" | "__xor__" => {
            if is_bool {
                Function::Xor
            } else {
                Function::BitXor
            }
        }
        "bitwise_left_shift" | "__lshift__" => Function::ShiftLeft,
        _ => Function::ShiftRight,
    };
    binary(op, function)
}

/// `condition ? self : other`.
pub(super) fn select(op: &mut OpImport<'_, '_, '_>) -> Results {
    let condition = op.tensor("condition")?;
    let condition = op.cast(condition, DType::Bool)?;
    let dtype = op.result_type(&["self", "other"])?;
    let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
    one(op.apply(Function::Select, &[condition, x, y])?)
}

/// Bounds, each of which may be left out.
pub(super) fn clamp(op: &mut OpImport<'_, '_, '_>) -> Results {
    let bounds: Vec<&str> = match op.name {
        "clamp_min" => vec!["min"],
        "clamp_max" => vec!["max"],
        _ => ["min", "max"].into_iter().filter(|name| !op.is_none(name)).collect(),
    };
    let names: Vec<&str> = ["self"].into_iter().chain(bounds.iter().copied()).collect();
    let dtype = op.result_type(&names)?;
    let mut x = op.operand("self", dtype)?;
    for name in bounds {
        let bound = op.operand(name, dtype)?;
        x = op.apply(if name == "min" { Function::Max } else { Function::Min }, &[x, bound])?;
    }
    one(x)
}

/// self + value · tensor1 · tensor2, or value · tensor1 / tensor2.
pub(super) fn add_combined(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "tensor1", "tensor2"])?;
    let wide = wide(dtype);
    let [x, a, b] = [op.operand("self", wide)?, op.operand("tensor1", wide)?, op.operand("tensor2", wide)?];
    let value = op.scalar_argument("value")?;
    let value = op.scalar_tensor(&value, wide)?;
    let scaled = op.apply(Function::Multiply, &[value, a])?;
    let combined = op.apply(if op.name == "addcmul" { Function::Multiply } else { Function::Divide }, &[scaled, b])?;
    let result = op.apply(Function::Add, &[x, combined])?;
    one(op.cast(result, dtype)?)
}

/// self + weight · (end - self); from the end where the weight is 0.5 or more, as torch does.
pub(super) fn lerp(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "end"])?;
    let wide = wide(dtype);
    let (start, end) = (op.operand("self", wide)?, op.operand("end", wide)?);
    let weight = op.operand("weight", wide)?;
    let (half, unit) = (op.scalar(0.5, wide)?, op.scalar(1.0, wide)?);
    let span = op.apply(Function::Subtract, &[end, start])?;
    let forward = op.apply(Function::Multiply, &[weight, span])?;
    let forward = op.apply(Function::Add, &[start, forward])?;
    let rest = op.apply(Function::Subtract, &[unit, weight])?;
    let backward = op.apply(Function::Multiply, &[span, rest])?;
    let backward = op.apply(Function::Subtract, &[end, backward])?;
    let size = op.apply(Function::Abs, &[weight])?;
    let low = op.apply(Function::Less, &[size, half])?;
    let result = op.apply(Function::Select, &[low, forward, backward])?;
    one(op.cast(result, dtype)?)
}

/// Whether two values are close: |a - b| <= atol + rtol · |b|.
pub(super) fn is_close(op: &mut OpImport<'_, '_, '_>) -> Results {
    let dtype = op.result_type(&["self", "other"])?;
    let (x, y) = (op.operand("self", dtype)?, op.operand("other", dtype)?);
    if !dtype.is_float() || op.flag("equal_nan")? {
        return Err(op.unsupported("integers or `equal_nan` of isclose"));
    }
    let (rtol, atol) = (op.float("rtol")?, op.float("atol")?);
    let (rtol, atol) = (op.scalar(rtol, dtype)?, op.scalar(atol, dtype)?);
    let difference = op.apply(Function::Subtract, &[x, y])?;
    let difference = op.apply(Function::Abs, &[difference])?;
    let size = op.apply(Function::Abs, &[y])?;
    let allowed = op.apply(Function::Multiply, &[rtol, size])?;
    let allowed = op.apply(Function::Add, &[atol, allowed])?;
    let near = op.apply(Function::LessEqual, &[difference, allowed])?;
    let infinite = op.apply(Function::IsInf, &[difference])?;
    let finite = op.apply(Function::Not, &[infinite])?;
    let near = op.apply(Function::And, &[near, finite])?;
    let equal = op.apply(Function::Equal, &[x, y])?;
    one(op.apply(Function::Or, &[equal, near])?)
}
