//! Control flow (PTX ISA 9.7.12): `bra brx.idx call ret exit trap brkpt`. Calls and indexed branches are rewritten when decoding.

/// What the scheduler does with the lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// To `target`; lanes that part meet again at `meet` (`NONE`: not before they exit).
    Branch {
        target: u32,
        meet: u32,
    },
    Exit,
    Trap,
}
