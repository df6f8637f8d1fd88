//! Atomic operations (PTX ISA 9.7.13): `atom` and `red` on global and shared memory.
//!
//! Lanes of a warp go one after the other, lowest first. On global memory the operation is atomic across blocks.

use std::sync::atomic::Ordering::Relaxed;

use super::access::{
    Semantics, by_space, conflict, global_race, misaligned, shared_offsets, take_semantics, take_space,
};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use super::numbers::{bfloat_to_f32, bits, bits64, d as dbl, f, f32_to_bfloat, f32_to_half, half_to_f32};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::races::place;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    f: Function,
    t: Type,
    semantics: Semantics,
    space: Space,
    address: Address,
    /// `None` for `red`.
    d: Option<Slot>,
    b: Slot,
    c: Slot,
}

impl Op {
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.space, Space::Global | Space::Generic)
    }

    fn apply(&self, old: u64, b: u64, c: u64) -> u64 {
        let t = self.t;
        let half = |op: fn(f32, f32) -> f32, shift: u32| {
            let (x, y) = ((old >> shift) as u32 & 0xffff, (b >> shift) as u32 & 0xffff);
            let v = match t {
                Type::Bf16 | Type::Bf16x2 => f32_to_bfloat(op(bfloat_to_f32(x), bfloat_to_f32(y))),
                _ => f32_to_half(op(half_to_f32(x), half_to_f32(y))),
            };
            u64::from(v) << shift
        };
        match (self.f, t) {
            (Function::Add, Type::F32) => u64::from(bits(f(old as u32) + f(b as u32))),
            (Function::Add, Type::F64) => bits64(dbl(old) + dbl(b)),
            (Function::Add, Type::F16 | Type::Bf16) => half(|a, b| a + b, 0),
            (Function::Add, Type::F16x2 | Type::Bf16x2) => half(|a, b| a + b, 0) | half(|a, b| a + b, 16),
            (Function::Add, Type::U64 | Type::S64) => old.wrapping_add(b),
            (Function::Add, _) => u64::from((old as u32).wrapping_add(b as u32)),
            (Function::Min, Type::S32) => u64::from((old as i32).min(b as i32) as u32),
            (Function::Max, Type::S32) => u64::from((old as i32).max(b as i32) as u32),
            (Function::Min, Type::S64) => (old as i64).min(b as i64) as u64,
            (Function::Max, Type::S64) => (old as i64).max(b as i64) as u64,
            (Function::Min, _) => old.min(b),
            (Function::Max, _) => old.max(b),
            (Function::And, _) => old & b,
            (Function::Or, _) => old | b,
            (Function::Xor, _) => old ^ b,
            (Function::Exchange, _) => b,
            (Function::CompareAndSwap, _) => {
                if old == b {
                    c
                } else {
                    old
                }
            }
            (Function::Increment, _) => {
                if old >= b {
                    0
                } else {
                    old + 1
                }
            }
            (Function::Decrement, _) => {
                if old == 0 || old > b {
                    b
                } else {
                    old - 1
                }
            }
        }
    }

    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let addresses = self.address.lanes(m);
        let wide = self.t.bits() == 64;
        let read = |s: Slot| -> Lanes<u64> {
            if wide { *m.warp.registers.get64(s) } else { m.warp.registers.get(s).map(u64::from) }
        };
        let (b, c) = (read(self.b), read(self.c));
        let mut old: Lanes<u64> = [0; 32];
        if self.space == Space::Generic {
            for (space, lanes, at) in by_space(&addresses, mask)? {
                self.run(m, space, &at, lanes, &b, &c, &mut old)?;
            }
        } else {
            self.run(m, self.space, &addresses, mask, &b, &c, &mut old)?;
        }
        if let Some(d) = self.d {
            if wide {
                m.warp.registers.put64(d, &old, mask);
            } else {
                m.warp.registers.put(d, &old.map(|v| v as u32), mask);
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        m: &mut Machine<'_>,
        space: Space,
        addresses: &Lanes<u64>,
        mask: u32,
        b: &Lanes<u64>,
        c: &Lanes<u64>,
        old: &mut Lanes<u64>,
    ) -> Step {
        let bytes = self.t.bits() / 8;
        match space {
            Space::Shared => {
                let at = shared_offsets(m, addresses, bytes, bytes, mask)?;
                m.count_shared(&at, bytes, mask);
                for i in lanes_of(mask) {
                    let (from, n) = (at[i] as usize, bytes as usize);
                    m.shared.read(m.warp.index, i as u32, from, n, true).map_err(|c| conflict(i as u32, c))?;
                    m.shared.write(m.warp.index, i as u32, from, n, true, false).map_err(|c| conflict(i as u32, c))?;
                    let mut raw = [0; 8];
                    raw[..n].copy_from_slice(&m.shared.data[from..from + n]);
                    old[i] = u64::from_le_bytes(raw);
                    let new = self.apply(old[i], b[i], c[i]);
                    m.shared.data[from..from + n].copy_from_slice(&new.to_le_bytes()[..n]);
                }
                Ok(())
            }
            Space::Global => {
                m.count_global(addresses, bytes, mask);
                // Of the block's scope, towards other blocks it is a read and a write.
                let strong = !self.semantics.near;
                let me = &m.accessor(strong);
                let memory = m.launch.global;
                // The value and what was released with it change together.
                let mut locations = (strong && memory.causality.kept()).then(|| memory.causality.locations());
                for i in lanes_of(mask) {
                    let address = addresses[i];
                    if address & u64::from(bytes - 1) != 0 {
                        return Err(misaligned(i as u32, address, bytes));
                    }
                    let (a, at) = memory
                        .find(address, u64::from(bytes))
                        .map_err(|kind| Trap::new(kind, i as u32, memory.describe(address, u64::from(bytes))))?;
                    if a.read_only {
                        return Err(Trap::new(
                            FaultKind::ReadOnlyWrite,
                            i as u32,
                            memory.describe(address, u64::from(bytes)),
                        ));
                    }
                    let first = (at >> 2) as usize;
                    let words = (bytes as usize).div_ceil(4);
                    if m.launch.check_uninitialised_global && !a.is_written(first, words) {
                        return Err(Trap::new(
                            FaultKind::UninitialisedGlobal,
                            i as u32,
                            memory.describe(address, u64::from(bytes)),
                        ));
                    }
                    let touched = if bytes < 4 { ((1 << bytes) - 1) << (at & 3) } else { 15 };
                    if !strong && let Err(other) = memory.note_read(a, first, words, touched, me) {
                        return Err(global_race(i, address, other, "is updated", "written"));
                    }
                    if let Err(other) = memory.note_write(a, first, words, touched, me) {
                        return Err(global_race(i, address, other, "is updated", "used"));
                    }
                    if let Some(locations) = &mut locations {
                        let order = self.semantics.order;
                        locations.write(place(a, first), &mut m.shared.device, m.warp.index, order, true);
                    }
                    old[i] = match bytes {
                        8 => memory.exclusive(|| {
                            let v = a.load_bytes(at, 8);
                            a.store_bytes(at, self.apply(v, b[i], c[i]), 8);
                            v
                        }),
                        _ => {
                            let shift = 8 * (at & 3);
                            let keep = if bytes == 4 { u32::MAX } else { 0xffff };
                            let update = |v: u32| {
                                let field = u64::from(v >> shift & keep);
                                let new = self.apply(field, b[i], c[i]) as u32 & keep;
                                Some(v & !(keep << shift) | new << shift)
                            };
                            let v = a.words[first].fetch_update(Relaxed, Relaxed, update).unwrap_or_else(|v| v);
                            u64::from(v >> shift & keep)
                        }
                    };
                }
                Ok(())
            }
            _ => Err(Trap::new(
                FaultKind::InvalidAddress,
                mask.trailing_zeros(),
                "atomics work on global and shared memory",
            )),
        }
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    use Type::*;
    let returns = form.name() == "atom";
    let semantics = take_semantics(form);
    form.flag("noftz");
    let space = take_space(form);
    let f = match form.need(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])? {
        "add" => Function::Add,
        "min" => Function::Min,
        "max" => Function::Max,
        "and" => Function::And,
        "or" => Function::Or,
        "xor" => Function::Xor,
        "exch" => Function::Exchange,
        "cas" => Function::CompareAndSwap,
        "inc" => Function::Increment,
        _ => Function::Decrement,
    };
    let t = form.ty()?;
    let fits = match f {
        Function::Add => matches!(t, U32 | S32 | U64 | S64 | F16 | F16x2 | Bf16 | Bf16x2 | F32 | F64),
        Function::Min | Function::Max => matches!(t, U32 | S32 | U64 | S64),
        Function::And | Function::Or | Function::Xor | Function::Exchange => matches!(t, B32 | B64),
        Function::CompareAndSwap => matches!(t, B16 | B32 | B64),
        Function::Increment | Function::Decrement => t == U32,
    };
    if !fits {
        return form.unsupported(t);
    }
    let first = usize::from(returns);
    let sources = if f == Function::CompareAndSwap { 2 } else { 1 };
    form.need_count(first + 1 + sources)?;
    let d = if returns { Some(form.dst(0, t)?) } else { None };
    let address = form.address(first)?;
    let b = form.src(first + 1, t)?;
    let c = if sources == 2 { form.src(first + 2, t)? } else { b };
    Ok(Op { f, t, semantics, space, address, d, b, c })
}
