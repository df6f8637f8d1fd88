//! Functions of integers and of `i1`. Integers wrap; division by zero gives 0.

use tenon_graph_dialect::operators::Function;
use tenon_tensor::DType;

use super::{map, zip};
use crate::array::{Array, Form};
use crate::number::{widen, wrap};

pub(super) fn apply(function: Function, form: &Form, inputs: &[Array]) -> Option<Array> {
    let dtype = inputs[0].dtype;
    let bits = dtype.bits();
    let values = if let [a, b] = inputs {
        let function = binary(function)?;
        zip(a.ints(), b.ints(), |a, b| wrap(form.dtype, function(widen(dtype, a), widen(dtype, b), bits)))
    } else {
        let function = unary(function, dtype)?;
        map(inputs[0].ints(), |a| wrap(form.dtype, function(widen(dtype, a))))
    };
    Some(Array::integers(form, values))
}

fn unary(function: Function, dtype: DType) -> Option<fn(i128) -> i128> {
    Some(match function {
        Function::Negate => |a| -a,
        Function::Abs => i128::abs,
        Function::Sign => i128::signum,
        Function::Not => |a| i128::from(a == 0),
        Function::BitNot if dtype == DType::Bool => |a| i128::from(a == 0),
        Function::BitNot => |a| !a,
        _ => return None,
    })
}

fn binary(function: Function) -> Option<fn(i128, i128, u32) -> i128> {
    Some(match function {
        Function::Add => |a, b, _| a + b,
        Function::Subtract => |a, b, _| a - b,
        // Two 64-bit factors fit 128 bits but for the sign of the largest unsigned ones, which wrapping does not see.
        Function::Multiply => |a, b, _| a.wrapping_mul(b),
        Function::Divide => |a, b, _| if b == 0 { 0 } else { a / b },
        // a - b·(a / b), where a / 0 is 0.
        Function::Remainder => |a, b, _| if b == 0 { a } else { a % b },
        Function::Modulo => |a, b, _| {
            if b == 0 {
                return a;
            }
            let remainder = a % b;
            if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder }
        },
        Function::Power => |a, b, _| power(a, b),
        Function::Max => |a, b, _| a.max(b),
        Function::Min => |a, b, _| a.min(b),
        Function::And | Function::BitAnd => |a, b, _| a & b,
        Function::Or | Function::BitOr => |a, b, _| a | b,
        Function::Xor | Function::BitXor => |a, b, _| a ^ b,
        Function::ShiftLeft => |a, b, bits| if (0..i128::from(bits)).contains(&b) { a << b } else { 0 },
        Function::ShiftRight => |a, b, bits| {
            let whole = if a < 0 { -1 } else { 0 };
            if (0..i128::from(bits)).contains(&b) { a >> b } else { whole }
        },
        Function::Equal => |a, b, _| i128::from(a == b),
        Function::NotEqual => |a, b, _| i128::from(a != b),
        Function::Less => |a, b, _| i128::from(a < b),
        Function::LessEqual => |a, b, _| i128::from(a <= b),
        Function::Greater => |a, b, _| i128::from(a > b),
        Function::GreaterEqual => |a, b, _| i128::from(a >= b),
        _ => return None,
    })
}

/// Modulo 2¹²⁸ for exponents from 0; below, the truncated quotient 1 / aᵇ, with 1 / 0 as 0.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i128, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operators::testing::*;
    use tenon_graph_dialect::operators::Elementwise;
    use tenon_tensor::Tensor;

    fn at(dtype: DType, function: Function, a: i64, b: i64) -> i64 {
        let scalar = |value: i64| Tensor::from_bits(dtype, vec![], [value as u64]).unwrap();
        run(Elementwise { function }, &[scalar(a), scalar(b)]).to_i64_vec().unwrap()[0]
    }

    #[test]
    fn two_integers() {
        use Function::*;
        for (dtype, function, a, b, expected) in [
            (DType::I8, Add, 100, 100, -56),
            (DType::U8, Subtract, 3, 5, 254),
            (DType::I32, Multiply, 1 << 20, 1 << 20, 0),
            (DType::I32, Divide, -7, 2, -3),
            (DType::I32, Divide, 7, 0, 0),
            (DType::I8, Divide, -128, -1, -128),
            (DType::I32, Modulo, -7, 3, 2),
            (DType::I32, Modulo, 7, -3, -2),
            (DType::I32, Remainder, -7, 3, -1),
            (DType::I32, Modulo, 7, 0, 7),
            (DType::I64, Power, 3, 4, 81),
            (DType::I32, Power, 2, -1, 0),
            (DType::I32, Power, -1, -3, -1),
            (DType::U8, Power, 2, 9, 0),
            (DType::I16, Max, -2, 1, 1),
            (DType::U16, Min, 65535, 1, 1),
            (DType::I32, BitAnd, 12, 10, 8),
            (DType::I32, BitOr, 12, 10, 14),
            (DType::I32, BitXor, 12, 10, 6),
            (DType::U8, ShiftLeft, 3, 7, 128),
            (DType::U8, ShiftLeft, 3, 8, 0),
            (DType::I8, ShiftRight, -128, 3, -16),
            (DType::I8, ShiftRight, -1, 8, -1),
            (DType::U8, ShiftRight, 128, 7, 1),
            (DType::I32, Less, -1, 0, 1),
            (DType::U64, Less, -1, 0, 0),
            (DType::I32, GreaterEqual, 2, 2, 1),
            (DType::I32, NotEqual, 1, 2, 1),
            (DType::I32, Equal, 1, 2, 0),
            (DType::I32, LessEqual, 3, 2, 0),
            (DType::I32, Greater, 3, 2, 1),
            (DType::Bool, And, 1, 0, 0),
            (DType::Bool, Or, 1, 0, 1),
            (DType::Bool, Xor, 1, 1, 0),
            (DType::Bool, Max, 1, 0, 1),
            (DType::Bool, Equal, 0, 0, 1),
            (DType::I4, Add, 7, 1, -8),
            (DType::U2, Multiply, 3, 3, 1),
        ] {
            assert_eq!(at(dtype, function, a, b), expected, "{} of {a}, {b} in {dtype}", function.name());
        }
    }

    #[test]
    fn one_integer() {
        let one = |dtype, function, value: i64| {
            let input = Tensor::from_bits(dtype, vec![], [value as u64]).unwrap();
            run(Elementwise { function }, &[input]).to_i64_vec().unwrap()[0]
        };
        assert_eq!(one(DType::I8, Function::Negate, -128), -128);
        assert_eq!(one(DType::U8, Function::Negate, 1), 255);
        assert_eq!(one(DType::I32, Function::Abs, -5), 5);
        assert_eq!(one(DType::I32, Function::Sign, -5), -1);
        assert_eq!(one(DType::U8, Function::BitNot, 1), 254);
        assert_eq!(one(DType::Bool, Function::BitNot, 1), 0);
        assert_eq!(one(DType::Bool, Function::Not, 0), 1);
    }
}
