//! `hw.arrive`: blocks that count each other.
//!
//! Sources: PTX ISA, "Memory Consistency Model" (causality order) and "atom". A barrier orders what all warps wrote before the atomic of one thread, which
//! releases it; the atomic acquires what the blocks released that arrived before, and a second barrier hands it on to all warps.

use tenon_ir::Op;

use super::pipeline::Role;
use super::values::Lowered;
use super::{ExpandError, Expander};

/// Adds one, or sets to zero at the bound; gives what was there.
const INCREMENT: &str = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;";

impl<'k> Expander<'k, '_, '_> {
    /// `hw.arrive`.
    pub(super) fn arrive(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        if matches!(self.role, Role::Producer) {
            return Err(self.malformed("one thread of the block arrives for all of it"));
        }
        let (pointer, index, count) = (self.scalar(op, 0)?, self.scalar(op, 1)?, self.scalar(op, 2)?);
        let i32_type = self.at.context().i32_type();
        let counter = self.pointer_add(pointer, index, i32_type)?;
        let one = self.i32(1)?;
        let bound = self.binary("arith.subi", count, one)?;
        self.barrier()?;
        let cell = self.scratch(0, 4)?;
        let first = self.leads(31, self.warps - 1)?.ok_or_else(|| self.malformed("the block has no first thread"))?;
        self.branch(
            first,
            &[],
            |e| {
                let before = e.inline_ptx(INCREMENT, "=r,l,r,~{memory}", &[counter, bound], Some(i32_type))?;
                let before = before.ok_or_else(|| e.malformed("the atomic has no result"))?;
                e.at.op("llvm.store").operands(&[before, cell]).build()?;
                Ok(Vec::new())
            },
            None,
        )?;
        self.barrier()?;
        let before = self.pure("llvm.load", &[cell], i32_type)?;
        // Threads may still read the cell.
        self.shared.scratch_in_use = true;
        self.set(op, 0, Lowered::Scalar(before))
    }
}
