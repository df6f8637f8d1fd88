//! Data movement without memory (PTX ISA 9.7.9): `mov` with packing and unpacking, `cvta isspacep prefetch`, the clock.

use super::access::{self, window};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::Trap;
use crate::memory::Space;
use crate::parse::ast::Operand;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Copy(Slot, Slot),
    Copy64(Slot, Slot),
    CopyPredicate {
        d: Slot,
        a: Slot,
        negated: bool,
    },
    /// 32-bit slots of `bits` each into one of 32 or 64 bits, lowest first.
    Pack {
        d: Slot,
        wide: bool,
        bits: u32,
        from: Vec<Slot>,
    },
    Unpack {
        a: Slot,
        wide: bool,
        bits: u32,
        to: Vec<Slot>,
    },
    /// Adds (or subtracts) the window of a space.
    Convert {
        d: Slot,
        a: Slot,
        delta: u64,
    },
    IsSpace {
        p: Slot,
        a: Slot,
        wide: bool,
        space: Space,
    },
    Prefetch {
        address: Address,
        space: Space,
    },
    Clock {
        d: Slot,
        wide: bool,
        high: bool,
    },
    Nothing,
}

impl Op {
    #[inline(always)]
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let r = &mut m.warp.registers;
        match self {
            Op::Copy(d, a) => {
                let v = *r.get(*a);
                r.put(*d, &v, mask);
            }
            Op::Copy64(d, a) => {
                let v = *r.get64(*a);
                r.put64(*d, &v, mask);
            }
            Op::CopyPredicate { d, a, negated } => {
                let v = r.predicate(*a);
                r.put_predicate(*d, if *negated { !v } else { v }, mask);
            }
            Op::Pack { d, wide, bits, from } => {
                if *wide {
                    let mut v = [0u64; 32];
                    for (j, &s) in from.iter().enumerate() {
                        let part = r.get(s);
                        for i in 0..32 {
                            v[i] |= u64::from(part[i]) << (*bits * j as u32);
                        }
                    }
                    r.put64(*d, &v, mask);
                } else {
                    let mut v = [0u32; 32];
                    for (j, &s) in from.iter().enumerate() {
                        let part = r.get(s);
                        for i in 0..32 {
                            v[i] |= part[i] << (*bits * j as u32);
                        }
                    }
                    r.put(*d, &v, mask);
                }
            }
            Op::Unpack { a, wide, bits, to } => {
                let source: Lanes<u64> = if *wide { *r.get64(*a) } else { r.get(*a).map(u64::from) };
                let keep = u32::MAX >> (32 - bits);
                for (j, &s) in to.iter().enumerate() {
                    let mut v = [0u32; 32];
                    for i in 0..32 {
                        v[i] = (source[i] >> (*bits * j as u32)) as u32 & keep;
                    }
                    r.put(s, &v, mask);
                }
            }
            Op::Convert { d, a, delta } => {
                let v = r.get64(*a).map(|v| v.wrapping_add(*delta));
                r.put64(*d, &v, mask);
            }
            Op::IsSpace { p, a, wide, space } => {
                let addresses: Lanes<u64> = if *wide { *r.get64(*a) } else { r.get(*a).map(u64::from) };
                let mut out = 0;
                for i in 0..32 {
                    let holds = match crate::memory::resolve(addresses[i]) {
                        Some((s, _)) => s == *space,
                        None => false,
                    };
                    out |= u32::from(holds) << i;
                }
                r.put_predicate(*p, out, mask);
            }
            Op::Prefetch { address, space } => {
                // A prefetch of a bad address is harmless on the device, but says that the address is wrong.
                let addresses = address.lanes(m);
                if *space == Space::Global {
                    for i in lanes_of(mask) {
                        if let Err(kind) = m.launch.global.find(addresses[i], 1) {
                            return Err(Trap::new(kind, i as u32, m.launch.global.describe(addresses[i], 1)));
                        }
                    }
                }
            }
            Op::Clock { d, wide, high } => {
                let now = if *high { m.clock >> 32 } else { m.clock };
                if *wide {
                    r.put64(*d, &[now; 32], mask);
                } else {
                    r.put(*d, &[now as u32; 32], mask);
                }
            }
            Op::Nothing => {}
        }
        Ok(())
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    match form.name() {
        "mov" => mov(form),
        "cvta" => {
            let to = form.flag("to");
            let space = access::take_space(form);
            if space == Space::Generic {
                return form.error("a state space is missing");
            }
            let t = form.ty()?;
            form.need_count(2)?;
            if t.bits() == 32 {
                return form.error("generic addresses have 64 bits");
            }
            if t != Type::U64 && t != Type::B64 {
                return form.unsupported(t);
            }
            let delta = if to { window(space).wrapping_neg() } else { window(space) };
            Ok(Op::Convert { d: form.dst(0, t)?, a: form.src(1, t)?, delta })
        }
        "isspacep" => {
            let space = access::take_space(form);
            if space == Space::Generic {
                return form.error("a state space is missing");
            }
            form.need_count(2)?;
            Ok(Op::IsSpace { p: form.predicate_dst(0)?, a: form.src(1, Type::U64)?, wide: true, space })
        }
        "prefetch" | "prefetchu" => {
            let space = access::take_space(form);
            form.pick(&["L1", "L2"]);
            form.skip_prefixed(&["L2::", "tensormap"]);
            form.need_count(1)?;
            Ok(Op::Prefetch { address: form.address(0)?, space })
        }
        "nanosleep" => {
            let t = form.ty()?;
            form.need_count(1)?;
            form.src(0, t)?;
            Ok(Op::Nothing)
        }
        "pmevent" => {
            form.flag("mask");
            form.need_count(1)?;
            Ok(Op::Nothing)
        }
        "griddepcontrol" => {
            form.need(&["launch_dependents", "wait"])?;
            form.need_count(0)?;
            Ok(Op::Nothing)
        }
        "setmaxnreg" => {
            form.need(&["inc", "dec"])?;
            form.need(&["sync"])?;
            form.flag("aligned");
            form.ty()?;
            form.need_count(1)?;
            let count = form.constant(0)?;
            if !(24..=256).contains(&count) || count % 8 != 0 {
                return form.error("a number of registers is a multiple of 8, from 24 to 256");
            }
            Ok(Op::Nothing)
        }
        "discard" | "applypriority" => form.error("cache control of this kind is not supported"),
        _ => form.error("unknown instruction"),
    }
}

fn mov(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    let t = form.ty()?;
    form.need_count(2)?;
    if t == Type::Pred {
        let (a, negated) = form.predicate(1)?;
        return Ok(Op::CopyPredicate { d: form.predicate_dst(0)?, a, negated });
    }
    if let Operand::Vector(list) = form.operand(1)? {
        let bits = t.bits() / list.len().max(1) as u32;
        let element = piece(form, t, list.len())?;
        let d = form.dst(0, t)?;
        if bits == 64 || bits == 0 {
            return form.error("unsupported packing");
        }
        let from = list.iter().map(|e| form.source(e, element, false)).collect::<Result<_, _>>()?;
        return Ok(Op::Pack { d, wide: t.bits() == 64, bits, from });
    }
    if let Operand::Vector(list) = form.operand(0)? {
        let bits = t.bits() / list.len().max(1) as u32;
        let element = piece(form, t, list.len())?;
        let a = form.src(1, t)?;
        let to = list.iter().map(|e| form.destination(e, element)).collect::<Result<_, _>>()?;
        return Ok(Op::Unpack { a, wide: t.bits() == 64, bits, to });
    }
    if t.bits() < 16 {
        return form.unsupported(t);
    }
    let (d, a) = (form.dst(0, t)?, form.src(1, t)?);
    Ok(if t.bits() == 64 { Op::Copy64(d, a) } else { Op::Copy(d, a) })
}

fn piece(form: &Form<'_, '_>, t: Type, count: usize) -> Result<Type, Error> {
    match (t.bits(), count) {
        (64, 2) => Ok(Type::B32),
        (64, 4) | (32, 2) => Ok(Type::B16),
        (32, 4) | (16, 2) => Ok(Type::B8),
        _ => form.error("the vector does not fit the type"),
    }
}
