//! 16-bit floating point (PTX ISA 9.7.4): `add sub mul fma neg abs min max ex2 tanh` on `f16 f16x2 bf16 bf16x2`.
//!
//! Every result is rounded once to nearest even from the exact value.

use super::approximate::{exp2, tanh};
use super::lanes::{Lanes, Registers, Slot, Vectors};
use super::numbers::{Round, bfloat_to_f32, f32_to_bfloat, f32_to_half, half_to_f32, sum_to_odd, to_f32_odd};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Add,
    Sub,
    Mul,
    Fma,
    Neg,
    Abs,
    Min,
    Max,
    MinNan,
    MaxNan,
    Ex2,
    Tanh,
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    f: Function,
    bfloat: bool,
    packed: bool,
    ftz: bool,
    sat: bool,
    relu: bool,
    /// `min`/`max` take magnitudes and the exclusive or of the signs.
    sign: bool,
    d: Slot,
    a: Slot,
    b: Slot,
    c: Slot,
}

#[inline(always)]
fn narrow<const BFLOAT: bool>(v: f32) -> u32 {
    if BFLOAT { f32_to_bfloat(v) } else { f32_to_half(v) }
}
#[inline(always)]
fn widen<const BFLOAT: bool>(v: u32) -> f32 {
    if BFLOAT { bfloat_to_f32(v & 0xffff) } else { half_to_f32(v & 0xffff) }
}

impl Op {
    #[inline(always)]
    fn one<const BFLOAT: bool>(&self, a: u32, b: u32, c: u32) -> u32 {
        match self.f {
            Function::Neg => return a ^ 0x8000,
            Function::Abs => return a & 0x7fff,
            _ => {}
        }
        let input = |v: u32| {
            let tiny = if BFLOAT { v & 0x7f80 == 0 } else { v & 0x7c00 == 0 };
            widen::<BFLOAT>(if self.ftz && tiny { v & 0x8000 } else { v })
        };
        let (x, y, z) = (input(a), input(b), input(c));
        let v = match self.f {
            Function::Add => narrow::<BFLOAT>(to_f32_odd(sum_to_odd(f64::from(x), f64::from(y)))),
            Function::Sub => narrow::<BFLOAT>(to_f32_odd(sum_to_odd(f64::from(x), -f64::from(y)))),
            Function::Mul => narrow::<BFLOAT>(to_f32_odd(f64::from(x) * f64::from(y))),
            Function::Fma => narrow::<BFLOAT>(to_f32_odd(sum_to_odd(f64::from(x) * f64::from(y), f64::from(z)))),
            Function::Ex2 => narrow::<BFLOAT>(exp2(f64::from(x)) as f32),
            Function::Tanh => narrow::<BFLOAT>(tanh(f64::from(x)) as f32),
            Function::Min | Function::MinNan => self.choose(x, y, a, b, true),
            Function::Max | Function::MaxNan => self.choose(x, y, a, b, false),
            Function::Neg | Function::Abs => 0,
        };
        let tiny = if BFLOAT { v & 0x7f80 == 0 } else { v & 0x7c00 == 0 };
        let v = if self.ftz && tiny { v & 0x8000 } else { v };
        let nan = v & 0x7fff > if BFLOAT { 0x7f80 } else { 0x7c00 };
        let negative = v & 0x8000 != 0;
        let one = if BFLOAT { 0x3f80 } else { 0x3c00 };
        if self.sat {
            return if nan || negative { 0 } else { v.min(one) };
        }
        if self.relu && negative && !nan { 0 } else { v }
    }

    #[inline(always)]
    fn choose(&self, x: f32, y: f32, a: u32, b: u32, least: bool) -> u32 {
        let (x, y) = if self.sign { (x.abs(), y.abs()) } else { (x, y) };
        let sign = (a ^ b) & 0x8000;
        let (a, b) = if self.sign { (a & 0x7fff, b & 0x7fff) } else { (a, b) };
        let nan = matches!(self.f, Function::MinNan | Function::MaxNan);
        let v = if x.is_nan() && y.is_nan() || nan && (x.is_nan() || y.is_nan()) {
            return 0x7fff;
        } else if x.is_nan() {
            b
        } else if y.is_nan() {
            a
        } else if x == y {
            if least { a | b } else { a & b }
        } else if (x < y) == least {
            a
        } else {
            b
        };
        if self.sign { v & 0x7fff | sign } else { v }
    }
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

#[inline(always)]
fn all<const BFLOAT: bool>(op: &Op, r: &Registers) -> Lanes<u32> {
    let (a, b, c) = (r.get(op.a), r.get(op.b), r.get(op.c));
    let mut v = [0; 32];
    for i in 0..32 {
        let low = op.one::<BFLOAT>(a[i] & 0xffff, b[i] & 0xffff, c[i] & 0xffff);
        v[i] = if op.packed { low | op.one::<BFLOAT>(a[i] >> 16, b[i] >> 16, c[i] >> 16) << 16 } else { low };
    }
    v
}

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        let v = if op.bfloat { all::<true>(op, r) } else { all::<false>(op, r) };
        r.put(op.d, &v, mask);
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        vectors.run(Run(self, r, mask));
    }
}

/// Decodes an instruction whose type is a 16-bit float or a pair of them.
pub(crate) fn decode(form: &mut Form<'_, '_>, t: Type) -> Result<Op, Error> {
    let bfloat = matches!(t, Type::Bf16 | Type::Bf16x2);
    let packed = matches!(t, Type::F16x2 | Type::Bf16x2);
    let name = form.name();
    let round = Round::take(form);
    let ftz = form.flag("ftz");
    let (mut sat, mut relu, mut sign) = (false, false, false);
    let (f, sources) = match name {
        "add" | "sub" | "mul" => {
            sat = !bfloat && form.flag("sat");
            (
                if name == "add" {
                    Function::Add
                } else if name == "sub" {
                    Function::Sub
                } else {
                    Function::Mul
                },
                2,
            )
        }
        "fma" => {
            sat = !bfloat && form.flag("sat");
            relu = form.flag("relu");
            if round.is_none() {
                return form.error("a rounding modifier is missing");
            }
            (Function::Fma, 3)
        }
        "neg" => (Function::Neg, 1),
        "abs" => (Function::Abs, 1),
        "min" | "max" => {
            let nan = form.flag("NaN");
            sign = form.flag("xorsign") && form.flag("abs");
            (
                match (name, nan) {
                    ("min", false) => Function::Min,
                    ("min", true) => Function::MinNan,
                    (_, false) => Function::Max,
                    (_, true) => Function::MaxNan,
                },
                2,
            )
        }
        "ex2" | "tanh" => {
            form.need(&["approx"])?;
            (if name == "ex2" { Function::Ex2 } else { Function::Tanh }, 1)
        }
        _ => return form.unsupported(t),
    };
    if round.is_some_and(|r| r != Round::Nearest) {
        return form.error("16-bit floats round to nearest only");
    }
    form.need_count(sources + 1)?;
    let d = form.dst(0, t)?;
    let a = form.src(1, t)?;
    let b = if sources > 1 { form.src(2, t)? } else { a };
    let c = if sources > 2 { form.src(3, t)? } else { a };
    Ok(Op { f, bfloat, packed, ftz, sat, relu, sign, d, a, b, c })
}
