//! Bulk copies between global and shared memory (PTX ISA 9.7.9.25.4 and 9.7.9.27): `cp.async.bulk`, `cp.async.bulk.tensor` of tiles, bulk groups.
//!
//! A copy to shared memory is known to those that waited for the phase of its mbarrier; what a copy from shared memory reads is in use until
//! its group is waited for. The tensor copies here are tiled ones, without interleaving; their rows fill the span of the swizzle.

use super::access::{conflict, misaligned, shared_addresses};
use super::bulk_memory::{read_global, tensor_map, write_global};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::shared::mbarrier;
use crate::memory::shared::proxy::UNIT;
use crate::tensor_map::Decoded;

/// Copies out of shared memory that a warp did not wait for.
#[derive(Default)]
pub(crate) struct BulkReads {
    list: Vec<BulkRead>,
    /// Groups committed by each lane.
    committed: Lanes<u32>,
}

struct BulkRead {
    lane: u32,
    pc: usize,
    units: Vec<u32>,
    /// `None` before the commit.
    group: Option<u32>,
}

impl BulkReads {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.committed = [0; 32];
    }

    /// Lane and instruction of a copy that is not waited for.
    pub(crate) fn open(&self) -> Option<(u32, usize)> {
        self.list.first().map(|r| (r.lane, r.pc))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Commit,
    /// All but the last so many groups.
    Wait(u32),
    /// Global to shared.
    Load {
        to: Address,
        from: Outside,
        barrier: Address,
        /// Blocks of the cluster that get the data.
        multicast: Option<Slot>,
    },
    /// Shared to global.
    Store {
        to: Outside,
        from: Address,
    },
    /// Into the cache: changes nothing.
    Prefetch,
}

/// The side in global memory.
#[derive(Clone, Debug)]
pub(crate) enum Outside {
    Bytes { address: Address, size: Slot },
    Tensor { map: Address, coordinates: Vec<Slot> },
}

/// A copy of one lane.
enum Piece {
    Bytes(u64, u64),
    Tensor(Box<Decoded>, [i32; 5]),
}

impl Outside {
    fn piece(&self, m: &mut Machine<'_>, lane: usize) -> Result<Piece, Box<Trap>> {
        match self {
            Outside::Bytes { address, size } => {
                let (at, size) = (address.lanes(m)[lane], m.warp.registers.get(*size)[lane]);
                if !at.is_multiple_of(UNIT as u64) {
                    return Err(misaligned(lane as u32, at, UNIT as u32));
                }
                if !(size as usize).is_multiple_of(UNIT) || size == 0 {
                    let detail = format!("{size} bytes are copied: it must be a multiple of {UNIT}, not 0");
                    return Err(Trap::new(FaultKind::InvalidOperand, lane as u32, detail));
                }
                Ok(Piece::Bytes(at, u64::from(size)))
            }
            Outside::Tensor { map, coordinates } => {
                let at = map.lanes(m)[lane];
                let map = tensor_map(m, lane, at)?;
                if map.rank != coordinates.len() {
                    let detail = format!("{} coordinates for a tensor of {} dimensions", coordinates.len(), map.rank);
                    return Err(Trap::new(FaultKind::TensorMapInvalid, lane as u32, detail));
                }
                let mut at = [0; 5];
                for (c, &slot) in at.iter_mut().zip(coordinates) {
                    *c = m.warp.registers.get(slot)[lane] as i32;
                }
                Ok(Piece::Tensor(Box::new(map), at))
            }
        }
    }
}

impl Piece {
    fn bytes(&self) -> u64 {
        match self {
            Piece::Bytes(_, bytes) => *bytes,
            Piece::Tensor(map, _) => u64::from(map.row_bytes()) * map.rows(),
        }
    }

    /// Alignment in shared memory.
    fn align(&self) -> u32 {
        if matches!(self, Piece::Tensor(..)) { 128 } else { UNIT as u32 }
    }
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        match self {
            Op::Prefetch => {}
            Op::Commit => {
                let bulk = &mut m.warp.bulk;
                for r in bulk.list.iter_mut().filter(|r| r.group.is_none() && mask >> r.lane & 1 == 1) {
                    r.group = Some(bulk.committed[r.lane as usize]);
                }
                for i in lanes_of(mask) {
                    bulk.committed[i] = bulk.committed[i].wrapping_add(1);
                }
            }
            Op::Wait(keep) => {
                let bulk = &mut m.warp.bulk;
                let (shared, warp, committed) = (&mut *m.shared, m.warp.index, bulk.committed);
                bulk.list.retain(|r| {
                    let done = mask >> r.lane & 1 == 1
                        && r.group.is_some_and(|g| committed[r.lane as usize].wrapping_sub(g) > *keep);
                    if done {
                        shared.async_read_end(warp, r.lane, &r.units);
                    }
                    !done
                });
            }
            Op::Load { to, from, barrier, multicast } => {
                m.tally.instructions[m.pc].requests += 1;
                if let Some(slot) = multicast {
                    let masks = *m.warp.registers.get(*slot);
                    if let Some(i) = lanes_of(mask).find(|&i| masks[i] & 0xffff != 1) {
                        let detail = format!("multicast to blocks {:#x}: the cluster has block 0 alone", masks[i]);
                        return Err(Trap::new(FaultKind::InvalidOperand, i as u32, detail));
                    }
                }
                for i in lanes_of(mask) {
                    load(m, i, to, from, barrier)?;
                }
            }
            Op::Store { to, from } => {
                m.tally.instructions[m.pc].requests += 1;
                for i in lanes_of(mask) {
                    store(m, i, from, to)?;
                }
            }
        }
        Ok(())
    }
}

/// Place in shared memory of a copy.
fn place(m: &Machine<'_>, lane: usize, address: &Address, piece: &Piece) -> Result<u32, Box<Trap>> {
    let bytes = u32::try_from(piece.bytes()).unwrap_or(u32::MAX);
    Ok(shared_addresses(m, Space::Shared, address, bytes, piece.align(), 1 << lane)?[lane])
}

fn load(m: &mut Machine<'_>, lane: usize, to: &Address, from: &Outside, barrier: &Address) -> Step {
    let size = mbarrier::BYTES as u32;
    let barrier = shared_addresses(m, Space::Shared, barrier, size, size, 1 << lane)?[lane];
    let piece = from.piece(m, lane)?;
    let at = place(m, lane, to, &piece)?;
    let warp = m.warp.index;
    let trap = |c| conflict(lane as u32, c);
    let agent = m.shared.mbarrier_agent(warp, lane as u32, barrier).map_err(trap)?;
    let total = piece.bytes() as usize;
    let mut data = vec![0; total];
    match &piece {
        Piece::Bytes(address, _) => read_global(m, lane, *address, &mut data)?,
        Piece::Tensor(map, coordinates) => {
            let (row_bytes, element) = (map.row_bytes() as usize, map.element.bytes() as usize);
            let outside = map.outside();
            let mut row = vec![0; row_bytes];
            for number in 0..map.rows() as u32 {
                let (address, inside) = map.row(number, coordinates);
                row.chunks_exact_mut(element).for_each(|e| e.copy_from_slice(&outside[..element]));
                let bytes = inside.start as usize * element..inside.end as usize * element;
                let start = address.wrapping_add(bytes.start as u64);
                read_global(m, lane, start, &mut row[bytes.clone()])?;
                map.convert(&mut row[bytes]);
                let linear = at as usize + number as usize * row_bytes;
                for (j, unit) in row.chunks_exact(UNIT).enumerate() {
                    let moved = map.swizzle.apply((linear + j * UNIT) as u32) as usize - at as usize;
                    data[moved..moved + UNIT].copy_from_slice(unit);
                }
            }
        }
    }
    m.shared.async_write(warp, lane as u32, agent, at as usize, total).map_err(trap)?;
    m.shared.data[at as usize..at as usize + total].copy_from_slice(&data);
    m.shared.copied(barrier, total as u32).map_err(trap)?;
    m.tally.async_copy_bytes += total as u64;
    Ok(())
}

fn store(m: &mut Machine<'_>, lane: usize, from: &Address, to: &Outside) -> Step {
    let piece = to.piece(m, lane)?;
    let at = place(m, lane, from, &piece)?;
    let total = piece.bytes() as usize;
    let units: Vec<u32> = (at / UNIT as u32..(at + total as u32) / UNIT as u32).collect();
    m.shared.async_read(m.warp.index, lane as u32, &units).map_err(|c| conflict(lane as u32, c))?;
    let data = m.shared.data[at as usize..at as usize + total].to_vec();
    match &piece {
        Piece::Bytes(address, _) => write_global(m, lane, *address, &data)?,
        Piece::Tensor(map, coordinates) => {
            let (row_bytes, element) = (map.row_bytes() as usize, map.element.bytes() as usize);
            let mut row = vec![0; row_bytes];
            for number in 0..map.rows() as u32 {
                let (address, inside) = map.row(number, coordinates);
                let linear = at as usize + number as usize * row_bytes;
                for (j, unit) in row.chunks_exact_mut(UNIT).enumerate() {
                    let moved = map.swizzle.apply((linear + j * UNIT) as u32) as usize - at as usize;
                    unit.copy_from_slice(&data[moved..moved + UNIT]);
                }
                let bytes = inside.start as usize * element..inside.end as usize * element;
                write_global(m, lane, address.wrapping_add(bytes.start as u64), &row[bytes])?;
            }
        }
    }
    m.warp.bulk.list.push(BulkRead { lane: lane as u32, pc: m.pc, units, group: None });
    Ok(())
}

/// `cp.async.bulk…`, with the opcode taken up to there.
pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    if form.flag("commit_group") {
        form.need_count(0)?;
        return Ok(Op::Commit);
    }
    if form.flag("wait_group") {
        // The reads are done when the whole is: the writes were made when the copy was started.
        form.flag("read");
        form.need_count(1)?;
        return match u32::try_from(form.constant(0)?) {
            Ok(keep) => Ok(Op::Wait(keep)),
            Err(_) => form.error("the number of groups is negative"),
        };
    }
    let out = form.ins.opcode.contains(".global.shared");
    let tensor = form.flag("tensor");
    let mut rank = 0;
    if tensor {
        form.d.uses_tensor_maps();
        rank = match form.need(&["1d", "2d", "3d", "4d", "5d"])? {
            "1d" => 1,
            "2d" => 2,
            "3d" => 3,
            "4d" => 4,
            _ => 5,
        };
        form.flag("tile");
    }
    let global = |form: &mut Form<'_, '_>, i: usize, size: usize| -> Result<Outside, Error> {
        if tensor {
            let (map, coordinates) = form.tensor_address(i)?;
            if coordinates.len() != rank {
                return form.error(format!("expected {rank} coordinates"));
            }
            return Ok(Outside::Tensor { map, coordinates });
        }
        Ok(Outside::Bytes { address: form.address(i)?, size: form.src(size, Type::U32)? })
    };
    if form.flag("prefetch") {
        form.need(&["L2"])?;
        form.need(&["global"])?;
        let policy = usize::from(form.flag("L2::cache_hint"));
        form.need_count(policy + if tensor { 1 } else { 2 })?;
        global(form, 0, 1)?;
        return Ok(Op::Prefetch);
    }
    form.need(&["global"])?;
    let shared = form.need(&["shared::cta", "shared::cluster"])?;
    let policy = usize::from(form.flag("L2::cache_hint"));
    if out {
        form.need(&["bulk_group"])?;
        if shared != "shared::cta" {
            return form.error("expected a copy from .shared::cta to .global");
        }
        form.need_count(policy + if tensor { 2 } else { 3 })?;
        return Ok(Op::Store { to: global(form, 0, 2)?, from: form.address(1)? });
    }
    form.need(&["mbarrier::complete_tx::bytes"])?;
    let multicast = form.flag("multicast::cluster");
    let barrier = if tensor { 2 } else { 3 };
    form.need_count(barrier + 1 + policy + usize::from(multicast))?;
    Ok(Op::Load {
        to: form.address(0)?,
        from: global(form, 1, 2)?,
        barrier: form.address(barrier)?,
        multicast: if multicast { Some(form.src(barrier + 1, Type::U16)?) } else { None },
    })
}
