//! `hw.async_copy` by `cp.async`, its groups and waits.
//!
//! Source: PTX ISA, "cp.async". A copy moves 4, 8 or 16 bytes a thread. Where fewer bytes are consecutive, or the target has no
//! `cp.async`, elements are loaded and stored in place: what the operation promises (the data is there after the wait and a barrier)
//! holds all the more.

use tenon_ir::{Op, Value};
use tenon_layout::vector_width;

use super::shared::Address;
use super::{ExpandError, Expander};

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.async_copy`.
    pub(super) fn async_copy(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let pointer = self.scalar(op, 0)?;
        self.check_pointer(pointer)?;
        let (offsets, shared, slot) = (self.tile(op, 1)?, self.shared_tile(op, 2)?, self.scalar(op, 3)?);
        self.check_offsets(&offsets)?;
        let mask = if op.operand_count() > 4 { Some(self.tile(op, 4)?) } else { None };
        if let Some(mask) = &mask {
            self.check_mask(mask, &offsets)?;
        }
        let layout = &offsets.ty.layout;
        let stored = self.stored(shared.ty.element)?;
        let registers = offsets.registers.len();
        let contiguity = self.run_length(op, "contiguity", registers)?;
        let map = self.fit(shared.ty.layout.offsets(layout))?;
        let consecutive = self.fit(vector_width(layout, &shared.ty.layout, stored.bytes))? as usize;
        let width = contiguity.min(consecutive);
        let bytes = width as u32 * stored.bytes;
        let replication = layout.replication();
        let firsts: Vec<usize> =
            (0..registers).step_by(width).filter(|first| first & replication.registers as usize == 0).collect();
        let base = self.slot(&shared, slot)?;
        let element = self.stored_type(stored);
        let masks = self.masks(mask.as_ref(), None, registers)?;
        let asynchronous = bytes >= 4 && self.target.architecture.features.cp_async;

        let copy = |e: &mut Self| -> Result<Vec<Value<'m>>, ExpandError> {
            let mut address = Address::new(base, &map.lanes, &map.warps, stored.bytes);
            for &first in &firsts {
                let target = e.place(&mut address, map.offset(first as u32, 0, 0) * stored.bytes)?;
                let source = e.pointer_add(pointer, offsets.registers[first], element)?;
                if asynchronous {
                    e.copy_async(target, source, bytes, masks[first])?;
                    continue;
                }
                let values = match masks[first] {
                    None => e.load_vector(source, stored, width)?,
                    Some(mask) => {
                        let zero = e.zero(stored.element)?;
                        let types = vec![e.register_type(stored.element); width];
                        e.branch(mask, &types, |e| e.load_vector(source, stored, width), Some(vec![zero; width]))?
                    }
                };
                e.store_vector(target, stored, &values)?;
            }
            Ok(Vec::new())
        };
        match self.owner(layout)? {
            None => copy(self).map(|_| ()),
            Some(owner) => self.branch(owner, &[], copy, None).map(|_| ()),
        }
    }

    fn copy_async(
        &mut self,
        target: Value<'m>,
        source: Value<'m>,
        bytes: u32,
        mask: Option<Value<'m>>,
    ) -> Result<(), ExpandError> {
        let context = self.at.context();
        // Only 16 bytes can pass by the first-level cache.
        let cache = if bytes == 16 { "cg" } else { "ca" };
        let mut operands = vec![target, source];
        if let Some(mask) = mask {
            let (all, none) = (self.i32(i64::from(bytes))?, self.i32(0)?);
            operands.push(self.select(mask, all, none)?);
        }
        self.at
            .op("nvvm.cp.async.shared.global")
            .operands(&operands)
            .attribute("size", context.i32(bytes as i32))
            .attribute("modifier", context.parse_attribute(&format!("#nvvm<load_cache_modifier {cache}>"))?)
            .build()?;
        Ok(())
    }

    /// `hw.async_commit`.
    pub(super) fn async_commit(&mut self) -> Result<(), ExpandError> {
        if self.target.architecture.features.cp_async {
            self.at.op("nvvm.cp.async.commit.group").build()?;
        }
        Ok(())
    }

    /// `hw.async_wait`.
    pub(super) fn async_wait(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let pending = op.integer("pending").and_then(|n| i32::try_from(n).ok()).filter(|n| *n >= 0);
        let pending = pending.ok_or_else(|| self.malformed("the number of pending groups is negative"))?;
        if self.target.architecture.features.cp_async {
            let pending = self.at.context().i32(pending);
            self.at.op("nvvm.cp.async.wait.group").attribute("n", pending).build()?;
        }
        Ok(())
    }
}
