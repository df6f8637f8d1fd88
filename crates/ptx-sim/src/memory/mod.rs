//! The memories of the device and what is known about each byte: who wrote it, who read it, whether it is there at all.
//!
//! Generic addresses: global allocations start at [`global::BASE`]; shared, local and parameter memory are windows below.

pub(crate) mod cache;
pub(crate) mod causality;
pub(crate) mod global;
pub(crate) mod races;
pub(crate) mod shared;

/// Windows of the generic address space.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
pub(crate) const PARAM_WINDOW: u64 = 0x0300_0000_0000;
pub(crate) const WINDOW_SIZE: u64 = 1 << 32;

/// State space of an access, or where a generic address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Param,
}

/// Space and offset of a generic address.
pub(crate) fn resolve(address: u64) -> Option<(Space, u64)> {
    for (window, space) in [(SHARED_WINDOW, Space::Shared), (LOCAL_WINDOW, Space::Local), (PARAM_WINDOW, Space::Param)]
    {
        if (window..window + WINDOW_SIZE).contains(&address) {
            return Some((space, address - window));
        }
    }
    (address >= global::BASE).then_some((Space::Global, address))
}
