//! Integer arithmetic (PTX ISA 9.7.1): `add sub mul mad mul24 mad24 sad div rem abs neg min max dp4a dp2a` and the carry
//! forms `add.cc addc sub.cc subc mad.cc madc`.
//!
//! Division by zero gives all ones and its remainder the dividend, as the hardware does.

use super::lanes::{Registers, Slot, Vectors, map2};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

/// An enumeration of functions of one lane, with their map over all lanes.
macro_rules! functions {
    ($name:ident, run, 1, (a), $in:ty, $out:ty; $($variant:ident = $body:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum $name { $($variant),* }
        impl $name {
            #[inline(always)]
            fn run(self, a: &[$in; 32]) -> [$out; 32] {
                match self { $($name::$variant => $crate::execute::lanes::map1(a, $body)),* }
            }
        }
    };
    ($name:ident, run, 2, (a, b), $in:ty, $out:ty; $($variant:ident = $body:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum $name { $($variant),* }
        impl $name {
            #[inline(always)]
            fn run(self, a: &[$in; 32], b: &[$in; 32]) -> [$out; 32] {
                match self { $($name::$variant => $crate::execute::lanes::map2(a, b, $body)),* }
            }
        }
    };
    ($name:ident, run, 3, (a, b, c), $in:ty, $out:ty; $($variant:ident = $body:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum $name { $($variant),* }
        impl $name {
            #[inline(always)]
            fn run(self, a: &[$in; 32], b: &[$in; 32], c: &[$in; 32]) -> [$out; 32] {
                match self { $($name::$variant => $crate::execute::lanes::map3(a, b, c, $body)),* }
            }
        }
    };
}
pub(crate) use functions;

#[inline(always)]
fn s16(a: u32) -> i16 {
    a as u16 as i16
}
#[inline(always)]
fn back(a: i16) -> u32 {
    u32::from(a as u16)
}
#[inline(always)]
fn clamp_s32(v: i64) -> u32 {
    v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32
}

functions!(Unary32, run, 1, (a), u32, u32;
    Neg32 = |a: u32| a.wrapping_neg();
    Neg16 = |a: u32| back(s16(a).wrapping_neg());
    Abs32 = |a: u32| (a as i32).wrapping_abs() as u32;
    Abs16 = |a: u32| back(s16(a).wrapping_abs());
);
functions!(Unary64, run, 1, (a), u64, u64;
    Neg = |a: u64| a.wrapping_neg();
    Abs = |a: u64| (a as i64).wrapping_abs() as u64;
);
functions!(Binary32, run, 2, (a, b), u32, u32;
    Add32 = |a: u32, b: u32| a.wrapping_add(b);
    AddSat = |a: u32, b: u32| (a as i32).saturating_add(b as i32) as u32;
    Add16 = |a: u32, b: u32| a.wrapping_add(b) & 0xffff;
    Add16x2 = |a: u32, b: u32| (a.wrapping_add(b) & 0xffff) | ((a >> 16).wrapping_add(b >> 16) << 16);
    Sub32 = |a: u32, b: u32| a.wrapping_sub(b);
    SubSat = |a: u32, b: u32| (a as i32).saturating_sub(b as i32) as u32;
    Sub16 = |a: u32, b: u32| a.wrapping_sub(b) & 0xffff;
    Mul32 = |a: u32, b: u32| a.wrapping_mul(b);
    MulHiU32 = |a: u32, b: u32| (u64::from(a) * u64::from(b) >> 32) as u32;
    MulHiS32 = |a: u32, b: u32| (i64::from(a as i32) * i64::from(b as i32) >> 32) as u32;
    Mul16 = |a: u32, b: u32| a.wrapping_mul(b) & 0xffff;
    MulHiU16 = |a: u32, b: u32| (a & 0xffff).wrapping_mul(b & 0xffff) >> 16;
    MulHiS16 = |a: u32, b: u32| (i32::from(s16(a)) * i32::from(s16(b)) >> 16) as u32 & 0xffff;
    MulWideU16 = |a: u32, b: u32| (a & 0xffff).wrapping_mul(b & 0xffff);
    MulWideS16 = |a: u32, b: u32| (i32::from(s16(a)) * i32::from(s16(b))) as u32;
    Mul24LoU = |a: u32, b: u32| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff);
    Mul24LoS = |a: u32, b: u32| ((a as i32) << 8 >> 8).wrapping_mul((b as i32) << 8 >> 8) as u32;
    Mul24HiU = |a: u32, b: u32| (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) >> 16) as u32;
    Mul24HiS = |a: u32, b: u32| (i64::from((a as i32) << 8 >> 8) * i64::from((b as i32) << 8 >> 8) >> 16) as u32;
    DivU32 = |a: u32, b: u32| a.checked_div(b).unwrap_or(u32::MAX);
    DivS32 = |a: u32, b: u32| if b == 0 { u32::MAX } else { (a as i32).wrapping_div(b as i32) as u32 };
    DivU16 = |a: u32, b: u32| (a & 0xffff).checked_div(b & 0xffff).unwrap_or(0xffff);
    DivS16 = |a: u32, b: u32| if b & 0xffff == 0 { 0xffff } else { back(s16(a).wrapping_div(s16(b))) };
    RemU32 = |a: u32, b: u32| a.checked_rem(b).unwrap_or(a);
    RemS32 = |a: u32, b: u32| if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 };
    RemU16 = |a: u32, b: u32| (a & 0xffff).checked_rem(b & 0xffff).unwrap_or(a & 0xffff);
    RemS16 = |a: u32, b: u32| if b & 0xffff == 0 { a & 0xffff } else { back(s16(a).wrapping_rem(s16(b))) };
    MinU32 = |a: u32, b: u32| a.min(b);
    MinS32 = |a: u32, b: u32| (a as i32).min(b as i32) as u32;
    MinS16 = |a: u32, b: u32| back(s16(a).min(s16(b)));
    MinU16 = |a: u32, b: u32| (a & 0xffff).min(b & 0xffff);
    MaxU32 = |a: u32, b: u32| a.max(b);
    MaxS32 = |a: u32, b: u32| (a as i32).max(b as i32) as u32;
    MaxS16 = |a: u32, b: u32| back(s16(a).max(s16(b)));
    MaxU16 = |a: u32, b: u32| (a & 0xffff).max(b & 0xffff);
    MinS32Relu = |a: u32, b: u32| (a as i32).min(b as i32).max(0) as u32;
    MaxS32Relu = |a: u32, b: u32| (a as i32).max(b as i32).max(0) as u32;
    MinU16x2 = |a: u32, b: u32| (a & 0xffff).min(b & 0xffff) | (a >> 16).min(b >> 16) << 16;
    MaxU16x2 = |a: u32, b: u32| (a & 0xffff).max(b & 0xffff) | (a >> 16).max(b >> 16) << 16;
    MinS16x2 = |a: u32, b: u32| back(s16(a).min(s16(b))) | back(s16(a >> 16).min(s16(b >> 16))) << 16;
    MaxS16x2 = |a: u32, b: u32| back(s16(a).max(s16(b))) | back(s16(a >> 16).max(s16(b >> 16))) << 16;
);
functions!(Binary64, run, 2, (a, b), u64, u64;
    Add = |a: u64, b: u64| a.wrapping_add(b);
    Sub = |a: u64, b: u64| a.wrapping_sub(b);
    Mul = |a: u64, b: u64| a.wrapping_mul(b);
    MulHiU = |a: u64, b: u64| (u128::from(a) * u128::from(b) >> 64) as u64;
    MulHiS = |a: u64, b: u64| (i128::from(a as i64) * i128::from(b as i64) >> 64) as u64;
    DivU = |a: u64, b: u64| a.checked_div(b).unwrap_or(u64::MAX);
    DivS = |a: u64, b: u64| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 };
    RemU = |a: u64, b: u64| a.checked_rem(b).unwrap_or(a);
    RemS = |a: u64, b: u64| if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 };
    MinU = |a: u64, b: u64| a.min(b);
    MinS = |a: u64, b: u64| (a as i64).min(b as i64) as u64;
    MaxU = |a: u64, b: u64| a.max(b);
    MaxS = |a: u64, b: u64| (a as i64).max(b as i64) as u64;
);
functions!(Widening, run, 2, (a, b), u32, u64;
    MulU = |a: u32, b: u32| u64::from(a) * u64::from(b);
    MulS = |a: u32, b: u32| (i64::from(a as i32) * i64::from(b as i32)) as u64;
);
functions!(Ternary32, run, 3, (a, b, c), u32, u32;
    Mad32 = |a: u32, b: u32, c: u32| a.wrapping_mul(b).wrapping_add(c);
    MadHiU32 = |a: u32, b: u32, c: u32| ((u64::from(a) * u64::from(b) >> 32) as u32).wrapping_add(c);
    MadHiS32 = |a: u32, b: u32, c: u32| ((i64::from(a as i32) * i64::from(b as i32) >> 32) as u32).wrapping_add(c);
    MadHiSatS32 = |a: u32, b: u32, c: u32| clamp_s32((i64::from(a as i32) * i64::from(b as i32) >> 32) + i64::from(c as i32));
    Mad16 = |a: u32, b: u32, c: u32| a.wrapping_mul(b).wrapping_add(c) & 0xffff;
    MadHiU16 = |a: u32, b: u32, c: u32| ((a & 0xffff).wrapping_mul(b & 0xffff) >> 16).wrapping_add(c) & 0xffff;
    MadHiS16 = |a: u32, b: u32, c: u32| ((i32::from(s16(a)) * i32::from(s16(b)) >> 16) as u32).wrapping_add(c) & 0xffff;
    MadWideU16 = |a: u32, b: u32, c: u32| (a & 0xffff).wrapping_mul(b & 0xffff).wrapping_add(c);
    MadWideS16 = |a: u32, b: u32, c: u32| ((i32::from(s16(a)) * i32::from(s16(b))) as u32).wrapping_add(c);
    Mad24LoU = |a: u32, b: u32, c: u32| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c);
    Mad24LoS = |a: u32, b: u32, c: u32| (((a as i32) << 8 >> 8).wrapping_mul((b as i32) << 8 >> 8) as u32).wrapping_add(c);
    SadU32 = |a: u32, b: u32, c: u32| c.wrapping_add(a.abs_diff(b));
    SadS32 = |a: u32, b: u32, c: u32| c.wrapping_add((a as i32).abs_diff(b as i32));
    SadU16 = |a: u32, b: u32, c: u32| c.wrapping_add((a & 0xffff).abs_diff(b & 0xffff)) & 0xffff;
    SadS16 = |a: u32, b: u32, c: u32| c.wrapping_add(u32::from(s16(a).abs_diff(s16(b)))) & 0xffff;
    Dp4aUU = |a: u32, b: u32, c: u32| dp4a(a, b, c, false, false);
    Dp4aUS = |a: u32, b: u32, c: u32| dp4a(a, b, c, false, true);
    Dp4aSU = |a: u32, b: u32, c: u32| dp4a(a, b, c, true, false);
    Dp4aSS = |a: u32, b: u32, c: u32| dp4a(a, b, c, true, true);
    Dp2aLoUU = |a: u32, b: u32, c: u32| dp2a(a, b, c, false, false, 0);
    Dp2aLoUS = |a: u32, b: u32, c: u32| dp2a(a, b, c, false, true, 0);
    Dp2aLoSU = |a: u32, b: u32, c: u32| dp2a(a, b, c, true, false, 0);
    Dp2aLoSS = |a: u32, b: u32, c: u32| dp2a(a, b, c, true, true, 0);
    Dp2aHiUU = |a: u32, b: u32, c: u32| dp2a(a, b, c, false, false, 2);
    Dp2aHiUS = |a: u32, b: u32, c: u32| dp2a(a, b, c, false, true, 2);
    Dp2aHiSU = |a: u32, b: u32, c: u32| dp2a(a, b, c, true, false, 2);
    Dp2aHiSS = |a: u32, b: u32, c: u32| dp2a(a, b, c, true, true, 2);
);
functions!(Ternary64, run, 3, (a, b, c), u64, u64;
    Mad = |a: u64, b: u64, c: u64| a.wrapping_mul(b).wrapping_add(c);
    MadHiU = |a: u64, b: u64, c: u64| ((u128::from(a) * u128::from(b) >> 64) as u64).wrapping_add(c);
    MadHiS = |a: u64, b: u64, c: u64| ((i128::from(a as i64) * i128::from(b as i64) >> 64) as u64).wrapping_add(c);
    SadU = |a: u64, b: u64, c: u64| c.wrapping_add(a.abs_diff(b));
    SadS = |a: u64, b: u64, c: u64| c.wrapping_add((a as i64).abs_diff(b as i64));
);

#[inline(always)]
fn byte(v: u32, i: u32, signed: bool) -> i32 {
    let b = (v >> (8 * i)) as u8;
    if signed { i32::from(b as i8) } else { i32::from(b) }
}
#[inline(always)]
fn dp4a(a: u32, b: u32, c: u32, sa: bool, sb: bool) -> u32 {
    (0..4).fold(c, |sum, i| sum.wrapping_add(byte(a, i, sa).wrapping_mul(byte(b, i, sb)) as u32))
}
#[inline(always)]
fn dp2a(a: u32, b: u32, c: u32, sa: bool, sb: bool, from: u32) -> u32 {
    (0..2).fold(c, |sum, i| {
        let half = (a >> (16 * i)) as u16;
        let x = if sa { i32::from(half as i16) } else { i32::from(half) };
        sum.wrapping_add(x.wrapping_mul(byte(b, i + from, sb)) as u32)
    })
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    One(Unary32, Slot, Slot),
    One64(Unary64, Slot, Slot),
    Two(Binary32, Slot, Slot, Slot),
    Two64(Binary64, Slot, Slot, Slot),
    Wide(Widening, Slot, Slot, Slot),
    /// 64-bit `a·b + c` of 32-bit factors.
    WideAdd(Widening, Slot, Slot, Slot, Slot),
    Three(Ternary32, Slot, Slot, Slot, Slot),
    Three64(Ternary64, Slot, Slot, Slot, Slot),
    /// `d = a ± (b + carry)`, the carry read and written as asked; `b` inverted for subtraction.
    Carry {
        wide: bool,
        subtract: bool,
        reads: bool,
        writes: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        carry: Slot,
    },
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        match *op {
            Op::One(f, d, a) => {
                let v = f.run(r.get(a));
                r.put(d, &v, mask);
            }
            Op::One64(f, d, a) => {
                let v = f.run(r.get64(a));
                r.put64(d, &v, mask);
            }
            Op::Two(f, d, a, b) => {
                let v = f.run(r.get(a), r.get(b));
                r.put(d, &v, mask);
            }
            Op::Two64(f, d, a, b) => {
                let v = f.run(r.get64(a), r.get64(b));
                r.put64(d, &v, mask);
            }
            Op::Wide(f, d, a, b) => {
                let v = f.run(r.get(a), r.get(b));
                r.put64(d, &v, mask);
            }
            Op::WideAdd(f, d, a, b, c) => {
                let product = f.run(r.get(a), r.get(b));
                let v = map2(&product, r.get64(c), |p, c: u64| p.wrapping_add(c));
                r.put64(d, &v, mask);
            }
            Op::Three(f, d, a, b, c) => {
                let v = f.run(r.get(a), r.get(b), r.get(c));
                r.put(d, &v, mask);
            }
            Op::Three64(f, d, a, b, c) => {
                let v = f.run(r.get64(a), r.get64(b), r.get64(c));
                r.put64(d, &v, mask);
            }
            Op::Carry { wide, subtract, reads, writes, d, a, b, carry } => {
                // The flag holds a carry for additions and a borrow for subtractions.
                let flag = if reads { r.predicate(carry) } else { 0 };
                let mut out = 0u32;
                if wide {
                    let mut v = [0u64; 32];
                    for i in 0..32 {
                        let c = u128::from(flag >> i & 1);
                        let (x, y) = (u128::from(r.get64(a)[i]), u128::from(r.get64(b)[i]));
                        let t = if subtract { x.wrapping_sub(y).wrapping_sub(c) } else { x + y + c };
                        v[i] = t as u64;
                        out |= ((t >> 64) as u32 & 1) << i;
                    }
                    r.put64(d, &v, mask);
                } else {
                    let mut v = [0u32; 32];
                    for i in 0..32 {
                        let c = u64::from(flag >> i & 1);
                        let (x, y) = (u64::from(r.get(a)[i]), u64::from(r.get(b)[i]));
                        let t = if subtract { x.wrapping_sub(y).wrapping_sub(c) } else { x + y + c };
                        v[i] = t as u32;
                        out |= ((t >> 32) as u32 & 1) << i;
                    }
                    r.put(d, &v, mask);
                }
                if writes {
                    r.put_predicate(carry, out, mask);
                }
            }
        }
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        vectors.run(Run(self, r, mask));
    }
}

/// Decodes an instruction whose type is an integer.
pub(crate) fn decode(form: &mut Form<'_, '_>, t: Type) -> Result<Op, Error> {
    use Type::*;
    let name = form.name();
    match name {
        "add" | "sub" | "addc" | "subc" => {
            let subtract = name.starts_with("sub");
            let reads = name.ends_with('c');
            let writes = form.flag("cc");
            if reads || writes {
                if !matches!(t, U32 | S32 | B32 | U64 | S64) {
                    return form.unsupported(t);
                }
                let carry = form.d.carry();
                form.need_count(3)?;
                let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?);
                return Ok(Op::Carry { wide: t.bits() == 64, subtract, reads, writes, d, a, b, carry });
            }
            let sat = form.flag("sat");
            if sat && t != S32 {
                return form.error("`.sat` needs type s32");
            }
            let f = match (t, subtract, sat) {
                (S32, false, true) => Binary32::AddSat,
                (S32, true, true) => Binary32::SubSat,
                (U32 | S32, false, _) => Binary32::Add32,
                (U32 | S32, true, _) => Binary32::Sub32,
                (U16 | S16, false, _) => Binary32::Add16,
                (U16 | S16, true, _) => Binary32::Sub16,
                (U64 | S64, false, _) => return two64(form, Binary64::Add, t),
                (U64 | S64, true, _) => return two64(form, Binary64::Sub, t),
                _ => return form.unsupported(t),
            };
            two(form, f, t)
        }
        "mul" => match (form.need(&["lo", "hi", "wide"])?, t) {
            ("lo", U32 | S32) => two(form, Binary32::Mul32, t),
            ("lo", U16 | S16) => two(form, Binary32::Mul16, t),
            ("lo", U64 | S64) => two64(form, Binary64::Mul, t),
            ("hi", U32) => two(form, Binary32::MulHiU32, t),
            ("hi", S32) => two(form, Binary32::MulHiS32, t),
            ("hi", U16) => two(form, Binary32::MulHiU16, t),
            ("hi", S16) => two(form, Binary32::MulHiS16, t),
            ("hi", U64) => two64(form, Binary64::MulHiU, t),
            ("hi", S64) => two64(form, Binary64::MulHiS, t),
            ("wide", U16 | S16) => {
                form.need_count(3)?;
                let f = if t == U16 { Binary32::MulWideU16 } else { Binary32::MulWideS16 };
                Ok(Op::Two(f, form.dst(0, U32)?, form.src(1, t)?, form.src(2, t)?))
            }
            ("wide", U32 | S32) => {
                form.need_count(3)?;
                Ok(Op::Wide(widening(t), form.dst(0, U64)?, form.src(1, t)?, form.src(2, t)?))
            }
            _ => form.unsupported(t),
        },
        "mad" => {
            let part = form.need(&["lo", "hi", "wide"])?;
            let sat = form.flag("sat");
            match (part, t) {
                ("hi", S32) if sat => three(form, Ternary32::MadHiSatS32, t),
                _ if sat => form.error("`.sat` needs mad.hi.s32"),
                ("lo", U32 | S32) => three(form, Ternary32::Mad32, t),
                ("lo", U16 | S16) => three(form, Ternary32::Mad16, t),
                ("lo", U64 | S64) => three64(form, Ternary64::Mad, t),
                ("hi", U32) => three(form, Ternary32::MadHiU32, t),
                ("hi", S32) => three(form, Ternary32::MadHiS32, t),
                ("hi", U16) => three(form, Ternary32::MadHiU16, t),
                ("hi", S16) => three(form, Ternary32::MadHiS16, t),
                ("hi", U64) => three64(form, Ternary64::MadHiU, t),
                ("hi", S64) => three64(form, Ternary64::MadHiS, t),
                ("wide", U16 | S16) => {
                    form.need_count(4)?;
                    let f = if t == U16 { Ternary32::MadWideU16 } else { Ternary32::MadWideS16 };
                    Ok(Op::Three(f, form.dst(0, U32)?, form.src(1, t)?, form.src(2, t)?, form.src(3, U32)?))
                }
                ("wide", U32 | S32) => {
                    form.need_count(4)?;
                    let (d, a, b) = (form.dst(0, U64)?, form.src(1, t)?, form.src(2, t)?);
                    Ok(Op::WideAdd(widening(t), d, a, b, form.src(3, U64)?))
                }
                _ => form.unsupported(t),
            }
        }
        "mul24" => match (form.need(&["lo", "hi"])?, t) {
            ("lo", U32) => two(form, Binary32::Mul24LoU, t),
            ("lo", S32) => two(form, Binary32::Mul24LoS, t),
            ("hi", U32) => two(form, Binary32::Mul24HiU, t),
            ("hi", S32) => two(form, Binary32::Mul24HiS, t),
            _ => form.unsupported(t),
        },
        "mad24" => match (form.need(&["lo"])?, t) {
            (_, U32) => three(form, Ternary32::Mad24LoU, t),
            (_, S32) => three(form, Ternary32::Mad24LoS, t),
            _ => form.unsupported(t),
        },
        "sad" => match t {
            U32 => three(form, Ternary32::SadU32, t),
            S32 => three(form, Ternary32::SadS32, t),
            U16 => three(form, Ternary32::SadU16, t),
            S16 => three(form, Ternary32::SadS16, t),
            U64 => three64(form, Ternary64::SadU, t),
            S64 => three64(form, Ternary64::SadS, t),
            _ => form.unsupported(t),
        },
        "div" => match t {
            U32 => two(form, Binary32::DivU32, t),
            S32 => two(form, Binary32::DivS32, t),
            U16 => two(form, Binary32::DivU16, t),
            S16 => two(form, Binary32::DivS16, t),
            U64 => two64(form, Binary64::DivU, t),
            S64 => two64(form, Binary64::DivS, t),
            _ => form.unsupported(t),
        },
        "rem" => match t {
            U32 => two(form, Binary32::RemU32, t),
            S32 => two(form, Binary32::RemS32, t),
            U16 => two(form, Binary32::RemU16, t),
            S16 => two(form, Binary32::RemS16, t),
            U64 => two64(form, Binary64::RemU, t),
            S64 => two64(form, Binary64::RemS, t),
            _ => form.unsupported(t),
        },
        "min" | "max" => {
            let least = name == "min";
            let relu = form.flag("relu");
            let f = match (t, least, relu) {
                (S32, true, true) => Binary32::MinS32Relu,
                (S32, false, true) => Binary32::MaxS32Relu,
                (_, _, true) => return form.unsupported(t),
                (U32, true, _) => Binary32::MinU32,
                (U32, false, _) => Binary32::MaxU32,
                (S32, true, _) => Binary32::MinS32,
                (S32, false, _) => Binary32::MaxS32,
                (U16, true, _) => Binary32::MinU16,
                (U16, false, _) => Binary32::MaxU16,
                (S16, true, _) => Binary32::MinS16,
                (S16, false, _) => Binary32::MaxS16,
                (U64, true, _) => return two64(form, Binary64::MinU, t),
                (U64, false, _) => return two64(form, Binary64::MaxU, t),
                (S64, true, _) => return two64(form, Binary64::MinS, t),
                (S64, false, _) => return two64(form, Binary64::MaxS, t),
                _ => return form.unsupported(t),
            };
            two(form, f, t)
        }
        "neg" | "abs" => {
            form.need_count(2)?;
            let negate = name == "neg";
            Ok(match t {
                S32 => Op::One(if negate { Unary32::Neg32 } else { Unary32::Abs32 }, form.dst(0, t)?, form.src(1, t)?),
                S16 => Op::One(if negate { Unary32::Neg16 } else { Unary32::Abs16 }, form.dst(0, t)?, form.src(1, t)?),
                S64 => Op::One64(if negate { Unary64::Neg } else { Unary64::Abs }, form.dst(0, t)?, form.src(1, t)?),
                _ => return form.unsupported(t),
            })
        }
        _ => form.error("unknown instruction"),
    }
}

/// `dp4a.atype.btype` and `dp2a.{lo,hi}.atype.btype`.
pub(crate) fn decode_dot(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::{S32, U32};
    let high = if form.name() == "dp2a" { Some(form.need(&["lo", "hi"])? == "hi") } else { None };
    let types = form.types();
    let f = match (high, &types[..]) {
        (None, [U32, U32]) => Ternary32::Dp4aUU,
        (None, [U32, S32]) => Ternary32::Dp4aUS,
        (None, [S32, U32]) => Ternary32::Dp4aSU,
        (None, [S32, S32]) => Ternary32::Dp4aSS,
        (Some(false), [U32, U32]) => Ternary32::Dp2aLoUU,
        (Some(false), [U32, S32]) => Ternary32::Dp2aLoUS,
        (Some(false), [S32, U32]) => Ternary32::Dp2aLoSU,
        (Some(false), [S32, S32]) => Ternary32::Dp2aLoSS,
        (Some(true), [U32, U32]) => Ternary32::Dp2aHiUU,
        (Some(true), [U32, S32]) => Ternary32::Dp2aHiUS,
        (Some(true), [S32, U32]) => Ternary32::Dp2aHiSU,
        (Some(true), [S32, S32]) => Ternary32::Dp2aHiSS,
        _ => return form.error("expected two of the types u32 and s32"),
    };
    three(form, f, U32)
}

/// `{add,sub,min,max}` on pairs of 16-bit integers.
pub(crate) fn decode_packed(form: &mut Form<'_, '_>, signed: bool) -> Result<Op, Error> {
    let f = match (form.name(), signed) {
        ("add", _) => Binary32::Add16x2,
        ("min", false) => Binary32::MinU16x2,
        ("min", true) => Binary32::MinS16x2,
        ("max", false) => Binary32::MaxU16x2,
        ("max", true) => Binary32::MaxS16x2,
        _ => return form.error("unknown instruction"),
    };
    two(form, f, Type::B32)
}

fn widening(t: Type) -> Widening {
    if t.is_signed() { Widening::MulS } else { Widening::MulU }
}
fn two(form: &mut Form<'_, '_>, f: Binary32, t: Type) -> Result<Op, Error> {
    form.need_count(3)?;
    Ok(Op::Two(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?))
}
fn two64(form: &mut Form<'_, '_>, f: Binary64, t: Type) -> Result<Op, Error> {
    form.need_count(3)?;
    Ok(Op::Two64(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?))
}
fn three(form: &mut Form<'_, '_>, f: Ternary32, t: Type) -> Result<Op, Error> {
    form.need_count(4)?;
    Ok(Op::Three(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?, form.src(3, t)?))
}
fn three64(form: &mut Form<'_, '_>, f: Ternary64, t: Type) -> Result<Op, Error> {
    form.need_count(4)?;
    Ok(Op::Three64(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?, form.src(3, t)?))
}
