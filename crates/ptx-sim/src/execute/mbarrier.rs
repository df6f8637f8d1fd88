//! Barriers in shared memory (PTX ISA 9.7.13.15): `mbarrier.*` and `cp.async.mbarrier.arrive`.
//!
//! `try_wait` suspends its lanes until a phase completes; when no other thread of the block can go on, its time limit counts as reached.

use super::access::{conflict, shared_addresses, take_space};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::shared::mbarrier::{Arrival, BYTES, Phase, Suspension};
use crate::parse::ast::Operand;

#[derive(Clone, Debug)]
pub(crate) struct Op {
    space: Space,
    address: Address,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Init {
        count: Slot,
    },
    Invalidate,
    Expect {
        bytes: Slot,
    },
    Complete {
        bytes: Slot,
    },
    Arrive {
        state: Option<Slot>,
        count: Option<Slot>,
        bytes: Option<Slot>,
        drop: bool,
        no_complete: bool,
        relaxed: bool,
    },
    Wait {
        p: Slot,
        parity: bool,
        phase: Slot,
        suspends: bool,
        relaxed: bool,
    },
    /// Copies of `cp.async` are tracked; whether that is one of the arrivals that were counted on.
    Copies {
        counted: bool,
    },
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let at = shared_addresses(m, self.space, &self.address, BYTES as u32, BYTES as u32, mask)?;
        let warp = m.warp.index;
        match self.kind {
            Kind::Init { count } => {
                let counts = *m.warp.registers.get(count);
                each(mask, |i| m.shared.mbarrier_init((warp, i as u32, m.pc), at[i], counts[i]))
            }
            Kind::Invalidate => each(mask, |i| m.shared.mbarrier_invalidate(warp, i as u32, at[i])),
            Kind::Expect { bytes } => {
                let bytes = *m.warp.registers.get(bytes);
                each(mask, |i| m.shared.mbarrier_expect(warp, i as u32, at[i], bytes[i]))
            }
            Kind::Complete { bytes } => {
                let bytes = *m.warp.registers.get(bytes);
                each(mask, |i| {
                    m.shared.mbarrier_agent(warp, i as u32, at[i])?;
                    m.shared.copied(at[i], bytes[i])
                })
            }
            Kind::Arrive { state, count, bytes, drop, no_complete, relaxed } => {
                let one = |slot: Option<Slot>, other: u32| slot.map_or([other; 32], |s| *m.warp.registers.get(s));
                let (counts, bytes) = (one(count, 1), one(bytes, 0));
                let mut states = [0u64; 32];
                each(mask, |i| {
                    let arrival = Arrival { count: counts[i], bytes: bytes[i], drop, no_complete, relaxed };
                    states[i] = m.shared.mbarrier_arrive(warp, i as u32, at[i], arrival)?;
                    Ok(())
                })?;
                if let Some(state) = state {
                    m.warp.registers.put64(state, &states, mask);
                }
                Ok(())
            }
            Kind::Wait { p, parity, phase, suspends, relaxed } => {
                let phases: Lanes<Phase> = if parity {
                    m.warp.registers.get(phase).map(Phase::Parity)
                } else {
                    m.warp.registers.get64(phase).map(Phase::State)
                };
                wait(m, mask, &at, &phases, (p, suspends, relaxed))
            }
            Kind::Copies { counted } => copies(m, mask, &at, counted),
        }
    }
}

fn each(mask: u32, mut f: impl FnMut(usize) -> Result<(), crate::memory::shared::Conflict>) -> Step {
    lanes_of(mask).try_for_each(|i| f(i).map_err(|c| conflict(i as u32, c)))
}

fn wait(
    m: &mut Machine<'_>,
    mask: u32,
    at: &Lanes<u32>,
    phases: &Lanes<Phase>,
    (p, suspends, relaxed): (Slot, bool, bool),
) -> Step {
    let mut done = 0u32;
    let mut open = None;
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros() as usize;
        let same =
            lanes_of(rest).filter(|&i| at[i] == at[first] && phases[i] == phases[first]).fold(0, |a, i| a | 1 << i);
        if let Phase::Parity(parity) = phases[first]
            && parity > 1
        {
            let detail = format!("the parity of a phase is 0 or 1, not {parity}");
            return Err(Trap::new(FaultKind::InvalidOperand, first as u32, detail));
        }
        let complete = m.shared.mbarrier_test(m.warp.index, same, at[first], phases[first], relaxed);
        if complete.map_err(|c| conflict(first as u32, c))? {
            done |= same;
        } else {
            open = Some(at[first]);
        }
        rest &= !same;
    }
    if let Some(at) = open
        && done == 0
        && !m.shared.expired
    {
        m.shared.suspended = Some(Suspension { at, suspends });
        if suspends {
            return Ok(());
        }
    }
    m.warp.registers.put_predicate(p, done, mask);
    Ok(())
}

fn copies(m: &mut Machine<'_>, mask: u32, at: &Lanes<u32>, counted: bool) -> Step {
    let warp = m.warp.index;
    for i in lanes_of(mask) {
        let agent = m.shared.mbarrier_agent(warp, i as u32, at[i]).map_err(|c| conflict(i as u32, c))?;
        for copy in m.warp.copies.iter_mut().filter(|c| c.mask >> i & 1 == 1) {
            m.shared.async_hand_over(agent, copy.addresses[i] as usize, copy.bytes as usize);
            copy.mask &= !(1 << i);
        }
        m.shared.copied(at[i], 0).map_err(|c| conflict(i as u32, c))?;
        if counted {
            let arrival = Arrival { count: 1, bytes: 0, drop: false, no_complete: false, relaxed: true };
            m.shared.mbarrier_arrive(warp, i as u32, at[i], arrival).map_err(|c| conflict(i as u32, c))?;
        }
    }
    m.warp.copies.retain(|c| c.mask != 0);
    Ok(())
}

/// Takes the space, semantics and scope; returns the space and whether the operation orders nothing.
fn take_form(form: &mut Form<'_, '_>, semantics: &[&'static str]) -> Result<(Space, bool), Error> {
    let relaxed = form.pick(semantics) == Some("relaxed");
    form.pick(&["cta", "cluster"]);
    let space = take_space(form);
    if !matches!(space, Space::Generic | Space::Shared) {
        return form.error("an mbarrier lies in shared memory");
    }
    if form.ty()? != Type::B64 {
        return form.error("expected type b64");
    }
    Ok((space, relaxed))
}

/// `mbarrier.pending_count` is a move; all others are an [`Op`].
pub(crate) enum Decoded {
    Op(Op),
    PendingCount { d: Slot, state: Slot },
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Decoded, Error> {
    // An arrival may expect bytes, too.
    let name = form.need(&[
        "init",
        "inval",
        "arrive",
        "arrive_drop",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "try_wait",
        "pending_count",
    ])?;
    let op = match name {
        "init" | "inval" => {
            let (space, _) = take_form(form, &[])?;
            let init = name == "init";
            form.need_count(if init { 2 } else { 1 })?;
            let kind = if init { Kind::Init { count: form.src(1, Type::U32)? } } else { Kind::Invalidate };
            Op { space, address: form.address(0)?, kind }
        }
        "expect_tx" | "complete_tx" => {
            let (space, _) = take_form(form, &["relaxed"])?;
            form.need_count(2)?;
            let bytes = form.src(1, Type::U32)?;
            let kind = if name == "expect_tx" { Kind::Expect { bytes } } else { Kind::Complete { bytes } };
            Op { space, address: form.address(0)?, kind }
        }
        "arrive" | "arrive_drop" => {
            let expects = form.flag("expect_tx");
            let no_complete = form.flag("noComplete");
            let (space, relaxed) = take_form(form, &["release", "relaxed"])?;
            let state = match form.operand(0)? {
                Operand::Name(name) if name == "_" => None,
                _ => Some(form.dst(0, Type::B64)?),
            };
            let last = match form.count() {
                2 => None,
                3 => Some(form.src(2, Type::U32)?),
                _ => return form.error("expected a state, an address and a count"),
            };
            if last.is_none() && (expects || no_complete) || expects && no_complete {
                return form.error("a count is missing or does not fit");
            }
            let (count, bytes) = if expects { (None, last) } else { (last, None) };
            let drop = name == "arrive_drop";
            Op {
                space,
                address: form.address(1)?,
                kind: Kind::Arrive { state, count, bytes, drop, no_complete, relaxed },
            }
        }
        "pending_count" => {
            form.ty()?;
            form.need_count(2)?;
            return Ok(Decoded::PendingCount { d: form.dst(0, Type::B32)?, state: form.src(1, Type::B64)? });
        }
        _ => {
            let parity = form.flag("parity");
            let suspends = name == "try_wait";
            let (space, relaxed) = take_form(form, &["acquire", "relaxed"])?;
            if suspends && form.count() == 4 {
                form.src(3, Type::U32)?;
            } else {
                form.need_count(3)?;
            }
            let phase = form.src(2, if parity { Type::U32 } else { Type::B64 })?;
            let p = form.predicate_dst(0)?;
            Op { space, address: form.address(1)?, kind: Kind::Wait { p, parity, phase, suspends, relaxed } }
        }
    };
    Ok(Decoded::Op(op))
}

/// `cp.async.mbarrier.arrive`, with the opcode taken up to there.
pub(crate) fn decode_copies(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    form.need(&["arrive"])?;
    let counted = form.flag("noinc");
    let (space, _) = take_form(form, &[])?;
    form.need_count(1)?;
    Ok(Op { space, address: form.address(0)?, kind: Kind::Copies { counted } })
}
