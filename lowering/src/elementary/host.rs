//! Evaluation of functions on the host.

use super::expression::{Code, Function, Node, Ty};

/// The function's value. `values` is room that is reused.
pub(super) fn evaluate(function: &Function, arguments: &[f32], values: &mut Vec<u64>) -> f32 {
    values.clear();
    values.resize(function.nodes.len(), 0);
    run(function, 0..function.nodes.len(), arguments, values);
    f32::from_bits(values[function.result] as u32)
}

fn run(function: &Function, range: std::ops::Range<usize>, arguments: &[f32], values: &mut Vec<u64>) {
    let mut at = range.start;
    while at < range.end {
        let (node, ty) = &function.nodes[at];
        values[at] = match node {
            Node::Argument(index) => u64::from(arguments[*index].to_bits()),
            Node::Float(value) => u64::from(value.to_bits()),
            Node::Int(value) => u64::from(*value as u32),
            Node::Long(value) => *value as u64,
            Node::Op(code, ids) => {
                let operand_type = function.nodes[ids[0]].1;
                operation(*code, operand_type, ids.map(|id| values[id]))
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
            Node::Result => values[at],
        };
        debug_assert!(*ty != Ty::Bool || values[at] <= 1);
        at += 1;
    }
}

fn operation(code: Code, operands: Ty, v: [u64; 3]) -> u64 {
    let f = |i: usize| f32::from_bits(v[i] as u32);
    let float = |value: f32| u64::from(value.to_bits());
    let int = |i: usize| v[i] as u32 as i32;
    let wide = operands == Ty::I64;
    // Results of 32-bit operations have zeros above.
    let fit = |value: u64| if wide { value } else { value & 0xffff_ffff };
    match code {
        Code::Add => float(f(0) + f(1)),
        Code::Sub => float(f(0) - f(1)),
        Code::Mul => float(f(0) * f(1)),
        Code::Div => float(f(0) / f(1)),
        Code::Fma => float(f(0).mul_add(f(1), f(2))),
        Code::Neg => float(-f(0)),
        Code::Abs => float(f(0).abs()),
        Code::Sqrt => float(f(0).sqrt()),
        Code::CopySign => float(f(0).copysign(f(1))),
        Code::Bits | Code::FromBits | Code::Widen => v[0] & 0xffff_ffff,
        Code::Narrow => v[0] & 0xffff_ffff,
        Code::ToFloat => float(if wide { v[0] as i64 as f32 } else { int(0) as f32 }),
        Code::Less => u64::from(f(0) < f(1)),
        Code::LessEqual => u64::from(f(0) <= f(1)),
        Code::Equal => u64::from(f(0) == f(1)),
        Code::IntAdd => fit(v[0].wrapping_add(v[1])),
        Code::IntSub => fit(v[0].wrapping_sub(v[1])),
        Code::IntMul => fit(v[0].wrapping_mul(v[1])),
        Code::IntRemainder => v[0] % v[1],
        Code::And => v[0] & v[1],
        Code::Or => v[0] | v[1],
        Code::Xor => v[0] ^ v[1],
        Code::ShiftLeft => fit(v[0].wrapping_shl(v[1] as u32)),
        Code::ShiftRight if wide => (v[0] as i64).wrapping_shr(v[1] as u32) as u64,
        Code::ShiftRight => u64::from(int(0).wrapping_shr(v[1] as u32) as u32),
        Code::ShiftRightZero => v[0].wrapping_shr(v[1] as u32),
        Code::IntLess => u64::from(int(0) < int(1)),
        Code::IntEqual => u64::from(v[0] == v[1]),
        Code::Select => {
            if v[0] != 0 {
                v[1]
            } else {
                v[2]
            }
        }
    }
}
