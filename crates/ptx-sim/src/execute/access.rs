//! Loads and stores (PTX ISA 9.7.9): `ld st ldu` in every state space, with vectors, cache hints and memory semantics.
//!
//! Cache operators and hints change nothing here. Bounds and alignment are those of the whole vector.

use super::lanes::{Lanes, Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::{Address, CALL_PARAM, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::shared::Conflict;
use crate::memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Space, resolve};

/// Size and sign of the elements of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of an element.
    pub bytes: u32,
    pub count: u32,
    pub signed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    space: Space,
    address: Address,
    shape: Shape,
    strong: bool,
    /// Slot and register bits of each element.
    to: [(Slot, u32); 4],
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    space: Space,
    address: Address,
    shape: Shape,
    strong: bool,
    from: [Slot; 4],
}

/// Words of a vector access: element `j` is word `j`, or words `2j` and `2j + 1` when it has eight bytes.
type Words = [Lanes<u32>; 4];

impl Address {
    /// Addresses of all lanes.
    #[inline(always)]
    pub(crate) fn lanes(&self, m: &Machine<'_>) -> Lanes<u64> {
        let mut out = [0; 32];
        if self.wide {
            let base = m.warp.registers.get64(self.slot);
            for i in 0..32 {
                out[i] = base[i].wrapping_add(self.offset as u64);
            }
        } else {
            let base = m.warp.registers.get(self.slot);
            for i in 0..32 {
                out[i] = u64::from(base[i].wrapping_add(self.offset as u32));
            }
        }
        out
    }
}

pub(crate) fn conflict(lane: u32, c: Conflict) -> Box<Trap> {
    Trap::new(c.kind, lane, c.detail)
}

#[cold]
pub(crate) fn misaligned(lane: u32, address: u64, bytes: u32) -> Box<Trap> {
    Trap::new(FaultKind::Misaligned, lane, format!("address {address:#x} is no multiple of {bytes}"))
}

/// Offsets of a shared access, checked for bounds and alignment.
#[inline(always)]
pub(crate) fn shared_offsets(
    m: &Machine<'_>,
    addresses: &Lanes<u64>,
    bytes: u32,
    align: u32,
    mask: u32,
) -> Result<Lanes<u32>, Box<Trap>> {
    let size = m.shared.size() as u64;
    let mut out = [0u32; 32];
    let mut bad = false;
    for i in 0..32 {
        let active = mask >> i & 1 == 1;
        let at = addresses[i];
        bad |= active && (at.wrapping_add(u64::from(bytes)) > size || at > size || at & u64::from(align - 1) != 0);
        out[i] = if active { at as u32 } else { 0 };
    }
    if bad {
        for i in lanes_of(mask) {
            let at = addresses[i];
            if at & u64::from(align - 1) != 0 {
                return Err(misaligned(i as u32, at, align));
            }
            if at.checked_add(u64::from(bytes)).is_none_or(|end| end > size) {
                return Err(Trap::new(
                    FaultKind::OutOfBoundsShared,
                    i as u32,
                    format!("{bytes} bytes at offset {at:#x}, the block has {size} bytes"),
                ));
            }
        }
    }
    Ok(out)
}

/// A space, the lanes whose addresses lead there, and their offsets in it.
type Group = (Space, u32, Lanes<u64>);

/// The lanes of a generic access grouped by space, with addresses made relative to it.
pub(crate) fn by_space(addresses: &Lanes<u64>, mask: u32) -> Result<Vec<Group>, Box<Trap>> {
    let mut out: Vec<Group> = Vec::new();
    for lane in lanes_of(mask) {
        let Some((space, at)) = resolve(addresses[lane]) else {
            return Err(Trap::new(
                FaultKind::InvalidAddress,
                lane as u32,
                format!("generic address {:#x} is in no state space", addresses[lane]),
            ));
        };
        match out.iter_mut().find(|(s, ..)| *s == space) {
            Some((_, mask, lanes)) => {
                *mask |= 1 << lane;
                lanes[lane] = at;
            }
            None => {
                let mut lanes = [0; 32];
                lanes[lane] = at;
                out.push((space, 1 << lane, lanes));
            }
        }
    }
    Ok(out)
}

fn local_offset(m: &Machine<'_>, lane: usize, at: u64, bytes: u32) -> Result<usize, Box<Trap>> {
    let size = u64::from(m.launch.program.local_bytes);
    if at & u64::from(bytes.next_power_of_two() - 1) != 0 {
        return Err(misaligned(lane as u32, at, bytes));
    }
    if at.checked_add(u64::from(bytes)).is_none_or(|end| end > size) {
        return Err(Trap::new(
            FaultKind::OutOfBoundsLocal,
            lane as u32,
            format!("{bytes} bytes at offset {at:#x}, the thread has {size} bytes"),
        ));
    }
    Ok(lane * size as usize + at as usize)
}

fn put_bytes(words: &mut Words, lane: usize, shape: Shape, data: &[u8]) {
    for (j, e) in data.chunks_exact(shape.bytes as usize).enumerate() {
        match *e {
            [a] => words[j][lane] = u32::from(a),
            [a, b] => words[j][lane] = u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => words[j][lane] = u32::from_le_bytes([a, b, c, d]),
            [a, b, c, d, e, f, g, h] => {
                words[2 * j][lane] = u32::from_le_bytes([a, b, c, d]);
                words[2 * j + 1][lane] = u32::from_le_bytes([e, f, g, h]);
            }
            _ => {}
        }
    }
}

fn take_bytes(words: &Words, lane: usize, shape: Shape) -> ([u8; 16], usize) {
    let mut out = [0; 16];
    let width = shape.bytes.min(4) as usize;
    let pieces = if shape.bytes == 8 { shape.count * 2 } else { shape.count } as usize;
    for (j, word) in words.iter().enumerate().take(pieces) {
        out[j * width..(j + 1) * width].copy_from_slice(&word[lane].to_le_bytes()[..width]);
    }
    (out, pieces * width)
}

impl Load {
    /// Whether its requests count as global ones; a generic access counts as global.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.space, Space::Global | Space::Generic)
    }

    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
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
                for lane in lanes_of(mask) {
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
            if let Err(c) = m.shared.read_run(warp, at[0] as usize, s, self.strong) {
                return Err(conflict(0, c));
            }
        } else {
            let mut last = u32::MAX;
            for i in lanes_of(mask) {
                if at[i] == last {
                    continue;
                }
                last = at[i];
                m.shared.read(warp, i as u32, at[i] as usize, s, self.strong).map_err(|c| conflict(i as u32, c))?;
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
        let me = m.accessor(self.strong);
        let memory = m.launch.global;
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
        a: &crate::memory::global::Allocation,
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

#[cold]
pub(crate) fn global_race(lane: usize, address: u64, other: u32, verb: &str, done: &str) -> Box<Trap> {
    let by =
        if other == 0 { "another block or an atomic access".into() } else { format!("block number {}", other - 1) };
    Trap::new(
        FaultKind::RaceGlobal,
        lane as u32,
        format!("global address {address:#x} {verb}, and {done} by {by} in the same launch, nothing orders the two"),
    )
}

impl Store {
    /// Whether its requests count as global ones; a generic access counts as global.
    pub(crate) fn is_global(&self) -> bool {
        matches!(self.space, Space::Global | Space::Generic)
    }

    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
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
                        .write(m.warp.index, i as u32, from, n, self.strong, same)
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

    fn global(&self, m: &mut Machine<'_>, addresses: &Lanes<u64>, mask: u32, size: u32, words: &Words) -> Step {
        m.count_global(addresses, size, mask);
        let me = m.accessor(self.strong);
        let memory = m.launch.global;
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

/// Takes memory semantics, scopes, cache operators and hints; returns whether the access is a strong one.
pub(crate) fn take_semantics(form: &mut Form<'_, '_>) -> bool {
    form.flag("weak");
    let strong = form.pick(&["volatile", "relaxed", "acquire", "release", "mmio", "acq_rel"]).is_some();
    form.pick(&["cta", "cluster", "gpu", "sys"]);
    form.pick(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    form.pick(&["nc"]);
    form.skip_prefixed(&["L1::", "L2::", "level::", "unified"]);
    strong
}

/// Takes the state space: the window of a parameter function suffix is ignored.
pub(crate) fn take_space(form: &mut Form<'_, '_>) -> Space {
    match form.pick(&[
        "global",
        "shared",
        "local",
        "param",
        "const",
        "shared::cta",
        "shared::cluster",
        "param::entry",
        "param::func",
    ]) {
        None => Space::Generic,
        Some("global" | "const") => Space::Global,
        Some("shared" | "shared::cta" | "shared::cluster") => Space::Shared,
        Some("local") => Space::Local,
        Some(_) => Space::Param,
    }
}

fn shape(form: &mut Form<'_, '_>) -> Result<(Type, Shape), Error> {
    let count = match form.pick(&["v2", "v4", "v8"]) {
        None => 1,
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => return form.error("vectors of eight elements are not supported"),
    };
    let t = form.ty()?;
    if !(t.is_bits()
        || t.is_integer()
        || matches!(t, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 | Type::F32 | Type::F64))
    {
        return form.unsupported(t);
    }
    let bytes = t.bits() / 8;
    if bytes * count > 16 {
        return form.error("an access has at most 16 bytes");
    }
    Ok((t, Shape { bytes, count, signed: t.is_signed() }))
}

pub(crate) fn decode_load(form: &mut Form<'_, '_>) -> Result<Load, Error> {
    let strong = take_semantics(form);
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
    Ok(Load { space, address: form.address(1)?, shape, strong, to })
}

pub(crate) fn decode_store(form: &mut Form<'_, '_>) -> Result<Store, Error> {
    let strong = take_semantics(form);
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
    Ok(Store { space, address: form.address(0)?, shape, strong, from })
}

/// Start of a space's window in the generic address space; global memory has none.
pub(crate) fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        _ => 0,
    }
}
