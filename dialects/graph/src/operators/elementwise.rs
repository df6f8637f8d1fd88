//! `graph.elementwise`: a scalar function applied with broadcasting.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::{DType, NumberKind};

use crate::operators::attributes::{Attributes, keywords};
use crate::operators::{broadcast_dims, dtype_error};
use crate::requirement::broadcast_requirements;
use crate::{ErrorKind, OperatorKind, Requirement, SemanticError, TensorType};

keywords! {
    /// Scalar functions. Floats follow IEEE 754; NaN passes through `max` and `min`; integers wrap.
    Function {
        /// a + b
        Add = "add",
        /// a - b
        Subtract = "subtract",
        /// a · b
        Multiply = "multiply",
        /// a / b; integers truncate, and division by zero gives 0.
        Divide = "divide",
        /// a - b·floor(a / b): the sign of the divisor.
        Modulo = "modulo",
        /// a - b·trunc(a / b): the sign of the dividend.
        Remainder = "remainder",
        /// a to the power b
        Power = "power",
        /// The larger; NaN wins.
        Max = "max",
        /// The smaller; NaN wins.
        Min = "min",
        /// Angle of (b, a).
        Atan2 = "atan2",
        /// Logical and.
        And = "and",
        /// Logical or.
        Or = "or",
        /// Logical exclusive or.
        Xor = "xor",
        /// Bits in both.
        BitAnd = "bit_and",
        /// Bits in either.
        BitOr = "bit_or",
        /// Bits in one of the two.
        BitXor = "bit_xor",
        /// Bits shifted up; by the width or more: 0.
        ShiftLeft = "shift_left",
        /// Bits shifted down; by the width or more: 0, or the sign.
        ShiftRight = "shift_right",
        /// a == b
        Equal = "equal",
        /// a != b
        NotEqual = "not_equal",
        /// a < b
        Less = "less",
        /// a <= b
        LessEqual = "less_equal",
        /// a > b
        Greater = "greater",
        /// a >= b
        GreaterEqual = "greater_equal",
        /// condition ? a : b
        Select = "select",
        /// Logical not.
        Not = "not",
        /// All bits inverted.
        BitNot = "bit_not",
        /// -a
        Negate = "negate",
        /// |a|
        Abs = "abs",
        /// -1, 0 or 1; NaN stays.
        Sign = "sign",
        /// eᵃ
        Exp = "exp",
        /// eᵃ - 1
        Expm1 = "expm1",
        /// ln a
        Log = "log",
        /// ln(1 + a)
        Log1p = "log1p",
        /// √a
        Sqrt = "sqrt",
        /// 1/√a
        Rsqrt = "rsqrt",
        /// 1/a
        Reciprocal = "reciprocal",
        /// Error function.
        Erf = "erf",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// 1 / (1 + e⁻ᵃ)
        Sigmoid = "sigmoid",
        /// Sine.
        Sin = "sin",
        /// Cosine.
        Cos = "cos",
        /// Tangent.
        Tan = "tan",
        /// Inverse sine.
        Asin = "asin",
        /// Inverse cosine.
        Acos = "acos",
        /// Inverse tangent.
        Atan = "atan",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// Towards minus infinity.
        Floor = "floor",
        /// Towards plus infinity.
        Ceil = "ceil",
        /// To the nearest integer, ties to even.
        Round = "round",
        /// Towards zero.
        Trunc = "trunc",
        /// Whether it is NaN.
        IsNan = "is_nan",
        /// Whether it is an infinity.
        IsInf = "is_inf",
    }
}

impl Function {
    /// Number of operands.
    pub fn arity(self) -> usize {
        use Function::*;
        match self {
            Select => 3,
            Add | Subtract | Multiply | Divide | Modulo | Remainder | Power | Max | Min | Atan2 | And | Or | Xor | BitAnd
            | BitOr | BitXor | ShiftLeft | ShiftRight | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual => 2,
            _ => 1,
        }
    }

    /// Whether an operand of this type is taken (for `select`: as a value).
    fn takes(self, dtype: DType) -> bool {
        use Function::*;
        let kind = dtype.kind();
        match self {
            And | Or | Xor | Not => kind == NumberKind::Bool,
            BitAnd | BitOr | BitXor | BitNot => dtype.is_integer() || kind == NumberKind::Bool,
            ShiftLeft | ShiftRight => dtype.is_integer(),
            Equal | NotEqual | Select => true,
            Add | Subtract | Multiply | Divide | Negate => kind != NumberKind::Bool,
            Modulo | Remainder | Power | Max | Min | Less | LessEqual | Greater | GreaterEqual | Abs | Sign => {
                dtype.is_integer() || dtype.is_float() || (matches!(self, Max | Min) && kind == NumberKind::Bool)
            }
            _ => dtype.is_float(),
        }
    }

    /// Whether the result is `i1` whatever the operands.
    pub fn is_predicate(self) -> bool {
        use Function::*;
        matches!(
            self,
            And | Or | Xor | Not | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | IsNan | IsInf
        )
    }
}

/// A scalar function of tensors broadcast against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elementwise {
    /// The function.
    pub function: Function,
}

impl OperatorKind for Elementwise {
    const NAME: &'static str = "graph.elementwise";

    fn read(op: Op<'_>) -> Result<Self, SemanticError> {
        Ok(Elementwise { function: Attributes::of(op).keyword("function")? })
    }

    fn attributes<'s>(&self, context: Context<'s>) -> Vec<(&'static str, Attribute<'s>)> {
        vec![("function", context.string(self.function.name()))]
    }

    fn infer(&self, operands: &[TensorType]) -> Result<Vec<TensorType>, SemanticError> {
        let function = self.function;
        if operands.len() != function.arity() {
            return Err(SemanticError::new(
                ErrorKind::Arity,
                Self::NAME,
                format!("`{}` takes {} operands, not {}", function.name(), function.arity(), operands.len()),
            ));
        }
        let values = if function == Function::Select { &operands[1..] } else { operands };
        if function == Function::Select && operands[0].dtype != DType::Bool {
            return Err(dtype_error(Self::NAME, "the condition of `select`", "i1", operands[0].dtype));
        }
        let dtype = values[0].dtype;
        for value in values {
            if !function.takes(value.dtype) {
                return Err(dtype_error(Self::NAME, &format!("an operand of `{}`", function.name()), "of another kind of number", value.dtype));
            }
            if value.dtype != dtype {
                return Err(dtype_error(Self::NAME, &format!("every operand of `{}`", function.name()), dtype.name(), value.dtype));
            }
        }
        let shapes: Vec<_> = operands.iter().map(|operand| operand.dims.as_slice()).collect();
        let dims = broadcast_dims(Self::NAME, &shapes)?;
        Ok(vec![TensorType::new(if function.is_predicate() { DType::Bool } else { dtype }, dims)])
    }

    fn requirements(&self, operands: &[TensorType]) -> Vec<Requirement> {
        broadcast_requirements(&operands.iter().map(|operand| operand.dims.as_slice()).collect::<Vec<_>>())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn broadcasts_and_refuses() {
        let infer = |function, operands: &[TensorType]| Elementwise { function }.infer(operands);
        let a = TensorType::fixed(DType::F32, &[4, 1, 3]);
        let b = TensorType::fixed(DType::F32, &[5, 1]);
        assert_eq!(infer(Function::Add, &[a.clone(), b.clone()]).unwrap(), [TensorType::fixed(DType::F32, &[4, 5, 3])]);
        assert_eq!(infer(Function::Less, &[a.clone(), b.clone()]).unwrap()[0].dtype, DType::Bool);
        let c = TensorType::fixed(DType::F32, &[2]);
        assert_eq!(infer(Function::Add, &[a.clone(), c]).unwrap_err().code(), "E0303");
        assert_eq!(infer(Function::Add, std::slice::from_ref(&a)).unwrap_err().code(), "E0301");
        let int = TensorType::fixed(DType::I32, &[3]);
        assert_eq!(infer(Function::Add, &[a.clone(), int.clone()]).unwrap_err().code(), "E0302");
        assert_eq!(infer(Function::Exp, &[int]).unwrap_err().code(), "E0302");
    }
}
