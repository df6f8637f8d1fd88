//! `f32` and `f64` arithmetic (PTX ISA 9.7.3): `add sub mul fma mad div rcp sqrt neg abs min max copysign testp`.
//!
//! Every result is rounded once in the direction asked for; `fma` is fused; subnormals are kept unless `.ftz`.
//! `.approx` and `.full` divisions, reciprocals and roots give the correctly rounded result; see `approximate` for what a GPU may give.

use super::integer::functions;
use super::lanes::{Registers, Slot, Vectors, map1, map3};
use super::numbers::{NAN32, Round, bits, bits64, d as dbl, f, flush, redirect, saturate, sum_to_odd, to_f32, to_odd};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

#[inline(always)]
fn minimum(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let r = if x < y {
        a
    } else if y < x {
        b
    } else {
        a | b
    };
    let r = if x.is_nan() {
        b
    } else if y.is_nan() {
        a
    } else {
        r
    };
    bits(f(r))
}
#[inline(always)]
fn maximum(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let r = if x > y {
        a
    } else if y > x {
        b
    } else {
        a & b
    };
    let r = if x.is_nan() {
        b
    } else if y.is_nan() {
        a
    } else {
        r
    };
    bits(f(r))
}
#[inline(always)]
fn minimum64(a: u64, b: u64) -> u64 {
    let (x, y) = (dbl(a), dbl(b));
    let r = if x < y {
        a
    } else if y < x {
        b
    } else {
        a | b
    };
    let r = if x.is_nan() {
        b
    } else if y.is_nan() {
        a
    } else {
        r
    };
    bits64(dbl(r))
}
#[inline(always)]
fn maximum64(a: u64, b: u64) -> u64 {
    let (x, y) = (dbl(a), dbl(b));
    let r = if x > y {
        a
    } else if y > x {
        b
    } else {
        a & b
    };
    let r = if x.is_nan() {
        b
    } else if y.is_nan() {
        a
    } else {
        r
    };
    bits64(dbl(r))
}

functions!(Unary, run, 1, (a), u32, u32;
    Neg = |a: u32| a ^ 0x8000_0000;
    Abs = |a: u32| a & 0x7fff_ffff;
    Rcp = |a: u32| bits(1.0 / f(a));
    Sqrt = |a: u32| bits(f(a).sqrt());
);
functions!(Binary, run, 2, (a, b), u32, u32;
    Add = |a: u32, b: u32| bits(f(a) + f(b));
    Sub = |a: u32, b: u32| bits(f(a) - f(b));
    Mul = |a: u32, b: u32| bits(f(a) * f(b));
    Div = |a: u32, b: u32| bits(f(a) / f(b));
    Min = minimum;
    Max = maximum;
    MinNan = |a: u32, b: u32| if f(a).is_nan() || f(b).is_nan() { NAN32 } else { minimum(a, b) };
    MaxNan = |a: u32, b: u32| if f(a).is_nan() || f(b).is_nan() { NAN32 } else { maximum(a, b) };
    MinSign = |a: u32, b: u32| minimum(a & 0x7fff_ffff, b & 0x7fff_ffff) & 0x7fff_ffff | (a ^ b) & 0x8000_0000;
    MaxSign = |a: u32, b: u32| maximum(a & 0x7fff_ffff, b & 0x7fff_ffff) & 0x7fff_ffff | (a ^ b) & 0x8000_0000;
    MinNanSign = |a: u32, b: u32| if f(a).is_nan() || f(b).is_nan() { NAN32 } else { minimum(a & 0x7fff_ffff, b & 0x7fff_ffff) | (a ^ b) & 0x8000_0000 };
    MaxNanSign = |a: u32, b: u32| if f(a).is_nan() || f(b).is_nan() { NAN32 } else { maximum(a & 0x7fff_ffff, b & 0x7fff_ffff) | (a ^ b) & 0x8000_0000 };
    CopySign = |a: u32, b: u32| a & 0x8000_0000 | b & 0x7fff_ffff;
);
functions!(Unary64, run, 1, (a), u64, u64;
    Neg = |a: u64| a ^ 1 << 63;
    Abs = |a: u64| a & !(1 << 63);
    Rcp = |a: u64| bits64(1.0 / dbl(a));
    Sqrt = |a: u64| bits64(dbl(a).sqrt());
    RsqrtApprox = |a: u64| bits64(1.0 / dbl(a).sqrt());
);
functions!(Binary64, run, 2, (a, b), u64, u64;
    Add = |a: u64, b: u64| bits64(dbl(a) + dbl(b));
    Sub = |a: u64, b: u64| bits64(dbl(a) - dbl(b));
    Mul = |a: u64, b: u64| bits64(dbl(a) * dbl(b));
    Div = |a: u64, b: u64| bits64(dbl(a) / dbl(b));
    Min = minimum64;
    Max = maximum64;
    CopySign = |a: u64, b: u64| a & 1 << 63 | b & !(1 << 63);
);

/// `a·b + c`, rounded once in a direction.
pub(crate) fn fused(a: f32, b: f32, c: f32, round: Round) -> f32 {
    if round == Round::Nearest {
        return a.mul_add(b, c);
    }
    let product = f64::from(a) * f64::from(b);
    let exact = sum_to_odd(product, f64::from(c));
    if exact == 0.0 {
        let both_negative = product.is_sign_negative() && c.is_sign_negative();
        let cancelled = product != 0.0 || product.is_sign_negative() != c.is_sign_negative();
        return if both_negative || cancelled && round == Round::Down { -0.0 } else { 0.0 };
    }
    to_f32(exact, round)
}

fn add64(a: f64, b: f64, round: Round) -> f64 {
    let s = a + b;
    let t = s - a;
    let error = (a - (s - t)) + (b - t);
    if s == 0.0 && error == 0.0 && round == Round::Down && (a != 0.0 || a.is_sign_negative() != b.is_sign_negative()) {
        return -0.0;
    }
    redirect(s, error, round)
}
fn fused64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let r = a.mul_add(b, c);
    let p = a * b;
    let low = a.mul_add(b, -p);
    let s = p + c;
    let t = s - p;
    let error = (p - (s - t)) + (c - t);
    redirect(r, (s - r) + (error + low), round)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Directed {
    Add,
    Sub,
    Mul,
    Div,
    Rcp,
    Sqrt,
    Fma,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    One {
        f: Unary,
        d: Slot,
        a: Slot,
        ftz: bool,
    },
    Two {
        f: Binary,
        d: Slot,
        a: Slot,
        b: Slot,
        ftz: bool,
        sat: bool,
    },
    Fma {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    FmaMode {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        ftz: bool,
        sat: bool,
    },
    One64(Unary64, Slot, Slot),
    Two64(Binary64, Slot, Slot, Slot),
    Fma64 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Any rounding other than to nearest.
    Round(Box<Rounded>),
    Three {
        least: bool,
        nan: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        ftz: bool,
    },
    Test {
        class: Class,
        d: Slot,
        a: Slot,
        wide: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Rounded {
    f: Directed,
    wide: bool,
    round: Round,
    ftz: bool,
    sat: bool,
    d: Slot,
    a: Slot,
    b: Slot,
    c: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

impl Class {
    fn holds(self, v: f64, subnormal: bool) -> bool {
        match self {
            Class::Finite => v.is_finite(),
            Class::Infinite => v.is_infinite(),
            Class::Number => !v.is_nan(),
            Class::NotANumber => v.is_nan(),
            Class::Normal => v.is_finite() && v != 0.0 && !subnormal,
            Class::Subnormal => subnormal,
        }
    }
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

#[inline(always)]
fn flushed(on: bool, v: u32) -> u32 {
    if on { flush(v) } else { v }
}

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        match *op {
            Op::One { f: g, d, a, ftz } => {
                let mut v = *r.get(a);
                if ftz {
                    v = map1(&v, flush);
                }
                v = g.run(&v);
                if ftz {
                    v = map1(&v, flush);
                }
                r.put(d, &v, mask);
            }
            Op::Two { f: g, d, a, b, ftz, sat } => {
                let v = if ftz || sat {
                    let (x, y) = (map1(r.get(a), |v| flushed(ftz, v)), map1(r.get(b), |v| flushed(ftz, v)));
                    map1(&g.run(&x, &y), |v| {
                        let v = flushed(ftz, v);
                        if sat { saturate(f(v)).to_bits() } else { v }
                    })
                } else {
                    g.run(r.get(a), r.get(b))
                };
                r.put(d, &v, mask);
            }
            Op::Fma { d, a, b, c } => {
                let v = map3(r.get(a), r.get(b), r.get(c), |a, b, c| bits(f(a).mul_add(f(b), f(c))));
                r.put(d, &v, mask);
            }
            Op::FmaMode { d, a, b, c, ftz, sat } => {
                let v = map3(r.get(a), r.get(b), r.get(c), |a, b, c| {
                    let v = f(flushed(ftz, a)).mul_add(f(flushed(ftz, b)), f(flushed(ftz, c)));
                    let v = flushed(ftz, bits(v));
                    if sat { saturate(f(v)).to_bits() } else { v }
                });
                r.put(d, &v, mask);
            }
            Op::One64(g, d, a) => {
                let v = g.run(r.get64(a));
                r.put64(d, &v, mask);
            }
            Op::Two64(g, d, a, b) => {
                let v = g.run(r.get64(a), r.get64(b));
                r.put64(d, &v, mask);
            }
            Op::Fma64 { d, a, b, c } => {
                let v = map3(r.get64(a), r.get64(b), r.get64(c), |a, b, c| bits64(dbl(a).mul_add(dbl(b), dbl(c))));
                r.put64(d, &v, mask);
            }
            Op::Three { least, nan, d, a, b, c, ftz } => {
                let v = map3(r.get(a), r.get(b), r.get(c), |a, b, c| {
                    let (a, b, c) = (flushed(ftz, a), flushed(ftz, b), flushed(ftz, c));
                    if nan && (f(a).is_nan() || f(b).is_nan() || f(c).is_nan()) {
                        NAN32
                    } else if least {
                        minimum(minimum(a, b), c)
                    } else {
                        maximum(maximum(a, b), c)
                    }
                });
                r.put(d, &v, mask);
            }
            Op::Round(_) | Op::Test { .. } => {}
        }
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        match self {
            Op::Round(op) => op.execute(r, mask),
            Op::Test { class, d, a, wide } => {
                let mut out = 0;
                for i in 0..32 {
                    let holds = if *wide {
                        let v = dbl(r.get64(*a)[i]);
                        class.holds(v, v.is_subnormal())
                    } else {
                        let v = f(r.get(*a)[i]);
                        class.holds(f64::from(v), v.is_subnormal())
                    };
                    out |= u32::from(holds) << i;
                }
                r.put_predicate(*d, out, mask);
            }
            _ => vectors.run(Run(self, r, mask)),
        }
    }
}

impl Rounded {
    fn execute(&self, r: &mut Registers, mask: u32) {
        if self.wide {
            let mut v = [0u64; 32];
            for (i, v) in v.iter_mut().enumerate() {
                let (a, b, c) = (dbl(r.get64(self.a)[i]), dbl(r.get64(self.b)[i]), dbl(r.get64(self.c)[i]));
                *v = bits64(match self.f {
                    Directed::Add => add64(a, b, self.round),
                    Directed::Sub => add64(a, -b, self.round),
                    Directed::Mul => redirect(a * b, a.mul_add(b, -(a * b)), self.round),
                    Directed::Fma => fused64(a, b, c, self.round),
                    Directed::Div => divide64(a, b, self.round),
                    Directed::Rcp => divide64(1.0, a, self.round),
                    Directed::Sqrt => {
                        let q = a.sqrt();
                        redirect(q, (-q).mul_add(q, a), self.round)
                    }
                });
            }
            r.put64(self.d, &v, mask);
            return;
        }
        let mut v = [0u32; 32];
        for (i, v) in v.iter_mut().enumerate() {
            let read = |s: Slot| f(flushed(self.ftz, r.get(s)[i]));
            let (a, b, c) = (read(self.a), read(self.b), read(self.c));
            let x = match self.f {
                Directed::Add => fused(a, 1.0, b, self.round),
                Directed::Sub => fused(a, 1.0, -b, self.round),
                Directed::Mul => to_f32(f64::from(a) * f64::from(b), self.round),
                Directed::Fma => fused(a, b, c, self.round),
                Directed::Div => divide(a, b, self.round),
                Directed::Rcp => divide(1.0, a, self.round),
                Directed::Sqrt => {
                    let (wide, q) = (f64::from(a), f64::from(a).sqrt());
                    to_f32(to_odd(q, (-q).mul_add(q, wide)), self.round)
                }
            };
            let x = flushed(self.ftz, bits(x));
            *v = if self.sat { saturate(f(x)).to_bits() } else { x };
        }
        r.put(self.d, &v, mask);
    }
}

fn divide(a: f32, b: f32, round: Round) -> f32 {
    let (x, y) = (f64::from(a), f64::from(b));
    let q = x / y;
    if !q.is_finite() || q == 0.0 {
        return q as f32;
    }
    let rest = (-q).mul_add(y, x);
    to_f32(to_odd(q, if y < 0.0 { -rest } else { rest }), round)
}
fn divide64(a: f64, b: f64, round: Round) -> f64 {
    let q = a / b;
    if !q.is_finite() || q == 0.0 {
        return q;
    }
    let rest = (-q).mul_add(b, a);
    redirect(q, if b < 0.0 { -rest } else { rest }, round)
}

/// Decodes an instruction whose type is `f32` or `f64`.
pub(crate) fn decode(form: &mut Form<'_, '_>, t: Type) -> Result<Op, Error> {
    let name = form.name();
    let wide = t == Type::F64;
    if t != Type::F32 && !wide {
        return form.unsupported(t);
    }
    match name {
        "neg" | "abs" => {
            let ftz = !wide && form.flag("ftz");
            form.need_count(2)?;
            let (d, a) = (form.dst(0, t)?, form.src(1, t)?);
            Ok(match (wide, name) {
                (true, "neg") => Op::One64(Unary64::Neg, d, a),
                (true, _) => Op::One64(Unary64::Abs, d, a),
                (false, "neg") => Op::One { f: Unary::Neg, d, a, ftz },
                (false, _) => Op::One { f: Unary::Abs, d, a, ftz },
            })
        }
        "copysign" => {
            form.need_count(3)?;
            let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?);
            Ok(match wide {
                true => Op::Two64(Binary64::CopySign, d, a, b),
                false => Op::Two { f: Binary::CopySign, d, a, b, ftz: false, sat: false },
            })
        }
        "min" | "max" => {
            let least = name == "min";
            let ftz = !wide && form.flag("ftz");
            let nan = !wide && form.flag("NaN");
            let sign = !wide && form.flag("xorsign") && form.flag("abs");
            if form.count() == 4 && !wide && !sign {
                return Ok(Op::Three {
                    least,
                    nan,
                    d: form.dst(0, t)?,
                    a: form.src(1, t)?,
                    b: form.src(2, t)?,
                    c: form.src(3, t)?,
                    ftz,
                });
            }
            form.need_count(3)?;
            let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?);
            if wide {
                return Ok(Op::Two64(if least { Binary64::Min } else { Binary64::Max }, d, a, b));
            }
            let f = match (least, nan, sign) {
                (true, false, false) => Binary::Min,
                (true, false, true) => Binary::MinSign,
                (true, true, false) => Binary::MinNan,
                (true, true, true) => Binary::MinNanSign,
                (false, false, false) => Binary::Max,
                (false, false, true) => Binary::MaxSign,
                (false, true, false) => Binary::MaxNan,
                (false, true, true) => Binary::MaxNanSign,
            };
            Ok(Op::Two { f, d, a, b, ftz, sat: false })
        }
        "testp" => {
            let class = match form.need(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"])? {
                "finite" => Class::Finite,
                "infinite" => Class::Infinite,
                "number" => Class::Number,
                "notanumber" => Class::NotANumber,
                "normal" => Class::Normal,
                _ => Class::Subnormal,
            };
            form.need_count(2)?;
            Ok(Op::Test { class, d: form.predicate_dst(0)?, a: form.src(1, t)?, wide })
        }
        "add" | "sub" | "mul" | "div" | "fma" | "mad" | "rcp" | "sqrt" => arithmetic(form, t, name),
        _ => form.error("unknown instruction"),
    }
}

fn arithmetic(form: &mut Form<'_, '_>, t: Type, name: &str) -> Result<Op, Error> {
    let wide = t == Type::F64;
    let round = Round::take(form);
    let ftz = form.flag("ftz");
    let approximate = matches!(name, "div" | "rcp" | "sqrt") && form.pick(&["approx", "full"]).is_some();
    let sat = !wide && matches!(name, "add" | "sub" | "mul" | "fma" | "mad") && form.flag("sat");
    if wide && ftz && !(approximate && name == "rcp") {
        return form.error("`.ftz` needs type f32");
    }
    if round.is_none() && !approximate && matches!(name, "fma" | "mad" | "div" | "rcp" | "sqrt") {
        return form.error("a rounding modifier is missing");
    }
    let round = round.unwrap_or(Round::Nearest);
    let (f, sources) = match name {
        "add" => (Directed::Add, 2),
        "sub" => (Directed::Sub, 2),
        "mul" => (Directed::Mul, 2),
        "div" => (Directed::Div, 2),
        "rcp" => (Directed::Rcp, 1),
        "sqrt" => (Directed::Sqrt, 1),
        _ => (Directed::Fma, 3),
    };
    form.need_count(sources + 1)?;
    let d = form.dst(0, t)?;
    let a = form.src(1, t)?;
    let b = if sources > 1 { form.src(2, t)? } else { a };
    let c = if sources > 2 { form.src(3, t)? } else { a };
    if round != Round::Nearest {
        return Ok(Op::Round(Box::new(Rounded { f, wide, round, ftz, sat, d, a, b, c })));
    }
    Ok(match (f, wide) {
        (Directed::Add, false) => Op::Two { f: Binary::Add, d, a, b, ftz, sat },
        (Directed::Sub, false) => Op::Two { f: Binary::Sub, d, a, b, ftz, sat },
        (Directed::Mul, false) => Op::Two { f: Binary::Mul, d, a, b, ftz, sat },
        (Directed::Div, false) => Op::Two { f: Binary::Div, d, a, b, ftz, sat },
        (Directed::Rcp, false) => Op::One { f: Unary::Rcp, d, a, ftz },
        (Directed::Sqrt, false) => Op::One { f: Unary::Sqrt, d, a, ftz },
        (Directed::Fma, false) if ftz || sat => Op::FmaMode { d, a, b, c, ftz, sat },
        (Directed::Fma, false) => Op::Fma { d, a, b, c },
        (Directed::Add, true) => Op::Two64(Binary64::Add, d, a, b),
        (Directed::Sub, true) => Op::Two64(Binary64::Sub, d, a, b),
        (Directed::Mul, true) => Op::Two64(Binary64::Mul, d, a, b),
        (Directed::Div, true) => Op::Two64(Binary64::Div, d, a, b),
        (Directed::Rcp, true) => Op::One64(Unary64::Rcp, d, a),
        (Directed::Sqrt, true) => Op::One64(Unary64::Sqrt, d, a),
        (Directed::Fma, true) => Op::Fma64 { d, a, b, c },
    })
}

/// `rsqrt.approx.f64`.
pub(crate) fn reciprocal_root64(d: Slot, a: Slot) -> Op {
    Op::One64(Unary64::RsqrtApprox, d, a)
}
