//! `hw.wgmma`: products of slots of shared memory by warpgroups.
//!
//! Sources: PTX ISA, "wgmma.mma_async" and "Matrix Descriptor Format". Instructions are issued, committed and waited for in one place: where
//! other code reads accumulators that are in flight, ptxas serialises.

use tenon_hw_dialect::Scalar;
use tenon_ir::{Op, Type, Value};
use tenon_layout::{SharedLayout, wgmma_accumulator};
use tenon_target::{FragmentScheme, Instructions, MatrixInstruction};
use tenon_tensor::DType;

use super::super::shared::SharedTile;
use super::super::{ExpandError, Expander};

/// Bytes of the swizzle: a row of 64 elements of 16 bits, or 128 of 8.
const SWIZZLE_BYTES: u32 = 128;
/// Rows of an instruction.
const ROWS: u32 = 64;
/// The high half of a descriptor: the widest swizzle, and 1024 bytes from eight rows to the next.
const DESCRIPTOR_HIGH: i64 = 1 << 30 | 1024 / 16;

/// The name of an element type in PTX.
fn type_name(element: DType) -> Option<&'static str> {
    Some(match element {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::I8 => "s8",
        DType::U8 => "u8",
        DType::I32 => "s32",
        DType::F8E4M3FN => "e4m3",
        DType::F8E5M2 => "e5m2",
        _ => return None,
    })
}

/// How an operand lies in a slot, in units of 16 bytes.
#[derive(Clone, Copy)]
struct Operand {
    /// Whether elements along k are consecutive.
    k_major: bool,
    /// From one step of k to the next.
    step: u32,
    /// From 64 rows to the next, or 64 columns.
    block: u32,
}

impl Operand {
    /// Of a tile in `layout`, whose dimension `k_dim` is summed over in steps of `depth`.
    fn of(layout: &SharedLayout, k_dim: usize, element_bytes: u32, depth: u32) -> Option<Self> {
        let lies = |order: [usize; 2]| {
            SharedLayout::tma(layout.shape(), &order, element_bytes, SWIZZLE_BYTES).is_ok_and(|tma| tma == *layout)
        };
        let k = layout.shape()[k_dim];
        if k * element_bytes == SWIZZLE_BYTES && lies([k_dim, 1 - k_dim]) {
            let block = ROWS * SWIZZLE_BYTES / 16;
            return Some(Operand { k_major: true, step: depth * element_bytes / 16, block });
        }
        // Only elements of 16 bits are transposed on the way.
        (element_bytes == 2 && lies([1 - k_dim, k_dim])).then_some(Operand {
            k_major: false,
            step: depth * SWIZZLE_BYTES / 16,
            block: k * SWIZZLE_BYTES / 16,
        })
    }

    /// The bits of the low half of a descriptor above the address: the distance of blocks, where it counts.
    fn leading(self) -> u32 {
        if self.k_major { 1 << 16 } else { self.block << 16 }
    }
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.wgmma`.
    pub(in crate::expand) fn wgmma(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let name = op.string("instruction").unwrap_or_default();
        let (a, b, slot, c) =
            (self.shared_tile(op, 0)?, self.shared_tile(op, 1)?, self.scalar(op, 2)?, self.tile(op, 3)?);
        if *self.result_type(op, 0)? != *c.ty {
            return Err(self.misfit("the result is not of the accumulator's type"));
        }
        let row = self.warpgroup_instruction(&name)?;
        let elements = [a.ty.element, b.ty.element, c.ty.element];
        if elements != [row.a, row.b, row.c] {
            return self.refuse(&name, format!("operands are of {}, {} and {}", elements[0], elements[1], elements[2]));
        }
        let ([m, k], [k2, n], [m2, n2]) =
            (self.matrix(a.ty.layout.shape())?, self.matrix(b.ty.layout.shape())?, self.matrix(c.ty.shape())?);
        let groups = self.warps / 4;
        let fits = k == k2 && m == m2 && n == n2 && n == row.n && k.is_multiple_of(row.k);
        if !fits || groups == 0 || !m.is_multiple_of(ROWS * groups) {
            return Err(self.misfit(format!("[{m}, {k}] · [{k2}, {n}] + [{m2}, {n2}] by {groups} warpgroups")));
        }
        if self.fit(wgmma_accumulator([m, n], [groups, 1]))? != c.ty.layout {
            return Err(self.misfit("the accumulator does not lie as the warpgroups hold it"));
        }
        let bytes = a.ty.element.size() as u32;
        let left = Operand::of(&a.ty.layout, 1, bytes, row.k);
        let right = Operand::of(&b.ty.layout, 0, bytes, row.k);
        let (Some(left), Some(right)) = (left, right) else {
            return Err(self.misfit("an operand does not lie in rows of 128 bytes with the swizzle of that width"));
        };
        self.check_pattern(&a)?;
        self.check_pattern(&b)?;
        let blocks = m / (ROWS * groups);
        let a_start = self.descriptor(&a, slot, left, if groups > 1 { blocks * left.block } else { 0 })?;
        let b_start = self.descriptor(&b, slot, right, 0)?;

        let field = self.register_type(row.c);
        let per_block = (n / 2) as usize;
        let context = self.at.context();
        let fields = vec![field.to_string(); per_block].join(", ");
        let sums: Type<'m> = context.parse_type(&format!("!llvm.struct<({fields})>"))?;
        // What is not an operand of the fence may be copied to its registers behind it, and what is none of the wait may be read before it.
        let registers = self.through("wgmma.fence.sync.aligned;", &c.registers, field)?;
        let mut chains: Vec<Vec<Value<'m>>> = registers.chunks(per_block).map(<[_]>::to_vec).collect();
        for step in 0..k / row.k {
            let right_descriptor = self.descriptor_at(b_start, step * right.step)?;
            for (block, chain) in (0..).zip(&mut chains) {
                let left_descriptor = self.descriptor_at(a_start, block * left.block + step * left.step)?;
                *chain = self.mma_async(row, sums, chain, [left_descriptor, right_descriptor], [left, right])?;
            }
        }
        self.at.op("nvvm.wgmma.commit.group.sync.aligned").build()?;
        let registers = self.through("wgmma.wait_group.sync.aligned 0;", &chains.concat(), field)?;
        self.set_tile(op, 0, registers)
    }

    /// An instruction that accumulators pass through, without a change.
    fn through(&self, text: &str, registers: &[Value<'m>], field: Type<'m>) -> Result<Vec<Value<'m>>, ExpandError> {
        let class = if field == self.at.context().i32_type() { "=r" } else { "=f" };
        let written = vec![class.to_owned(); registers.len()];
        let read = (0..registers.len()).map(|index| index.to_string());
        let constraints: Vec<_> = written.into_iter().chain(read).collect();
        let fields = vec![field.to_string(); registers.len()].join(", ");
        let ty = self.at.context().parse_type(&format!("!llvm.struct<({fields})>"))?;
        let whole = self.inline_ptx(text, &constraints.join(","), registers, Some(ty))?;
        let whole = whole.ok_or_else(|| self.malformed("an instruction without a result"))?;
        (0..registers.len()).map(|index| self.extract(whole, index, field)).collect()
    }

    fn warpgroup_instruction(&self, name: &str) -> Result<&'static MatrixInstruction, ExpandError> {
        let row = match Instructions::table().matrix_instruction(name) {
            Ok(row) => row,
            Err(error) => return self.refuse(name, error.to_string()),
        };
        if let Err(error) = Instructions::table().is_available(name, self.target.architecture) {
            return self.refuse(name, error.to_string());
        }
        let named = [row.a, row.b, row.c].into_iter().all(|element| type_name(element).is_some());
        if row.fragments != FragmentScheme::Wgmma || row.m != ROWS || row.tf32 || !named {
            return self.refuse(name, "it is no instruction of a warpgroup on such operands");
        }
        Ok(row)
    }

    /// The low half of the descriptor of a slot's start, an i32; `by_group` units further on for each warpgroup.
    fn descriptor(
        &mut self,
        shared: &SharedTile,
        slot: Value<'m>,
        operand: Operand,
        by_group: u32,
    ) -> Result<Value<'m>, ExpandError> {
        let mut start = self.descriptor_start(shared)?;
        let leading = self.i32(i64::from(operand.leading()))?;
        if by_group > 0 {
            let (index, seven, units) = (self.thread_index()?, self.i32(7)?, self.i32(i64::from(by_group))?);
            let code = Scalar::new(self.prologue());
            let group = code.op("arith.shrui", &[index, seven])?;
            start = code.add(start, code.mul(group, units)?)?;
        }
        start = Scalar::new(self.prologue()).add(start, leading)?;
        if shared.ty.slots <= 1 {
            return Ok(start);
        }
        let units = self.i32((shared.slot_bytes() / 16) as i64)?;
        let offset = self.binary("arith.muli", slot, units)?;
        self.binary("arith.addi", start, offset)
    }

    /// A descriptor some units from a start.
    fn descriptor_at(&mut self, start: Value<'m>, units: u32) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        let low = if units == 0 {
            start
        } else {
            let units = self.i32(i64::from(units))?;
            self.binary("arith.addi", start, units)?
        };
        let low = self.pure("arith.extui", &[low], context.i64_type())?;
        let high = self.constant(context.i64(DESCRIPTOR_HIGH << 32))?;
        self.binary("arith.ori", low, high)
    }

    /// One instruction, whose accumulators are read and written.
    fn mma_async(
        &mut self,
        row: &MatrixInstruction,
        sums: Type<'m>,
        chain: &[Value<'m>],
        descriptors: [Value<'m>; 2],
        operands: [Operand; 2],
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let count = chain.len();
        let field = self.register_type(row.c);
        let class = if row.c.is_float() { "f" } else { "r" };
        let list: Vec<_> = (0..count).map(|index| format!("${index}")).collect();
        // Scales of sums and operands, then for elements of 16 bits whether operands are transposed.
        let mut scales = "1".to_owned();
        if row.c.is_float() {
            scales.push_str(", 1, 1");
        }
        if row.a.bits() == 16 {
            let transposed = operands.map(|operand| u32::from(!operand.k_major));
            scales.push_str(&format!(", {}, {}", transposed[0], transposed[1]));
        }
        let MatrixInstruction { m, n, k, .. } = row;
        let types = [row.c, row.a, row.b].map(|element| type_name(element).unwrap_or_default()).join(".");
        // The first operands behind the results are the accumulators once more.
        let text = format!(
            "wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{types} {{{}}}, ${}, ${}, {scales};",
            list.join(", "),
            2 * count,
            2 * count + 1,
        );
        let written = vec![format!("={class}"); count];
        let read = (0..count).map(|index| index.to_string());
        let constraints: Vec<_> = written.into_iter().chain(read).chain(["l".to_owned(), "l".to_owned()]).collect();
        let values: Vec<_> = chain.iter().copied().chain(descriptors).collect();
        let whole = self.inline_ptx(&text, &constraints.join(","), &values, Some(sums))?;
        let whole = whole.ok_or_else(|| self.malformed("an instruction without a result"))?;
        (0..count).map(|index| self.extract(whole, index, field)).collect()
    }
}
