//! Tensor maps in memory (PTX ISA 9.7.9.28 and 9.7.13.4): `tensormap.replace` and `tensormap.cp_fenceproxy`.

use super::access::{by_space, conflict, misaligned, shared_offsets, take_space};
use super::bulk_memory::{read_global, write_global};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use super::matrix_load::check_whole_warp;
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::causality::Order;
use crate::parse::ast::Operand;
use crate::tensor_map::{Field, TENSOR_MAP_BYTES};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Replace {
        space: Space,
        address: Address,
        field: Field,
        index: usize,
        value: Slot,
    },
    /// Copies a map from shared to global memory, and hands it on.
    Publish {
        to: Address,
        from: Address,
    },
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        match self {
            Op::Replace { space, address, field, index, value } => {
                let addresses = address.lanes(m);
                let values: Lanes<u64> = if field.is_wide() {
                    *m.warp.registers.get64(*value)
                } else {
                    m.warp.registers.get(*value).map(u64::from)
                };
                let groups = match space {
                    Space::Generic => by_space(&addresses, mask)?,
                    space => vec![(*space, mask, addresses)],
                };
                for (space, lanes, at) in groups {
                    for i in lanes_of(lanes) {
                        let mut map = read(m, space, i, &at)?;
                        field.put(&mut map, *index, values[i]);
                        write(m, space, i, &at, &map)?;
                    }
                }
                Ok(())
            }
            Op::Publish { to, from } => {
                check_whole_warp(mask)?;
                let (to, from) = (to.lanes(m), from.lanes(m));
                if to != [to[0]; 32] || from != [from[0]; 32] {
                    return Err(Trap::new(FaultKind::InvalidOperand, 0, "lanes name different tensor maps"));
                }
                m.shared.warp_sync(m.warp.index, mask);
                let map = read(m, Space::Shared, 0, &from)?;
                m.shared.warp_sync(m.warp.index, mask);
                write(m, Space::Global, 0, &to, &map)?;
                m.shared.device.fence(m.warp.index, Order { acquire: false, release: true });
                Ok(())
            }
        }
    }
}

fn read(
    m: &mut Machine<'_>,
    space: Space,
    lane: usize,
    addresses: &Lanes<u64>,
) -> Result<[u8; TENSOR_MAP_BYTES], Box<Trap>> {
    let size = TENSOR_MAP_BYTES as u32;
    let mut map = [0; TENSOR_MAP_BYTES];
    match space {
        Space::Shared => {
            let at = shared_offsets(m, addresses, size, size, 1 << lane)?[lane] as usize;
            let found = m.shared.read(m.warp.index, lane as u32, at, TENSOR_MAP_BYTES, false);
            found.map_err(|c| conflict(lane as u32, c))?;
            map.copy_from_slice(&m.shared.data[at..at + TENSOR_MAP_BYTES]);
        }
        Space::Global => {
            if !addresses[lane].is_multiple_of(u64::from(size)) {
                return Err(misaligned(lane as u32, addresses[lane], size));
            }
            read_global(m, lane, addresses[lane], &mut map)?;
        }
        _ => {
            let detail = "a tensor map is written in global or shared memory";
            return Err(Trap::new(FaultKind::InvalidAddress, lane as u32, detail));
        }
    }
    Ok(map)
}

fn write(m: &mut Machine<'_>, space: Space, lane: usize, addresses: &Lanes<u64>, map: &[u8; TENSOR_MAP_BYTES]) -> Step {
    if space == Space::Shared {
        let at = addresses[lane] as usize;
        let same = m.shared.data[at..at + TENSOR_MAP_BYTES] == map[..];
        let done = m.shared.write(m.warp.index, lane as u32, at, TENSOR_MAP_BYTES, false, same);
        done.map_err(|c| conflict(lane as u32, c))?;
        m.shared.data[at..at + TENSOR_MAP_BYTES].copy_from_slice(map);
        return Ok(());
    }
    let size = TENSOR_MAP_BYTES as u32;
    if !addresses[lane].is_multiple_of(u64::from(size)) {
        return Err(misaligned(lane as u32, addresses[lane], size));
    }
    write_global(m, lane, addresses[lane], map)?;
    m.shared.map_fences.written(addresses[lane]);
    Ok(())
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    if form.need(&["replace", "cp_fenceproxy"])? == "cp_fenceproxy" {
        if !form.ins.opcode.contains(".global.shared::cta.tensormap::generic.release.") {
            return form.error("expected .global.shared::cta.tensormap::generic.release");
        }
        for part in ["global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"] {
            if !form.flag(part) {
                return form.error(format!("expected .{part}"));
            }
        }
        form.need(&["cta", "cluster", "gpu", "sys"])?;
        form.need_count(3)?;
        if form.constant(2)? != TENSOR_MAP_BYTES as i64 {
            return form.error("the size is 128 bytes");
        }
        return Ok(Op::Publish { to: form.address(0)?, from: form.address(1)? });
    }
    form.need(&["tile"])?;
    let field = match form.need(&[
        "global_address",
        "rank",
        "box_dim",
        "global_dim",
        "global_stride",
        "element_stride",
        "elemtype",
        "interleave_layout",
        "swizzle_mode",
        "swizzle_atomicity",
        "fill_mode",
    ])? {
        "global_address" => Field::Address,
        "rank" => Field::Rank,
        "box_dim" => Field::Box,
        "global_dim" => Field::Size,
        "global_stride" => Field::Stride,
        "element_stride" => Field::ElementStride,
        "elemtype" => Field::Element,
        "interleave_layout" => Field::Interleave,
        "swizzle_mode" => Field::Swizzle,
        "swizzle_atomicity" => Field::SwizzleAtomicity,
        _ => Field::Fill,
    };
    let space = take_space(form);
    form.need(&["b1024"])?;
    let t = form.ty()?;
    let expected = if field.is_wide() { Type::B64 } else { Type::B32 };
    if t != expected {
        return form.unsupported(t);
    }
    let ordinal = usize::from(field.count() > 1);
    form.need_count(2 + ordinal)?;
    let index = if ordinal == 1 {
        match form.operand(1)? {
            Operand::Integer(v) if (*v as usize) < field.count() => *v as usize,
            _ => return form.error(format!("expected an ordinal below {}", field.count())),
        }
    } else {
        0
    };
    Ok(Op::Replace { space, address: form.address(0)?, field, index, value: form.src(1 + ordinal, t)? })
}
