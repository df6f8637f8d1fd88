//! What memory accesses share (PTX ISA 9.7.9): state spaces, addresses, bounds, vectors, cache hints and memory semantics.
//!
//! Cache operators and hints change nothing here. Bounds and alignment are those of the whole vector.

use super::lanes::{Lanes, lanes_of};
use super::machine::Machine;
use crate::decode::form::{Address, Form};
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::causality::Order;
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

/// Words of a vector access: element `j` is word `j`, or words `2j` and `2j + 1` when it has eight bytes.
pub(super) type Words = [Lanes<u32>; 4];

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

/// Offsets in shared memory of an instruction that names `.shared` or gives generic addresses, checked for bounds and alignment.
pub(crate) fn shared_addresses(
    m: &Machine<'_>,
    space: Space,
    address: &Address,
    bytes: u32,
    align: u32,
    mask: u32,
) -> Result<Lanes<u32>, Box<Trap>> {
    let mut addresses = address.lanes(m);
    if space == Space::Generic {
        for i in lanes_of(mask) {
            addresses[i] = match resolve(addresses[i]) {
                Some((Space::Shared, at)) => at,
                _ => {
                    let detail = format!("generic address {:#x} is not in shared memory", addresses[i]);
                    return Err(Trap::new(FaultKind::InvalidAddress, i as u32, detail));
                }
            };
        }
    }
    shared_offsets(m, &addresses, bytes, align, mask)
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

pub(super) fn local_offset(m: &Machine<'_>, lane: usize, at: u64, bytes: u32) -> Result<usize, Box<Trap>> {
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

pub(super) fn put_bytes(words: &mut Words, lane: usize, shape: Shape, data: &[u8]) {
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

/// The bytes that a lane stores and how many they are; those beyond are zero.
#[inline(always)]
pub(super) fn take_bytes(words: &Words, lane: usize, shape: Shape) -> ([u8; 16], usize) {
    let mut out = [0; 16];
    let width = shape.bytes.min(4) as usize;
    if width == 4 {
        // Words beyond the access are zero.
        for (part, word) in out.chunks_exact_mut(4).zip(words) {
            part.copy_from_slice(&word[lane].to_le_bytes());
        }
    } else {
        for (part, word) in out.chunks_exact_mut(width).zip(words).take(shape.count as usize) {
            part.copy_from_slice(&word[lane].to_le_bytes()[..width]);
        }
    }
    (out, (shape.bytes * shape.count) as usize)
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

/// How an access takes part in the memory consistency model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Semantics {
    /// No weak access.
    pub strong: bool,
    /// Of the block's or cluster's scope alone.
    pub near: bool,
    pub order: Order,
}

impl Semantics {
    /// Whether it is strong towards other blocks.
    pub(crate) fn reaches_blocks(self) -> bool {
        self.strong && !self.near
    }
}

/// Takes memory semantics, scopes, cache operators and hints.
pub(crate) fn take_semantics(form: &mut Form<'_, '_>) -> Semantics {
    form.flag("weak");
    let semantics = form.pick(&["volatile", "relaxed", "acquire", "release", "mmio", "acq_rel"]);
    let near = matches!(form.pick(&["cta", "cluster", "gpu", "sys"]), Some("cta" | "cluster"));
    form.pick(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    form.pick(&["nc"]);
    form.skip_prefixed(&["L1::", "L2::", "level::", "unified"]);
    let order = Order {
        acquire: matches!(semantics, Some("acquire" | "acq_rel")),
        release: matches!(semantics, Some("release" | "acq_rel")),
    };
    Semantics { strong: semantics.is_some(), near, order }
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

pub(super) fn shape(form: &mut Form<'_, '_>) -> Result<(Type, Shape), Error> {
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

/// Start of a space's window in the generic address space; global memory has none.
pub(crate) fn window(space: Space) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        _ => 0,
    }
}
