//! Functions of one tensor, element by element.

use tenon_graph_builder::Handle;
use tenon_graph_dialect::operators::Function;
use tenon_tensor::{DType, NumberKind};

use super::promotion::{float_of, wide};
use crate::error::OpError;
use crate::import::op::{OpImport, Results, one};

/// Functions that are one of the dialect's, of a float.
const FLOAT: &[(&str, Function)] = &[
    ("acos", Function::Acos),
    ("acosh", Function::Acosh),
    ("asin", Function::Asin),
    ("asinh", Function::Asinh),
    ("atan", Function::Atan),
    ("atanh", Function::Atanh),
    ("cos", Function::Cos),
    ("cosh", Function::Cosh),
    ("erf", Function::Erf),
    ("exp", Function::Exp),
    ("expm1", Function::Expm1),
    ("log", Function::Log),
    ("log1p", Function::Log1p),
    ("reciprocal", Function::Reciprocal),
    ("rsqrt", Function::Rsqrt),
    ("sigmoid", Function::Sigmoid),
    ("sin", Function::Sin),
    ("sinh", Function::Sinh),
    ("sqrt", Function::Sqrt),
    ("tan", Function::Tan),
    ("tanh", Function::Tanh),
];

fn lookup(table: &[(&str, Function)], op: &OpImport<'_, '_, '_>) -> Result<Function, OpError> {
    let found = table.iter().find(|(name, _)| *name == op.name).map(|(_, function)| *function);
    found.ok_or_else(|| op.invalid("the operator is no function of one tensor"))
}

/// A float function; of integers in f32.
pub(super) fn float(op: &mut OpImport<'_, '_, '_>) -> Results {
    let function = lookup(FLOAT, op)?;
    let x = op.tensor("self")?;
    let dtype = float_of(op.element(x));
    let x = op.cast(x, dtype)?;
    one(op.apply(function, &[x])?)
}

/// Functions that keep every type of numbers; the rounding ones keep integers as they are.
pub(super) fn number(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let function = match op.name {
        "abs" | "absolute" => Function::Abs,
        "neg" | "negative" => Function::Negate,
        "sign" | "sgn" => Function::Sign,
        "square" => return one(op.apply(Function::Multiply, &[x, x])?),
        rounding => {
            if !op.element(x).is_float() {
                return one(x);
            }
            match rounding {
                "ceil" => Function::Ceil,
                "floor" => Function::Floor,
                "trunc" | "fix" => Function::Trunc,
                _ => Function::Round,
            }
        }
    };
    if op.element(x).kind() == NumberKind::Bool && function != Function::Negate {
        return one(x);
    }
    one(op.apply(function, &[x])?)
}

/// Round; with `decimals` as torch computes it, x · 10ⁿ rounded and divided again.
pub(super) fn round(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    if !op.element(x).is_float() {
        return one(x);
    }
    let decimals = if op.has("decimals") { op.int("decimals")? } else { 0 };
    if decimals == 0 {
        return one(op.apply(Function::Round, &[x])?);
    }
    if decimals.abs() > 30 {
        return Err(op.unsupported("rounding to that many decimals"));
    }
    let dtype = op.element(x);
    let factor = op.scalar(10f64.powi(decimals.unsigned_abs() as i32), dtype)?;
    let (there, back) = match decimals > 0 {
        true => (Function::Multiply, Function::Divide),
        false => (Function::Divide, Function::Multiply),
    };
    let scaled = op.apply(there, &[x, factor])?;
    let rounded = op.apply(Function::Round, &[scaled])?;
    one(op.apply(back, &[rounded, factor])?)
}

/// Whether an element is NaN, infinite or neither.
pub(super) fn classify(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    if !op.element(x).is_float() {
        let value = if op.name == "isfinite" { 1.0 } else { 0.0 };
        let shape = op.extents(x);
        let constant = op.scalar(value, DType::Bool)?;
        return one(op.broadcast(constant, shape)?);
    }
    if op.name == "isnan" {
        return one(op.apply(Function::IsNan, &[x])?);
    }
    let infinite = op.apply(Function::IsInf, &[x])?;
    let sign = |op: &mut OpImport<'_, '_, '_>, function| -> Result<Handle, OpError> {
        let zero = op.scalar(0.0, op.element(x))?;
        let side = op.apply(function, &[x, zero])?;
        Ok(op.apply(Function::And, &[infinite, side])?)
    };
    match op.name {
        "isinf" => one(infinite),
        "isposinf" => one(sign(op, Function::Greater)?),
        "isneginf" => one(sign(op, Function::Less)?),
        _ => {
            let nan = op.apply(Function::IsNan, &[x])?;
            let either = op.apply(Function::Or, &[infinite, nan])?;
            one(op.apply(Function::Not, &[either])?)
        }
    }
}

/// Logarithms and powers of other bases, by ln and eˣ.
pub(super) fn other_base(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = float_of(op.element(x));
    let wide = wide(dtype);
    let x = op.cast(x, wide)?;
    let result = match op.name {
        "exp2" => {
            let two = op.scalar(2.0, wide)?;
            op.apply(Function::Power, &[two, x])?
        }
        name => {
            let base: f64 = if name == "log2" { 2.0 } else { 10.0 };
            let logarithm = op.apply(Function::Log, &[x])?;
            let factor = op.scalar(1.0 / base.ln(), wide)?;
            op.apply(Function::Multiply, &[logarithm, factor])?
        }
    };
    one(op.cast(result, dtype)?)
}

/// 1 - erf(x), and x - trunc(x).
pub(super) fn complement(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = float_of(op.element(x));
    let wide = wide(dtype);
    let x = op.cast(x, wide)?;
    let result = if op.name == "frac" {
        let whole = op.apply(Function::Trunc, &[x])?;
        op.apply(Function::Subtract, &[x, whole])?
    } else {
        let curve = op.apply(Function::Erf, &[x])?;
        let one = op.scalar(1.0, wide)?;
        op.apply(Function::Subtract, &[one, curve])?
    };
    one(op.cast(result, dtype)?)
}

/// ln(x / (1 - x)), x clamped to `eps` from both ends.
pub(super) fn logit(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = float_of(op.element(x));
    let wide = wide(dtype);
    let mut x = op.cast(x, wide)?;
    let unit = op.scalar(1.0, wide)?;
    if let Some(epsilon) = op.optional_float("eps")? {
        let (low, high) = (op.scalar(epsilon, wide)?, op.scalar(1.0 - epsilon, wide)?);
        x = op.apply(Function::Max, &[x, low])?;
        x = op.apply(Function::Min, &[x, high])?;
    }
    let rest = op.apply(Function::Subtract, &[unit, x])?;
    let ratio = op.apply(Function::Divide, &[x, rest])?;
    let result = op.apply(Function::Log, &[ratio])?;
    one(op.cast(result, dtype)?)
}

/// NaN and infinities as numbers.
pub(super) fn nan_to_num(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let dtype = op.element(x);
    if !dtype.is_float() {
        return one(x);
    }
    let largest = match dtype {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        _ => f64::from(f32::MAX),
    };
    let number = |op: &mut OpImport<'_, '_, '_>, name: &str, default: f64| -> Result<Handle, OpError> {
        let value = op.optional_float(name)?.unwrap_or(default);
        Ok(op.scalar(value, dtype)?)
    };
    let nan = number(op, "nan", 0.0)?;
    let high = number(op, "posinf", largest)?;
    let low = number(op, "neginf", -largest)?;
    let infinity = op.scalar(f64::INFINITY, dtype)?;
    let is_nan = op.apply(Function::IsNan, &[x])?;
    let is_high = op.apply(Function::Equal, &[x, infinity])?;
    let is_infinite = op.apply(Function::IsInf, &[x])?;
    let x1 = op.apply(Function::Select, &[is_infinite, low, x])?;
    let x2 = op.apply(Function::Select, &[is_high, high, x1])?;
    one(op.apply(Function::Select, &[is_nan, nan, x2])?)
}

/// Logical and bitwise negation.
pub(super) fn invert(op: &mut OpImport<'_, '_, '_>) -> Results {
    let x = op.tensor("self")?;
    let is_bool = op.element(x) == DType::Bool;
    if op.name == "logical_not" {
        let x = op.cast(x, DType::Bool)?;
        return one(op.apply(Function::Not, &[x])?);
    }
    one(op.apply(if is_bool { Function::Not } else { Function::BitNot }, &[x])?)
}
