//! Conversion (PTX ISA 9.7.9, `cvt` and `cvt.pack`).
//!
//! Integer to integer truncates or extends, `.sat` clamps; float to integer clamps always and gives 0 for not-a-number;
//! float to float and integer to float round once.

use super::lanes::{Lanes, Registers, Slot, Vectors, map1, map2};
use super::numbers::{
    Format, Round, bfloat_to_f32, bits, bits64, d as dbl, f, f32_to_bfloat, f32_to_half, flush, half_to_f32, redirect,
    saturate, to_f32,
};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// 64 bits to their low 32.
    Low(Slot, Slot),
    /// 32 bits zero-extended to 64.
    Zero(Slot, Slot),
    /// 32 bits sign-extended to 64.
    Sign(Slot, Slot),
    /// Low `bits` of a 32-bit slot, zero- or sign-extended, then cut to `keep` bits.
    Extend {
        d: Slot,
        a: Slot,
        bits: u32,
        signed: bool,
        keep: u32,
    },
    HalfToF32(Slot, Slot),
    BfloatToF32(Slot, Slot),
    F32ToHalf(Slot, Slot),
    F32ToBfloat(Slot, Slot),
    /// Two floats packed, the first operand in the high half.
    Pack {
        d: Slot,
        a: Slot,
        b: Slot,
        bfloat: bool,
        relu: bool,
    },
    S32ToF32(Slot, Slot),
    U32ToF32(Slot, Slot),
    General(Box<General>),
    PackGeneral {
        d: Slot,
        a: Slot,
        b: Slot,
        format: Format,
        round: Round,
        relu: bool,
        finite: bool,
    },
    UnpackHalves {
        d: Slot,
        a: Slot,
        format: Format,
        relu: bool,
    },
    PackIntegers {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        to: Type,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct General {
    to: Type,
    from: Type,
    round: Option<Round>,
    to_integer: bool,
    sat: bool,
    ftz: bool,
    relu: bool,
    d: Slot,
    d_bits: u32,
    a: Slot,
    a_wide: bool,
}

impl Op {
    pub(crate) fn truncate(d: Slot, a: Slot) -> Op {
        Op::Low(d, a)
    }
    pub(crate) fn extend(d: Slot, a: Slot) -> Op {
        Op::Zero(d, a)
    }
}

fn integer_range(t: Type) -> (i128, i128) {
    match t.is_signed() {
        true => (-(1i128 << (t.bits() - 1)), (1i128 << (t.bits() - 1)) - 1),
        false => (0, (1i128 << t.bits()) - 1),
    }
}

/// Rounds a float to an integral value.
fn integral(v: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => v.round_ties_even(),
        Round::Zero => v.trunc(),
        Round::Down => v.floor(),
        Round::Up => v.ceil(),
        Round::Away => v.round(),
    }
}

fn integer_to_f64(v: i128, round: Round) -> f64 {
    let n = v as f64;
    redirect(n, (v - n as i128) as f64, round)
}

impl General {
    fn one(&self, raw: u64) -> u64 {
        let cut = |v: u64, bits: u32| if bits >= 64 { v } else { v & ((1 << bits) - 1) };
        if !self.from.is_float() && Format::of(self.from).is_none() {
            let v = if self.from.is_signed() {
                let shift = 64 - self.from.bits();
                i128::from((raw << shift) as i64 >> shift)
            } else {
                i128::from(cut(raw, self.from.bits()))
            };
            return self.integer_result(v);
        }
        let mut v = match self.from {
            Type::F64 => dbl(raw),
            Type::F32 => f64::from(f(if self.ftz { flush(raw as u32) } else { raw as u32 })),
            Type::F16 => f64::from(half_to_f32(raw as u32 & 0xffff)),
            _ => f64::from(bfloat_to_f32(raw as u32 & 0xffff)),
        };
        if self.to_integer || !self.to.is_float() {
            v = integral(v, self.round.unwrap_or(Round::Zero));
        }
        if !self.to.is_float() {
            let (low, high) = integer_range(self.to);
            let n = if v.is_nan() { 0 } else { (v as i128).clamp(low, high) };
            return self.widen(n);
        }
        let round = if self.to_integer { Round::Nearest } else { self.round.unwrap_or(Round::Nearest) };
        let nan = v.is_nan();
        if self.sat {
            v = if v > 0.0 { v.min(1.0) } else { 0.0 };
        }
        if self.relu && !nan && v < 0.0 {
            v = 0.0;
        }
        match self.to {
            Type::F64 => bits64(v),
            Type::F32 => {
                let r = bits(to_f32(v, round));
                u64::from(if self.ftz { flush(r) } else { r })
            }
            Type::Tf32 => u64::from(Format::TF32.encode(v, round, false) << 13),
            t => Format::of(t).map_or(0, |format| u64::from(format.encode(v, round, self.sat && t == Type::Bf16))),
        }
    }

    fn integer_result(&self, v: i128) -> u64 {
        let round = self.round.unwrap_or(Round::Nearest);
        match self.to {
            Type::F64 => integer_to_f64(v, round).to_bits(),
            Type::F32 => {
                // A 64-bit integer does not fit f64: its low bits are folded into one that keeps the rounding right.
                let shift = (64 - (v.unsigned_abs() as u64).leading_zeros()).saturating_sub(50);
                let magnitude = v.unsigned_abs() as u64;
                let sticky = u64::from(magnitude & ((1 << shift) - 1) != 0);
                let folded = ((magnitude >> shift | sticky) << shift) as f64;
                let r = to_f32(if v < 0 { -folded } else { folded }, round);
                u64::from(if self.sat { saturate(r) } else { r }.to_bits())
            }
            t if t.is_float() => Format::of(t).map_or(0, |x| u64::from(x.encode(v as f64, round, false))),
            t => {
                let (low, high) = integer_range(t);
                self.widen(if self.sat { v.clamp(low, high) } else { v })
            }
        }
    }

    /// The integer in its type, extended to the register by its own sign.
    fn widen(&self, v: i128) -> u64 {
        let shift = 64 - self.to.bits();
        let raw = (v as u64) << shift;
        let extended = if self.to.is_signed() { (raw as i64 >> shift) as u64 } else { raw >> shift };
        if self.d_bits >= 64 { extended } else { extended & ((1 << self.d_bits) - 1) }
    }

    fn execute(&self, r: &mut Registers, mask: u32) {
        let mut v: Lanes<u64> = [0; 32];
        for (i, v) in v.iter_mut().enumerate() {
            *v = self.one(if self.a_wide { r.get64(self.a)[i] } else { u64::from(r.get(self.a)[i]) });
        }
        if self.d_bits == 64 {
            r.put64(self.d, &v, mask);
        } else {
            r.put(self.d, &v.map(|v| v as u32), mask);
        }
    }
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        let narrow = match *op {
            Op::Low(d, a) => (d, map1(r.get64(a), |v| v as u32)),
            Op::Zero(d, a) => {
                let v = map1(r.get(a), u64::from);
                return r.put64(d, &v, mask);
            }
            Op::Sign(d, a) => {
                let v = map1(r.get(a), |v| i64::from(v as i32) as u64);
                return r.put64(d, &v, mask);
            }
            Op::Extend { d, a, bits, signed, keep } => {
                let shift = 32 - bits;
                let kept = u32::MAX >> (32 - keep);
                (
                    d,
                    map1(r.get(a), |v| {
                        (if signed { ((v << shift) as i32 >> shift) as u32 } else { v << shift >> shift }) & kept
                    }),
                )
            }
            Op::HalfToF32(d, a) => (d, map1(r.get(a), |v| bits(half_to_f32(v & 0xffff)))),
            Op::BfloatToF32(d, a) => (d, map1(r.get(a), |v| bits(bfloat_to_f32(v & 0xffff)))),
            Op::F32ToHalf(d, a) => (d, map1(r.get(a), |v| f32_to_half(f(v)))),
            Op::F32ToBfloat(d, a) => (d, map1(r.get(a), |v| f32_to_bfloat(f(v)))),
            Op::Pack { d, a, b, bfloat, relu } => {
                let half = |v: u32| {
                    let v = if relu && v >> 31 == 1 && !f(v).is_nan() { 0 } else { v };
                    if bfloat { f32_to_bfloat(f(v)) } else { f32_to_half(f(v)) }
                };
                (d, map2(r.get(a), r.get(b), |a, b| half(a) << 16 | half(b)))
            }
            Op::S32ToF32(d, a) => (d, map1(r.get(a), |v| (v as i32 as f32).to_bits())),
            Op::U32ToF32(d, a) => (d, map1(r.get(a), |v| (v as f32).to_bits())),
            _ => return,
        };
        r.put(narrow.0, &narrow.1, mask);
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        match self {
            Op::General(op) => op.execute(r, mask),
            Op::PackGeneral { d, a, b, format, round, relu, finite } => {
                let width = 1 + format.exponent + format.mantissa;
                let half = |v: u32| {
                    let v = f64::from(f(v));
                    format.encode(if *relu && v < 0.0 { 0.0 } else { v }, *round, *finite)
                };
                let v = map2(r.get(*a), r.get(*b), |a, b| half(a) << width | half(b));
                r.put(*d, &v, mask);
            }
            Op::UnpackHalves { d, a, format, relu } => {
                let half = |v: u32| {
                    let v = format.decode(v & 0xff);
                    Format::HALF.encode(if *relu && v < 0.0 { 0.0 } else { v }, Round::Nearest, false)
                };
                let v = map1(r.get(*a), |v| half(v >> 8) << 16 | half(v));
                r.put(*d, &v, mask);
            }
            Op::PackIntegers { d, a, b, c, to } => {
                let (low, high) = integer_range(*to);
                let width = to.bits();
                let field = |v: u32| (i128::from(v as i32).clamp(low, high) as u32) & ((1 << width) - 1);
                let mut v = [0; 32];
                for (i, v) in v.iter_mut().enumerate() {
                    let rest = u64::from(r.get(*c)[i]) << (2 * width);
                    *v = field(r.get(*a)[i]) << width | field(r.get(*b)[i]) | rest as u32;
                }
                r.put(*d, &v, mask);
            }
            _ => vectors.run(Run(self, r, mask)),
        }
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    if form.flag("pack") {
        return pack_integers(form);
    }
    let integer_round = form.pick(&["rni", "rzi", "rmi", "rpi"]);
    let round = match integer_round {
        Some("rni") => Some(Round::Nearest),
        Some("rzi") => Some(Round::Zero),
        Some("rmi") => Some(Round::Down),
        Some(_) => Some(Round::Up),
        None if form.flag("rna") => Some(Round::Away),
        None => Round::take(form),
    };
    let ftz = form.flag("ftz");
    let finite = form.flag("satfinite");
    let sat = form.flag("sat");
    let relu = form.flag("relu");
    let types = form.types();
    let [to, from] = types[..] else { return form.error("expected two types") };
    match to {
        F16x2 | Bf16x2 if from == F32 => {
            form.need_count(3)?;
            let (d, a, b) = (form.dst(0, to)?, form.src(1, F32)?, form.src(2, F32)?);
            let round = match round {
                Some(r @ (Round::Nearest | Round::Zero)) => r,
                _ => return form.error("expected .rn or .rz"),
            };
            if round == Round::Nearest && !finite {
                return Ok(Op::Pack { d, a, b, bfloat: to == Bf16x2, relu });
            }
            let format = if to == F16x2 { Format::HALF } else { Format::BFLOAT };
            return Ok(Op::PackGeneral { d, a, b, format, round, relu, finite });
        }
        F16x2 => {
            form.need_count(2)?;
            let format = if form.flag("e4m3x2") {
                Format::E4M3
            } else if form.flag("e5m2x2") {
                Format::E5M2
            } else {
                return form.unsupported(from);
            };
            return Ok(Op::UnpackHalves { d: form.dst(0, to)?, a: form.src(1, B16)?, format, relu });
        }
        _ => {}
    }
    if !valid(to) || !valid(from) && !matches!(from, F16 | Bf16) || from == Tf32 {
        return form.unsupported(if valid(to) { from } else { to });
    }
    if (to.is_float() && !from.is_float() && integer_round.is_some())
        || (!to.is_float() && !from.is_float() && round.is_some())
    {
        return form.error("this rounding does not fit the types");
    }
    let narrowing = to.is_float() && from.is_float() && to.bits() < from.bits() || to == Tf32;
    let lossy = narrowing || to.is_float() != from.is_float();
    if lossy && round.is_none() && !matches!((to, from), (F32 | F64, F16 | Bf16)) {
        return form.error("a rounding modifier is missing");
    }
    if from.is_float() && !to.is_float() && integer_round.is_none() {
        return form.error("expected .rni, .rzi, .rmi or .rpi");
    }
    form.need_count(2)?;
    let register = if to == Tf32 { B32 } else { to };
    let operand = form.operand(0)?;
    let (d, d_bits) = form.wide_destination(operand, register)?;
    let source = form.operand(1)?;
    let (a, a_wide) = source_slot(form, source, from)?;
    let plain = !ftz && !sat && !relu && !finite;
    let nearest = round == Some(Round::Nearest) && integer_round.is_none();
    Ok(match (to, from) {
        (F32, F16) if plain && d_bits == 32 => Op::HalfToF32(d, a),
        (F32, Bf16) if plain && d_bits == 32 => Op::BfloatToF32(d, a),
        (F16, F32) if plain && nearest && d_bits == 16 => Op::F32ToHalf(d, a),
        (Bf16, F32) if plain && nearest && d_bits == 16 => Op::F32ToBfloat(d, a),
        (F32, S32) if plain && nearest && d_bits == 32 => Op::S32ToF32(d, a),
        (F32, U32) if plain && nearest && d_bits == 32 => Op::U32ToF32(d, a),
        (S64 | U64, S32) if plain => Op::Sign(d, a),
        (S64 | U64, U32) if plain => Op::Zero(d, a),
        (S32 | U32, S64 | U64) if plain && d_bits == 32 => Op::Low(d, a),
        (S8 | U8 | S16 | U16 | S32 | U32, S8 | U8 | S16 | U16 | S32 | U32) if plain && d_bits <= 32 => {
            let bits = to.bits().min(from.bits());
            let signed = if to.bits() <= from.bits() { to.is_signed() } else { from.is_signed() };
            // A narrow unsigned type in a wide register keeps its own width.
            let keep = if to.is_signed() { d_bits } else { to.bits() };
            Op::Extend { d, a, bits, signed, keep }
        }
        _ => Op::General(Box::new(General {
            to,
            from,
            round,
            to_integer: integer_round.is_some() && to.is_float(),
            sat: sat || finite,
            ftz,
            relu,
            d,
            d_bits,
            a,
            a_wide,
        })),
    })
}

fn valid(t: Type) -> bool {
    t.is_integer() || matches!(t, Type::F16 | Type::Bf16 | Type::F32 | Type::F64 | Type::Tf32)
}

/// A source of at least the type's width, with whether its slot has 64 bits.
fn source_slot<'m>(
    form: &mut Form<'_, 'm>,
    operand: &'m crate::parse::ast::Operand,
    t: Type,
) -> Result<(Slot, bool), Error> {
    Ok((form.source(operand, t, true)?, t.bits() == 64))
}

fn pack_integers(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    if !form.flag("sat") {
        return form.error("expected .sat");
    }
    let types = form.types();
    let (to, chained) = match types[..] {
        [to @ (U16 | S16), S32] => (to, false),
        [to @ (U8 | S8 | U4 | S4), S32, B32] => (to, true),
        _ => return form.error("unsupported types"),
    };
    form.need_count(if chained { 4 } else { 3 })?;
    let c = if chained { form.src(3, B32)? } else { form.d.constant32(0) };
    Ok(Op::PackIntegers { d: form.dst(0, B32)?, a: form.src(1, S32)?, b: form.src(2, S32)?, c, to })
}
