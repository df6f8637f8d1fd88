//! Evaluation of functions on the host.

use super::expression::{Code, Function, Node, Ty};

/// The function's value: bits of arguments and result. `values` is room that is reused.
pub(super) fn evaluate(function: &Function, arguments: &[u64], values: &mut Vec<u64>) -> u64 {
    values.clear();
    values.resize(function.nodes.len(), 0);
    run(function, 0..function.nodes.len(), arguments, values);
    values[function.result]
}

fn run(function: &Function, range: std::ops::Range<usize>, arguments: &[u64], values: &mut Vec<u64>) {
    let mut at = range.start;
    while at < range.end {
        let (node, ty) = &function.nodes[at];
        values[at] = match node {
            Node::Argument(index) => arguments[*index],
            Node::Float(value) => u64::from(value.to_bits()),
            Node::Double(value) => value.to_bits(),
            Node::Int(value) => u64::from(*value as u32),
            Node::Long(value) => *value as u64,
            Node::Op(code, ids) => {
                let operand_type = function.nodes[ids[0]].1;
                operation(*code, operand_type, *ty, ids.map(|id| values[id]))
            }
            Node::Branch { condition, then, otherwise, yields } => {
                let taken = values[*condition] != 0;
                run(function, if taken { then.clone() } else { otherwise.clone() }, arguments, values);
                // Its results follow it.
                let list = &yields[usize::from(!taken)];
                for (index, id) in list.iter().enumerate() {
                    values[otherwise.end + index] = values[*id];
                }
                at = otherwise.end + list.len();
                continue;
            }
            Node::Loop { count, start, body, next } => {
                let mut carried = values[*start];
                for _ in 0..(values[*count] as u32 as i32).max(0) {
                    values[body.start] = carried;
                    run(function, body.start + 1..body.end, arguments, values);
                    carried = values[*next];
                }
                values[body.end] = carried;
                at = body.end + 1;
                continue;
            }
            Node::Result | Node::Carried => values[at],
        };
        debug_assert!(*ty != Ty::Bool || values[at] <= 1);
        at += 1;
    }
}

/// Arithmetic of one type of floats.
macro_rules! float_operation {
    ($code:expr, $v:expr, $float:ident, $bits:ident) => {{
        let f = |i: usize| $float::from_bits($v[i] as $bits);
        let float = |value: $float| u64::from(value.to_bits());
        match $code {
            Code::Add => Some(float(f(0) + f(1))),
            Code::Sub => Some(float(f(0) - f(1))),
            Code::Mul => Some(float(f(0) * f(1))),
            Code::Div => Some(float(f(0) / f(1))),
            Code::Fma => Some(float(f(0).mul_add(f(1), f(2)))),
            Code::Neg => Some(float(-f(0))),
            Code::Abs => Some(float(f(0).abs())),
            Code::Sqrt => Some(float(f(0).sqrt())),
            Code::CopySign => Some(float(f(0).copysign(f(1)))),
            Code::Max if f(0).is_nan() || f(1).is_nan() => Some(float($float::NAN)),
            Code::Max => Some(float(f(0).max(f(1)))),
            Code::Less => Some(u64::from(f(0) < f(1))),
            Code::LessEqual => Some(u64::from(f(0) <= f(1))),
            Code::Equal => Some(u64::from(f(0) == f(1))),
            _ => None,
        }
    }};
}

fn operation(code: Code, operands: Ty, result: Ty, v: [u64; 3]) -> u64 {
    let value = match operands {
        Ty::F32 => float_operation!(code, v, f32, u32),
        Ty::F64 => float_operation!(code, v, f64, u64),
        _ => None,
    };
    value.unwrap_or_else(|| integer_operation(code, operands, result, v))
}

fn integer_operation(code: Code, operands: Ty, result: Ty, v: [u64; 3]) -> u64 {
    let int = |i: usize| v[i] as u32 as i32;
    let wide = matches!(operands, Ty::I64 | Ty::F64);
    // Results of 32-bit operations have zeros above.
    let fit = |value: u64| if wide { value } else { value & 0xffff_ffff };
    let signed = if wide { v[0] as i64 } else { i64::from(int(0)) };
    match code {
        Code::Bits | Code::FromBits => fit(v[0]),
        Code::Widen | Code::Narrow => v[0] & 0xffff_ffff,
        Code::ToFloat if result == Ty::F64 => (signed as f64).to_bits(),
        Code::ToFloat => u64::from((signed as f32).to_bits()),
        Code::IntAdd => fit(v[0].wrapping_add(v[1])),
        Code::IntSub => fit(v[0].wrapping_sub(v[1])),
        Code::IntMul => fit(v[0].wrapping_mul(v[1])),
        Code::IntMulHigh => ((u128::from(v[0]) * u128::from(v[1])) >> 64) as u64,
        Code::IntRemainder => v[0] % v[1],
        Code::And => v[0] & v[1],
        Code::Or => v[0] | v[1],
        Code::Xor => v[0] ^ v[1],
        Code::ShiftLeft => fit(v[0].wrapping_shl(v[1] as u32)),
        Code::ShiftRight if wide => signed.wrapping_shr(v[1] as u32) as u64,
        Code::ShiftRight => u64::from(int(0).wrapping_shr(v[1] as u32) as u32),
        Code::ShiftRightZero => v[0].wrapping_shr(v[1] as u32),
        Code::IntLess if wide => u64::from(signed < v[1] as i64),
        Code::IntLess => u64::from(int(0) < int(1)),
        Code::IntBelow => u64::from(v[0] < v[1]),
        Code::IntEqual => u64::from(v[0] == v[1]),
        Code::Select if v[0] != 0 => v[1],
        Code::Select => v[2],
        // The floats' own, whose operands are floats.
        _ => 0,
    }
}
