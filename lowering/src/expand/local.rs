//! `hw.local_load` and `hw.local_store`: tiles in shared memory, by vectors or `ldmatrix`.

use tenon_ir::{Op, Value};
use tenon_layout::{Ldmatrix, OffsetMap, VectorAccess};
use tenon_tensor::DType;

use super::global::Stored;
use super::shared::Address;
use super::{ExpandError, Expander};

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// Stores registers by a plan of vectors.
    pub(super) fn store_vectors(
        &mut self,
        base: Value<'m>,
        map: &OffsetMap,
        plan: &VectorAccess,
        stored: Stored,
        registers: &[Value<'m>],
    ) -> Result<(), ExpandError> {
        let mut address = Address::new(base, &map.lanes, &map.warps, stored.bytes);
        for group in &plan.groups {
            let values: Vec<_> = group.iter().filter_map(|&r| registers.get(r as usize).copied()).collect();
            let Some(first) = group.first() else { continue };
            let pointer = self.place(&mut address, map.offset(*first, 0, 0) * stored.bytes)?;
            self.store_vector(pointer, stored, &values)?;
        }
        Ok(())
    }

    /// Loads registers by a plan of vectors.
    pub(super) fn load_vectors(
        &mut self,
        base: Value<'m>,
        map: &OffsetMap,
        plan: &VectorAccess,
        stored: Stored,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let mut address = Address::new(base, &map.lanes, &map.warps, stored.bytes);
        let mut registers: Vec<Option<Value<'m>>> = vec![None; 1 << map.registers.len()];
        for group in &plan.groups {
            let Some(first) = group.first() else { continue };
            let pointer = self.place(&mut address, map.offset(*first, 0, 0) * stored.bytes)?;
            let values = self.load_vector(pointer, stored, group.len())?;
            group.iter().zip(values).for_each(|(&register, value)| registers[register as usize] = Some(value));
        }
        self.filled(registers, &plan.copies)
    }

    /// All registers, those that repeat others filled in.
    pub(super) fn filled(
        &self,
        mut registers: Vec<Option<Value<'m>>>,
        copies: &[(u32, u32)],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        for &(register, other) in copies {
            registers[register as usize] = registers[other as usize];
        }
        let filled: Option<Vec<_>> = registers.into_iter().collect();
        filled.ok_or_else(|| self.misfit("the plan leaves a register without a value"))
    }

    /// `hw.local_store`. Lanes and warps that hold the same as others do not store.
    pub(super) fn local_store(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let (value, shared, slot) = (self.tile(op, 0)?, self.shared_tile(op, 1)?, self.scalar(op, 2)?);
        self.check_element(value.ty.element, shared.ty.element)?;
        let stored = self.stored(value.ty.element)?;
        let map = self.fit(shared.ty.layout.offsets(&value.ty.layout))?;
        let plan = self.fit(VectorAccess::new(&map, stored.bytes, 16))?;
        let base = self.slot(&shared, slot)?;
        match self.owner(&value.ty.layout)? {
            None => self.store_vectors(base, &map, &plan, stored, &value.registers),
            Some(owner) => {
                let store = |e: &mut Self| {
                    e.store_vectors(base, &map, &plan, stored, &value.registers)?;
                    Ok(Vec::new())
                };
                self.branch(owner, &[], store, None).map(|_| ())
            }
        }
    }

    /// `hw.local_load`.
    pub(super) fn local_load(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let (shared, slot) = (self.shared_tile(op, 0)?, self.scalar(op, 1)?);
        let result = self.result_type(op, 0)?;
        self.check_element(result.element, shared.ty.element)?;
        let stored = self.stored(result.element)?;
        let base = self.slot(&shared, slot)?;
        let rows_aligned = shared.slot_bytes().is_multiple_of(16);
        if rows_aligned
            && self.target.architecture.features.ldmatrix
            && let Some(plan) = self.fit(Ldmatrix::new(&result.layout, &shared.ty.layout, stored.bytes))?
        {
            let registers = self.load_matrices(base, &plan, stored, result.layout.registers())?;
            return self.set_tile(op, 0, registers);
        }
        let map = self.fit(shared.ty.layout.offsets(&result.layout))?;
        let plan = self.fit(VectorAccess::new(&map, stored.bytes, 16))?;
        let registers = self.load_vectors(base, &map, &plan, stored)?;
        self.set_tile(op, 0, registers)
    }

    /// `ldmatrix` by its plan. Source: PTX ISA, "ldmatrix".
    fn load_matrices(
        &mut self,
        base: Value<'m>,
        plan: &Ldmatrix,
        stored: Stored,
        registers: u32,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let i32_type = context.i32_type();
        let result = match plan.matrices {
            1 => i32_type,
            count => context.parse_type(&format!("!llvm.struct<({})>", vec!["i32"; count as usize].join(", ")))?,
        };
        let layout = if plan.transposed { "#nvvm.mma_layout<col>" } else { "#nvvm.mma_layout<row>" };
        let packed = 4 / stored.bytes;
        let word_type = context.vector_type(packed, self.stored_type(stored))?;
        let mut address = Address::new(base, &plan.lane_offsets, &plan.warp_offsets, stored.bytes);
        let mut loaded: Vec<Option<Value<'m>>> = vec![None; registers as usize];
        for group in &plan.groups {
            let pointer = self.place(&mut address, group.offset * stored.bytes)?;
            let matrices = self
                .at
                .op("nvvm.ldmatrix")
                .operands(&[pointer])
                .attribute("num", context.i32(plan.matrices as i32))
                .attribute("layout", context.parse_attribute(layout)?)
                .attribute("shape", context.parse_attribute("#nvvm.ld_st_matrix_shape<m = 8, n = 8>")?)
                .attribute("eltType", context.parse_attribute("#nvvm.ld_st_matrix_elt_type<b16>")?)
                .results(&[result])
                .value()?;
            for (index, targets) in group.registers.iter().enumerate() {
                let word = if plan.matrices == 1 { matrices } else { self.extract(matrices, index, i32_type)? };
                let word = self.pure("llvm.bitcast", &[word], word_type)?;
                let types = vec![self.stored_type(stored); packed as usize];
                let elements = self.at.op("vector.to_elements").operands(&[word]).results(&types).build()?.results();
                for (&register, element) in targets.iter().zip(elements) {
                    loaded[register as usize] = Some(self.restored(element, stored)?);
                }
            }
        }
        self.filled(loaded, &plan.copies)
    }

    /// Field of a struct.
    pub(super) fn extract(
        &self,
        value: Value<'m>,
        index: usize,
        ty: tenon_ir::Type<'m>,
    ) -> Result<Value<'m>, ExpandError> {
        let position = self.at.context().i64_array(&[index as i64]);
        Ok(self.at.op("llvm.extractvalue").operands(&[value]).attribute("position", position).results(&[ty]).value()?)
    }

    pub(super) fn check_element(&self, tile: DType, shared: DType) -> Result<(), ExpandError> {
        if tile != shared {
            return Err(self.element(format!("a tile of {tile} in shared memory of {shared}")));
        }
        Ok(())
    }
}
