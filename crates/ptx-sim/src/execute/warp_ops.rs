//! Exchange within a warp (PTX ISA 9.7.9 and 9.7.13): `shfl.sync vote.sync match.sync redux.sync activemask elect.sync bar.warp.sync`.
//!
//! The lanes that execute a `.sync` instruction must be exactly the named lanes that have not exited. Each also orders the lanes'
//! earlier shared accesses before their later ones.

use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use super::numbers::{bits, f};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::parse::ast::Operand;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reduction {
    Add,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    MinF { nan: bool, abs: bool },
    MaxF { nan: bool, abs: bool },
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Shuffle { mode: Shuffle, d: Slot, p: Slot, a: Slot, b: Slot, c: Slot, members: Slot },
    Vote { mode: Vote, d: Slot, p: (Slot, bool), members: Slot },
    Match { all: bool, wide: bool, d: Slot, p: Slot, a: Slot, members: Slot },
    Redux { f: Reduction, d: Slot, a: Slot, members: Slot },
    ActiveMask { d: Slot },
    Elect { d: Slot, p: Slot, members: Slot },
    Sync { members: Slot },
}

const NO: Slot = u32::MAX;

/// The exchange of `shfl.sync` over all lanes: what each lane receives, the lanes whose source lies inside their segment, and those
/// whose source does not execute the instruction.
struct Exchange<'a> {
    mode: Shuffle,
    source: &'a Lanes<u32>,
    distance: &'a Lanes<u32>,
    bounds: &'a Lanes<u32>,
    mask: u32,
}

impl Exchange<'_> {
    /// Source lane of each lane and whether it is inside, from lane, distance, segment mask and limit.
    #[inline(always)]
    fn sources(&self, f: impl Fn(u32, u32, u32, u32) -> (u32, bool)) -> (Lanes<u32>, u32) {
        let mut from = [0u32; 32];
        let mut valid = [0u32; 32];
        for i in 0..32u32 {
            let (b, c) = (self.distance[i as usize] & 31, self.bounds[i as usize]);
            let segment = c >> 8 & 31;
            let limit = i & segment | c & 31 & !segment;
            let (lane, inside) = f(i, b, segment, limit);
            from[i as usize] = if inside { lane & 31 } else { i };
            valid[i as usize] = u32::from(inside) << i;
        }
        (from, valid.iter().fold(0, |all, &bit| all | bit))
    }
}

impl pulp::NullaryFnOnce for Exchange<'_> {
    type Output = (Lanes<u32>, u32, u32);
    #[inline(always)]
    fn call(self) -> Self::Output {
        let (from, valid) = match self.mode {
            Shuffle::Up => self.sources(|i, b, _, limit| (i.wrapping_sub(b), i as i32 - b as i32 >= limit as i32)),
            Shuffle::Down => self.sources(|i, b, _, limit| (i + b, i + b <= limit)),
            Shuffle::Butterfly => self.sources(|i, b, _, limit| (i ^ b, i ^ b <= limit)),
            Shuffle::Index => self.sources(|i, b, segment, limit| {
                let j = i & segment | b & !segment;
                (j, j <= limit)
            }),
        };
        let mut out = [0; 32];
        for i in 0..32 {
            out[i] = self.source[from[i] as usize & 31];
        }
        let mut missing = 0;
        if self.mask != u32::MAX {
            for (i, lane) in from.iter().enumerate() {
                missing |= u32::from(self.mask >> lane & 1 == 0) << i;
            }
        }
        (out, valid, missing)
    }
}

/// Checks that the active lanes are those that the member masks name.
pub(crate) fn check_members(members: &Lanes<u32>, live: u32, active: u32) -> Step {
    let mut bad = 0u32;
    for (i, m) in members.iter().enumerate() {
        bad |= u32::from(m & live != active) << i;
    }
    bad &= active;
    if bad == 0 {
        return Ok(());
    }
    let lane = bad.trailing_zeros();
    let named = members[lane as usize];
    Err(Trap::new(
        FaultKind::WarpSyncMask,
        lane,
        format!(
            "the mask names lanes {named:#010x}, lanes {active:#010x} execute the instruction, {live:#010x} have not exited"
        ),
    ))
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let live = m.warp.live;
        let vectors = m.launch.vectors;
        let members = match *self {
            Op::Shuffle { members, .. }
            | Op::Vote { members, .. }
            | Op::Match { members, .. }
            | Op::Redux { members, .. }
            | Op::Elect { members, .. }
            | Op::Sync { members } => {
                check_members(m.warp.registers.get(members), live, mask)?;
                m.shared.warp_sync(m.warp.index, mask);
                mask
            }
            Op::ActiveMask { .. } => mask,
        };
        let r = &mut m.warp.registers;
        match *self {
            Op::Shuffle { mode, d, p, a, b, c, .. } => {
                let (out, valid, missing) =
                    vectors.run(Exchange { mode, source: r.get(a), distance: r.get(b), bounds: r.get(c), mask });
                if missing & mask != 0 {
                    let lane = (missing & mask).trailing_zeros();
                    return Err(Trap::new(
                        FaultKind::WarpSyncMask,
                        lane,
                        "the lane reads a lane that does not execute the instruction",
                    ));
                }
                r.put(d, &out, mask);
                if p != NO {
                    r.put_predicate(p, valid, mask);
                }
            }
            Op::Vote { mode, d, p: (p, negated), .. } => {
                let p = r.predicate(p);
                let p = (if negated { !p } else { p }) & mask;
                let all = |v: bool| if v { u32::MAX } else { 0 };
                match mode {
                    Vote::All => r.put_predicate(d, all(p == mask), mask),
                    Vote::Any => r.put_predicate(d, all(p != 0), mask),
                    Vote::Uniform => r.put_predicate(d, all(p == 0 || p == mask), mask),
                    Vote::Ballot => r.put(d, &[p; 32], mask),
                }
            }
            Op::Match { all, wide, d, p, a, .. } => {
                let values: Lanes<u64> = if wide { *r.get64(a) } else { r.get(a).map(u64::from) };
                let mut out = [0u32; 32];
                for i in lanes_of(mask) {
                    for j in lanes_of(mask) {
                        out[i] |= u32::from(values[i] == values[j]) << j;
                    }
                }
                let same = lanes_of(mask).all(|i| out[i] == mask);
                if all {
                    out = [if same { mask } else { 0 }; 32];
                }
                r.put(d, &out, mask);
                if p != NO {
                    r.put_predicate(p, if same { u32::MAX } else { 0 }, mask);
                }
            }
            Op::Redux { f: g, d, a, .. } => {
                let values = *r.get(a);
                let mut lanes = lanes_of(members);
                let Some(first) = lanes.next() else { return Ok(()) };
                let strip = |v: u32| match g {
                    Reduction::MinF { abs: true, .. } | Reduction::MaxF { abs: true, .. } => v & 0x7fff_ffff,
                    _ => v,
                };
                let total = lanes.fold(strip(values[first]), |x, i| {
                    let y = strip(values[i]);
                    match g {
                        Reduction::Add => x.wrapping_add(y),
                        Reduction::MinU => x.min(y),
                        Reduction::MaxU => x.max(y),
                        Reduction::MinS => (x as i32).min(y as i32) as u32,
                        Reduction::MaxS => (x as i32).max(y as i32) as u32,
                        Reduction::And => x & y,
                        Reduction::Or => x | y,
                        Reduction::Xor => x ^ y,
                        Reduction::MinF { nan, .. } | Reduction::MaxF { nan, .. } => {
                            let (a, b) = (f(x), f(y));
                            let least = matches!(g, Reduction::MinF { .. });
                            if nan && (a.is_nan() || b.is_nan()) {
                                bits(f32::NAN)
                            } else if a.is_nan() || b.is_nan() {
                                if a.is_nan() { bits(b) } else { bits(a) }
                            } else if (a < b || a == b && a.is_sign_negative()) == least {
                                x
                            } else {
                                y
                            }
                        }
                    }
                });
                r.put(d, &[total; 32], mask);
            }
            Op::ActiveMask { d } => r.put(d, &[mask; 32], mask),
            Op::Elect { d, p, .. } => {
                let leader = mask.trailing_zeros();
                if d != NO {
                    r.put(d, &[leader; 32], mask);
                }
                r.put_predicate(p, 1 << leader, mask);
            }
            Op::Sync { .. } => {}
        }
        Ok(())
    }
}

/// `d` or `d|p`.
fn pair(form: &mut Form<'_, '_>, t: Type) -> Result<(Slot, Slot), Error> {
    match form.operand(0)? {
        Operand::Pair(d, p) => {
            let p = form.predicate_named(p)?;
            if d == "_" {
                return Ok((form.d.new32(), p));
            }
            match form.d.lookup(d) {
                Some(crate::decode::Symbol::R32(slot, 32)) => Ok((slot, p)),
                _ => form.error(format!("`{d}` is no 32-bit register")),
            }
        }
        _ => Ok((form.dst(0, t)?, NO)),
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    match form.name() {
        "shfl" => {
            if !form.flag("sync") {
                return form.error("shfl without .sync does not exist on sm_70 and later");
            }
            let mode = match form.need(&["up", "down", "bfly", "idx"])? {
                "up" => Shuffle::Up,
                "down" => Shuffle::Down,
                "bfly" => Shuffle::Butterfly,
                _ => Shuffle::Index,
            };
            if form.ty()? != B32 {
                return form.error("shfl needs type b32");
            }
            form.need_count(5)?;
            let (d, p) = pair(form, B32)?;
            Ok(Op::Shuffle {
                mode,
                d,
                p,
                a: form.src(1, B32)?,
                b: form.src(2, B32)?,
                c: form.src(3, B32)?,
                members: form.src(4, B32)?,
            })
        }
        "vote" => {
            if !form.flag("sync") {
                return form.error("vote without .sync does not exist on sm_70 and later");
            }
            let mode = match form.need(&["all", "any", "uni", "ballot"])? {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uniform,
                _ => Vote::Ballot,
            };
            let t = form.ty()?;
            form.need_count(3)?;
            let d = match (mode, t) {
                (Vote::Ballot, B32) => form.dst(0, B32)?,
                (Vote::Ballot, _) => return form.unsupported(t),
                (_, Pred) => form.predicate_dst(0)?,
                _ => return form.unsupported(t),
            };
            Ok(Op::Vote { mode, d, p: form.predicate(1)?, members: form.src(2, B32)? })
        }
        "match" => {
            let all = form.need(&["any", "all"])? == "all";
            form.need(&["sync"])?;
            let t = form.ty()?;
            if t != B32 && t != B64 {
                return form.unsupported(t);
            }
            form.need_count(3)?;
            let (d, p) = pair(form, B32)?;
            Ok(Op::Match { all, wide: t == B64, d, p, a: form.src(1, t)?, members: form.src(2, B32)? })
        }
        "redux" => {
            form.need(&["sync"])?;
            let name = form.need(&["add", "min", "max", "and", "or", "xor"])?;
            let abs = form.flag("abs");
            let nan = form.flag("NaN");
            let t = form.ty()?;
            let f = match (name, t) {
                ("add", U32 | S32) => Reduction::Add,
                ("min", U32) => Reduction::MinU,
                ("min", S32) => Reduction::MinS,
                ("max", U32) => Reduction::MaxU,
                ("max", S32) => Reduction::MaxS,
                ("and", B32) => Reduction::And,
                ("or", B32) => Reduction::Or,
                ("xor", B32) => Reduction::Xor,
                ("min", F32) => Reduction::MinF { nan, abs },
                ("max", F32) => Reduction::MaxF { nan, abs },
                _ => return form.unsupported(t),
            };
            if (abs || nan) && t != F32 {
                return form.error("`.abs` and `.NaN` need type f32");
            }
            form.need_count(3)?;
            Ok(Op::Redux { f, d: form.dst(0, t)?, a: form.src(1, t)?, members: form.src(2, B32)? })
        }
        "activemask" => {
            form.ty()?;
            form.need_count(1)?;
            Ok(Op::ActiveMask { d: form.dst(0, B32)? })
        }
        "elect" => {
            form.need(&["sync"])?;
            form.need_count(2)?;
            match form.operand(0)? {
                Operand::Pair(..) => {
                    let (d, p) = pair(form, B32)?;
                    Ok(Op::Elect { d, p, members: form.src(1, B32)? })
                }
                _ => form.error("expected a register and a predicate"),
            }
        }
        _ => form.error("unknown instruction"),
    }
}
