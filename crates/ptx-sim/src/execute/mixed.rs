//! `f32` arithmetic of pairs, and with 16-bit operands (PTX ISA 9.7.3 and 9.7.5 of 8.6, from `sm_100` on): `add sub mul fma` of `.f32x2`,
//! and `add sub fma` of `.f32.f16` and `.f32.bf16`, whose last operand is the `f32`.
//!
//! Every result is rounded once in the direction asked for; `fma` is fused; 16-bit operands are exact in `f32`.

use super::float::fused;
use super::lanes::{Registers, Slot, map3};
use super::numbers::{Round, bfloat_to_f32, bits, f, flush, half_to_f32, saturate, to_f32};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Add,
    Sub,
    Mul,
    Fma,
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    f: Function,
    round: Round,
    ftz: bool,
    sat: bool,
    /// Type of the operands before the last; `F32` for pairs.
    narrow: Type,
    d: Slot,
    a: Slot,
    b: Slot,
    c: Slot,
}

impl Op {
    /// `c` is the last operand.
    fn one(&self, a: f32, b: f32, c: f32) -> u32 {
        let v = match self.f {
            Function::Add => fused(a, 1.0, c, self.round),
            Function::Sub => fused(a, 1.0, -c, self.round),
            Function::Mul => to_f32(f64::from(a) * f64::from(c), self.round),
            Function::Fma => fused(a, b, c, self.round),
        };
        let v = if self.ftz { f(flush(bits(v))) } else { v };
        bits(if self.sat { saturate(v) } else { v })
    }

    pub(crate) fn execute(&self, r: &mut Registers, mask: u32) {
        if self.narrow == Type::F32 {
            let v = map3(r.get64(self.a), r.get64(self.b), r.get64(self.c), |a, b, c| {
                let half = |shift: u32| {
                    let read = |v: u64| {
                        let v = (v >> shift) as u32;
                        f(if self.ftz { flush(v) } else { v })
                    };
                    u64::from(self.one(read(a), read(b), read(c))) << shift
                };
                half(0) | half(32)
            });
            r.put64(self.d, &v, mask);
            return;
        }
        let widen = |v: u32| if self.narrow == Type::F16 { half_to_f32(v & 0xffff) } else { bfloat_to_f32(v & 0xffff) };
        let v = map3(r.get(self.a), r.get(self.b), r.get(self.c), |a, b, c| self.one(widen(a), widen(b), f(c)));
        r.put(self.d, &v, mask);
    }
}

/// Decodes an instruction on pairs; its modifier `.f32x2` is taken.
pub(crate) fn decode_pairs(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    let function = function(form)?;
    let round = Round::take(form).unwrap_or(Round::Nearest);
    let ftz = form.flag("ftz");
    operands(form, Op { f: function, round, ftz, sat: false, narrow: Type::F32, d: 0, a: 0, b: 0, c: 0 }, Type::B64)
}

/// Decodes an instruction with `f32` as its first type and a 16-bit float as its second; both are taken.
pub(crate) fn decode_mixed(form: &mut Form<'_, '_>, narrow: Type) -> Result<Op, Error> {
    let function = function(form)?;
    if function == Function::Mul {
        return form.unsupported(narrow);
    }
    let round = Round::take(form).unwrap_or(Round::Nearest);
    let sat = form.flag("sat");
    operands(form, Op { f: function, round, ftz: false, sat, narrow, d: 0, a: 0, b: 0, c: 0 }, Type::F32)
}

fn function(form: &Form<'_, '_>) -> Result<Function, Error> {
    Ok(match form.name() {
        "add" => Function::Add,
        "sub" => Function::Sub,
        "mul" => Function::Mul,
        "fma" => Function::Fma,
        _ => return form.error("unsuitable type"),
    })
}

/// Takes the operands: the result and the last one of type `wide`, those between of the same or the narrow type.
fn operands(form: &mut Form<'_, '_>, mut op: Op, wide: Type) -> Result<Op, Error> {
    let sources = if op.f == Function::Fma { 3 } else { 2 };
    form.need_count(sources + 1)?;
    let between = if op.narrow == Type::F32 { wide } else { op.narrow };
    op.d = form.dst(0, wide)?;
    op.a = form.src(1, between)?;
    op.b = if op.f == Function::Fma { form.src(2, between)? } else { op.a };
    op.c = form.src(sources, wide)?;
    Ok(op)
}
