//! `hw.convert_layout`, and every other movement between threads that goes through shared memory.

use tenon_ir::{Op, Value};
use tenon_layout::{Conversion, SharedRoundTrip, TileLayout};

use super::global::Stored;
use super::{ExpandError, Expander};

/// A tile to be brought into another layout.
pub(super) struct Move<'a, 'm> {
    pub(super) registers: &'a [Value<'m>],
    pub(super) source: &'a TileLayout,
    pub(super) target: &'a TileLayout,
    pub(super) stored: Stored,
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.convert_layout`.
    pub(super) fn convert_layout(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let tile = self.tile(op, 0)?;
        let result = self.result_type(op, 0)?;
        self.check_element(tile.ty.element, result.element)?;
        let stored = self.stored(tile.ty.element)?;
        let moved = Move { registers: &tile.registers, source: &tile.ty.layout, target: &result.layout, stored };
        let registers = self.move_all(&[moved])?;
        self.set_tile(op, 0, registers.into_iter().flatten().collect())
    }

    /// Tiles in their new layouts; those that go through shared memory share the barriers.
    pub(super) fn move_all(&mut self, moves: &[Move<'_, 'm>]) -> Result<Vec<Vec<Value<'m>>>, ExpandError> {
        let mut results: Vec<Vec<Value<'m>>> = vec![Vec::new(); moves.len()];
        let mut trips: Vec<(usize, SharedRoundTrip, u64)> = Vec::new();
        let mut bytes = 0;
        for (index, one) in moves.iter().enumerate() {
            match self.fit(Conversion::between(one.source, one.target, one.stored.bytes))? {
                Conversion::Identity => results[index] = one.registers.to_vec(),
                Conversion::PermuteRegisters { registers } => {
                    results[index] = registers.iter().filter_map(|&r| one.registers.get(r as usize).copied()).collect();
                }
                Conversion::Shuffle(plan) => {
                    results[index] = self.shuffle_layout(&plan, one.registers, one.stored, one.target.registers())?;
                }
                Conversion::SharedRoundTrip(trip) => {
                    let size = Self::scratch_size(trip.bytes);
                    trips.push((index, trip, bytes));
                    bytes += size;
                }
            }
        }
        if trips.is_empty() {
            return Ok(results);
        }
        if self.shared.scratch_in_use {
            self.barrier()?;
        }
        for (index, trip, offset) in &trips {
            let one = &moves[*index];
            let base = self.scratch(*offset, u64::from(trip.bytes))?;
            let map = self.fit(trip.layout.offsets(one.source))?;
            match self.leads(trip.store_lane_mask, trip.store_warp_mask)? {
                None => self.store_vectors(base, &map, &trip.store, one.stored, one.registers)?,
                Some(leads) => {
                    let store = |e: &mut Self| {
                        e.store_vectors(base, &map, &trip.store, one.stored, one.registers)?;
                        Ok(Vec::new())
                    };
                    self.branch(leads, &[], store, None)?;
                }
            }
        }
        if trips.iter().all(|(_, trip, _)| trip.within_warp) {
            let all = self.i32(-1)?;
            self.at.op("nvvm.bar.warp.sync").operands(&[all]).build()?;
        } else {
            self.barrier()?;
        }
        for (index, trip, offset) in &trips {
            let one = &moves[*index];
            let base = self.scratch(*offset, u64::from(trip.bytes))?;
            let map = self.fit(trip.layout.offsets(one.target))?;
            results[*index] = self.load_vectors(base, &map, &trip.load, one.stored)?;
        }
        self.shared.scratch_in_use = true;
        Ok(results)
    }
}
