//! Stores (PTX ISA 9.7.9): `st` in every state space.

use super::access::{
    Semantics, Shape, Words, by_space, conflict, global_race, local_offset, misaligned, shape, shared_offsets,
    take_bytes, take_semantics, take_space,
};
use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, CALL_PARAM, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::Space;
use crate::memory::races::place;

#[derive(Clone, Debug)]
pub(crate) struct Store {
    space: Space,
    address: Address,
    shape: Shape,
    semantics: Semantics,
    from: [Slot; 4],
}

struct Run<'a, 'm>(&'a Store, &'a mut Machine<'m>, u32);

impl pulp::NullaryFnOnce for Run<'_, '_> {
    type Output = Step;
    #[inline(always)]
    fn call(self) -> Step {
        self.0.run(self.1, self.2)
    }
}

impl Store {
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
        for (j, &slot) in self.from.iter().enumerate().take(self.shape.count as usize) {
            if self.shape.bytes == 8 {
                let v = m.warp.registers.get64(slot);
                for i in 0..32 {
                    words[2 * j][i] = v[i] as u32;
                    words[2 * j + 1][i] = (v[i] >> 32) as u32;
                }
            } else {
                words[j] = *m.warp.registers.get(slot);
            }
        }
        match self.space {
            Space::Generic => {
                for (space, lanes, at) in by_space(&addresses, mask)? {
                    self.store(m, space, &at, lanes, &words)?;
                }
                Ok(())
            }
            space => self.store(m, space, &addresses, mask, &words),
        }
    }

    #[inline(always)]
    fn store(&self, m: &mut Machine<'_>, space: Space, addresses: &Lanes<u64>, mask: u32, words: &Words) -> Step {
        let size = self.shape.bytes * self.shape.count;
        match space {
            Space::Global | Space::Generic => self.global(m, addresses, mask, size, words),
            Space::Shared => {
                let at = shared_offsets(m, addresses, size, size, mask)?;
                m.count_shared(&at, size, mask);
                let mut last = (usize::MAX, [0; 16]);
                for i in lanes_of(mask) {
                    let from = at[i] as usize;
                    let (bytes, n) = take_bytes(words, i, self.shape);
                    // Lanes that write the same bytes to the same place in one instruction are one write.
                    if last == (from, bytes) {
                        continue;
                    }
                    last = (from, bytes);
                    let same = m.shared.data[from..from + n] == bytes[..n];
                    m.shared
                        .write(m.warp.index, i as u32, from, n, self.semantics.strong, same)
                        .map_err(|c| conflict(i as u32, c))?;
                    m.shared.data[from..from + n].copy_from_slice(&bytes[..n]);
                }
                Ok(())
            }
            Space::Local | Space::Param => {
                for lane in lanes_of(mask) {
                    let mut at = addresses[lane];
                    if space == Space::Param {
                        if at & CALL_PARAM == 0 {
                            return Err(Trap::new(
                                FaultKind::ReadOnlyWrite,
                                lane as u32,
                                "kernel parameters are read-only",
                            ));
                        }
                        at &= !CALL_PARAM;
                    }
                    let at = local_offset(m, lane, at, size)?;
                    let (bytes, n) = take_bytes(words, lane, self.shape);
                    m.warp.local[at..at + n].copy_from_slice(&bytes[..n]);
                }
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn global(&self, m: &mut Machine<'_>, addresses: &Lanes<u64>, mask: u32, size: u32, words: &Words) -> Step {
        m.count_global(addresses, size, mask);
        let strong = self.semantics.reaches_blocks();
        let me = &m.accessor(strong);
        let memory = m.launch.global;
        let mut locations = (strong && memory.causality.kept()).then(|| memory.causality.locations());
        if let Some(locations) = &mut locations {
            for i in lanes_of(mask) {
                if let Ok((a, at)) = memory.find(addresses[i], u64::from(size)) {
                    let place = place(a, (at >> 2) as usize);
                    locations.write(place, &mut m.shared.device, m.warp.index, self.semantics.order, false);
                }
            }
        }
        let per_lane = (size as usize).div_ceil(4);
        let run = mask == u32::MAX
            && self.shape.bytes >= 4
            && addresses[0] & u64::from(size - 1) == 0
            && (1..32).all(|i| addresses[i] == addresses[0].wrapping_add(u64::from(i as u32 * size)));
        if run
            && let Ok((a, at)) = memory.find(addresses[0], 32 * u64::from(size))
            && !a.read_only
        {
            let first = (at >> 2) as usize;
            let count = 32 * per_lane;
            if memory.note_write(a, first, count, 15, me).is_ok() {
                a.mark_run(first, count);
                for (i, part) in a.words[first..first + count].chunks_exact(per_lane).enumerate() {
                    for (j, w) in part.iter().enumerate() {
                        w.store(words[j][i], std::sync::atomic::Ordering::Relaxed);
                    }
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
            if a.read_only {
                return Err(Trap::new(FaultKind::ReadOnlyWrite, i as u32, memory.describe(address, u64::from(size))));
            }
            let first = (at >> 2) as usize;
            let bytes = if size < 4 { ((1 << size) - 1) << (at & 3) } else { 15 };
            if let Err(other) = memory.note_write(a, first, per_lane, bytes, me) {
                return Err(global_race(i, address, other, "is written", "used"));
            }
            a.mark_run(first, per_lane);
            let Shape { bytes, count, .. } = self.shape;
            for j in 0..count as usize {
                if bytes == 8 {
                    let v = u64::from(words[2 * j][i]) | u64::from(words[2 * j + 1][i]) << 32;
                    a.store_bytes(at + 8 * j as u64, v, 8);
                } else {
                    a.store_bytes(at + u64::from(bytes) * j as u64, u64::from(words[j][i]), bytes);
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Store, Error> {
    let semantics = take_semantics(form);
    let space = take_space(form);
    let (t, shape) = shape(form)?;
    if form.count() > 2 {
        form.need_count(3)?;
        form.src(2, Type::B64)?;
    } else {
        form.need_count(2)?;
    }
    let elements = form.elements(1)?;
    if elements.len() != shape.count as usize {
        return form.error(format!("expected {} registers", shape.count));
    }
    let mut from = [0; 4];
    for (from, e) in from.iter_mut().zip(elements) {
        *from = form.source(e, t, true)?;
    }
    Ok(Store { space, address: form.address(0)?, shape, semantics, from })
}
