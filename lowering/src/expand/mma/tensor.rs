//! Products by matrix instructions: a warp's part of the tile, one instruction after the other.
//!
//! Instructions are rows of the table of `tenon-target`. Here those that `nvvm.mma.sync` stands for are emitted, and those of 8-bit floats,
//! which it rejects, by their intrinsics. f32 operands of tf32 instructions
//! are passed as they are: the hardware does not read their low 13 bits, which rounds them towards zero. (PTX leaves the format of tf32 to the
//! implementation; every architecture so far has it in the upper 19 bits of an f32, and CUTLASS and Triton rely on it.)

use tenon_ir::{Type, Value};
use tenon_layout::TileLayout;
use tenon_target::{Emission, Instructions, MatrixInstruction, Order};
use tenon_tensor::DType;

use super::super::values::TileValues;
use super::super::{ExpandError, Expander};
use super::Registers;
use crate::fragments::Fragments;

/// Signless elements: the instruction, not the tile, says whether integers have a sign.
fn alike(tile: DType, instruction: DType) -> bool {
    tile == instruction
        || tile == DType::I8 && is_float8(instruction)
        || tile.is_integer() && instruction.is_integer() && tile.bits() == instruction.bits() && tile != DType::Bool
}

/// Floats whose bits lie in tiles of `i8`.
fn is_float8(element: DType) -> bool {
    matches!(element, DType::F8E4M3FN | DType::F8E5M2)
}

/// The name of a multiplicand's type in PTX.
fn ptx_type(element: DType, tf32: bool) -> Option<&'static str> {
    Some(match element {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 if tf32 => "tf32",
        DType::F64 => "f64",
        DType::I8 => "s8",
        DType::U8 => "u8",
        DType::F8E4M3FN => "e4m3",
        DType::F8E5M2 => "e5m2",
        _ => return None,
    })
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    pub(super) fn refuse<T>(&self, instruction: &str, reason: impl Into<String>) -> Result<T, ExpandError> {
        let (place, instruction) = (self.place.clone(), instruction.to_owned());
        Err(ExpandError::Instruction { place, instruction, reason: reason.into() })
    }

    /// The row of the table, if the target has it and it can be emitted here.
    fn matrix_instruction(&self, name: &str) -> Result<(&'static MatrixInstruction, Fragments<'static>), ExpandError> {
        let row = match Instructions::table().matrix_instruction(name) {
            Ok(row) => row,
            Err(error) => return self.refuse(name, error.to_string()),
        };
        if let Err(error) = Instructions::table().is_available(name, self.target.architecture) {
            return self.refuse(name, error.to_string());
        }
        let types = ptx_type(row.a, row.tf32).is_some() && ptx_type(row.b, row.tf32).is_some();
        match Fragments::of(row).filter(|_| types) {
            Some(fragments) => Ok((row, fragments)),
            None => self.refuse(name, "no expansion is known for its fragments and element types"),
        }
    }

    pub(super) fn tensor_core(
        &mut self,
        name: &str,
        a: &TileValues<'m>,
        b: &TileValues<'m>,
        c: &TileValues<'m>,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let (row, fragments) = self.matrix_instruction(name)?;
        let fits = alike(a.ty.element, row.a) && alike(b.ty.element, row.b) && alike(c.ty.element, row.c);
        if !fits {
            let found = format!("operands are of {}, {} and {}", a.ty.element, b.ty.element, c.ty.element);
            return self.refuse(name, found);
        }
        let [rows, columns, step] = fragments.tile();
        let a_fragment = self.fit(fragments.operand_a([rows, step], [1, 1]))?;
        let b_fragment = self.fit(fragments.operand_b([step, columns], [1, 1]))?;
        let c_fragment = self.fit(fragments.accumulator([rows, columns], [1, 1]))?;
        self.check_fragment("a", &a.ty.layout, &a_fragment)?;
        self.check_fragment("b", &b.ty.layout, &b_fragment)?;
        self.check_fragment("c", &c.ty.layout, &c_fragment)?;
        let warps = a.ty.layout.warp_bases().iter().zip(b.ty.layout.warp_bases()).zip(c.ty.layout.warp_bases());
        if warps.into_iter().any(|((a, b), c)| a != &vec![c[0], 0] || b != &vec![0, c[1]]) {
            return Err(self.misfit("warps hold other rows and columns of the operands than of the accumulator"));
        }

        let (a_registers, b_registers) = (Registers::new(&a.ty.layout), Registers::new(&b.ty.layout));
        let (a_count, b_count, c_count) =
            (a_fragment.registers() as usize, b_fragment.registers() as usize, c_fragment.registers() as usize);
        let depth = a.ty.shape()[1];
        let mut sums = c.registers.to_vec();
        // `k` outermost: consecutive instructions do not wait for each other.
        for step in (0..depth).step_by(step as usize) {
            for first in (0..sums.len()).step_by(c_count) {
                let at = c.ty.layout.coordinates(first as u32, 0, 0);
                let (Some(left), Some(right)) = (a_registers.find(&[at[0], step]), b_registers.find(&[step, at[1]]))
                else {
                    return Err(self.misfit("a warp does not hold the fragments that its elements need"));
                };
                let left: Vec<_> = (0..a_count).map(|i| a.registers[left ^ i]).collect();
                let right: Vec<_> = (0..b_count).map(|i| b.registers[right ^ i]).collect();
                let result = self.mma_sync(row, &left, &right, &sums[first..first + c_count])?;
                sums[first..first + c_count].copy_from_slice(&result);
            }
        }
        Ok(sums)
    }

    /// The lowest register bits and the lanes of a tile must be those of the instruction's fragment.
    fn check_fragment(&self, name: &str, tile: &TileLayout, fragment: &TileLayout) -> Result<(), ExpandError> {
        let low = tile.register_bases().get(..fragment.register_bases().len());
        if low != Some(fragment.register_bases()) || tile.lane_bases() != fragment.lane_bases() {
            return Err(self.misfit(format!("operand {name} does not lie in the instruction's fragments, {fragment}")));
        }
        let whole = |basis: &Vec<u32>| basis.iter().zip(fragment.shape()).all(|(c, size)| c % size == 0);
        let rest = &tile.register_bases()[fragment.register_bases().len()..];
        if !rest.iter().chain(tile.warp_bases()).all(whole) {
            return Err(self.misfit(format!("operand {name} does not repeat whole fragments")));
        }
        Ok(())
    }

    /// Elements as the operands of an instruction: pairs of f16, 32-bit words of bf16, tf32 and bytes, f64 and f32 as they are.
    fn pack(&mut self, values: &[Value<'m>], element: DType, tf32: bool) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        if tf32 {
            return values.iter().map(|value| self.pure("llvm.bitcast", &[*value], context.i32_type())).collect();
        }
        let packed = (32 / element.bits()).max(1);
        if packed == 1 {
            return Ok(values.to_vec());
        }
        let element = if is_float8(element) { DType::I8 } else { element };
        let vector = context.vector_type(packed, self.register_type(element))?;
        let mut words = Vec::new();
        for chunk in values.chunks(packed as usize) {
            let whole = self.pure("vector.from_elements", chunk, vector)?;
            words.push(if element == DType::F16 {
                whole
            } else {
                self.pure("llvm.bitcast", &[whole], context.i32_type())?
            });
        }
        Ok(words)
    }

    /// One instruction. Source: PTX ISA, "mma".
    fn mma_sync(
        &mut self,
        row: &MatrixInstruction,
        a: &[Value<'m>],
        b: &[Value<'m>],
        c: &[Value<'m>],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let left = self.pack(a, row.a, row.tf32)?;
        let right = self.pack(b, row.b, row.tf32)?;
        let sums = self.pack(c, row.c, false)?;
        let field: Type<'m> =
            sums.first().map(|value| value.ty()).ok_or_else(|| self.malformed("an empty fragment"))?;
        let fields = vec![field.to_string(); sums.len()].join(", ");
        let fields = context.parse_type(&format!("!llvm.struct<({fields})>"))?;
        if let Emission::Intrinsic(name) = &row.emission {
            let operands = [left, right, sums.clone()].concat();
            let result = self
                .at
                .op("llvm.call_intrinsic")
                .operands(&operands)
                .segments(&[operands.len() as i32, 0])
                .attribute("intrin", context.string(name))
                .attribute("op_bundle_sizes", context.i32_array(&[]))
                .results(&[fields])
                .value()?;
            return self.unpack_sums(row, result, sums.len(), field);
        }
        let MatrixInstruction { m, n, k, .. } = row;
        let types = [row.a, row.b].map(|element| ptx_type(element, row.tf32).unwrap_or_default());
        let order = |order: Order| {
            let name = if order == Order::Row { "row" } else { "col" };
            context.parse_attribute(&format!("#nvvm.mma_layout<{name}>"))
        };
        let multiplicand = |name: &str| context.parse_attribute(&format!("#nvvm.mma_type<{name}>"));
        let wraps =
            if row.a.is_integer() { Some(context.parse_attribute("#nvvm.mma_int_overflow<wrapped>")?) } else { None };
        let result = self
            .at
            .op("nvvm.mma.sync")
            .operands(&left)
            .operands(&right)
            .operands(&sums)
            .segments(&[left.len() as i32, right.len() as i32, sums.len() as i32])
            .attribute("shape", context.parse_attribute(&format!("#nvvm.shape<m = {m}, n = {n}, k = {k}>"))?)
            .attribute("layoutA", order(row.a_order)?)
            .attribute("layoutB", order(row.b_order)?)
            .attribute("multiplicandAPtxType", multiplicand(types[0])?)
            .attribute("multiplicandBPtxType", multiplicand(types[1])?)
            .optional_attribute("intOverflowBehavior", wraps)
            .results(&[fields])
            .value()?;
        self.unpack_sums(row, result, sums.len(), field)
    }

    /// Elements of the accumulator from what an instruction gives: pairs of f16, others as they are.
    fn unpack_sums(
        &mut self,
        row: &MatrixInstruction,
        result: Value<'m>,
        count: usize,
        field: Type<'m>,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let mut values = Vec::new();
        for index in 0..count {
            let value = self.extract(result, index, field)?;
            if row.c == DType::F16 {
                let half = self.at.context().f16_type();
                let halves =
                    self.at.op("vector.to_elements").operands(&[value]).results(&[half, half]).build()?.results();
                values.extend(halves);
            } else {
                values.push(value);
            }
        }
        Ok(values)
    }
}
