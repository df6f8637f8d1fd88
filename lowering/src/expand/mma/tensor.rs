//! Products by matrix instructions: a warp's part of the tile, one instruction after the other.

use tenon_ir::Value;
use tenon_layout::{MmaShape, TileLayout};
use tenon_tensor::DType;

use super::super::values::TileValues;
use super::super::{ExpandError, Expander, Place};
use super::Registers;

/// A matrix instruction.
struct Instruction {
    name: &'static str,
    shape: MmaShape,
    a: DType,
    b: DType,
    c: DType,
    min_architecture: u32,
}

/// Source: PTX ISA, "mma".
const INSTRUCTIONS: [Instruction; 2] = [
    Instruction {
        name: "mma.m16n8k16.f32.f16.f16.f32",
        shape: MmaShape { m: 16, n: 8, k: 16, element_bits: 16 },
        a: DType::F16,
        b: DType::F16,
        c: DType::F32,
        min_architecture: 80,
    },
    Instruction {
        name: "mma.m16n8k16.f16.f16.f16.f16",
        shape: MmaShape { m: 16, n: 8, k: 16, element_bits: 16 },
        a: DType::F16,
        b: DType::F16,
        c: DType::F16,
        min_architecture: 80,
    },
];

impl<'k, 'm> Expander<'k, 'm, '_> {
    pub(super) fn tensor_core(
        &mut self,
        name: &str,
        a: &TileValues<'m>,
        b: &TileValues<'m>,
        c: &TileValues<'m>,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let refuse = |place: &Place, reason: String| {
            Err(ExpandError::Instruction { place: place.clone(), instruction: name.to_owned(), reason })
        };
        let Some(instruction) = INSTRUCTIONS.iter().find(|row| row.name == name) else {
            return refuse(&self.place, "no such row in the table of matrix instructions".to_owned());
        };
        if self.target.architecture < instruction.min_architecture {
            let reason =
                format!("sm_{} lacks it; sm_{} has it", self.target.architecture, instruction.min_architecture);
            return refuse(&self.place, reason);
        }
        let elements = [a.ty.element, b.ty.element, c.ty.element];
        if elements != [instruction.a, instruction.b, instruction.c] {
            return refuse(&self.place, format!("operands are {elements:?}"));
        }
        let MmaShape { m, n, k, .. } = instruction.shape;
        let fragment = |error| super::super::layout_error(self.place.clone(), &error);
        let a_fragment = instruction.shape.operand_a([m, k], [1, 1]).map_err(fragment)?;
        let b_fragment = instruction.shape.operand_b([k, n], [1, 1]).map_err(fragment)?;
        let c_fragment = instruction.shape.accumulator([m, n], [1, 1]).map_err(fragment)?;
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
        for step in (0..depth).step_by(k as usize) {
            for first in (0..sums.len()).step_by(c_count) {
                let at = c.ty.layout.coordinates(first as u32, 0, 0);
                let (Some(left), Some(right)) = (a_registers.find(&[at[0], step]), b_registers.find(&[step, at[1]]))
                else {
                    return Err(self.misfit("a warp does not hold the fragments that its elements need"));
                };
                let left: Vec<_> = (0..a_count).map(|i| a.registers[left ^ i]).collect();
                let right: Vec<_> = (0..b_count).map(|i| b.registers[right ^ i]).collect();
                let result = self.mma_sync(instruction, &left, &right, &sums[first..first + c_count])?;
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

    /// One instruction. Source: PTX ISA, "mma".
    fn mma_sync(
        &mut self,
        instruction: &Instruction,
        a: &[Value<'m>],
        b: &[Value<'m>],
        c: &[Value<'m>],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let pairs = |e: &Self, values: &[Value<'m>]| -> Result<Vec<Value<'m>>, ExpandError> {
            let half = context.f16_type();
            let pair = context.vector_type(2, half)?;
            values.chunks(2).map(|chunk| e.pure("vector.from_elements", chunk, pair)).collect()
        };
        let left = pairs(self, a)?;
        let right = pairs(self, b)?;
        let packed = instruction.c == DType::F16;
        let sums = if packed { pairs(self, c)? } else { c.to_vec() };
        let field = sums.first().map(|value| value.ty()).ok_or_else(|| self.malformed("an empty fragment"))?;
        let fields = vec![field.to_string(); sums.len()].join(", ");
        let MmaShape { m, n, k, .. } = instruction.shape;
        let result = self
            .at
            .op("nvvm.mma.sync")
            .operands(&left)
            .operands(&right)
            .operands(&sums)
            .segments(&[left.len() as i32, right.len() as i32, sums.len() as i32])
            .attribute("shape", context.parse_attribute(&format!("#nvvm.shape<m = {m}, n = {n}, k = {k}>"))?)
            .attribute("layoutA", context.parse_attribute("#nvvm.mma_layout<row>")?)
            .attribute("layoutB", context.parse_attribute("#nvvm.mma_layout<col>")?)
            .attribute("multiplicandAPtxType", context.parse_attribute("#nvvm.mma_type<f16>")?)
            .attribute("multiplicandBPtxType", context.parse_attribute("#nvvm.mma_type<f16>")?)
            .results(&[context.parse_type(&format!("!llvm.struct<({fields})>"))?])
            .value()?;
        let mut values = Vec::new();
        for index in 0..sums.len() {
            let value = self.extract(result, index, field)?;
            if packed {
                let half = context.f16_type();
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
