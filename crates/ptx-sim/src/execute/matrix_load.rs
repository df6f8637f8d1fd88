//! Matrix fragments from and to shared memory (PTX ISA 9.7.14): `ldmatrix`, `stmatrix`, `movmatrix`, on 8×8 matrices of 16-bit elements.
//!
//! Lane `l` of a fragment holds row `l / 4`, elements `2 (l mod 4)` and the next; with `.trans` of the transposed matrix.
//! Lanes `8 i …` give the row addresses of matrix `i`. The instruction orders the warp's shared accesses before and after it.

use super::access::{conflict, shared_offsets};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Load { count: u32, transpose: bool, to: [Slot; 4], address: Address },
    Store { count: u32, transpose: bool, from: [Slot; 4], address: Address },
    Transpose { d: Slot, a: Slot },
}

/// A `.aligned` instruction needs the whole warp.
pub(crate) fn check_whole_warp(mask: u32) -> Step {
    if mask == u32::MAX {
        return Ok(());
    }
    Err(Trap::new(
        FaultKind::WarpSyncMask,
        mask.trailing_zeros() & 31,
        format!("only lanes {mask:#010x} execute an instruction of the whole warp"),
    ))
}

fn transpose(v: &Lanes<u32>) -> Lanes<u32> {
    let half = |row: usize, column: usize| v[row * 4 + column / 2] >> (16 * (column & 1)) & 0xffff;
    std::array::from_fn(|l| {
        let (row, pair) = (l / 4, l % 4);
        half(2 * pair, row) | half(2 * pair + 1, row) << 16
    })
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        check_whole_warp(mask)?;
        let warp = m.warp.index;
        match *self {
            Op::Transpose { d, a } => {
                m.shared.warp_sync(warp, mask);
                let v = transpose(m.warp.registers.get(a));
                m.warp.registers.put(d, &v, mask);
            }
            Op::Load { count, transpose: flip, to, address } => {
                let used = if count == 4 { u32::MAX } else { (1 << (8 * count)) - 1 };
                let addresses = address.lanes(m);
                let at = shared_offsets(m, &addresses, 16, 16, used)?;
                m.count_shared(&at, 16, used);
                m.shared.warp_sync(warp, mask);
                for i in lanes_of(used) {
                    m.shared.read(warp, i as u32, at[i] as usize, 16, false).map_err(|c| conflict(i as u32, c))?;
                }
                m.shared.warp_sync(warp, mask);
                for (matrix, &slot) in to.iter().enumerate().take(count as usize) {
                    let mut v = [0u32; 32];
                    for row in 0..8 {
                        let from = at[matrix * 8 + row] as usize;
                        if let Some(c) = m.shared.data[from..].first_chunk::<16>() {
                            v[row * 4] = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
                            v[row * 4 + 1] = u32::from_le_bytes([c[4], c[5], c[6], c[7]]);
                            v[row * 4 + 2] = u32::from_le_bytes([c[8], c[9], c[10], c[11]]);
                            v[row * 4 + 3] = u32::from_le_bytes([c[12], c[13], c[14], c[15]]);
                        }
                    }
                    let v = if flip { transpose(&v) } else { v };
                    m.warp.registers.put(slot, &v, mask);
                }
            }
            Op::Store { count, transpose: flip, from, address } => {
                let used = if count == 4 { u32::MAX } else { (1 << (8 * count)) - 1 };
                let addresses = address.lanes(m);
                let at = shared_offsets(m, &addresses, 16, 16, used)?;
                m.count_shared(&at, 16, used);
                m.shared.warp_sync(warp, mask);
                for (matrix, &slot) in from.iter().enumerate().take(count as usize) {
                    let v = *m.warp.registers.get(slot);
                    let v = if flip { transpose(&v) } else { v };
                    for row in 0..8 {
                        let lane = matrix * 8 + row;
                        let to = at[lane] as usize;
                        let mut bytes = [0u8; 16];
                        for (k, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                            chunk.copy_from_slice(&v[row * 4 + k].to_le_bytes());
                        }
                        let same = m.shared.data[to..to + 16] == bytes;
                        m.shared.write(warp, lane as u32, to, 16, false, same).map_err(|c| conflict(lane as u32, c))?;
                        m.shared.data[to..to + 16].copy_from_slice(&bytes);
                    }
                }
                m.shared.warp_sync(warp, mask);
            }
        }
        Ok(())
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    form.need(&["sync"])?;
    form.need(&["aligned"])?;
    form.need(&["m8n8"])?;
    if form.name() == "movmatrix" {
        form.need(&["trans"])?;
        if form.ty()? != Type::B16 {
            return form.error("expected type b16");
        }
        form.need_count(2)?;
        return Ok(Op::Transpose { d: form.dst(0, Type::B32)?, a: form.src(1, Type::B32)? });
    }
    let count = match form.need(&["x1", "x2", "x4"])? {
        "x1" => 1,
        "x2" => 2,
        _ => 4,
    };
    let transpose = form.flag("trans");
    if form.pick(&["shared", "shared::cta"]).is_none() {
        return form.error("expected .shared");
    }
    if form.ty()? != Type::B16 {
        return form.error("expected type b16");
    }
    form.need_count(2)?;
    let load = form.name() == "ldmatrix";
    let registers = form.elements(if load { 0 } else { 1 })?;
    if registers.len() != count as usize {
        return form.error(format!("expected {count} registers"));
    }
    let mut slots = [0; 4];
    for (slot, r) in slots.iter_mut().zip(registers) {
        *slot = if load { form.destination(r, Type::B32)? } else { form.source(r, Type::B32, false)? };
    }
    let address = form.address(if load { 1 } else { 0 })?;
    Ok(match load {
        true => Op::Load { count, transpose, to: slots, address },
        false => Op::Store { count, transpose, from: slots, address },
    })
}
