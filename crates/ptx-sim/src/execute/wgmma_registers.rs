//! Registers of `wgmma` (PTX ISA 9.7.15.7): who may touch accumulators and fragments, and when.
//!
//! - Until the group of a `wgmma` was waited for, nothing else may access its accumulators or the registers of its fragment of A; another
//!   `wgmma` of the same shape may use the accumulators.
//! - An access before a `wgmma` of the same registers needs a `wgmma.fence` between the two, and so does the first `wgmma` of a warp.
//!
//! Instructions that name a register of some `wgmma` are wrapped in [`Watched`] when the program is decoded: others pay nothing.

use super::lanes::Slot;
use super::machine::{Machine, Step};
use super::{Instruction, Operation};
use crate::fault::{FaultKind, Trap};

/// An instruction and the registers of `wgmma` that it touches.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub op: Operation,
    slots: Vec<Slot>,
}

impl Watched {
    pub(super) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let state = &mut m.warp.wgmma;
        if state.fenced {
            for &slot in &self.slots {
                let register = &mut state.registers[slot as usize];
                if register.accumulating != 0 || register.feeding != 0 {
                    let what = if register.accumulating != 0 { "an accumulator" } else { "a fragment of A" };
                    let detail = format!("{what} of a wgmma that is not waited for is accessed");
                    return Err(Trap::new(FaultKind::WgmmaNotWaited, mask.trailing_zeros(), detail));
                }
                if !register.accessed {
                    register.accessed = true;
                    state.touched.push(slot);
                }
            }
        }
        self.op.execute(m, mask)
    }
}

/// Wraps the instructions that touch registers of `wgmma`; `touches` holds places in the program and the registers named there.
pub(crate) fn watch(code: &mut [Instruction], touches: Vec<(usize, Vec<Slot>)>) {
    let mut watched = std::collections::HashSet::new();
    for ins in code.iter() {
        if let Operation::Wgmma(op) = &ins.op {
            watched.extend(op.registers());
        }
    }
    for (at, mut slots) in touches {
        slots.retain(|s| watched.contains(s));
        slots.sort_unstable();
        slots.dedup();
        let Some(ins) = code.get_mut(at) else { continue };
        if slots.is_empty() || matches!(ins.op, Operation::Wgmma(_) | Operation::Control(_) | Operation::Barrier(_)) {
            continue;
        }
        // The scheduler knows instructions that wait by their kind; they name no register of 32 bits but counts and addresses.
        if matches!(ins.op, Operation::Mbarrier(_) | Operation::BulkCopy(_)) {
            continue;
        }
        let op = ins.op.clone();
        ins.op = Operation::Watched(Box::new(Watched { op, slots }));
    }
}

#[derive(Clone, Copy, Default)]
struct Register {
    /// Operations not waited for that accumulate into it, or read it as a fragment.
    accumulating: u16,
    feeding: u16,
    /// Since the last fence: accessed by another instruction, and the shape of the `wgmma` that accumulated (0: none).
    accessed: bool,
    shape: u32,
}

/// A `wgmma` that was not waited for.
struct Pending {
    accumulators: Vec<Slot>,
    fragments: Vec<Slot>,
    /// Units of shared memory that it reads.
    units: Vec<u32>,
    /// `None` before the commit.
    group: Option<u32>,
}

/// What a warp did to registers of `wgmma`.
#[derive(Default)]
pub(crate) struct RegisterState {
    fenced: bool,
    registers: Vec<Register>,
    /// Registers with something to clear at a fence.
    touched: Vec<Slot>,
    pending: Vec<Pending>,
    committed: u32,
}

impl RegisterState {
    pub(crate) fn clear(&mut self) {
        self.fenced = false;
        self.registers.fill(Register::default());
        self.touched.clear();
        self.pending.clear();
        self.committed = 0;
    }

    /// `wgmma.fence`.
    pub(super) fn fence(&mut self, slots: u32) {
        self.fenced = true;
        self.registers.resize(slots as usize, Register::default());
        for slot in self.touched.drain(..) {
            let register = &mut self.registers[slot as usize];
            (register.accessed, register.shape) = (false, 0);
        }
    }

    /// A `wgmma` of a shape begins with these registers, reading these units.
    pub(super) fn start(
        &mut self,
        shape: u32,
        accumulators: &[Slot],
        fragments: &[Slot],
        units: Vec<u32>,
    ) -> Result<(), Box<Trap>> {
        let missing = |detail: &str| Err(Trap::new(FaultKind::WgmmaFenceMissing, 0, detail));
        if !self.fenced {
            return missing("the warp executes wgmma.mma_async and no wgmma.fence before it");
        }
        for &slot in accumulators {
            let register = &self.registers[slot as usize];
            if register.feeding != 0 {
                let detail = "an accumulator is a fragment of A of a wgmma that is not waited for";
                return Err(Trap::new(FaultKind::WgmmaNotWaited, 0, detail));
            }
            if register.accessed {
                return missing("an accumulator was accessed, no wgmma.fence is between the access and the wgmma");
            }
            if register.shape != 0 && register.shape != shape {
                return missing(
                    "an accumulator was used by a wgmma of another shape, no wgmma.fence is between the two",
                );
            }
        }
        for &slot in fragments {
            let register = &self.registers[slot as usize];
            if register.accumulating != 0 {
                let detail = "a fragment of A is an accumulator of a wgmma that is not waited for";
                return Err(Trap::new(FaultKind::WgmmaNotWaited, 0, detail));
            }
            if register.accessed || register.shape != 0 {
                return missing("a fragment of A was accessed, no wgmma.fence is between the access and the wgmma");
            }
        }
        for &slot in accumulators {
            let register = &mut self.registers[slot as usize];
            register.accumulating += 1;
            if register.shape == 0 {
                register.shape = shape;
                self.touched.push(slot);
            }
        }
        for &slot in fragments {
            self.registers[slot as usize].feeding += 1;
        }
        let (accumulators, fragments) = (accumulators.to_vec(), fragments.to_vec());
        self.pending.push(Pending { accumulators, fragments, units, group: None });
        Ok(())
    }

    /// `wgmma.commit_group`.
    pub(super) fn commit(&mut self) {
        for p in self.pending.iter_mut().filter(|p| p.group.is_none()) {
            p.group = Some(self.committed);
        }
        self.committed = self.committed.wrapping_add(1);
    }

    /// `wgmma.wait_group`: all but the last `keep` groups are done; `f` is told what they read.
    pub(super) fn wait(&mut self, keep: u32, mut f: impl FnMut(&[u32])) {
        let (committed, registers) = (self.committed, &mut self.registers);
        self.pending.retain(|p| {
            if p.group.is_none_or(|g| committed.wrapping_sub(g) <= keep) {
                return true;
            }
            for &slot in &p.accumulators {
                registers[slot as usize].accumulating -= 1;
            }
            for &slot in &p.fragments {
                registers[slot as usize].feeding -= 1;
            }
            f(&p.units);
            false
        });
    }
}
