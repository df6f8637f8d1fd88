//! Logic, shifts and bit manipulation (PTX ISA 9.7.1 and 9.7.8): `and or xor not cnot lop3 shl shr shf prmt bfe bfi brev
//! popc clz bfind fns bmsk szext`.

use super::integer::functions;
use super::lanes::{Registers, Slot, Vectors, map2, map3};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;

functions!(Unary32, run, 1, (a), u32, u32;
    Not32 = |a: u32| !a;
    Not16 = |a: u32| !a & 0xffff;
    Cnot32 = |a: u32| u32::from(a == 0);
    Brev = |a: u32| a.reverse_bits();
    Popc = |a: u32| a.count_ones();
    Clz = |a: u32| a.leading_zeros();
    BfindU = |a: u32| if a == 0 { u32::MAX } else { 31 - a.leading_zeros() };
    BfindS = |a: u32| { let a = a ^ ((a as i32) >> 31) as u32; if a == 0 { u32::MAX } else { 31 - a.leading_zeros() } };
    BfindShiftU = |a: u32| if a == 0 { u32::MAX } else { a.leading_zeros() };
    BfindShiftS = |a: u32| { let a = a ^ ((a as i32) >> 31) as u32; if a == 0 { u32::MAX } else { a.leading_zeros() } };
);
functions!(Unary64, run, 1, (a), u64, u64;
    Not = |a: u64| !a;
    Cnot = |a: u64| u64::from(a == 0);
    Brev = |a: u64| a.reverse_bits();
);
functions!(Count64, run, 1, (a), u64, u32;
    Popc = |a: u64| a.count_ones();
    Clz = |a: u64| a.leading_zeros();
    BfindU = |a: u64| if a == 0 { u32::MAX } else { 63 - a.leading_zeros() };
    BfindS = |a: u64| { let a = a ^ ((a as i64) >> 63) as u64; if a == 0 { u32::MAX } else { 63 - a.leading_zeros() } };
    BfindShiftU = |a: u64| if a == 0 { u32::MAX } else { a.leading_zeros() };
    BfindShiftS = |a: u64| { let a = a ^ ((a as i64) >> 63) as u64; if a == 0 { u32::MAX } else { a.leading_zeros() } };
);
functions!(Binary32, run, 2, (a, b), u32, u32;
    And = |a: u32, b: u32| a & b;
    Or = |a: u32, b: u32| a | b;
    Xor = |a: u32, b: u32| a ^ b;
    Shl32 = |a: u32, b: u32| if b > 31 { 0 } else { a << (b & 31) };
    Shl16 = |a: u32, b: u32| if b > 15 { 0 } else { (a << (b & 15)) & 0xffff };
    ShrU32 = |a: u32, b: u32| if b > 31 { 0 } else { a >> (b & 31) };
    ShrS32 = |a: u32, b: u32| ((a as i32) >> b.min(31)) as u32;
    ShrU16 = |a: u32, b: u32| if b > 15 { 0 } else { (a & 0xffff) >> (b & 15) };
    ShrS16 = |a: u32, b: u32| (i32::from(a as u16 as i16) >> b.min(15)) as u32 & 0xffff;
    BmskClamp = |a: u32, b: u32| if a > 31 { 0 } else { (((1u64 << b.min(32)) - 1) << a) as u32 };
    BmskWrap = |a: u32, b: u32| (((1u64 << (b & 31)) - 1) << (a & 31)) as u32;
    SzextClampU = |a: u32, b: u32| if b > 31 { a } else { a & ((1u32 << (b & 31)) - 1) };
    SzextClampS = |a: u32, b: u32| sign_extend(a, b.min(32));
    SzextWrapU = |a: u32, b: u32| a & ((1u32 << (b & 31)) - 1);
    SzextWrapS = |a: u32, b: u32| sign_extend(a, b & 31);
);
functions!(Binary64, run, 2, (a, b), u64, u64;
    And = |a: u64, b: u64| a & b;
    Or = |a: u64, b: u64| a | b;
    Xor = |a: u64, b: u64| a ^ b;
);
functions!(Ternary32, run, 3, (a, b, c), u32, u32;
    BfeU = |a: u32, b: u32, c: u32| bfe64(u64::from(a), b & 255, c & 255, 32, false) as u32;
    BfeS = |a: u32, b: u32, c: u32| bfe64((a as i32 as i64) as u64, b & 255, c & 255, 32, true) as u32;
    ShfLeftWrap = |a: u32, b: u32, c: u32| (((u64::from(b) << 32 | u64::from(a)) << (c & 31)) >> 32) as u32;
    ShfLeftClamp = |a: u32, b: u32, c: u32| (((u64::from(b) << 32 | u64::from(a)) << c.min(32)) >> 32) as u32;
    ShfRightWrap = |a: u32, b: u32, c: u32| ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32;
    ShfRightClamp = |a: u32, b: u32, c: u32| ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32;
    Prmt = |a: u32, b: u32, c: u32| permute(a, b, c);
    PrmtF4e = |a: u32, b: u32, c: u32| select_bytes(a, b, [0, 1, 2, 3].map(|i| (i + (c & 3)) & 7));
    PrmtB4e = |a: u32, b: u32, c: u32| select_bytes(a, b, [0u32, 1, 2, 3].map(|i| (c & 3).wrapping_sub(i) & 7));
    PrmtRc8 = |a: u32, b: u32, c: u32| select_bytes(a, b, [c & 3; 4]);
    PrmtEcl = |a: u32, b: u32, c: u32| select_bytes(a, b, [0u32, 1, 2, 3].map(|i| i.max(c & 3)));
    PrmtEcr = |a: u32, b: u32, c: u32| select_bytes(a, b, [0u32, 1, 2, 3].map(|i| i.min(c & 3)));
    PrmtRc16 = |a: u32, b: u32, c: u32| select_bytes(a, b, [0, 1, 0, 1].map(|i| i + 2 * (c & 1)));
    Fns = |a: u32, b: u32, c: u32| nth_set(a, b, c as i32);
);

/// The `n`-th set bit of `mask` from bit `base`: upwards for `n > 0`, downwards for `n < 0`, at `base` itself for 0.
fn nth_set(mask: u32, base: u32, n: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if n == 0 {
        return if mask >> base & 1 == 1 { base } else { u32::MAX };
    }
    let mut left = n.unsigned_abs();
    let mut at = base as i32;
    while (0..32).contains(&at) {
        if mask >> at & 1 == 1 {
            left -= 1;
            if left == 0 {
                return at as u32;
            }
        }
        at += n.signum();
    }
    u32::MAX
}

#[inline(always)]
fn sign_extend(a: u32, bits: u32) -> u32 {
    if bits == 0 { 0 } else { ((a << (32 - bits)) as i32 >> (32 - bits)) as u32 }
}

/// Bit field of `width` bits: zero- or sign-extended from the field's top bit, or from the operand's when the field runs over it.
#[inline(always)]
fn bfe64(a: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(width - 1);
    let sign = signed && a >> top.min(63) & 1 == 1;
    let shifted = if position >= width { 0 } else { (a & (u64::MAX >> (64 - width))) >> position };
    let kept = length.min(width.saturating_sub(position));
    let field = if kept >= 64 { shifted } else { shifted & ((1 << kept) - 1) };
    if sign && kept < 64 { field | (u64::MAX << kept) } else { field }
}

#[inline(always)]
fn select_bytes(a: u32, b: u32, from: [u32; 4]) -> u32 {
    let all = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for (i, f) in from.into_iter().enumerate() {
        out |= ((all >> (8 * f)) as u32 & 0xff) << (8 * i);
    }
    out
}

#[inline(always)]
fn permute(a: u32, b: u32, c: u32) -> u32 {
    let all = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for i in 0..4 {
        let select = c >> (4 * i);
        let byte = (all >> (8 * (select & 7))) as u32 & 0xff;
        let byte = if select & 8 != 0 { (((byte as u8) as i8) >> 7) as u8 as u32 } else { byte };
        out |= byte << (8 * i);
    }
    out
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    One(Unary32, Slot, Slot),
    One64(Unary64, Slot, Slot),
    Count64(Count64, Slot, Slot),
    Two(Binary32, Slot, Slot, Slot),
    Two64(Binary64, Slot, Slot, Slot),
    /// 64-bit value shifted by a 32-bit count: left, right unsigned, right signed.
    Shl64(Slot, Slot, Slot),
    ShrU64(Slot, Slot, Slot),
    ShrS64(Slot, Slot, Slot),
    Three(Ternary32, Slot, Slot, Slot, Slot),
    Lop3 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        table: u8,
    },
    Bfe64 {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        signed: bool,
    },
    Bfi {
        d: Slot,
        a: Slot,
        b: Slot,
        position: Slot,
        length: Slot,
        wide: bool,
    },
    Predicate {
        op: Binary32,
        d: Slot,
        a: (Slot, bool),
        b: (Slot, bool),
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
            Op::Count64(f, d, a) => {
                let v = f.run(r.get64(a));
                r.put(d, &v, mask);
            }
            Op::Two(f, d, a, b) => {
                let v = f.run(r.get(a), r.get(b));
                r.put(d, &v, mask);
            }
            Op::Two64(f, d, a, b) => {
                let v = f.run(r.get64(a), r.get64(b));
                r.put64(d, &v, mask);
            }
            Op::Shl64(d, a, b) => {
                let v = map2(r.get64(a), r.get(b), |a: u64, b: u32| if b > 63 { 0 } else { a << (b & 63) });
                r.put64(d, &v, mask);
            }
            Op::ShrU64(d, a, b) => {
                let v = map2(r.get64(a), r.get(b), |a: u64, b: u32| if b > 63 { 0 } else { a >> (b & 63) });
                r.put64(d, &v, mask);
            }
            Op::ShrS64(d, a, b) => {
                let v = map2(r.get64(a), r.get(b), |a: u64, b: u32| ((a as i64) >> b.min(63)) as u64);
                r.put64(d, &v, mask);
            }
            Op::Three(f, d, a, b, c) => {
                let v = f.run(r.get(a), r.get(b), r.get(c));
                r.put(d, &v, mask);
            }
            Op::Lop3 { d, a, b, c, table } => {
                let mut terms = [0u32; 8];
                for (i, t) in terms.iter_mut().enumerate() {
                    *t = u32::from(table >> i & 1).wrapping_neg();
                }
                let v = map3(r.get(a), r.get(b), r.get(c), |a: u32, b: u32, c: u32| {
                    (!a & !b & !c & terms[0])
                        | (!a & !b & c & terms[1])
                        | (!a & b & !c & terms[2])
                        | (!a & b & c & terms[3])
                        | (a & !b & !c & terms[4])
                        | (a & !b & c & terms[5])
                        | (a & b & !c & terms[6])
                        | (a & b & c & terms[7])
                });
                r.put(d, &v, mask);
            }
            Op::Bfe64 { d, a, b, c, signed } => {
                let v = map3(r.get64(a), r.get(b), r.get(c), |a: u64, b: u32, c: u32| {
                    bfe64(a, b & 255, c & 255, 64, signed)
                });
                r.put64(d, &v, mask);
            }
            Op::Bfi { d, a, b, position, length, wide } => {
                let insert = |a: u64, b: u64, p: u32, n: u32, width: u32| {
                    let (p, n) = (p & 255, n & 255);
                    if p >= width || n == 0 {
                        return b;
                    }
                    let field = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
                    b & !(field << p) | (a & field) << p
                };
                if wide {
                    let mut v = [0u64; 32];
                    for i in 0..32 {
                        v[i] = insert(r.get64(a)[i], r.get64(b)[i], r.get(position)[i], r.get(length)[i], 64);
                    }
                    r.put64(d, &v, mask);
                } else {
                    let mut v = [0u32; 32];
                    for i in 0..32 {
                        let (a, b) = (u64::from(r.get(a)[i]), u64::from(r.get(b)[i]));
                        v[i] = insert(a, b, r.get(position)[i], r.get(length)[i], 32) as u32;
                    }
                    r.put(d, &v, mask);
                }
            }
            Op::Predicate { op, d, a, b } => {
                let flip = |(slot, negated): (Slot, bool)| {
                    let p = r.predicate(slot);
                    if negated { !p } else { p }
                };
                let (a, b) = (flip(a), flip(b));
                let v = match op {
                    Binary32::And => a & b,
                    Binary32::Or => a | b,
                    _ => a ^ b,
                };
                r.put_predicate(d, v, mask);
            }
        }
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        vectors.run(Run(self, r, mask));
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    let name = form.name();
    let shift_mode = if matches!(name, "shf" | "bmsk" | "szext") { Some(form.need(&["clamp", "wrap"])?) } else { None };
    let left = if name == "shf" { form.need(&["l", "r"])? == "l" } else { false };
    let amount = name == "bfind" && form.flag("shiftamt");
    let permutation = if name == "prmt" { form.pick(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) } else { None };
    let t = form.ty()?;
    match name {
        "and" | "or" | "xor" => {
            let f = match name {
                "and" => Binary32::And,
                "or" => Binary32::Or,
                _ => Binary32::Xor,
            };
            form.need_count(3)?;
            match t {
                Pred => {
                    Ok(Op::Predicate { op: f, d: form.predicate_dst(0)?, a: form.predicate(1)?, b: form.predicate(2)? })
                }
                B16 | B32 => Ok(Op::Two(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?)),
                B64 => {
                    let f = match f {
                        Binary32::And => Binary64::And,
                        Binary32::Or => Binary64::Or,
                        _ => Binary64::Xor,
                    };
                    Ok(Op::Two64(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?))
                }
                _ => form.unsupported(t),
            }
        }
        "not" | "cnot" => {
            form.need_count(2)?;
            let not = name == "not";
            match t {
                Pred if not => {
                    let always = form.d.constant_predicate(true);
                    let d = form.predicate_dst(0)?;
                    Ok(Op::Predicate { op: Binary32::Xor, d, a: form.predicate(1)?, b: (always, false) })
                }
                B16 => {
                    Ok(Op::One(if not { Unary32::Not16 } else { Unary32::Cnot32 }, form.dst(0, t)?, form.src(1, t)?))
                }
                B32 => {
                    Ok(Op::One(if not { Unary32::Not32 } else { Unary32::Cnot32 }, form.dst(0, t)?, form.src(1, t)?))
                }
                B64 => Ok(Op::One64(if not { Unary64::Not } else { Unary64::Cnot }, form.dst(0, t)?, form.src(1, t)?)),
                _ => form.unsupported(t),
            }
        }
        "shl" => {
            form.need_count(3)?;
            match t {
                B16 => Ok(Op::Two(Binary32::Shl16, form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?)),
                B32 => Ok(Op::Two(Binary32::Shl32, form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?)),
                B64 => Ok(Op::Shl64(form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?)),
                _ => form.unsupported(t),
            }
        }
        "shr" => {
            form.need_count(3)?;
            let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?);
            Ok(match t {
                B16 | U16 => Op::Two(Binary32::ShrU16, d, a, b),
                S16 => Op::Two(Binary32::ShrS16, d, a, b),
                B32 | U32 => Op::Two(Binary32::ShrU32, d, a, b),
                S32 => Op::Two(Binary32::ShrS32, d, a, b),
                B64 | U64 => Op::ShrU64(d, a, b),
                S64 => Op::ShrS64(d, a, b),
                _ => return form.unsupported(t),
            })
        }
        "shf" => {
            let f = match (left, shift_mode) {
                (true, Some("wrap")) => Ternary32::ShfLeftWrap,
                (true, _) => Ternary32::ShfLeftClamp,
                (false, Some("wrap")) => Ternary32::ShfRightWrap,
                (false, _) => Ternary32::ShfRightClamp,
            };
            three(form, f, t, B32)
        }
        "prmt" => {
            let f = match permutation {
                None => Ternary32::Prmt,
                Some("f4e") => Ternary32::PrmtF4e,
                Some("b4e") => Ternary32::PrmtB4e,
                Some("rc8") => Ternary32::PrmtRc8,
                Some("ecl") => Ternary32::PrmtEcl,
                Some("ecr") => Ternary32::PrmtEcr,
                Some(_) => Ternary32::PrmtRc16,
            };
            three(form, f, t, B32)
        }
        "fns" => three(form, Ternary32::Fns, t, B32),
        "bfe" => match t {
            U32 => three(form, Ternary32::BfeU, t, U32),
            S32 => three(form, Ternary32::BfeS, t, S32),
            U64 | S64 => {
                form.need_count(4)?;
                let (d, a, b, c) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?, form.src(3, U32)?);
                Ok(Op::Bfe64 { d, a, b, c, signed: t == S64 })
            }
            _ => form.unsupported(t),
        },
        "bfi" => {
            form.need_count(5)?;
            if !matches!(t, B32 | B64) {
                return form.unsupported(t);
            }
            let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?);
            Ok(Op::Bfi { d, a, b, position: form.src(3, U32)?, length: form.src(4, U32)?, wide: t == B64 })
        }
        "brev" | "popc" | "clz" => {
            form.need_count(2)?;
            let (narrow, wide) = match name {
                "popc" => (Unary32::Popc, Count64::Popc),
                "clz" => (Unary32::Clz, Count64::Clz),
                _ if t == B64 => return Ok(Op::One64(Unary64::Brev, form.dst(0, t)?, form.src(1, t)?)),
                _ => (Unary32::Brev, Count64::Popc),
            };
            match t {
                B32 => Ok(Op::One(narrow, form.dst(0, B32)?, form.src(1, t)?)),
                B64 => Ok(Op::Count64(wide, form.dst(0, B32)?, form.src(1, t)?)),
                _ => form.unsupported(t),
            }
        }
        "bfind" => {
            form.need_count(2)?;
            let (d, a) = (form.dst(0, U32)?, form.src(1, t)?);
            Ok(match (t, amount) {
                (U32, false) => Op::One(Unary32::BfindU, d, a),
                (U32, true) => Op::One(Unary32::BfindShiftU, d, a),
                (S32, false) => Op::One(Unary32::BfindS, d, a),
                (S32, true) => Op::One(Unary32::BfindShiftS, d, a),
                (U64, false) => Op::Count64(Count64::BfindU, d, a),
                (U64, true) => Op::Count64(Count64::BfindShiftU, d, a),
                (S64, false) => Op::Count64(Count64::BfindS, d, a),
                (S64, true) => Op::Count64(Count64::BfindShiftS, d, a),
                _ => return form.unsupported(t),
            })
        }
        "bmsk" | "szext" => {
            form.need_count(3)?;
            let f = match (name, shift_mode, t) {
                ("bmsk", Some("clamp"), B32) => Binary32::BmskClamp,
                ("bmsk", _, B32) => Binary32::BmskWrap,
                ("szext", Some("clamp"), U32) => Binary32::SzextClampU,
                ("szext", Some("clamp"), S32) => Binary32::SzextClampS,
                ("szext", _, U32) => Binary32::SzextWrapU,
                ("szext", _, S32) => Binary32::SzextWrapS,
                _ => return form.unsupported(t),
            };
            Ok(Op::Two(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, U32)?))
        }
        "lop3" => {
            if t != B32 {
                return form.unsupported(t);
            }
            form.need_count(5)?;
            let table = form.constant(4)?;
            let Ok(table) = u8::try_from(table) else { return form.error("the look-up table has 8 bits") };
            Ok(Op::Lop3 { d: form.dst(0, t)?, a: form.src(1, t)?, b: form.src(2, t)?, c: form.src(3, t)?, table })
        }
        _ => form.error("unknown instruction"),
    }
}

fn three(form: &mut Form<'_, '_>, f: Ternary32, t: Type, need: Type) -> Result<Op, Error> {
    if t != need {
        return form.unsupported(t);
    }
    form.need_count(4)?;
    Ok(Op::Three(f, form.dst(0, t)?, form.src(1, t)?, form.src(2, U32_COUNT)?, form.src(3, U32_COUNT)?))
}
const U32_COUNT: Type = Type::U32;
