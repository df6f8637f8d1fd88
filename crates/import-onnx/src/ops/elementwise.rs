//! Operators that are one scalar function of one, two or three tensors.

use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use crate::import::node::{OpImport, Outputs};

/// The function that an operator's name stands for.
fn function(operator: &str) -> Option<Function> {
    use Function::*;
    Some(match operator {
        "Add" => Add,
        "Sub" => Subtract,
        "Mul" => Multiply,
        "Div" => Divide,
        "And" => And,
        "Or" => Or,
        "Xor" => Xor,
        "BitwiseAnd" => BitAnd,
        "BitwiseOr" => BitOr,
        "BitwiseXor" => BitXor,
        "BitwiseNot" => BitNot,
        "Equal" => Equal,
        "Less" => Less,
        "LessOrEqual" => LessEqual,
        "Greater" => Greater,
        "GreaterOrEqual" => GreaterEqual,
        "Where" => Select,
        "Not" => Not,
        "Neg" => Negate,
        "Abs" => Abs,
        "Sign" => Sign,
        "Exp" => Exp,
        "Log" => Log,
        "Sqrt" => Sqrt,
        "Reciprocal" => Reciprocal,
        "Erf" => Erf,
        "Tanh" => Tanh,
        "Sigmoid" => Sigmoid,
        "Sin" => Sin,
        "Cos" => Cos,
        "Tan" => Tan,
        "Asin" => Asin,
        "Acos" => Acos,
        "Atan" => Atan,
        "Sinh" => Sinh,
        "Cosh" => Cosh,
        "Asinh" => Asinh,
        "Acosh" => Acosh,
        "Atanh" => Atanh,
        "Floor" => Floor,
        "Ceil" => Ceil,
        "Round" => Round,
        "IsNaN" => IsNan,
        _ => return None,
    })
}

/// The function of the same name, with NumPy broadcasting.
pub(super) fn direct(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    let function = function(op.node.op_type()).ok_or_else(|| op.invalid("the operator is no scalar function"))?;
    op.takes(function.arity()..=function.arity())?;
    let operands = op.inputs()?;
    Ok(vec![op.apply(function, &operands)?])
}

/// Pow: the result has the type of the base. Since version 12 the exponent's type may be another.
pub(super) fn power(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let (base, exponent) = (op.input(0)?, op.input(1)?);
    let (base_type, exponent_type) = (op.dtype(base), op.dtype(exponent));
    if base_type.is_integer() && exponent_type.is_float() {
        // 2 to the power 0.5 is no integer until it is computed: in the exponent's type, then truncated.
        let base = op.cast(base, exponent_type)?;
        let power = op.apply(Function::Power, &[base, exponent])?;
        return Ok(vec![op.cast(power, base_type)?]);
    }
    let exponent = op.cast(exponent, base_type)?;
    Ok(vec![op.apply(Function::Power, &[base, exponent])?])
}

/// Mod: `fmod` 0 takes the sign of the divisor, 1 that of the dividend.
pub(super) fn modulo(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let fmod = op.node.flag_or("fmod", false)?;
    let operands = op.inputs()?;
    if !fmod && op.since < 28 && op.dtype(operands[0]).is_float() {
        return Err(op.node.attribute_error("fmod", "1 for floats", "is 0"));
    }
    Ok(vec![op.apply(if fmod { Function::Remainder } else { Function::Modulo }, &operands)?])
}

/// BitShift, left or right.
pub(super) fn bit_shift(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(2..=2)?;
    let direction = op.node.required("direction", op.node.string("direction")?)?;
    let function = match direction {
        "LEFT" => Function::ShiftLeft,
        "RIGHT" => Function::ShiftRight,
        other => return Err(op.node.attribute_error("direction", "LEFT or RIGHT", format!("is {other:?}"))),
    };
    let operands = op.inputs()?;
    Ok(vec![op.apply(function, &operands)?])
}

/// IsInf: infinities of either sign, of one, or of none.
pub(super) fn is_inf(op: &mut OpImport<'_, '_, '_>) -> Outputs {
    op.takes(1..=1)?;
    let x = op.input(0)?;
    let negative = op.node.flag_or("detect_negative", true)?;
    let positive = op.node.flag_or("detect_positive", true)?;
    let dtype = op.dtype(x);
    let result = match (negative, positive) {
        (true, true) => op.apply(Function::IsInf, &[x])?,
        (false, false) => {
            let no = op.scalar(0.0, DType::Bool)?;
            let shape = op.extents(x);
            op.broadcast(no, shape)?
        }
        _ => {
            let infinity = op.scalar(if positive { f64::INFINITY } else { f64::NEG_INFINITY }, dtype)?;
            op.apply(Function::Equal, &[x, infinity])?
        }
    };
    Ok(vec![result])
}
