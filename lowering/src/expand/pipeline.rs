//! Warps with roles, barriers in shared memory that count, and copies by tensor maps.
//!
//! Sources: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "bar". The first thread of the producer warps runs the region of `hw.producer`; what
//! stands behind it is in the other branch, so that barriers there are those of the other warps, by a number of their own.

use tenon_hw_dialect::{IntegerPredicate, Scalar, TensorMapType};
use tenon_ir::{Builder, Op, Type, Value};
use tenon_layout::SharedLayout;

use super::shared::SharedTile;
use super::values::Lowered;
use super::{ExpandError, Expander};

/// Nanoseconds that a thread may sleep before it looks at a barrier again.
const SUSPEND_NS: u32 = 10_000_000;
/// The named barrier of the warps that compute; 0 is the whole block's.
const CONSUMERS: i64 = 1;

/// Tries until the phase is complete; the labels are the text's own.
fn wait_text() -> String {
    format!(
        "{{\n\t.reg .pred complete;\n\twait:\n\tmbarrier.try_wait.parity.shared.b64 complete, [$0], $1, {SUSPEND_NS};\n\t@complete bra.uni done;\n\tbra.uni wait;\n\tdone:\n\t}}"
    )
}

/// Who runs the code at the present place.
pub(super) enum Role<'m> {
    /// Every warp.
    All,
    /// One thread of the producer warps.
    Producer,
    /// The other warps; the place is behind the branch that they are in.
    Consumers(Builder<'m>),
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.producer`.
    pub(super) fn producer(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        if !matches!(self.role, Role::All) || self.at.block() != self.anchor_block()? {
            return Err(self.malformed("it stands once in a kernel, in the kernel's own block"));
        }
        let body = op.region_block(0).ok_or_else(|| self.malformed("it has no body"))?;
        let index = self.thread_index()?;
        let boundary = self.i32(i64::from(self.warps) * 32)?;
        let code = Scalar::new(self.at);
        let consumes = code.compare_int(IntegerPredicate::UnsignedLess, index, boundary)?;
        let outside = self.at;
        let branch = outside.op("scf.if").operands(&[consumes]).regions(2).build()?;
        let region = |number| branch.region(number).ok_or_else(|| self.malformed("`scf.if` has no region"));
        let consumers = outside.in_block(region(0)?.append_block(&[])?);
        self.at = outside.in_block(region(1)?.append_block(&[])?);
        let first = Scalar::new(self.at).compare_int(IntegerPredicate::Equal, index, boundary)?;
        self.role = Role::Producer;
        self.branch(
            first,
            &[],
            |e| {
                e.block(body)?;
                Ok(Vec::new())
            },
            None,
        )?;
        self.at.op("scf.yield").build()?;
        self.at = consumers;
        self.role = Role::Consumers(outside);
        // What these warps compute of their index is theirs alone.
        self.renew_thread_values()
    }

    fn anchor_block(&self) -> Result<tenon_ir::Block<'m>, ExpandError> {
        self.anchor.block().ok_or_else(|| self.malformed("the function has no body"))
    }

    /// `hw.return`.
    pub(super) fn end(&mut self) -> Result<(), ExpandError> {
        if let Role::Consumers(outside) = &self.role {
            let outside = *outside;
            self.at.op("scf.yield").build()?;
            self.at = outside;
        }
        self.at.op("llvm.return").build()?;
        Ok(())
    }

    /// `hw.barrier`, and what conversions need: of the block, or behind `hw.producer` of the warps that compute.
    pub(super) fn barrier(&mut self) -> Result<(), ExpandError> {
        match self.role {
            Role::All => self.at.op("nvvm.barrier0").build()?,
            Role::Consumers(_) => {
                let operands = [self.i32(CONSUMERS)?, self.i32(i64::from(self.warps) * 32)?];
                // `nvvm.barrier` with a location behind it does not parse back.
                let context = self.at.context();
                self.at
                    .op("llvm.call_intrinsic")
                    .operands(&operands)
                    .attribute("intrin", context.string("llvm.nvvm.barrier.cta.sync.aligned.count"))
                    .attribute("op_bundle_sizes", context.i32_array(&[]))
                    .segments(&[2, 0])
                    .build()?
            }
            Role::Producer => return Err(self.malformed("one thread of the block waits for all of it")),
        };
        self.shared.scratch_in_use = false;
        Ok(())
    }

    /// `hw.mbarrier_alloc`.
    pub(super) fn mbarrier_alloc(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let arrivals = op.integer("arrivals").filter(|count| (1..1 << 20).contains(count));
        let arrivals = arrivals.ok_or_else(|| self.malformed("arrivals are counted from 1 to 2^20 - 1"))?;
        let start = self.allocate(op)?;
        let result = op.result(0).ok_or_else(|| self.malformed("it has no result"))?;
        let count = tenon_hw_dialect::read_mbarriers(result.ty())?;
        let (index, zero) = (self.thread_index()?, self.i32(0)?);
        let first = Scalar::new(self.at).compare_int(IntegerPredicate::Equal, index, zero)?;
        let arrivals = self.i32(arrivals)?;
        let init = |e: &mut Self| {
            for number in 0..u64::from(count) {
                let address = e.shared_address(start + number * u64::from(super::shared::MBARRIER_BYTES))?;
                e.at.op("nvvm.mbarrier.init").operands(&[address, arrivals]).build()?;
            }
            e.at.op("nvvm.fence.mbarrier.init").build()?;
            Ok(Vec::new())
        };
        self.branch(first, &[], init, None)?;
        self.set(op, 0, Lowered::Mbarriers(start))
    }

    /// `hw.mbarrier_expect`.
    pub(super) fn mbarrier_expect(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let bytes = op.integer("bytes").filter(|bytes| (0..1 << 20).contains(bytes));
        let bytes = bytes.ok_or_else(|| self.malformed("a barrier counts up to 2^20 - 1 bytes"))?;
        let slot = self.scalar(op, 1)?;
        let (address, bytes) = (self.mbarrier(op, 0, slot)?, self.i32(bytes)?);
        self.at.op("nvvm.mbarrier.arrive.expect_tx").operands(&[address, bytes]).build()?;
        Ok(())
    }

    /// `hw.mbarrier_arrive`.
    pub(super) fn mbarrier_arrive(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let slot = self.scalar(op, 1)?;
        let address = self.mbarrier(op, 0, slot)?;
        let arrive = |e: &mut Self| {
            let state = e.at.context().i64_type();
            e.at.op("nvvm.mbarrier.arrive").operands(&[address]).results(&[state]).build()?;
            Ok(Vec::new())
        };
        match self.leads(31, 0)? {
            Some(leads) => self.branch(leads, &[], arrive, None).map(|_| ()),
            None => arrive(self).map(|_| ()),
        }
    }

    /// `hw.mbarrier_wait`.
    pub(super) fn mbarrier_wait(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let (slot, parity) = (self.scalar(op, 1)?, self.scalar(op, 2)?);
        let address = self.mbarrier(op, 0, slot)?;
        self.inline_ptx(&wait_text(), "r,r", &[address, parity], None).map(|_| ())
    }

    /// Instructions that LLVM has no intrinsic for; what they name is numbered, results first.
    pub(super) fn inline_ptx(
        &self,
        text: &str,
        constraints: &str,
        operands: &[Value<'m>],
        result: Option<Type<'m>>,
    ) -> Result<Option<Value<'m>>, ExpandError> {
        let context = self.at.context();
        let results: Vec<Type<'m>> = result.into_iter().collect();
        let op = self
            .at
            .op("llvm.inline_asm")
            .operands(operands)
            .attribute("asm_string", context.string(text))
            .attribute("constraints", context.string(constraints))
            .attribute("has_side_effects", context.unit())
            .results(&results)
            .build()?;
        Ok(op.result(0))
    }

    /// `hw.tma_load`.
    pub(super) fn tma_load(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        if !self.target.architecture.features.tma {
            let architecture = self.target.architecture.name;
            return Err(self.malformed(format!("{architecture} has no copies by tensor maps")));
        }
        let count = op.operand_count();
        if count < 5 {
            return Err(self.malformed("operands are missing"));
        }
        let ty = op.operand(0).ok_or_else(|| self.malformed("it has no tensor map"))?.ty();
        let (ty, map) = (TensorMapType::read(ty)?, self.scalar(op, 0)?);
        let mut coordinates = (1..count - 3).map(|index| self.scalar(op, index)).collect::<Result<Vec<_>, _>>()?;
        let (shared, slot) = (self.shared_tile(op, count - 3)?, self.scalar(op, count - 2)?);
        self.check_boxes(&ty, coordinates.len(), &shared)?;
        let barrier = self.mbarrier(op, count - 1, slot)?;
        let start = self.slot(&shared, slot)?;
        let bytes = ty.elements() * shared.ty.element.size() as u64;
        let first = coordinates[0];
        let context = self.at.context();
        for number in 0..shared.slot_bytes() / bytes {
            let along = self.i32(number as i64 * i64::from(ty.tile[0]))?;
            if number > 0 {
                coordinates[0] = self.binary("arith.addi", first, along)?;
            }
            let target = self.pointer_offset(start, (number * bytes) as u32)?;
            let target = self.pure("llvm.addrspacecast", &[target], context.pointer_type(7))?;
            self.at
                .op("nvvm.cp.async.bulk.tensor.shared.cluster.global")
                .operands(&[target, map])
                .operands(&coordinates)
                .operands(&[barrier])
                .segments(&[1, 1, coordinates.len() as i32, 1, 0, 0, 0, 0])
                .attribute("mode", context.parse_attribute("#nvvm.tma_load_mode<tile>")?)
                .build()?;
        }
        Ok(())
    }

    /// A slot must be filled by boxes one after the other, in the layout that their swizzle leaves.
    fn check_boxes(&self, map: &TensorMapType, coordinates: usize, shared: &SharedTile) -> Result<(), ExpandError> {
        self.check_pattern(shared)?;
        let (element, layout) = (shared.ty.element, &shared.ty.layout);
        if map.element != element || map.tile.len() != coordinates || !(1..=5).contains(&coordinates) {
            return Err(
                self.malformed(format!("boxes of {:?} {} for {coordinates} coordinates", map.tile, map.element))
            );
        }
        let bytes = element.size() as u32;
        let &[rows, columns] = layout.shape() else {
            return Err(self.misfit("boxes are copied to tiles of two dimensions"));
        };
        let others: u64 = map.tile[1..].iter().map(|size| u64::from(*size)).product();
        let fits = [([1, 0], rows), ([0, 1], columns)].into_iter().any(|(order, outer)| {
            SharedLayout::tma(layout.shape(), &order, bytes, map.swizzle).is_ok_and(|swizzled| swizzled == *layout)
                && map.tile[0].checked_mul(bytes) == Some(map.swizzle)
                && others == u64::from(outer)
        });
        if !fits {
            let reason =
                format!("boxes of {:?} with a swizzle of {} bytes do not lie as the tile", map.tile, map.swizzle);
            return Err(self.misfit(reason));
        }
        Ok(())
    }

    /// A slot's start as what matrix descriptors hold: in units of 16 bytes, an i32 that is made once.
    pub(super) fn descriptor_start(&mut self, shared: &SharedTile) -> Result<Value<'m>, ExpandError> {
        let base = self.shared_address(0)?;
        let i32_type = self.at.context().i32_type();
        let (four, mask) = (self.i32(4)?, self.i32(0x3fff)?);
        let start = self.i32((shared.start / 16) as i64)?;
        let at = self.prologue();
        let address = at.op("llvm.ptrtoint").operands(&[base]).results(&[i32_type]).value()?;
        let code = Scalar::new(at);
        let units = code.op("arith.andi", &[code.op("arith.shrui", &[address, four])?, mask])?;
        Ok(code.add(units, start)?)
    }
}
