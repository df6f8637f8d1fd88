//! Matrix instructions: rows of the table and what follows from shape and types.

use serde::Deserialize;
use tenon_tensor::DType;

use super::{Emission, Requirements};
use crate::{ArchitectureName, Version};

/// How the fragments of operands lie over registers and lanes. PTX ISA, "Matrix Fragments for mma.…" and "Register Fragments and
/// Shared Memory Matrix Layouts" of wgmma. Ordered from the slowest to the fastest where an architecture has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FragmentScheme {
    /// f16 `mma.m8n8k4`: a warp computes four, one for each pair of quads.
    Volta,
    /// The common scheme of `mma.sync` with n = 8, over a warp.
    Mma,
    /// `wgmma`: four warps; A and B in shared memory, the accumulator in registers.
    Wgmma,
}

/// Order of an operand's elements, as the instruction's qualifiers `.row` and `.col` name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Order {
    Row,
    Column,
}

/// `d = a · b + c`, with d of the type of c.
#[derive(Clone, Debug)]
pub struct MatrixInstruction {
    /// `mma.m16n8k16.f32.f16.f16.f32` (types of d, a, b, c), `wgmma.m64n128k16.f32.f16.f16` (d, a, b).
    pub name: String,
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Element type of A.
    pub a: DType,
    /// Element type of B.
    pub b: DType,
    /// Element type of the accumulator.
    pub c: DType,
    /// Whether A and B, of type f32, are read as tf32: with a mantissa of ten bits.
    pub tf32: bool,
    /// Order of A in fragments; of a fragment scheme other than [`FragmentScheme::Volta`], always `Row`.
    pub a_order: Order,
    /// Order of B in fragments; of a fragment scheme other than [`FragmentScheme::Volta`], always `Column`.
    pub b_order: Order,
    /// How fragments lie over registers and lanes.
    pub fragments: FragmentScheme,
    /// The first architecture that has it.
    pub minimum_architecture: ArchitectureName,
    /// The only architectures that have it, unless empty.
    pub exact_architectures: Vec<ArchitectureName>,
    /// The first PTX version that has it.
    pub ptx_version: Version,
    /// How it is emitted.
    pub emission: Emission,
    /// The instruction in PTX, with `$d`, `$a`, `$b`, `$c` (or `$adesc`, `$bdesc`) for the operands.
    pub ptx: String,
}

/// A row of the file: one instruction, or one for each of several n.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    name: String,
    m: u32,
    n: Widths,
    k: u32,
    a: String,
    b: String,
    c: String,
    #[serde(default)]
    tf32: bool,
    a_order: Option<Order>,
    b_order: Option<Order>,
    fragments: FragmentScheme,
    minimum_architecture: ArchitectureName,
    #[serde(default)]
    exact_architectures: Vec<ArchitectureName>,
    ptx_version: Version,
    emission: Emission,
    ptx: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Widths {
    One(u32),
    Several(Vec<u32>),
}

impl Row {
    pub(super) fn expand(self) -> Result<Vec<MatrixInstruction>, String> {
        let dtype = |name: &str| name.parse::<DType>().map_err(|error| format!("{}: {error}", self.name));
        let (a, b, c) = (dtype(&self.a)?, dtype(&self.b)?, dtype(&self.c)?);
        if self.tf32 && (a, b) != (DType::F32, DType::F32) {
            return Err(format!("{}: tf32 operands are of type f32", self.name));
        }
        let widths = match &self.n {
            Widths::One(n) => vec![*n],
            Widths::Several(widths) => widths.clone(),
        };
        let named = |n: u32| self.name.replace("$n", &n.to_string());
        let instruction = |n: u32| {
            let row = MatrixInstruction {
                name: named(n),
                m: self.m,
                n,
                k: self.k,
                a,
                b,
                c,
                tf32: self.tf32,
                a_order: self.a_order.unwrap_or(Order::Row),
                b_order: self.b_order.unwrap_or(Order::Column),
                fragments: self.fragments,
                minimum_architecture: self.minimum_architecture,
                exact_architectures: self.exact_architectures.clone(),
                ptx_version: self.ptx_version,
                emission: self.emission.clone(),
                ptx: self.ptx.replace("$n", &n.to_string()),
            };
            row.check().map(|()| row)
        };
        widths.into_iter().map(instruction).collect()
    }
}

impl MatrixInstruction {
    /// What an architecture must be to have it.
    pub fn requirements(&self) -> Requirements<'_> {
        Requirements {
            minimum_architecture: self.minimum_architecture,
            exact_architectures: &self.exact_architectures,
            ptx_version: self.ptx_version,
        }
    }

    /// Multiply-adds of one instruction of a warp or, for wgmma, of a warpgroup.
    pub fn multiply_adds(&self) -> u64 {
        u64::from(self.m) * u64::from(self.n) * u64::from(self.k) * u64::from(self.copies())
    }

    /// Threads that execute it together.
    pub fn threads(&self) -> u32 {
        match self.fragments {
            FragmentScheme::Mma | FragmentScheme::Volta => 32,
            FragmentScheme::Wgmma => 128,
        }
    }

    /// 32-bit registers of a thread for its fragment of A; 0 where A is in shared memory.
    pub fn a_registers(&self) -> u32 {
        if self.fragments == FragmentScheme::Wgmma { 0 } else { self.registers(self.m * self.k, self.a) }
    }

    /// 32-bit registers of a thread for its fragment of B; 0 where B is in shared memory.
    pub fn b_registers(&self) -> u32 {
        if self.fragments == FragmentScheme::Wgmma { 0 } else { self.registers(self.k * self.n, self.b) }
    }

    /// 32-bit registers of a thread for its fragment of the accumulator.
    pub fn c_registers(&self) -> u32 {
        self.registers(self.m * self.n, self.c)
    }

    fn registers(&self, elements: u32, dtype: DType) -> u32 {
        elements * self.copies() * dtype.bits() / (32 * self.threads())
    }

    /// Products that a warp computes at once.
    fn copies(&self) -> u32 {
        if self.fragments == FragmentScheme::Volta { 4 } else { 1 }
    }

    fn check(&self) -> Result<(), String> {
        let shape = format!("m{}n{}k{}", self.m, self.n, self.k);
        if !self.name.contains(&format!(".{shape}.")) || !self.ptx.contains(&format!(".{shape}.")) {
            return Err(format!("{}: name and PTX must have the shape, {shape}", self.name));
        }
        if [self.m, self.n, self.k].iter().any(|size| !(1..=256).contains(size)) {
            return Err(format!("{}: a dimension is not between 1 and 256", self.name));
        }
        let whole =
            |elements: u32, dtype: DType| (elements * self.copies() * dtype.bits()).is_multiple_of(32 * self.threads());
        let operands =
            self.fragments == FragmentScheme::Wgmma || whole(self.m * self.k, self.a) && whole(self.k * self.n, self.b);
        if !operands || !whole(self.m * self.n, self.c) {
            return Err(format!("{}: a fragment does not fill whole registers", self.name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Instructions;

    /// The PTX ISA's "Matrix Fragments" sections state the registers of each.
    #[test]
    fn registers_of_fragments() {
        let cases = [
            ("mma.m8n8k4.f32.f16.f16.f32", [2, 2, 8]),
            ("mma.m8n8k4.f16.f16.f16.f16", [2, 2, 4]),
            ("mma.m16n8k8.f32.f16.f16.f32", [2, 1, 4]),
            ("mma.m16n8k16.f32.f16.f16.f32", [4, 2, 4]),
            ("mma.m16n8k16.f16.f16.f16.f16", [4, 2, 2]),
            ("mma.m16n8k4.f32.tf32.tf32.f32", [2, 1, 4]),
            ("mma.m8n8k4.f64.f64.f64.f64", [2, 2, 4]),
            ("mma.m8n8k16.s32.s8.s8.s32", [1, 1, 2]),
            ("mma.m16n8k32.s32.u8.s8.s32", [4, 2, 4]),
            ("mma.m16n8k64.s32.s4.s4.s32", [4, 2, 4]),
            ("mma.m16n8k32.f32.e4m3.e5m2.f32", [4, 2, 4]),
            ("wgmma.m64n128k16.f32.f16.f16", [0, 0, 64]),
            ("wgmma.m64n8k16.f16.f16.f16", [0, 0, 2]),
        ];
        for (name, registers) in cases {
            let row = Instructions::table().matrix_instruction(name).unwrap();
            assert_eq!([row.a_registers(), row.b_registers(), row.c_registers()], registers, "{name}");
        }
    }

    #[test]
    fn names_are_made_of_shape_and_types() {
        let ptx_type = |dtype: DType, tf32: bool| match dtype {
            DType::F8E4M3FN => "e4m3".to_owned(),
            DType::F8E5M2 => "e5m2".to_owned(),
            _ if tf32 => "tf32".to_owned(),
            _ if dtype.is_float() => dtype.name().to_owned(),
            _ if dtype.is_signed() => dtype.name().replace('i', "s"),
            _ => dtype.name().replace("ui", "u"),
        };
        for row in Instructions::table().matrix_instructions() {
            let accumulator = ptx_type(row.c, false);
            let mut types = vec![accumulator.clone(), ptx_type(row.a, row.tf32), ptx_type(row.b, row.tf32)];
            if row.fragments != FragmentScheme::Wgmma {
                types.push(accumulator);
            }
            let types = format!(".{}", types.join("."));
            assert!(row.name.ends_with(&types) && row.ptx.contains(&format!("{types} ")), "{}", row.name);
            let columns = [row.a_order, row.b_order].map(|order| if order == Order::Row { "row" } else { "col" });
            if row.fragments != FragmentScheme::Wgmma {
                assert!(row.ptx.contains(&format!(".{}.{}.", columns[0], columns[1])), "{}", row.name);
            }
        }
    }
}
