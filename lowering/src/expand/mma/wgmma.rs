//! `hw.wgmma`: products by warpgroups, of slots of shared memory, or of a tile in registers by a slot.
//!
//! Sources: PTX ISA, "wgmma.mma_async", "Matrix Descriptor Format", and for the left operand in registers "Register Fragments". Instructions are
//! issued, committed and waited for in one place: where other code reads accumulators that are in flight, ptxas serialises.

use tenon_hw_dialect::Scalar;
use tenon_ir::{Op, Type, Value};
use tenon_layout::{SharedLayout, wgmma_accumulator, wgmma_operand_a};
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
    /// Steps of k in a row of the swizzle, and from there to the next row.
    steps_of_row: u32,
    row: u32,
    /// From 64 rows to the next, or 64 columns.
    block: u32,
}

impl Operand {
    /// Of a tile in `layout`, whose dimension `k_dim` is summed over in steps of `depth`.
    fn of(layout: &SharedLayout, k_dim: usize, element_bytes: u32, depth: u32) -> Option<Self> {
        let lies = |order: [usize; 2]| {
            SharedLayout::tma(layout.shape(), &order, element_bytes, SWIZZLE_BYTES).is_ok_and(|tma| tma == *layout)
        };
        let (k, others) = (layout.shape()[k_dim], layout.shape()[1 - k_dim]);
        if lies([k_dim, 1 - k_dim]) {
            let step = depth * element_bytes / 16;
            return Some(Operand {
                k_major: true,
                step,
                steps_of_row: SWIZZLE_BYTES / 16 / step.max(1),
                row: others * SWIZZLE_BYTES / 16,
                block: ROWS * SWIZZLE_BYTES / 16,
            });
        }
        // Only elements of 16 bits are transposed on the way.
        (element_bytes == 2 && lies([1 - k_dim, k_dim])).then_some(Operand {
            k_major: false,
            step: depth * SWIZZLE_BYTES / 16,
            steps_of_row: u32::MAX,
            row: 0,
            block: k * SWIZZLE_BYTES / 16,
        })
    }

    /// The bits of the low half of a descriptor above the address: the distance of blocks, where it counts.
    fn leading(self) -> u32 {
        if self.k_major { 1 << 16 } else { self.block << 16 }
    }

    /// Where a step of k begins.
    fn at(self, step: u32) -> u32 {
        step / self.steps_of_row * self.row + step % self.steps_of_row * self.step
    }
}

/// The left operand.
enum Left<'m> {
    /// The low half of the descriptor of a warpgroup's first row.
    Shared(Value<'m>, Operand),
    /// Words of fragments, by repeats along k, then by 64 rows.
    Registers(Vec<Value<'m>>),
}

/// The left operand of one instruction.
enum LeftStep<'m> {
    /// A descriptor, and whether elements along k are not consecutive.
    Shared(Value<'m>, bool),
    /// The words of a fragment.
    Registers(Vec<Value<'m>>),
}

/// Words of a fragment of the left operand: 64 rows of 32 bytes over 128 threads.
const FRAGMENT_WORDS: usize = 4;

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.wgmma`.
    pub(in crate::expand) fn wgmma(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let name = op.string("instruction").unwrap_or_default();
        let ty = self.result_type(op, 0)?;
        let a = op.operand(0).ok_or_else(|| self.malformed("operand 0 is missing"))?;
        let in_registers = a.ty().to_string().starts_with("!hw.tile");
        let b_index = if in_registers { 1 } else { 2 };
        let (b, b_slot) = (self.shared_tile(op, b_index)?, self.scalar(op, b_index + 1)?);
        let c = if op.operand_count() > b_index + 2 { Some(self.tile(op, b_index + 2)?) } else { None };
        if c.as_ref().is_some_and(|c| *c.ty != *ty) {
            return Err(self.misfit("the result is not of the accumulator's type"));
        }
        let row = self.warpgroup_instruction(&name)?;
        let (a_element, a_shape) = if in_registers {
            let a = self.tile(op, 0)?;
            (a.ty.element, a.ty.shape().to_vec())
        } else {
            let a = self.shared_tile(op, 0)?;
            (a.ty.element, a.ty.layout.shape().to_vec())
        };
        let elements = [a_element, b.ty.element, ty.element];
        if elements != [row.a, row.b, row.c] {
            return self.refuse(&name, format!("operands are of {}, {} and {}", elements[0], elements[1], elements[2]));
        }
        let ([m, k], [k2, n], [m2, n2]) =
            (self.matrix(&a_shape)?, self.matrix(b.ty.layout.shape())?, self.matrix(ty.shape())?);
        let groups = self.warps / 4;
        let fits = k == k2 && m == m2 && n == n2 && n == row.n && k.is_multiple_of(row.k);
        if !fits || groups == 0 || !m.is_multiple_of(ROWS * groups) {
            return Err(self.misfit(format!("[{m}, {k}] · [{k2}, {n}] + [{m2}, {n2}] by {groups} warpgroups")));
        }
        if self.fit(wgmma_accumulator([m, n], [groups, 1]))? != ty.layout {
            return Err(self.misfit("the accumulator does not lie as the warpgroups hold it"));
        }
        let bytes = a_element.size() as u32;
        let blocks = m / (ROWS * groups);
        let right = self.operand(&b, 0, bytes, row.k)?;
        let mut left = if in_registers {
            let a = self.tile(op, 0)?;
            if self.fit(wgmma_operand_a([m, k], 8 * bytes, [groups, 1]))? != a.ty.layout {
                return Err(self.misfit("operand a does not lie as the warpgroups read it"));
            }
            Left::Registers(self.words(&a.registers, a_element)?)
        } else {
            let (a, slot) = (self.shared_tile(op, 0)?, self.scalar(op, 1)?);
            let operand = self.operand(&a, 1, bytes, row.k)?;
            let by_group = if groups > 1 { blocks * operand.block } else { 0 };
            Left::Shared(self.descriptor(&a, slot, operand, by_group)?, operand)
        };
        let b_start = self.descriptor(&b, b_slot, right, 0)?;

        let field = self.register_type(row.c);
        let per_block = (n / 2) as usize;
        let context = self.at.context();
        let fields = vec![field.to_string(); per_block].join(", ");
        let sums: Type<'m> = context.parse_type(&format!("!llvm.struct<({fields})>"))?;
        // What is not an operand of the fence may be copied to its registers behind it, and what is none of the wait may be read before it.
        let mut fenced = c.as_ref().map_or(Vec::new(), |c| c.registers.to_vec());
        let accumulators = fenced.len();
        if let Left::Registers(words) = &left {
            fenced.extend(words);
        }
        let mut fenced = self.through("wgmma.fence.sync.aligned;", &fenced)?;
        let words = fenced.split_off(accumulators);
        if let Left::Registers(own) = &mut left {
            *own = words;
        }
        let mut chains: Vec<Vec<Value<'m>>> = match c {
            Some(_) => fenced.chunks(per_block).map(<[_]>::to_vec).collect(),
            None => vec![Vec::new(); blocks as usize],
        };
        let steps = k / row.k;
        for step in 0..steps {
            let right_descriptor = self.descriptor_at(b_start, right.at(step))?;
            for (block, chain) in (0..).zip(&mut chains) {
                let left = match &left {
                    Left::Shared(start, operand) => {
                        let units = block * operand.block + operand.at(step);
                        LeftStep::Shared(self.descriptor_at(*start, units)?, !operand.k_major)
                    }
                    Left::Registers(words) => {
                        let first = (block * steps + step) as usize * FRAGMENT_WORDS;
                        let fragment = words.get(first..first + FRAGMENT_WORDS);
                        let fragment = fragment.ok_or_else(|| self.misfit("a fragment is missing"))?;
                        LeftStep::Registers(fragment.to_vec())
                    }
                };
                *chain = self.mma_async(row, sums, chain, left, (right_descriptor, !right.k_major))?;
            }
        }
        self.at.op("nvvm.wgmma.commit.group.sync.aligned").build()?;
        let registers = self.through("wgmma.wait_group.sync.aligned 0;", &chains.concat())?;
        self.set_tile(op, 0, registers)
    }

    /// How an operand in shared memory lies, whose dimension `k_dim` is summed over in steps of `depth`.
    fn operand(&self, shared: &SharedTile, k_dim: usize, bytes: u32, depth: u32) -> Result<Operand, ExpandError> {
        self.check_pattern(shared)?;
        Operand::of(&shared.ty.layout, k_dim, bytes, depth)
            .ok_or_else(|| self.misfit("an operand does not lie in rows of 128 bytes with the swizzle of that width"))
    }

    /// Elements as words of 32 bits.
    fn words(&self, registers: &[Value<'m>], element: DType) -> Result<Vec<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let element = if element.is_float() && element.bits() == 8 { DType::I8 } else { element };
        let packed = 32 / element.bits().max(1);
        let vector = context.vector_type(packed, self.register_type(element))?;
        let word = |chunk: &[Value<'m>]| {
            let whole = self.pure("vector.from_elements", chunk, vector)?;
            self.pure("llvm.bitcast", &[whole], context.i32_type())
        };
        registers.chunks(packed as usize).map(word).collect()
    }

    /// An instruction that registers pass through, without a change.
    fn through(&self, text: &str, registers: &[Value<'m>]) -> Result<Vec<Value<'m>>, ExpandError> {
        if registers.is_empty() {
            self.inline_ptx(text, "", &[], None)?;
            return Ok(Vec::new());
        }
        let context = self.at.context();
        let class = |value: &Value<'m>| if value.ty() == context.i32_type() { "=r" } else { "=f" };
        let written = registers.iter().map(|value| class(value).to_owned());
        let read = (0..registers.len()).map(|index| index.to_string());
        let constraints: Vec<_> = written.chain(read).collect();
        let fields = registers.iter().map(|value| value.ty().to_string()).collect::<Vec<_>>().join(", ");
        let ty = context.parse_type(&format!("!llvm.struct<({fields})>"))?;
        let whole = self.inline_ptx(text, &constraints.join(","), registers, Some(ty))?;
        let whole = whole.ok_or_else(|| self.malformed("an instruction without a result"))?;
        let fields = registers.iter().enumerate();
        fields.map(|(index, value)| self.extract(whole, index, value.ty())).collect()
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

    /// One instruction, whose accumulators are read and written, or written alone where there are none yet. Of an operand in shared memory it is
    /// said whether elements along k are not consecutive.
    fn mma_async(
        &mut self,
        row: &MatrixInstruction,
        sums: Type<'m>,
        chain: &[Value<'m>],
        left: LeftStep<'m>,
        (right, right_transposed): (Value<'m>, bool),
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let count = (row.n / 2) as usize;
        let field = self.register_type(row.c);
        let class = if row.c.is_float() { "f" } else { "r" };
        let list: Vec<_> = (0..count).map(|index| format!("${index}")).collect();
        // The first operands behind the results are the accumulators once more.
        let first = count + chain.len();
        let (a, a_values, a_class, mut transposed) = match left {
            LeftStep::Shared(descriptor, transposed) => {
                (format!("${first}"), vec![descriptor], "l", vec![u32::from(transposed)])
            }
            LeftStep::Registers(words) => {
                let list: Vec<_> = (first..first + words.len()).map(|index| format!("${index}")).collect();
                (format!("{{{}}}", list.join(", ")), words, "r", Vec::new())
            }
        };
        transposed.push(u32::from(right_transposed));
        // Scales of sums and operands, then for elements of 16 bits whether operands in shared memory are transposed.
        let mut scales = if chain.is_empty() { "0" } else { "1" }.to_owned();
        if row.c.is_float() {
            scales.push_str(", 1, 1");
        }
        if row.a.bits() == 16 {
            transposed.iter().for_each(|transposed| scales.push_str(&format!(", {transposed}")));
        }
        let MatrixInstruction { m, n, k, .. } = row;
        let types = [row.c, row.a, row.b].map(|element| type_name(element).unwrap_or_default()).join(".");
        let text = format!(
            "wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{types} {{{}}}, {a}, ${}, {scales};",
            list.join(", "),
            first + a_values.len(),
        );
        let written = vec![format!("={class}"); count];
        let read = (0..chain.len()).map(|index| index.to_string());
        let operands = a_values.iter().map(|_| a_class.to_owned()).chain(["l".to_owned()]);
        let constraints: Vec<_> = written.into_iter().chain(read).chain(operands).collect();
        let values: Vec<_> = chain.iter().copied().chain(a_values).chain([right]).collect();
        let whole = self.inline_ptx(&text, &constraints.join(","), &values, Some(sums))?;
        let whole = whole.ok_or_else(|| self.malformed("an instruction without a result"))?;
        (0..count).map(|index| self.extract(whole, index, field)).collect()
    }
}
