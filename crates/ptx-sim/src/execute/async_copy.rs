//! Asynchronous copies from global to shared memory (PTX ISA 9.7.9.25, `cp.async` without bulk forms).
//!
//! The bytes are poison until the copying thread waits for their group; then they are its writes, and other threads need a barrier as well.

use super::access::{conflict, global_race, misaligned, shared_offsets};
use super::lanes::{Slot, lanes_of};
use super::machine::{Copy, Machine, Step};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::parse::ast::Operand;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Copy {
        to: Address,
        from: Address,
        bytes: u32,
        source: Source,
    },
    Commit,
    /// All but the last so many groups.
    Wait(u32),
    WaitAll,
}

/// How much is read from global memory; the rest is filled with zeros.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    All,
    Bytes(Slot),
    /// Nothing where the predicate holds.
    Ignore(Slot, bool),
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        match self {
            Op::Copy { to, from, bytes, source } => copy(m, mask, to, from, *bytes, source),
            Op::Commit => {
                commit(m, mask);
                Ok(())
            }
            Op::Wait(keep) => {
                wait(m, mask, Some(*keep));
                Ok(())
            }
            Op::WaitAll => {
                wait(m, mask, None);
                Ok(())
            }
        }
    }
}

fn copy(m: &mut Machine<'_>, mask: u32, to: &Address, from: &Address, bytes: u32, source: &Source) -> Step {
    let destinations = to.lanes(m);
    let sources = from.lanes(m);
    let at = shared_offsets(m, &destinations, bytes, bytes, mask)?;
    let sizes = match *source {
        Source::All => [bytes; 32],
        Source::Bytes(s) => *m.warp.registers.get(s),
        Source::Ignore(p, negated) => {
            let p = m.warp.registers.predicate(p);
            let p = if negated { !p } else { p };
            std::array::from_fn(|i| if p >> i & 1 == 1 { 0 } else { bytes })
        }
    };
    let mut reading = 0;
    for i in lanes_of(mask) {
        if sizes[i] > bytes {
            return Err(Trap::new(
                FaultKind::InvalidOperand,
                i as u32,
                format!("source size {} is above the copy size {bytes}", sizes[i]),
            ));
        }
        reading |= u32::from(sizes[i] > 0) << i;
    }
    m.count_shared(&at, bytes, mask);
    if reading != 0 {
        let slot = m.tally.patterns[m.pc].take();
        m.count_global(&sources, bytes, reading);
        m.tally.patterns[m.pc] = slot;
        m.tally.instructions[m.pc].requests -= 1;
    }
    let memory = m.launch.global;
    let me = &m.accessor(false);
    for i in lanes_of(mask) {
        let mut data = [0u8; 16];
        let size = sizes[i];
        let address = sources[i];
        if address & u64::from(bytes - 1) != 0 {
            return Err(misaligned(i as u32, address, bytes));
        }
        if size > 0 {
            let (a, offset) = memory
                .find(address, u64::from(size))
                .map_err(|kind| Trap::new(kind, i as u32, memory.describe(address, u64::from(size))))?;
            let first = (offset >> 2) as usize;
            let words = (size as usize).div_ceil(4);
            if let Err(other) = memory.note_read(a, first, words, 15, me) {
                return Err(global_race(i, address, other, "is read", "written"));
            }
            if m.launch.check_uninitialised_global && !a.is_written(first, words) {
                return Err(Trap::new(
                    FaultKind::UninitialisedGlobal,
                    i as u32,
                    memory.describe(address, u64::from(size)),
                ));
            }
            for (j, chunk) in data.chunks_exact_mut(4).enumerate().take(words) {
                chunk.copy_from_slice(&(a.load_bytes(offset + 4 * j as u64, 4) as u32).to_le_bytes());
            }
            data[size as usize..].fill(0);
        }
        let to = at[i] as usize;
        m.shared.async_begin(m.warp.index, i as u32, to, bytes as usize).map_err(|c| conflict(i as u32, c))?;
        m.shared.data[to..to + bytes as usize].copy_from_slice(&data[..bytes as usize]);
        m.tally.async_copy_bytes += u64::from(bytes);
    }
    m.warp.copies.push(Copy { addresses: at, bytes, mask, group: None });
    Ok(())
}

fn commit(m: &mut Machine<'_>, mask: u32) {
    let committed = &mut m.warp.committed;
    let mut apart = Vec::new();
    for copy in m.warp.copies.iter_mut().filter(|c| c.group.is_none()) {
        // Lanes that committed a different number of groups part company.
        while copy.mask & mask != 0 {
            let lanes = copy.mask & mask;
            let number = committed[lanes.trailing_zeros() as usize];
            let same = lanes_of(lanes).filter(|&i| committed[i] == number).fold(0, |all, i| all | 1 << i);
            if same == copy.mask {
                copy.group = Some(number);
                break;
            }
            apart.push(Copy { addresses: copy.addresses, bytes: copy.bytes, mask: same, group: Some(number) });
            copy.mask &= !same;
        }
    }
    m.warp.copies.retain(|c| c.mask != 0);
    m.warp.copies.append(&mut apart);
    for i in lanes_of(mask) {
        committed[i] = committed[i].wrapping_add(1);
    }
}

/// Completes the copies of the lanes, but for their last `keep` groups; without `keep` also those not committed.
fn wait(m: &mut Machine<'_>, mask: u32, keep: Option<u32>) {
    let committed = m.warp.committed;
    let shared = &mut *m.shared;
    for copy in &mut m.warp.copies {
        let mut done = 0u32;
        for i in lanes_of(copy.mask & mask) {
            let complete = match (copy.group, keep) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(group), Some(keep)) => committed[i].wrapping_sub(group) > keep,
            };
            if complete {
                shared.async_end(copy.addresses[i] as usize, copy.bytes as usize);
                done |= 1 << i;
            }
        }
        copy.mask &= !done;
    }
    m.warp.copies.retain(|c| c.mask != 0);
}

/// `cp.async…`, with the opcode taken up to there.
pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    if form.flag("commit_group") {
        form.need_count(0)?;
        return Ok(Op::Commit);
    }
    if form.flag("wait_group") {
        form.need_count(1)?;
        let keep = form.constant(0)?;
        return match u32::try_from(keep) {
            Ok(keep) => Ok(Op::Wait(keep)),
            Err(_) => form.error("the number of groups is negative"),
        };
    }
    if form.flag("wait_all") {
        form.need_count(0)?;
        return Ok(Op::WaitAll);
    }
    let level = form.need(&["ca", "cg"])?;
    if form.pick(&["shared", "shared::cta"]).is_none() || !form.flag("global") {
        return form.error("expected a copy from .global to .shared");
    }
    let policy = form.flag("L2::cache_hint");
    form.skip_prefixed(&["L2::"]);
    let bytes = form.constant(2)?;
    if !(bytes == 16 || level == "ca" && (bytes == 4 || bytes == 8)) {
        return form.error("the copy size is 4, 8 or 16 bytes, with .cg 16");
    }
    let last = form.count() - usize::from(policy);
    let source = match last {
        3 => Source::All,
        4 => match form.operand(3)? {
            Operand::Not(_) => {
                let (p, negated) = form.predicate(3)?;
                Source::Ignore(p, negated)
            }
            Operand::Name(name) if matches!(form.d.lookup(name), Some(crate::decode::Symbol::Predicate(_))) => {
                let (p, negated) = form.predicate(3)?;
                Source::Ignore(p, negated)
            }
            _ => Source::Bytes(form.src(3, Type::U32)?),
        },
        _ => return form.error("unexpected operands"),
    };
    Ok(Op::Copy { to: form.address(0)?, from: form.address(1)?, bytes: bytes as u32, source })
}
