//! Comparison and selection (PTX ISA 9.7.6 and 9.7.7): `setp set selp slct`.

use super::lanes::{Registers, Slot, Vectors, map2, test2};
use super::numbers::{d as dbl, f, flush, half_to_f32};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::parse::ast::Operand;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Unordered counterparts: true also when an operand is not a number.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// How operands are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Domain {
    U32,
    S32,
    S16,
    U64,
    S64,
    F32,
    F32Ftz,
    F64,
    F16,
    Bf16,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Join {
    None,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    relation: Relation,
    domain: Domain,
    a: Slot,
    b: Slot,
    join: Join,
    c: Slot,
    negated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    SetPredicate {
        test: Test,
        d: Slot,
        other: Slot,
    },
    /// Packed halves: one predicate for each half.
    SetPacked {
        low: Test,
        high: Test,
        bfloat: bool,
        d: Slot,
        other: Slot,
    },
    Set {
        test: Test,
        d: Slot,
        yes: u32,
    },
    Select {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Select64 {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Slct {
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        wide: bool,
        float: bool,
        ftz: bool,
    },
    CopyPredicate {
        d: Slot,
        a: Slot,
    },
}

const NO: Slot = u32::MAX;

#[inline(always)]
fn ordered<T: Copy + PartialOrd>(relation: Relation, a: &[T; 32], b: &[T; 32]) -> u32 {
    match relation {
        Relation::Eq => test2(a, b, |a, b| a == b),
        Relation::Ne => test2(a, b, |a, b| a < b || a > b),
        Relation::Lt => test2(a, b, |a, b| a < b),
        Relation::Le => test2(a, b, |a, b| a <= b),
        Relation::Gt => test2(a, b, |a, b| a > b),
        Relation::Ge => test2(a, b, |a, b| a >= b),
        Relation::Equ => !ordered_not(a, b, |a, b| a < b || a > b),
        Relation::Neu => test2(a, b, |a, b| a != b),
        Relation::Ltu => !ordered_not(a, b, |a, b| a >= b),
        Relation::Leu => !ordered_not(a, b, |a, b| a > b),
        Relation::Gtu => !ordered_not(a, b, |a, b| a <= b),
        Relation::Geu => !ordered_not(a, b, |a, b| a < b),
        Relation::Num => test2(a, b, |a, b| a <= b || a > b),
        Relation::Nan => !test2(a, b, |a, b| a <= b || a > b),
    }
}
#[inline(always)]
fn ordered_not<T: Copy>(a: &[T; 32], b: &[T; 32], f: impl Fn(T, T) -> bool) -> u32 {
    test2(a, b, f)
}

impl Test {
    #[inline(always)]
    fn run(&self, r: &Registers) -> u32 {
        let (a, b) = (self.a, self.b);
        match self.domain {
            Domain::U32 => ordered(self.relation, r.get(a), r.get(b)),
            Domain::S32 => ordered(self.relation, &r.get(a).map(|v| v as i32), &r.get(b).map(|v| v as i32)),
            Domain::S16 => {
                ordered(self.relation, &r.get(a).map(|v| v as u16 as i16), &r.get(b).map(|v| v as u16 as i16))
            }
            Domain::U64 => ordered(self.relation, r.get64(a), r.get64(b)),
            Domain::S64 => ordered(self.relation, &r.get64(a).map(|v| v as i64), &r.get64(b).map(|v| v as i64)),
            Domain::F32 => ordered(self.relation, &r.get(a).map(f), &r.get(b).map(f)),
            Domain::F32Ftz => ordered(self.relation, &r.get(a).map(|v| f(flush(v))), &r.get(b).map(|v| f(flush(v)))),
            Domain::F64 => ordered(self.relation, &r.get64(a).map(dbl), &r.get64(b).map(dbl)),
            Domain::F16 => ordered(
                self.relation,
                &r.get(a).map(|v| half_to_f32(v & 0xffff)),
                &r.get(b).map(|v| half_to_f32(v & 0xffff)),
            ),
            Domain::Bf16 => ordered(self.relation, &r.get(a).map(|v| f(v << 16)), &r.get(b).map(|v| f(v << 16))),
        }
    }
    #[inline(always)]
    fn join(&self, r: &Registers, v: u32) -> u32 {
        if self.join == Join::None {
            return v;
        }
        let c = r.predicate(self.c);
        let c = if self.negated { !c } else { c };
        match self.join {
            Join::And => v & c,
            Join::Or => v | c,
            _ => v ^ c,
        }
    }
}

struct Run<'a>(&'a Op, &'a mut Registers, u32);

impl pulp::NullaryFnOnce for Run<'_> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Run(op, r, mask) = self;
        match *op {
            Op::SetPredicate { ref test, d, other } => {
                let v = test.run(r);
                let (yes, no) = (test.join(r, v), test.join(r, !v));
                r.put_predicate(d, yes, mask);
                if other != NO {
                    r.put_predicate(other, no, mask);
                }
            }
            Op::SetPacked { ref low, ref high, bfloat, d, other } => {
                let half = |v: u32| if bfloat { f(v << 16) } else { half_to_f32(v) };
                let read = |s: Slot, shift: u32| r.get(s).map(|v| half(v >> shift & 0xffff));
                let l = ordered(low.relation, &read(low.a, 0), &read(low.b, 0));
                let h = ordered(high.relation, &read(high.a, 16), &read(high.b, 16));
                let (l, h) = (low.join(r, l), high.join(r, h));
                r.put_predicate(d, l, mask);
                if other != NO {
                    r.put_predicate(other, h, mask);
                }
            }
            Op::Set { ref test, d, yes } => {
                let v = test.run(r);
                let v = test.join(r, v);
                let mut out = [0; 32];
                for (i, o) in out.iter_mut().enumerate() {
                    *o = (v >> i & 1).wrapping_neg() & yes;
                }
                r.put(d, &out, mask);
            }
            Op::Select { d, a, b, p } => {
                let p = r.predicate(p);
                let (a, b) = (r.get(a), r.get(b));
                let mut out = [0; 32];
                for i in 0..32 {
                    let yes = (p >> i & 1).wrapping_neg();
                    out[i] = a[i] & yes | b[i] & !yes;
                }
                r.put(d, &out, mask);
            }
            Op::Select64 { d, a, b, p } => {
                let p = r.predicate(p);
                let (a, b) = (r.get64(a), r.get64(b));
                let mut out = [0; 32];
                for i in 0..32 {
                    let yes = u64::from(p >> i & 1).wrapping_neg();
                    out[i] = a[i] & yes | b[i] & !yes;
                }
                r.put64(d, &out, mask);
            }
            Op::Slct { d, a, b, c, wide, float, ftz } => {
                let select = map2(r.get(c), r.get(c), |c, _| {
                    if float { f(if ftz { flush(c) } else { c }) >= 0.0 } else { c as i32 >= 0 }
                });
                if wide {
                    let mut v = *r.get64(b);
                    let a = r.get64(a);
                    for i in 0..32 {
                        if select[i] {
                            v[i] = a[i];
                        }
                    }
                    r.put64(d, &v, mask);
                } else {
                    let mut v = *r.get(b);
                    let a = r.get(a);
                    for i in 0..32 {
                        if select[i] {
                            v[i] = a[i];
                        }
                    }
                    r.put(d, &v, mask);
                }
            }
            Op::CopyPredicate { d, a } => {
                let v = r.predicate(a);
                r.put_predicate(d, v, mask);
            }
        }
    }
}

impl Op {
    pub(crate) fn execute(&self, vectors: Vectors, r: &mut Registers, mask: u32) {
        vectors.run(Run(self, r, mask));
    }
    pub(crate) fn copy_predicate(d: Slot, a: Slot) -> Op {
        Op::CopyPredicate { d, a }
    }
    /// `d = a == b` of 32-bit integers.
    pub(crate) fn equal(d: Slot, a: Slot, b: Slot) -> Op {
        let test = Test { relation: Relation::Eq, domain: Domain::U32, a, b, join: Join::None, c: 0, negated: false };
        Op::SetPredicate { test, d, other: NO }
    }
}

/// Select on a predicate for `mov` between predicates and others.
pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    match form.name() {
        "selp" => {
            let t = form.ty()?;
            form.need_count(4)?;
            if t == Type::Pred || t.bits() < 16 {
                return form.unsupported(t);
            }
            let (d, a, b) = (form.dst(0, t)?, form.src(1, t)?, form.src(2, t)?);
            let (p, negated) = form.predicate(3)?;
            let (a, b) = if negated { (b, a) } else { (a, b) };
            Ok(if t.bits() == 64 { Op::Select64 { d, a, b, p } } else { Op::Select { d, a, b, p } })
        }
        "slct" => {
            let ftz = form.flag("ftz");
            let types = form.types();
            let [t, c] = types[..] else { return form.error("expected two types") };
            if !matches!(c, Type::S32 | Type::F32) {
                return form.unsupported(c);
            }
            form.need_count(4)?;
            Ok(Op::Slct {
                d: form.dst(0, t)?,
                a: form.src(1, t)?,
                b: form.src(2, t)?,
                c: form.src(3, c)?,
                wide: t.bits() == 64,
                float: c == Type::F32,
                ftz,
            })
        }
        name => set(form, name == "setp"),
    }
}

fn set(form: &mut Form<'_, '_>, predicate: bool) -> Result<Op, Error> {
    let relation_name = form.need(&[
        "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
        "nan",
    ])?;
    let join = match form.pick(&["and", "or", "xor"]) {
        None => Join::None,
        Some("and") => Join::And,
        Some("or") => Join::Or,
        Some(_) => Join::Xor,
    };
    let ftz = form.flag("ftz");
    let types = form.types();
    let (result, t) = match (&types[..], predicate) {
        ([t], true) => (Type::Pred, *t),
        ([d, t], false) => (*d, *t),
        _ => return form.error("expected the types of the instruction"),
    };
    if relation_name.len() == 3 && !t.is_float() {
        return form.error("this comparison needs a floating-point type");
    }
    let relation = match relation_name {
        "eq" => Relation::Eq,
        // For floats `ne` is false when an operand is not a number.
        "ne" => Relation::Ne,
        "lt" | "lo" => Relation::Lt,
        "le" | "ls" => Relation::Le,
        "gt" | "hi" => Relation::Gt,
        "ge" | "hs" => Relation::Ge,
        "equ" => Relation::Equ,
        "neu" => Relation::Neu,
        "ltu" => Relation::Ltu,
        "leu" => Relation::Leu,
        "gtu" => Relation::Gtu,
        "geu" => Relation::Geu,
        "num" => Relation::Num,
        _ => Relation::Nan,
    };
    if t.is_bits() && !matches!(relation, Relation::Eq | Relation::Ne) {
        return form.error("bit types compare by eq and ne only");
    }
    let domain = match t {
        Type::U16 | Type::B16 | Type::U32 | Type::B32 => Domain::U32,
        Type::S16 => Domain::S16,
        Type::S32 => Domain::S32,
        Type::U64 | Type::B64 => Domain::U64,
        Type::S64 => Domain::S64,
        Type::F32 => {
            if ftz {
                Domain::F32Ftz
            } else {
                Domain::F32
            }
        }
        Type::F64 => Domain::F64,
        Type::F16 | Type::F16x2 => Domain::F16,
        Type::Bf16 | Type::Bf16x2 => Domain::Bf16,
        _ => return form.unsupported(t),
    };
    form.need_count(if join == Join::None { 3 } else { 4 })?;
    let (a, b) = (form.src(1, t)?, form.src(2, t)?);
    let (c, negated) = if join == Join::None { (0, false) } else { form.predicate(3)? };
    let test = Test { relation, domain, a, b, join, c, negated };
    let packed = matches!(t, Type::F16x2 | Type::Bf16x2);
    if predicate {
        let (d, other) = match form.operand(0)? {
            Operand::Pair(p, q) => (form.predicate_named(p)?, form.predicate_named(q)?),
            _ => (form.predicate_dst(0)?, NO),
        };
        if packed {
            return Ok(Op::SetPacked { low: test, high: test, bfloat: t == Type::Bf16x2, d, other });
        }
        return Ok(Op::SetPredicate { test, d, other });
    }
    let yes = match result {
        Type::U32 | Type::S32 => u32::MAX,
        Type::U16 | Type::S16 => 0xffff,
        Type::F32 => 1f32.to_bits(),
        Type::F16 => 0x3c00,
        Type::Bf16 => 0x3f80,
        _ => return form.unsupported(result),
    };
    if packed {
        return form.unsupported(t);
    }
    Ok(Op::Set { test, d: form.dst(0, result)?, yes })
}
