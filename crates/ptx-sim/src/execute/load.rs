//! Loads (PTX ISA 9.7.9): `ld ldu` in every state space.

use super::access::{
    Semantics, Shape, Words, by_space, conflict, global_race, local_offset, misaligned, put_bytes, shape,
    shared_offsets, take_semantics, take_space,
};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, CALL_PARAM, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::global::Allocation;
use crate::memory::races::place;

#[derive(Clone, Debug)]
pub(crate) struct Load {
    space: Space,
    address: Address,
    shape: Shape,
    semantics: Semantics,
    /// Slot and register bits of each element.
    to: [(Slot, u32); 4],
}

struct Run<'a, 'm>(&'a Load, &'a mut Machine<'m>, u32);

impl pulp::NullaryFnOnce for Run<'_, '_> {
    type Output = Step;
    #[inline(always)]
    fn call(self) -> Step {
        self.0.run(self.1, self.2)
    }
}

impl Load {
    /// Whether its requests count as global ones; a generic access counts as global.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.space, Space::Global | Space::Generic)
    }

    /// Whether it is a strong access towards other blocks.
    pub(crate) fn reaches_blocks(&self) -> bool {
        self.semantics.reaches_blocks()
    }

    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        m.launch.vectors.run(Run(self, m, mask))
    }

    #[inline(always)]
    fn run(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let addresses = self.address.lanes(m);
        let mut words: Words = [[0; 32]; 4];
        match self.space {
            Space::Generic => {
                for (space, lanes, at) in by_space(&addresses, mask)? {
                    self.load(m, space, &at, lanes, &mut words)?;
                }
            }
            space => self.load(m, space, &addresses, mask, &mut words)?,
        }
        let regs = &mut m.warp.registers;
        for (j, &(slot, bits)) in self.to.iter().enumerate().take(self.shape.count as usize) {
            if self.shape.bytes == 8 {
                let mut v = [0; 32];
                for i in 0..32 {
                    v[i] = u64::from(words[2 * j][i]) | u64::from(words[2 * j + 1][i]) << 32;
                }
                regs.put64(slot, &v, mask);
                continue;
            }
            let mut v = words[j];
            if self.shape.signed && self.shape.bytes < 4 {
                let shift = 32 - 8 * self.shape.bytes;
                let keep = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
                v = v.map(|v| ((v << shift) as i32 >> shift) as u32 & keep);
            }
            if bits == 64 {
                let wide = v.map(|v| if self.shape.signed { v as i32 as i64 as u64 } else { u64::from(v) });
                regs.put64(slot, &wide, mask);
            } else {
                regs.put(slot, &v, mask);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn load(&self, m: &mut Machine<'_>, space: Space, addresses: &Lanes<u64>, mask: u32, words: &mut Words) -> Step {
        let size = self.shape.bytes * self.shape.count;
        match space {
            Space::Global | Space::Generic => self.global(m, addresses, mask, size, words),
            Space::Shared => self.shared(m, addresses, mask, size, words),
            Space::Local => {
                for lane in lanes_of(mask) {
                    let at = local_offset(m, lane, addresses[lane], size)?;
                    put_bytes(words, lane, self.shape, &m.warp.local[at..at + size as usize]);
                }
                Ok(())
            }
            Space::Param => {
                // Most parameters are read by all lanes at one address: one lane reads for all.
                let first = mask.trailing_zeros() as usize & 31;
                let uniform = addresses[first] & CALL_PARAM == 0
                    && (0..32).all(|i| mask >> i & 1 == 0 || addresses[i] == addresses[first]);
                for lane in lanes_of(if uniform { 1 << first } else { mask }) {
                    let at = addresses[lane];
                    if at & CALL_PARAM != 0 {
                        let at = local_offset(m, lane, at & !CALL_PARAM, size)?;
                        put_bytes(words, lane, self.shape, &m.warp.local[at..at + size as usize]);
                        continue;
                    }
                    let end = at.checked_add(u64::from(size)).filter(|&e| e <= m.launch.params.len() as u64);
                    let Some(end) = end else {
                        return Err(Trap::new(
                            FaultKind::OutOfBoundsParam,
                            lane as u32,
                            format!(
                                "{size} bytes at offset {at:#x}, the parameters have {} bytes",
                                m.launch.params.len()
                            ),
                        ));
                    };
                    if !at.is_multiple_of(u64::from(size.next_power_of_two())) {
                        return Err(misaligned(lane as u32, at, size));
                    }
                    put_bytes(words, lane, self.shape, &m.launch.params[at as usize..end as usize]);
                }
                if uniform {
                    for word in words {
                        *word = [word[first]; 32];
                    }
                }
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn shared(&self, m: &mut Machine<'_>, addresses: &Lanes<u64>, mask: u32, size: u32, words: &mut Words) -> Step {
        let at = shared_offsets(m, addresses, size, size, mask)?;
        m.count_shared(&at, size, mask);
        let warp = m.warp.index;
        let s = size as usize;
        let run = mask == u32::MAX && size >= 4 && (1..32).all(|i| at[i] == at[0] + i as u32 * size);
        if run {
            if let Err(c) = m.shared.read_run(warp, at[0] as usize, s, self.semantics.strong) {
                return Err(conflict(0, c));
            }
        } else {
            let mut last = u32::MAX;
            for i in lanes_of(mask) {
                if at[i] == last {
                    continue;
                }
                last = at[i];
                m.shared
                    .read(warp, i as u32, at[i] as usize, s, self.semantics.strong)
                    .map_err(|c| conflict(i as u32, c))?;
            }
        }
        let data = &m.shared.data;
        match size {
            16 => {
                for i in lanes_of(mask) {
                    if let Some(c) = data[at[i] as usize..].first_chunk::<16>() {
                        if self.shape.bytes >= 4 {
                            words[0][i] = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
                            words[1][i] = u32::from_le_bytes([c[4], c[5], c[6], c[7]]);
                            words[2][i] = u32::from_le_bytes([c[8], c[9], c[10], c[11]]);
                            words[3][i] = u32::from_le_bytes([c[12], c[13], c[14], c[15]]);
                        } else {
                            put_bytes(words, i, self.shape, c);
                        }
                    }
                }
            }
            4 if self.shape.bytes == 4 => {
                for i in lanes_of(mask) {
                    if let Some(c) = data[at[i] as usize..].first_chunk::<4>() {
                        words[0][i] = u32::from_le_bytes(*c);
                    }
                }
            }
            _ => {
                for i in lanes_of(mask) {
                    put_bytes(words, i, self.shape, &data[at[i] as usize..at[i] as usize + s]);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn global(&self, m: &mut Machine<'_>, addresses: &Lanes<u64>, mask: u32, size: u32, words: &mut Words) -> Step {
        m.count_global(addresses, size, mask);
        let strong = self.semantics.reaches_blocks();
        let me = &m.accessor(strong);
        let memory = m.launch.global;
        // What others release at the place is what they released with the value that is read.
        let mut locations = (strong && memory.causality.kept()).then(|| memory.causality.locations());
        if let Some(locations) = &mut locations {
            for i in lanes_of(mask) {
                if let Ok((a, at)) = memory.find(addresses[i], u64::from(size)) {
                    let place = place(a, (at >> 2) as usize);
                    locations.read(place, &mut m.shared.device, m.warp.index, self.semantics.order);
                }
            }
        }
        let check = m.launch.check_uninitialised_global;
        let per_lane = (size as usize).div_ceil(4);
        let run = mask == u32::MAX
            && size >= 4
            && addresses[0] & u64::from(size - 1) == 0
            && (1..32).all(|i| addresses[i] == addresses[0].wrapping_add(u64::from(i as u32 * size)));
        if run && let Ok((a, at)) = memory.find(addresses[0], 32 * u64::from(size)) {
            let first = (at >> 2) as usize;
            let count = 32 * per_lane;
            let bad = memory.note_read(a, first, count, 15, me).is_err() || check && !a.is_written(first, count);
            if !bad {
                let source = &a.words[first..first + count];
                if self.shape.bytes >= 4 {
                    for (i, part) in source.chunks_exact(per_lane).enumerate() {
                        for (j, w) in part.iter().enumerate() {
                            words[j][i] = w.load(std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                } else {
                    self.elements(a, at, size, mask, |i| u64::from(i as u32 * size), words);
                }
                return Ok(());
            }
        }
        for i in lanes_of(mask) {
            let address = addresses[i];
            if address & u64::from(size - 1) != 0 {
                return Err(misaligned(i as u32, address, size));
            }
            let (a, at) = memory
                .find(address, u64::from(size))
                .map_err(|kind| Trap::new(kind, i as u32, memory.describe(address, u64::from(size))))?;
            let first = (at >> 2) as usize;
            let bytes = if size < 4 { ((1 << size) - 1) << (at & 3) } else { 15 };
            if let Err(other) = memory.note_read(a, first, per_lane, bytes, me) {
                return Err(global_race(i, address, other, "is read", "written"));
            }
            if check && !a.is_written(first, per_lane) {
                return Err(Trap::new(
                    FaultKind::UninitialisedGlobal,
                    i as u32,
                    memory.describe(address, u64::from(size)),
                ));
            }
            self.elements(a, at, size, 1 << i, |_| 0, words);
        }
        Ok(())
    }

    #[inline(always)]
    fn elements(
        &self,
        a: &Allocation,
        at: u64,
        _size: u32,
        mask: u32,
        offset: impl Fn(usize) -> u64,
        words: &mut Words,
    ) {
        let Shape { bytes, count, .. } = self.shape;
        for i in lanes_of(mask) {
            let at = at + offset(i);
            if bytes == 8 {
                for j in 0..count as usize {
                    let v = a.load_bytes(at + 8 * j as u64, 8);
                    words[2 * j][i] = v as u32;
                    words[2 * j + 1][i] = (v >> 32) as u32;
                }
            } else {
                for (j, word) in words.iter_mut().enumerate().take(count as usize) {
                    word[i] = a.load_bytes(at + u64::from(bytes) * j as u64, bytes) as u32;
                }
            }
        }
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Load, Error> {
    let semantics = take_semantics(form);
    let space = take_space(form);
    let (t, shape) = shape(form)?;
    if form.count() > 2 {
        // A cache policy operand.
        form.need_count(3)?;
        form.src(2, Type::B64)?;
    } else {
        form.need_count(2)?;
    }
    let elements = form.elements(0)?;
    if elements.len() != shape.count as usize {
        return form.error(format!("expected {} registers", shape.count));
    }
    let mut to = [(0, 0); 4];
    for (to, e) in to.iter_mut().zip(elements) {
        *to = form.wide_destination(e, t)?;
    }
    Ok(Load { space, address: form.address(1)?, shape, semantics, to })
}
